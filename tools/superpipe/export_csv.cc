#include "tools/superpipe/export_csv.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace superpipe::cli {
namespace {

// A field as the text of a cell, before quoting.
class CellWriter {
 public:
  CellWriter(const TraceNames& names, std::string& cell) : names_(names), cell_(cell) {}

  void write(std::string_view name, std::uint32_t value) {
    if (name == "way") {
      cell_ = value == TraceMark::kBegin ? "begin" : (value == TraceMark::kEnd ? "end" : "point");
    } else if (name == "call_site") {
      for (const CallFrame& frame : names_.frames(value)) {
        cell_.append(cell_.empty() ? "" : " < ").append(frame.function);
      }
    } else if (value == 0 && (name == "kernel" || name == "stream" || name == "text")) {
      // none, or not known
    } else if (name == "kernel") {
      cell_ = names_.kernel(value);
    } else if (name == "stream") {
      cell_ = names_.stream(value);
    } else if (name == "text") {
      cell_ = names_.text(value);
    } else {
      cell_ = std::to_string(value);
    }
  }
  void write(std::string_view /*name*/, std::uint64_t value) { cell_ = std::to_string(value); }
  void write(std::string_view /*name*/, std::int64_t value) { cell_ = std::to_string(value); }
  void write(std::string_view /*name*/, bool value) { cell_ = value ? "1" : "0"; }
  void write(std::string_view /*name*/, Bytes value) { cell_ = std::to_string(value.count()); }
  void write(std::string_view /*name*/, TraceCount value) { cell_ = std::to_string(value.value); }
  void write(std::string_view /*name*/, BufferId value) {
    if (value != kNoBuffer) cell_ = std::to_string(index_of(value));
  }
  void write(std::string_view /*name*/, std::span<const BufferId> values) {
    for (const BufferId value : values) {
      cell_.append(cell_.empty() ? "" : " ").append(std::to_string(index_of(value)));
    }
  }

 private:
  const TraceNames& names_;
  std::string& cell_;
};

void append_cell(std::string& line, std::string_view cell) {
  if (cell.find_first_of(",\"\r\n") == std::string_view::npos) {
    line.append(cell);
    return;
  }
  line += '"';
  for (const char letter : cell) line.append(letter == '"' ? 2 : 1, letter);
  line += '"';
}

}  // namespace

CsvWriter::CsvWriter(ExportSink& out, TracedLayers layers) : out_(out), layers_(std::move(layers)) {
  for_each_trace_type([this]<typename Event>() {
    // A visitor is not given the end.
    constexpr bool kIsRow =
        Event::kType >= kFirstTimedTraceType && !std::is_same_v<Event, TraceEnd>;
    if constexpr (kIsRow) add_columns<Event>();
  });
  cells_.resize(columns_.size());
}

template <typename Event>
void CsvWriter::add_columns() {
  columns_of_.resize(std::max<std::size_t>(columns_of_.size(), Event::kType + 1));
  const Event event;
  Event::fields(event, [&](std::string_view name, const auto& /*value*/) {
    const auto place = std::find(columns_.begin(), columns_.end(), name);
    columns_of_[Event::kType].push_back(static_cast<std::size_t>(place - columns_.begin()));
    if (place == columns_.end()) columns_.push_back(name);
  });
}

void CsvWriter::begin(const TraceProperties& /*properties*/) {
  line_ = "event,time_ns,thread";
  for (const std::string_view column : columns_) line_.append(",").append(column);
  line_ += ",layer\n";
  out_.write(line_);
}

template <typename Event>
void CsvWriter::row(const TraceMoment& when, const Event& event, std::string_view layer) {
  const std::vector<std::size_t>& columns = columns_of_[Event::kType];
  std::size_t field = 0;
  Event::fields(event, [&](std::string_view name, const auto& value) {
    CellWriter(names(), cells_[columns[field++]]).write(name, value);
  });
  line_.assign(Event::kName).append(",").append(std::to_string(when.time)).append(",");
  const std::uint32_t thread = names().thread_id(when.thread);
  if (thread != 0) line_.append(std::to_string(thread));
  for (std::string& cell : cells_) {
    line_ += ',';
    append_cell(line_, cell);
    cell.clear();
  }
  line_.append(",").append(layer) += '\n';
  out_.write(line_);
}

// One a type, because a visitor has a function for each.
void CsvWriter::on_allocation(const TraceMoment& when, const TraceAllocation& event) {
  const std::uint32_t layer = event.buffer == kNoBuffer ? kNoLayer : layers_.of(buffers_++);
  row(when, event, layer == kNoLayer ? "" : layers_.name_of(layer));
}
void CsvWriter::on_free(const TraceMoment& when, const TraceFree& event) { row(when, event); }
void CsvWriter::on_launch(const TraceMoment& when, const TraceLaunch& event) { row(when, event); }
void CsvWriter::on_use(const TraceMoment& when, const TraceUse& event) { row(when, event); }
void CsvWriter::on_copy(const TraceMoment& when, const TraceCopy& event) { row(when, event); }
void CsvWriter::on_fetch(const TraceMoment& when, const TraceFetch& event) { row(when, event); }
void CsvWriter::on_eviction(const TraceMoment& when, const TraceEviction& event) {
  row(when, event);
}
void CsvWriter::on_transfer_end(const TraceMoment& when, const TraceTransferEnd& event) {
  row(when, event);
}
void CsvWriter::on_stall(const TraceMoment& when, const TraceStall& event) { row(when, event); }
void CsvWriter::on_budget(const TraceMoment& when, const TraceBudget& event) { row(when, event); }
void CsvWriter::on_memory(const TraceMoment& when, const TraceMemory& event) { row(when, event); }
void CsvWriter::on_pass(const TraceMoment& when, const TracePass& event) { row(when, event); }
void CsvWriter::on_kernel_time(const TraceMoment& when, const TraceKernelTime& event) {
  row(when, event);
}
void CsvWriter::on_mark(const TraceMoment& when, const TraceMark& event) { row(when, event); }
void CsvWriter::on_wait(const TraceMoment& when, const TraceWait& event) { row(when, event); }
void CsvWriter::on_dropped(const TraceMoment& when, const TraceDropped& event) { row(when, event); }

}  // namespace superpipe::cli
