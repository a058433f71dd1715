// The parts of a trace file: its header, and chunks that can each be checked and read alone.
//
// docs/trace-format.md draws them. All numbers are little-endian.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace superpipe {

/// The format's version. A reader reads files of its own major version, whatever their minor one.
struct TraceVersion {
  std::uint16_t major = 1;
  std::uint16_t minor = 3;

  bool operator==(const TraceVersion&) const = default;
};

inline constexpr TraceVersion kTraceVersion{};
inline constexpr std::size_t kTraceHeaderSize = 24;
inline constexpr std::size_t kTraceChunkHeaderSize = 56;
/// A chunk has at most this many bytes before compression, and after it: a reader needs no more
/// memory, whatever a file says.
inline constexpr std::uint32_t kMostChunkBytes = 4u << 20;

/// The first bytes of a file.
[[nodiscard]] std::array<std::byte, kTraceHeaderSize> trace_header();

/// What the first bytes of a file say.
enum class TraceHeaderProblem : std::uint8_t { kForeign, kDamaged };
struct TraceHeader {
  TraceVersion version;
  std::optional<TraceHeaderProblem> problem;
};
[[nodiscard]] TraceHeader read_trace_header(std::span<const std::byte, kTraceHeaderSize> bytes);

/// What a chunk says of itself.
struct TraceChunkHeader {
  enum class Kind : std::uint8_t { kDescription = 1, kEvents = 2, kEnd = 3 };
  enum class Codec : std::uint8_t { kNone = 0, kZstd = 1 };
  Kind kind = Kind::kEvents;
  Codec codec = Codec::kNone;
  std::uint32_t stored = 0;  ///< bytes in the file
  std::uint32_t raw = 0;     ///< bytes of its records, before compression
  std::uint32_t records = 0;
  std::uint32_t sequence = 0;   ///< its place among the chunks, from 0
  std::int64_t first_time = 0;  ///< the least TraceMoment::time in it; 0 if it has none
  std::int64_t last_time = 0;   ///< the greatest
  std::uint64_t checksum = 0;   ///< of the stored bytes

  bool operator==(const TraceChunkHeader&) const = default;
};

[[nodiscard]] std::array<std::byte, kTraceChunkHeaderSize> chunk_header_bytes(
    const TraceChunkHeader& header);
/// @return nullopt if these are not the bytes of a chunk's header, or say what cannot be.
[[nodiscard]] std::optional<TraceChunkHeader> read_chunk_header(
    std::span<const std::byte, kTraceChunkHeaderSize> bytes);

/// XXH3, 64 bits.
[[nodiscard]] std::uint64_t trace_checksum(std::span<const std::byte> bytes);

/// Compresses and decompresses chunks. Not thread-safe; keeps its working memory.
class TraceCompressor {
 public:
  TraceCompressor();
  TraceCompressor(const TraceCompressor&) = delete;
  TraceCompressor& operator=(const TraceCompressor&) = delete;
  ~TraceCompressor();

  /// Makes `out` the compressed `raw`, or a copy where that is shorter, or where there is no memory
  /// to compress. Throws std::bad_alloc. @return which of both.
  TraceChunkHeader::Codec compress(std::span<const std::byte> raw, std::vector<std::byte>& out);

  /// Makes `out` what `stored` was made of. Throws std::bad_alloc.
  /// REQUIRES: header.raw <= kMostChunkBytes. @return false if these are not `header.raw` bytes.
  bool decompress(const TraceChunkHeader& header, std::span<const std::byte> stored,
                  std::vector<std::byte>& out);

 private:
  void* compressing_ = nullptr;    // ZSTD_CCtx
  void* decompressing_ = nullptr;  // ZSTD_DCtx
};

}  // namespace superpipe
