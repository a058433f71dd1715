#include "profiler/trace_writer.h"

#include <array>
#include <utility>

namespace superpipe {

void TraceWriter::add_property(std::string_view key, std::string_view value) {
  append(TraceProperty{key.substr(0, kMostTextBytes), value.substr(0, kMostTextBytes)}, nullptr);
}

void TraceWriter::begin() noexcept {
  try {
    for_each_trace_type([this]<typename Event>() {
      append(TraceSchema{Event::kType, Event::kName, trace_fields_text<Event>()}, nullptr);
    });
    send(trace_header());
  } catch (const std::bad_alloc&) {
    problem_ = kOutOfMemory;
  }
  end_chunk(TraceChunkHeader::Kind::kDescription);
}

void TraceWriter::switch_thread(const TraceThread& thread) { append(thread, nullptr); }

void TraceWriter::note_time(std::int64_t time) {
  first_time_ = has_time_ ? std::min(first_time_, time) : time;
  last_time_ = has_time_ ? std::max(last_time_, time) : time;
  has_time_ = true;
}

// Writes the length of the record that ends here in front of what follows `length_at`, where one
// byte was left for it.
void TraceWriter::end_record(std::size_t length_at) {
  std::size_t length = raw_.size() - length_at - 1;
  ++records_;
  if (length < 0x80) {
    raw_[length_at] = static_cast<std::byte>(length);
    return;
  }
  std::vector<std::byte> bytes;
  TraceBytesWriter(bytes).number(length);
  raw_[length_at] = bytes.front();
  raw_.insert(raw_.begin() + static_cast<std::ptrdiff_t>(length_at) + 1, bytes.begin() + 1,
              bytes.end());
}

void TraceWriter::flush() noexcept {
  if (records_ > 0) end_chunk(TraceChunkHeader::Kind::kEvents);
}

void TraceWriter::finish(std::int64_t time, std::uint64_t dropped) noexcept {
  flush();
  const std::uint64_t events = events_;
  append(TraceEnd{events, dropped}, &time);
  events_ = events;  // it is none
  end_chunk(TraceChunkHeader::Kind::kEnd);
}

// Each chunk can be read without those before it, except for definitions.
void TraceWriter::end_chunk(TraceChunkHeader::Kind kind) noexcept try {
  if (problem_) return;
  TraceChunkHeader header;
  header.kind = kind;
  header.codec = compressor_.compress(raw_, compressed_);
  header.stored = static_cast<std::uint32_t>(compressed_.size());
  header.raw = static_cast<std::uint32_t>(raw_.size());
  header.records = records_;
  header.sequence = sequence_;
  header.first_time = first_time_;
  header.last_time = last_time_;
  header.checksum = trace_checksum(compressed_);
  const auto bytes = chunk_header_bytes(header);
  message_.assign(bytes.begin(), bytes.end());
  message_.insert(message_.end(), compressed_.begin(), compressed_.end());
  raw_.clear();
  differences_ = {};
  records_ = 0;
  thread_ = 0;
  has_time_ = false;
  first_time_ = last_time_ = 0;
  ++sequence_;
  send(message_);
} catch (const std::bad_alloc&) {
  problem_ = kOutOfMemory;
}

void TraceWriter::send(std::span<const std::byte> bytes) {
  if (problem_) return;
  problem_ = sink_.write(bytes);
  if (!problem_) written_ += bytes.size();
}

}  // namespace superpipe
