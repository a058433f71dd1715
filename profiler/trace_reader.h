// Reads traces, from files that may be anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "profiler/trace_chunk.h"
#include "profiler/trace_codec.h"
#include "profiler/trace_error.h"
#include "profiler/trace_event.h"

namespace superpipe {

/// Where the bytes of a trace come from.
class TraceSource {
 public:
  virtual ~TraceSource() = default;
  /// Reads the bytes that follow those read so far. @return how many: less than asked for only at
  /// the end; or what went wrong.
  [[nodiscard]] virtual TraceResult<std::size_t> read(std::span<std::byte> bytes) = 0;
};

/// The facts in a trace's header.
class TraceProperties {
 public:
  void add(std::string_view key, std::string_view value) { all_.emplace_back(key, value); }
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& all() const { return all_; }
  /// The first value of `key`; nullopt: there is none.
  [[nodiscard]] std::optional<std::string> text(std::string_view key) const;
  /// The same where it is a whole number.
  [[nodiscard]] std::optional<std::uint64_t> number(std::string_view key) const;
  /// All values of `key`, in their order.
  [[nodiscard]] std::vector<std::string> texts(std::string_view key) const;

 private:
  std::vector<std::pair<std::string, std::string>> all_;
};

/// How a trace ends.
struct TraceEnding {
  /// Whether it ends as it should. Else the process died, or the disk was full: what could be read
  /// is all that there is.
  bool is_complete = false;
  std::uint64_t events = 0;   ///< that were read
  std::uint64_t dropped = 0;  ///< that were not recorded, as far as it is told
};

/// Reads a trace chunk by chunk, in memory for one chunk.
///
/// Whatever the bytes, it ends with what they say or with an error, and never needs more than three
/// times kMostChunkBytes. Not thread-safe.
class TraceReader {
 public:
  /// Opens the file at `path` and reads its header.
  [[nodiscard]] static TraceResult<TraceReader> open(const std::string& path);
  /// The same from another source; `name` is for messages.
  [[nodiscard]] static TraceResult<TraceReader> from(std::unique_ptr<TraceSource> source,
                                                     std::string name);

  [[nodiscard]] TraceVersion version() const { return version_; }
  [[nodiscard]] const TraceProperties& properties() const { return properties_; }
  /// The fields of each type as the file itself describes them, by number.
  [[nodiscard]] const std::vector<std::pair<std::uint32_t, std::string>>& schema() const {
    return schema_;
  }

  /// Gives the events of the next chunk to `visitor`. Each thread's come in the order of time;
  /// those of different threads nearly so, and across chunks too.
  /// @return false: there are no more, and ending() says why; or what is wrong. Events of the chunk
  /// may have been given then.
  [[nodiscard]] TraceResult<bool> read_chunk(TraceVisitor& visitor);
  /// The same for all chunks. @return nullopt, or what is wrong.
  [[nodiscard]] std::optional<TraceError> read_all(TraceVisitor& visitor);

  /// How many bytes of the file have been read.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  /// REQUIRES: read_chunk() returned false.
  [[nodiscard]] const TraceEnding& ending() const { return ending_; }

 private:
  TraceReader(std::unique_ptr<TraceSource> source, std::string name);

  [[nodiscard]] std::optional<TraceError> read_header();
  [[nodiscard]] TraceResult<bool> load_chunk(TraceChunkHeader& header);
  [[nodiscard]] std::optional<TraceError> decode(const TraceChunkHeader& header,
                                                 TraceVisitor& visitor);
  template <typename Event>
  void deliver(TraceBytesReader& in, const TraceMoment& when, TraceVisitor& visitor);
  [[nodiscard]] TraceError error(TraceError::Kind kind, const std::string& what) const;
  [[nodiscard]] TraceError corrupt(const std::string& what) const;

  std::unique_ptr<TraceSource> source_;
  std::string name_;
  TraceVersion version_;
  TraceProperties properties_;
  std::vector<std::pair<std::uint32_t, std::string>> schema_;
  std::uint64_t offset_ = 0;
  std::uint32_t chunks_ = 0;
  bool is_at_end_ = false;
  TraceEnding ending_;
  std::unique_ptr<TraceCompressor> compressor_;
  std::vector<std::byte> stored_;
  std::vector<std::byte> raw_;
  std::vector<BufferId> buffers_;
  std::uint32_t thread_ = 0;  ///< of the events that follow
  TraceDifferences differences_;
};

/// A source over a copy of bytes in memory.
class TraceBytesSource final : public TraceSource {
 public:
  explicit TraceBytesSource(std::span<const std::byte> bytes)
      : bytes_(bytes.begin(), bytes.end()) {}
  [[nodiscard]] TraceResult<std::size_t> read(std::span<std::byte> bytes) override;

 private:
  std::vector<std::byte> bytes_;
  std::size_t read_ = 0;  ///< of them
};

}  // namespace superpipe
