#include "profiler/trace_chunk.h"

#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace superpipe {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie here");

// A file that went through a transfer of texts, or lost its eighth bits, is told at once.
// Source: the PNG specification, 5.2.
constexpr std::array<unsigned char, 8> kFileMagic = {0x89, 'S', 'P', 'T', '\r', '\n', 0x1A, '\n'};
constexpr std::uint32_t kChunkMagic = 0x4B'43'50'53;  // "SPCK"
/// Little work for the thread that writes; the next ones make files a few percent smaller, and take
/// twice as long.
constexpr int kLevel = 3;

template <typename Number, typename Container>
void put(Container& bytes, std::size_t at, Number value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

template <typename Number>
Number get(std::span<const std::byte> bytes, std::size_t at) {
  Number value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace

std::uint64_t trace_checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::array<std::byte, kTraceHeaderSize> trace_header() {
  std::array<std::byte, kTraceHeaderSize> bytes{};
  std::memcpy(bytes.data(), kFileMagic.data(), kFileMagic.size());
  put(bytes, 8, kTraceVersion.major);
  put(bytes, 10, kTraceVersion.minor);
  put(bytes, 16, trace_checksum(std::span(bytes).first(16)));
  return bytes;
}

TraceHeader read_trace_header(std::span<const std::byte, kTraceHeaderSize> bytes) {
  TraceHeader header;
  if (std::memcmp(bytes.data(), kFileMagic.data(), kFileMagic.size()) != 0) {
    header.problem = TraceHeaderProblem::kForeign;
    return header;
  }
  header.version = {get<std::uint16_t>(bytes, 8), get<std::uint16_t>(bytes, 10)};
  if (get<std::uint64_t>(bytes, 16) != trace_checksum(bytes.first(16))) {
    header.problem = TraceHeaderProblem::kDamaged;
  }
  return header;
}

std::array<std::byte, kTraceChunkHeaderSize> chunk_header_bytes(const TraceChunkHeader& header) {
  std::array<std::byte, kTraceChunkHeaderSize> bytes{};
  put(bytes, 0, kChunkMagic);
  put(bytes, 4, header.kind);
  put(bytes, 5, header.codec);
  put(bytes, 8, header.stored);
  put(bytes, 12, header.raw);
  put(bytes, 16, header.records);
  put(bytes, 20, header.sequence);
  put(bytes, 24, header.first_time);
  put(bytes, 32, header.last_time);
  put(bytes, 40, header.checksum);
  put(bytes, 48, trace_checksum(std::span(bytes).first(48)));
  return bytes;
}

std::optional<TraceChunkHeader> read_chunk_header(
    std::span<const std::byte, kTraceChunkHeaderSize> bytes) {
  if (get<std::uint32_t>(bytes, 0) != kChunkMagic ||
      get<std::uint64_t>(bytes, 48) != trace_checksum(bytes.first(48))) {
    return std::nullopt;
  }
  const auto kind = get<std::uint8_t>(bytes, 4);
  const auto codec = get<std::uint8_t>(bytes, 5);
  TraceChunkHeader header;
  header.stored = get<std::uint32_t>(bytes, 8);
  header.raw = get<std::uint32_t>(bytes, 12);
  if (kind < 1 || kind > 3 || codec > 1 || get<std::uint16_t>(bytes, 6) != 0 ||
      header.stored > kMostChunkBytes || header.raw > kMostChunkBytes) {
    return std::nullopt;
  }
  header.kind = static_cast<TraceChunkHeader::Kind>(kind);
  header.codec = static_cast<TraceChunkHeader::Codec>(codec);
  header.records = get<std::uint32_t>(bytes, 16);
  header.sequence = get<std::uint32_t>(bytes, 20);
  header.first_time = get<std::int64_t>(bytes, 24);
  header.last_time = get<std::int64_t>(bytes, 32);
  header.checksum = get<std::uint64_t>(bytes, 40);
  return header;
}

TraceCompressor::TraceCompressor() = default;

TraceCompressor::~TraceCompressor() {
  ZSTD_freeCCtx(static_cast<ZSTD_CCtx*>(compressing_));
  ZSTD_freeDCtx(static_cast<ZSTD_DCtx*>(decompressing_));
}

TraceChunkHeader::Codec TraceCompressor::compress(std::span<const std::byte> raw,
                                                  std::vector<std::byte>& out) {
  if (compressing_ == nullptr) compressing_ = ZSTD_createCCtx();
  out.resize(ZSTD_compressBound(raw.size()));
  const std::size_t size =
      compressing_ == nullptr ? raw.size()
                              : ZSTD_compressCCtx(static_cast<ZSTD_CCtx*>(compressing_), out.data(),
                                                  out.size(), raw.data(), raw.size(), kLevel);
  if (ZSTD_isError(size) != 0 || size >= raw.size()) {
    out.assign(raw.begin(), raw.end());
    return TraceChunkHeader::Codec::kNone;
  }
  out.resize(size);
  return TraceChunkHeader::Codec::kZstd;
}

bool TraceCompressor::decompress(const TraceChunkHeader& header, std::span<const std::byte> stored,
                                 std::vector<std::byte>& out) {
  if (header.codec == TraceChunkHeader::Codec::kNone) {
    out.assign(stored.begin(), stored.end());
    return out.size() == header.raw;
  }
  if (decompressing_ == nullptr) decompressing_ = ZSTD_createDCtx();
  if (decompressing_ == nullptr) throw std::bad_alloc();
  out.resize(header.raw);
  const std::size_t size = ZSTD_decompressDCtx(static_cast<ZSTD_DCtx*>(decompressing_), out.data(),
                                               out.size(), stored.data(), stored.size());
  return ZSTD_isError(size) == 0 && size == header.raw;
}

}  // namespace superpipe
