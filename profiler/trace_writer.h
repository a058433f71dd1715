// Writes traces.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/trace_chunk.h"
#include "profiler/trace_codec.h"
#include "profiler/trace_event.h"

namespace superpipe {

/// Where the bytes of a trace go.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  /// Appends all of `bytes`. @return nullopt, or what went wrong; some may have been written then.
  [[nodiscard]] virtual std::optional<std::string> write(std::span<const std::byte> bytes) = 0;
};

/// Turns events into chunks, and writes each chunk with one call of its sink.
///
/// Properties come first; define() names what later events use; add() is for the rest, best in the
/// order of time. Once the sink has failed, or host memory has run out, nothing more is written,
/// and problem() says why: a file has all events up to a point, never some that lack others. Not
/// thread-safe.
class TraceWriter {
 public:
  /// `sink` must outlive the writer.
  explicit TraceWriter(TraceSink& sink) : sink_(sink) {}

  /// A fact of the header. REQUIRES: begin() was not called. What exceeds 64 KiB is cut off.
  void add_property(std::string_view key, std::string_view value);
  /// Writes the header, with all properties and a description of all types.
  void begin() noexcept;

  /// A TraceKernel, TraceStream, TraceCallSite, TraceText or TraceThread. REQUIRES: begin(). Events
  /// that follow are those of the thread that was defined last.
  template <typename Definition>
  void define(const Definition& definition) {
    append(definition, nullptr);
  }

  /// Something that happened. REQUIRES: begin(). `when.thread` was defined last, or is what it was
  /// in the event before.
  template <typename Event>
  void add(const TraceMoment& when, const Event& event) {
    if (when.thread != thread_) switch_thread({when.thread, 0});
    append(event, &when.time);
  }

  /// Ends the chunk, so that a reader finds all up to here.
  void flush() noexcept;
  /// The last chunk: the trace is complete. `dropped`: events that were not added.
  void finish(std::int64_t time, std::uint64_t dropped) noexcept;

  /// Why the sink failed; nullopt: it has not.
  [[nodiscard]] const std::optional<std::string>& problem() const { return problem_; }
  /// Events that were added, without properties and definitions.
  [[nodiscard]] std::uint64_t events() const { return events_; }
  /// Bytes that went to the sink.
  [[nodiscard]] std::uint64_t bytes() const { return written_; }

  /// A chunk of more bytes, before compression, is ended by itself.
  static constexpr std::size_t kChunkBytes = 256u << 10;
  /// A record of more bytes is left out; nothing that superpipe records comes near it.
  static constexpr std::size_t kMostRecordBytes = 1u << 20;
  static constexpr std::size_t kMostTextBytes = 64u << 10;

 private:
  template <typename Event>
  void append(const Event& event, const std::int64_t* time) noexcept;
  void switch_thread(const TraceThread& thread);
  void note_time(std::int64_t time);
  /// So short that std::string needs no host memory for it.
  static constexpr const char* kOutOfMemory = "out of memory";

  void end_record(std::size_t length_at);
  void end_chunk(TraceChunkHeader::Kind kind) noexcept;
  void send(std::span<const std::byte> bytes);

  TraceSink& sink_;
  TraceCompressor compressor_;
  std::vector<std::byte> raw_;
  std::vector<std::byte> compressed_;
  std::vector<std::byte> message_;
  TraceDifferences differences_;
  std::uint32_t records_ = 0;
  std::uint32_t sequence_ = 0;
  std::uint32_t thread_ = 0;
  bool has_time_ = false;
  std::int64_t first_time_ = 0;
  std::int64_t last_time_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t written_ = 0;
  std::optional<std::string> problem_;
};

template <typename Event>
void TraceWriter::append(const Event& event, const std::int64_t* time) noexcept try {
  // Known to the compiler: a type has a time, or it has none.
  constexpr bool kHasTime = Event::kType >= kFirstTimedTraceType;
  if (problem_) return;
  std::uint64_t& count = differences_.counts[Event::kType];
  const std::uint64_t count_before = count;
  const std::int64_t time_before = differences_.time;
  const std::size_t start = raw_.size();
  TraceBytesWriter out(raw_);
  out.number(Event::kType);
  raw_.push_back(std::byte{0});  // the length, once it is known
  if constexpr (kHasTime) {
    out.signed_number(wrapping_difference(*time, differences_.time));
    differences_.time = *time;
  }
  TraceFieldWriter fields(raw_, count);
  Event::fields(event, fields);
  if (raw_.size() - start > kMostRecordBytes) {
    raw_.resize(start);
    count = count_before;
    differences_.time = time_before;
    return;
  }
  end_record(start + 1);
  if constexpr (kHasTime) {
    note_time(*time);
    ++events_;
  }
  if constexpr (Event::kType == TraceThread::kType) thread_ = event.index;
  if (raw_.size() >= kChunkBytes) end_chunk(TraceChunkHeader::Kind::kEvents);
} catch (const std::bad_alloc&) {
  problem_ = kOutOfMemory;
}

}  // namespace superpipe
