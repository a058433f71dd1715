// A small trace with every type of event, and what its parts look like as bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "profiler/trace_chunk.h"
#include "profiler/trace_writer.h"

namespace superpipe::testing {

/// Keeps what is written; fails once it has `room` bytes.
class MemorySink final : public TraceSink {
 public:
  explicit MemorySink(std::size_t room = SIZE_MAX) : room_(room) {}
  std::optional<std::string> write(std::span<const std::byte> more) override {
    if (more.size() > room_ - bytes.size()) return "no space left on device";
    bytes.insert(bytes.end(), more.begin(), more.end());
    return std::nullopt;
  }
  std::vector<std::byte> bytes;

 private:
  std::size_t room_;
};

/// Two buffers, `launches` launches that use both, and one of everything else.
inline void write_example(TraceWriter& writer, std::uint64_t launches) {
  writer.add_property("superpipe.version", "0.1.0");
  writer.add_property("process.argument", "python");
  writer.add_property("process.argument", "generate.py");
  writer.add_property("device.total_bytes", "25757220864");
  writer.begin();
  writer.define(TraceThread{1, 4711});
  writer.define(TraceKernel{1, 0xFEED'FACE'CAFE'BEEF, "_Z6kernelPf"});
  writer.define(TraceStream{1, 0x5555'0000'1000});
  writer.define(TraceCallSite{1, "main+0x12 program+0x1012\n__libc_start_main libc.so.6+0x2a"});
  writer.define(TraceText{1, "epoch"});
  const BufferId first{0};
  const BufferId second{7};
  writer.add({100, 1}, TraceAllocation{first, 0x7F00'0000'0000, Bytes{5'000'000}, 6_MiB, 1, 1, 1});
  writer.add({150, 1}, TraceAllocation{second, 0x7F00'0060'0000, 1_MiB, 2_MiB, 0, 0, 2});
  writer.add({160, 1}, TraceAllocation{kNoBuffer, 0x7E00'0000'0000, 4_KiB, Bytes{}, 0, 1});
  writer.add({170, 1}, TraceBudget{1_GiB, 900_MiB});
  writer.add({180, 1}, TraceMark{TraceMark::kBegin, 1, 0});
  writer.add({190, 1}, TraceCopy{first, 4_KiB, 1_MiB, true, true, 1});
  writer.add({200, 1}, TraceUse{1, true, std::span(&second, 1)});
  writer.add({210, 1}, TracePass{{1}});
  const std::array<BufferId, 2> both = {second, first};
  std::int64_t time = 1000;
  for (std::uint64_t launch = 1; launch <= launches; ++launch) {
    time += 1500 + static_cast<std::int64_t>(launch % 97);
    writer.add({time, 1}, TraceLaunch{{launch}, 1, 1, both});
  }
  writer.add({time + 10, 2}, TraceFetch{{1}, first, 2_MiB, 1_MiB, 2_MiB, true});
  writer.add({time + 20, 2}, TraceEviction{{2}, second, Bytes{}, 1_MiB, 2_MiB});
  writer.add({time + 5, 2}, TraceTransferEnd{{1}});
  writer.add({time + 30, 2}, TraceStall{{launches}, -5, 12'345});
  writer.add({time + 40, 2}, TraceMemory{8_MiB, 8_MiB, 3_MiB, 16_MiB});
  writer.add({time + 45, 2}, TraceKernelTime{{launches}, -46, 999, 2});
  writer.add({time + 50, 1}, TraceMark{TraceMark::kEnd, 0, 0});
  writer.add({time + 60, 1}, TraceDropped{3});
  writer.add({time + 70, 1}, TraceWait{TraceWait::kDevice, 25'000});
  writer.add({time + 70, 1}, TraceFree{first, 0, 1});
  writer.add({time + 80, 1}, TraceFree{kNoBuffer, 0x7E00'0000'0000, 0});
  writer.finish(time + 90, 3);
}

/// How many events write_example() adds.
constexpr std::uint64_t example_events(std::uint64_t launches) { return 19 + launches; }

inline std::vector<std::byte> example_trace(std::uint64_t launches = 20) {
  MemorySink sink;
  TraceWriter writer(sink);
  write_example(writer, launches);
  return sink.bytes;
}

/// One chunk of a file, as it lies there.
struct ChunkAt {
  std::size_t offset;  ///< of its header
  TraceChunkHeader header;
};

/// The chunks of a file that is as it was written.
inline std::vector<ChunkAt> chunks_of(std::span<const std::byte> file) {
  std::vector<ChunkAt> chunks;
  std::size_t offset = kTraceHeaderSize;
  while (offset + kTraceChunkHeaderSize <= file.size()) {
    const auto header =
        read_chunk_header(file.subspan(offset).first<kTraceChunkHeaderSize>()).value();
    chunks.push_back({offset, header});
    offset += kTraceChunkHeaderSize + header.stored;
  }
  return chunks;
}

/// A chunk with `raw` as its records, uncompressed, and checksums that are right.
inline std::vector<std::byte> chunk_with(TraceChunkHeader header, std::span<const std::byte> raw) {
  header.codec = TraceChunkHeader::Codec::kNone;
  header.stored = header.raw = static_cast<std::uint32_t>(raw.size());
  header.checksum = trace_checksum(raw);
  const auto bytes = chunk_header_bytes(header);
  std::vector<std::byte> chunk(bytes.begin(), bytes.end());
  chunk.insert(chunk.end(), raw.begin(), raw.end());
  return chunk;
}

/// Makes a file's header say another minor version.
inline void set_minor_version(std::vector<std::byte>& file, std::uint16_t minor) {
  std::memcpy(file.data() + 10, &minor, sizeof minor);
  const std::uint64_t checksum = trace_checksum(std::span(file).first(16));
  std::memcpy(file.data() + 16, &checksum, sizeof checksum);
}

/// What a chunk's records are before compression.
inline std::vector<std::byte> raw_of(std::span<const std::byte> file, const ChunkAt& chunk) {
  TraceCompressor compressor;
  std::vector<std::byte> raw;
  const auto stored = file.subspan(chunk.offset + kTraceChunkHeaderSize, chunk.header.stored);
  if (!compressor.decompress(chunk.header, stored, raw)) raw.clear();
  return raw;
}

}  // namespace superpipe::testing
