#include "tools/superpipe/export_chrome.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "tools/superpipe/export_json.h"

namespace superpipe::cli {
namespace {

// Microseconds, to the nanosecond.
void append_time(std::string& line, std::uint64_t ns) {
  const std::string fraction = std::to_string(1000 + ns % 1000);
  line.append(std::to_string(ns / 1000)).append(".").append(fraction, 1, 3);
}

}  // namespace

void ChromeWriter::begin(const TracedProcess& process) {
  std::string command;
  for (const std::string& word : process.command) command += (command.empty() ? "" : " ") + word;
  metadata_ = "{\"recorded-by\":\"superpipe\",\"process\":" + std::to_string(process.id) +
              ",\"command\":" + json_text(command) + ",\"start-unix-ns\":\"" +
              std::to_string(process.start_unix_ns) + "\"}";
  places_.emplace_back();
  out_.write("{\"traceEvents\":[\n");
}

void ChromeWriter::define(const Track& track) {
  const bool is_group = track.kind == Track::Kind::kGroup;
  const std::uint64_t group = is_group ? track.id : track.group;
  places_.resize(std::max<std::size_t>(places_.size(), track.id + 1));
  const bool is_rate = track.unit == Track::Unit::kBytesPerSecond;
  places_[track.id] = {"\"pid\":" + std::to_string(group) + ",\"tid\":" + std::to_string(track.id),
                       json_text(track.name), is_rate ? "bytes/s" : "bytes"};
  if (track.kind == Track::Kind::kCounter) return;  // known by their names
  const std::string kind = is_group ? "process" : "thread";
  const auto tell = [&](const std::string& what, const std::string& key, const std::string& value) {
    line_ = "{\"ph\":\"M\"," + places_[track.id].text + ",\"ts\":0,\"name\":\"" + kind + "_" +
            what + "\",\"args\":{\"" + key + "\":" + value + "}";
    close();
  };
  tell("name", "name", places_[track.id].name);
  tell("sort_index", "sort_index", std::to_string(track.id));
}

void ChromeWriter::slice(const TrackEvent& event, std::uint64_t duration_ns) {
  open('X', places_[event.track], event.time);
  line_ += ",\"dur\":";
  append_time(line_, duration_ns);
  add_name_and_arguments(event);
  close();
  add_flows(event);
}

void ChromeWriter::open_slice(const TrackEvent& event) {
  open('B', places_[event.track], event.time);
  add_name_and_arguments(event);
  close();
}

void ChromeWriter::close_slice(std::uint64_t track, std::uint64_t time) {
  open('E', places_[track], time);
  close();
}

void ChromeWriter::instant(const TrackEvent& event) { slice(event, 1); }

void ChromeWriter::count(std::uint64_t track, std::uint64_t time, std::uint64_t value) {
  const Place& place = places_[track];
  open('C', place, time);
  line_.append(",\"name\":" + place.name + ",\"args\":{\"" + place.unit + "\":");
  line_.append(std::to_string(value)).append("}");
  close();
}

void ChromeWriter::finish() {
  out_.write("\n],\"displayTimeUnit\":\"ns\",\"otherData\":" + metadata_ + "}\n");
}

void ChromeWriter::open(char phase, const Place& place, std::uint64_t time) {
  line_.assign("{\"ph\":\"").append(1, phase).append("\",").append(place.text).append(",\"ts\":");
  append_time(line_, time);
}

void ChromeWriter::add_name_and_arguments(const TrackEvent& event) {
  line_.append(",\"name\":").append(quoted(event.name));
  if (event.arguments.empty()) return;
  line_ += ",\"args\":{";
  bool is_first = true;
  for (const TrackArgument& told : event.arguments) {
    if (!std::exchange(is_first, false)) line_ += ',';
    line_.append(quoted(told.name)).append(":");
    if (const auto* const number = std::get_if<std::uint64_t>(&told.value)) {
      // Beyond 2^53 a reader's numbers lose digits: addresses are told as text.
      const bool is_exact = *number < (std::uint64_t{1} << 53);
      line_.append(is_exact ? "" : "\"").append(std::to_string(*number));
      line_.append(is_exact ? "" : "\"");
    } else {
      line_ += quoted(std::get<std::string_view>(told.value));
    }
  }
  line_ += '}';
}

void ChromeWriter::add_flows(const TrackEvent& event) {
  const auto add = [&](char phase, std::uint64_t flow, const char* more) {
    open(phase, places_[event.track], event.time);
    line_.append(",\"cat\":\"fetch\",\"name\":\"fetch\",\"id\":").append(std::to_string(flow));
    line_ += more;
    close();
  };
  for (const std::uint64_t flow : event.flows_out) add('s', flow, "");
  // "e": at the slice that encloses this moment, not the next one to begin.
  for (const std::uint64_t flow : event.flows_in) add('f', flow, ",\"bp\":\"e\"");
}

void ChromeWriter::close() {
  line_ += '}';
  if (!std::exchange(is_first_, false)) out_.write(",\n");
  out_.write(line_);
}

const std::string& ChromeWriter::quoted(std::string_view name) {
  std::string key(name);
  const auto known = quoted_.find(key);
  if (known != quoted_.end()) return known->second;
  auto text = json_text(name);
  return quoted_.emplace(std::move(key), std::move(text)).first->second;
}

}  // namespace superpipe::cli
