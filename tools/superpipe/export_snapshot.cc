#include "tools/superpipe/export_snapshot.h"

#include <algorithm>
#include <string>
#include <vector>

namespace superpipe::cli {
namespace {

Bytes segment_size(const TraceAllocation& allocation) {
  return std::max(allocation.size, allocation.footprint);
}

}  // namespace

void TorchSnapshotWriter::begin(const TraceProperties& properties) {
  device_ = std::min(properties.number("device.index").value_or(0), kMostDevices - 1);
  start_unix_ns_ = properties.number("trace.start_unix_ns").value_or(0);
  pickle_.begin();
  pickle_.open_dict();
  pickle_.write_word("device_traces");
  pickle_.open_list();
  for (std::uint64_t i = 0; i < device_; ++i) {
    pickle_.open_list();
    pickle_.close_list();
  }
  pickle_.open_list();
}

void TorchSnapshotWriter::finish() {
  pickle_.close_list();
  pickle_.close_list();
  pickle_.write_word("segments");
  pickle_.open_list();
  std::vector<LiveAllocation> live;
  live_.for_each([&](const LiveAllocation& allocation) { live.push_back(allocation); });
  std::sort(live.begin(), live.end(), [](const LiveAllocation& one, const LiveAllocation& other) {
    return one.what.address < other.what.address;
  });
  for (const LiveAllocation& allocation : live) write_segment(allocation.what);
  pickle_.close_list();
  pickle_.write_word("allocator_settings");
  pickle_.open_dict();
  pickle_.close_dict();
  pickle_.close_dict();
  pickle_.finish();
}

void TorchSnapshotWriter::on_allocation(const TraceMoment& when, const TraceAllocation& event) {
  if (const auto ended = live_.add(event)) write_end_of(*ended, when.time);
  write_entry("segment_alloc", when.time, event, segment_size(event));
  write_entry("alloc", when.time, event, event.size);
}

void TorchSnapshotWriter::on_free(const TraceMoment& when, const TraceFree& event) {
  if (const auto ended = live_.remove(event)) write_end_of(*ended, when.time);
}

void TorchSnapshotWriter::write_end_of(const LiveAllocation& allocation, std::int64_t time) {
  const TraceAllocation& what = allocation.what;
  write_entry("free_requested", time, what, what.size);
  write_entry("free_completed", time, what, what.size);
  write_entry("segment_free", time, what, segment_size(what));
}

void TorchSnapshotWriter::write_entry(const char* action, std::int64_t time,
                                      const TraceAllocation& allocation, Bytes size) {
  if (++in_batch_ % kBatch == 0) pickle_.flush_list();
  pickle_.open_dict();
  pickle_.write_word("action");
  pickle_.write_word(action);
  pickle_.write_word("addr");
  pickle_.write(allocation.address);
  pickle_.write_word("size");
  pickle_.write(size.count());
  pickle_.write_word("stream");
  pickle_.write(allocation.stream);
  pickle_.write_word("time_us");
  pickle_.write(microseconds(time));
  pickle_.write_word("frames");
  write_frames(allocation.call_site);
  pickle_.close_dict();
}

void TorchSnapshotWriter::write_segment(const TraceAllocation& allocation) {
  if (++in_batch_ % kBatch == 0) pickle_.flush_list();
  const std::uint64_t total = segment_size(allocation).count();
  const std::uint64_t size = allocation.size.count();
  const auto number = [this](const char* key, std::uint64_t value) {
    pickle_.write_word(key);
    pickle_.write(value);
  };
  const auto word = [this](const char* key, const char* value) {
    pickle_.write_word(key);
    pickle_.write_word(value);
  };
  pickle_.open_dict();
  number("device", device_);
  number("address", allocation.address);
  number("total_size", total);
  number("stream", allocation.stream);
  word("segment_type", "large");
  number("allocated_size", total);
  number("active_size", total);
  number("requested_size", size);
  pickle_.write_word("is_expandable");
  pickle_.write_bool(false);
  pickle_.write_word("frames");
  write_frames(allocation.call_site);
  pickle_.write_word("blocks");
  pickle_.open_list();
  pickle_.open_dict();
  number("address", allocation.address);
  number("size", total);
  number("requested_size", size);
  word("state", "active_allocated");
  pickle_.write_word("frames");
  write_frames(allocation.call_site);
  pickle_.close_dict();
  pickle_.close_list();
  pickle_.close_dict();
}

void TorchSnapshotWriter::write_frames(TraceIndex call_site) {
  const auto known = frames_.find(call_site);
  if (known != frames_.end()) return pickle_.write_kept(known->second);
  pickle_.open_list();
  for (const CallFrame& frame : names().frames(call_site)) {
    pickle_.open_dict();
    pickle_.write_word("name");
    pickle_.write_text(frame.function);
    pickle_.write_word("filename");
    pickle_.write_text(frame.file());
    pickle_.write_word("line");
    pickle_.write(frame.line);
    pickle_.close_dict();
  }
  pickle_.close_list();
  frames_.emplace(call_site, pickle_.keep());
}

std::uint64_t TorchSnapshotWriter::microseconds(std::int64_t time) const {
  return (start_unix_ns_ + static_cast<std::uint64_t>(std::max<std::int64_t>(time, 0))) / 1000;
}

}  // namespace superpipe::cli
