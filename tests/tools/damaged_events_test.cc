// Traces whose checksums are right and whose events are nonsense: everything that reads them
// survives.

#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <vector>

#include "tests/profiler/trace_examples.h"
#include "tests/tools/all_trace_tools.h"

namespace superpipe::cli {
namespace {

using superpipe::testing::ChunkAt;

// `good` with a byte changed in each chunk of events.
std::vector<std::byte> damaged(const std::vector<std::byte>& good,
                               const std::vector<ChunkAt>& chunks, std::mt19937& random) {
  std::vector<std::byte> bad(good.begin(), good.begin() + kTraceHeaderSize);
  for (const ChunkAt& chunk : chunks) {
    auto raw = superpipe::testing::raw_of(good, chunk);
    if (chunk.header.kind == TraceChunkHeader::Kind::kEvents) {
      raw[random() % raw.size()] = static_cast<std::byte>(random());
    }
    const auto bytes = superpipe::testing::chunk_with(chunk.header, raw);
    bad.insert(bad.end(), bytes.begin(), bytes.end());
  }
  return bad;
}

TEST(TraceTools, ReadAGoodTrace) {
  const std::vector<std::byte> good = superpipe::testing::example_trace();
  constexpr int kAll = 8;  // plan, five formats, report, diff
  EXPECT_EQ(testing::AllTraceTools(good).run(), kAll);
}

TEST(TraceTools, SurviveEventsThatMakeNoSense) {
  const std::vector<std::byte> good = superpipe::testing::example_trace();
  const auto chunks = superpipe::testing::chunks_of(good);
  std::mt19937 random(1);
  int content = 0;
  for (int round = 0; round < 120; ++round) {
    content += testing::AllTraceTools(damaged(good, chunks, random)).run();
  }
  EXPECT_GT(content, 120) << "else the test would test the reader only";
}

}  // namespace
}  // namespace superpipe::cli
