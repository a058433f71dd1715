// Fuzz target: no events may make what reads traces read outside, hang, crash or take much memory.
//
// The first byte is the number of records, the rest is the records of a chunk of events whose
// checksums are right, behind the definitions of a good trace.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/profiler/trace_examples.h"
#include "tests/tools/all_trace_tools.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace superpipe;  // NOLINT(google-build-using-namespace)
  if (size < 2 || size > kMostChunkBytes) return 0;
  const auto bytes = std::as_bytes(std::span(data, size));
  static const std::vector<std::byte>& good = *new auto(testing::example_trace(3));
  static const auto& chunks = *new auto(testing::chunks_of(good));
  TraceChunkHeader header = chunks[1].header;
  header.records = static_cast<std::uint32_t>(bytes.front());
  const auto chunk = testing::chunk_with(header, bytes.subspan(1));
  std::vector<std::byte> file(good.begin(),
                              good.begin() + static_cast<std::ptrdiff_t>(chunks[1].offset));
  file.insert(file.end(), chunk.begin(), chunk.end());
  (void)cli::testing::AllTraceTools(file).run();
  return 0;
}
