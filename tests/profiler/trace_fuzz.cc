// Fuzz target: no bytes may make the reader of traces read outside, hang, crash or take much
// memory.
//
// An even first byte: the rest is a file. An odd one: the rest is the records of a chunk whose
// checksums are right.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "profiler/trace_reader.h"
#include "tests/profiler/trace_examples.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace superpipe;  // NOLINT(google-build-using-namespace)
  if (size == 0) return 0;
  const auto rest = std::as_bytes(std::span(data, size)).subspan(1);
  std::vector<std::byte> bytes(rest.begin(), rest.end());
  if (data[0] % 2 == 1 && rest.size() > 4 && rest.size() <= kMostChunkBytes) {
    static const std::vector<std::byte>& good = *new auto(testing::example_trace(3));
    static const auto& chunks = *new auto(testing::chunks_of(good));
    TraceChunkHeader header = chunks[1].header;
    header.records = static_cast<std::uint32_t>(rest.front());
    const auto chunk = testing::chunk_with(header, rest.subspan(1));
    bytes.assign(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(chunks[1].offset));
    bytes.insert(bytes.end(), chunk.begin(), chunk.end());
  }
  TraceVisitor visitor;
  auto reader = TraceReader::from(std::make_unique<TraceBytesSource>(bytes), "fuzzed");
  if (reader.ok()) (void)reader->read_all(visitor);
  return 0;
}
