// Whatever a file holds, a reader ends with its events or with one clear line.
//
// The corpus in tests/profiler/traces/ was written by example_trace() of the first version that had
// traces, so it also shows that files of that version stay readable.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "profiler/trace_reader.h"
#include "tests/profiler/trace_examples.h"

namespace superpipe {
namespace {

using Random = std::mt19937_64;
using FileBytes = std::vector<std::byte>;

std::vector<FileBytes> corpus() {
  std::vector<FileBytes> files;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(SUPERPIPE_TRACE_CORPUS)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    std::ifstream in(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const auto bytes = std::as_bytes(std::span(text));
    files.emplace_back(bytes.begin(), bytes.end());
  }
  return files;
}

/// Adds up what it is given, so that all of it is looked at.
class Sum final : public TraceVisitor {
 public:
  void on_property(const TraceProperty& event) override { add(event.key.size()); }
  void on_kernel(const TraceKernel& event) override {
    for (const char c : event.name) add(static_cast<unsigned char>(c));
  }
  void on_launch(const TraceMoment& when, const TraceLaunch& event) override {
    add(static_cast<std::uint64_t>(when.time));
    for (const BufferId id : event.buffers) add(index_of(id));
    ++launches;
  }
  void on_fetch(const TraceMoment& /*when*/, const TraceFetch& event) override {
    add(event.size.count());
  }
  std::uint64_t launches = 0;
  std::uint64_t sum = 0;

 private:
  void add(std::uint64_t value) { sum = sum * 31 + value; }
};

/// How reading `bytes` ended.
struct Outcome {
  bool failed = false;
  bool is_complete = false;
  std::uint64_t launches = 0;
};

Outcome read(const FileBytes& bytes) {
  Sum sum;
  auto reader = TraceReader::from(std::make_unique<TraceBytesSource>(bytes), "fuzzed");
  std::optional<TraceError> problem;
  if (!reader.ok()) {
    problem = reader.error();
  } else {
    problem = reader->read_all(sum);
  }
  if (problem) {
    EXPECT_EQ(problem->message.rfind("fuzzed ", 0), 0u) << problem->message;
    EXPECT_EQ(problem->message.find('\n'), std::string::npos);
    return {true, false, sum.launches};
  }
  return {false, reader->ending().is_complete, sum.launches};
}

std::size_t below(Random& random, std::size_t end) {
  return end == 0 ? 0 : static_cast<std::size_t>(random() % end);
}

void mutate(FileBytes& bytes, Random& random) {
  const std::size_t at = below(random, bytes.size());
  const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
  const std::size_t rest = bytes.size() - at;
  switch (random() % 6) {
    case 0:
      if (rest > 0) *place ^= static_cast<std::byte>(1u << (random() % 8));
      break;
    case 1:
      if (rest > 0) *place = static_cast<std::byte>(random());
      break;
    case 2:
      bytes.resize(at);
      break;
    case 3:
      bytes.insert(place, 1 + random() % 9, static_cast<std::byte>(random()));
      break;
    case 4:
      bytes.erase(place, place + static_cast<std::ptrdiff_t>(
                                     std::min<std::size_t>(rest, 1 + random() % 9)));
      break;
    default:
      if (rest >= 8) {
        const std::uint64_t extreme = random() % 2 == 0 ? ~std::uint64_t{0} : random() >> 32;
        std::memcpy(&*place, &extreme, sizeof extreme);
      }
  }
}

TEST(TraceFuzz, TheCorpusIsRead) {
  const auto files = corpus();
  ASSERT_GE(files.size(), 3u);
  std::size_t complete = 0;
  for (const FileBytes& file : files) {
    const Outcome outcome = read(file);
    EXPECT_FALSE(outcome.failed);
    EXPECT_GT(outcome.launches, 0u);
    complete += outcome.is_complete ? 1 : 0;
  }
  EXPECT_EQ(complete, files.size() - 1);  // one is of a process that died
}

TEST(TraceFuzz, DamagedFilesAreRefusedOrShorter) {
  Random random(20'240'601);
  std::size_t refused = 0;
  std::size_t shorter = 0;
  for (const FileBytes& file : corpus()) {
    const Outcome whole = read(file);
    for (int round = 0; round < 4000; ++round) {
      FileBytes bytes = file;
      const auto changes = 1 + random() % 3;
      for (std::uint64_t i = 0; i < changes; ++i) mutate(bytes, random);
      if (bytes == file) continue;
      const Outcome outcome = read(bytes);
      EXPECT_FALSE(!outcome.failed && outcome.is_complete) << "damage was not seen";
      EXPECT_LE(outcome.launches, whole.launches);
      (outcome.failed ? refused : shorter) += 1;
    }
  }
  EXPECT_GT(refused, 1000u);
  EXPECT_GT(shorter, 100u);
}

// Damage that checksums cannot see, as a hostile writer would make it.
TEST(TraceFuzz, EventsThatAreAnythingAreReadOrRefused) {
  Random random(4711);
  std::size_t refused = 0;
  std::size_t accepted = 0;
  for (const FileBytes& file : corpus()) {
    const auto chunks = testing::chunks_of(file);
    for (int round = 0; round < 4000; ++round) {
      const std::size_t which = below(random, std::min<std::size_t>(chunks.size(), 3));
      FileBytes raw = testing::raw_of(file, chunks[which]);
      const auto changes = 1 + random() % 3;
      for (std::uint64_t i = 0; i < changes; ++i) mutate(raw, random);
      TraceChunkHeader header = chunks[which].header;
      if (random() % 2 == 0) header.records = static_cast<std::uint32_t>(random() % 64);
      FileBytes bytes(file.begin(),
                      file.begin() + static_cast<std::ptrdiff_t>(chunks[which].offset));
      const FileBytes chunk = testing::chunk_with(header, raw);
      bytes.insert(bytes.end(), chunk.begin(), chunk.end());
      const Outcome outcome = read(bytes);
      (outcome.failed ? refused : accepted) += 1;
    }
  }
  EXPECT_GT(refused, 1000u);
  EXPECT_GT(accepted, 100u);
}

// A compressed chunk that says another size than its content has, or is no such content at all.
TEST(TraceFuzz, CompressedBytesThatAreAnythingAreRefused) {
  Random random(99);
  std::size_t refused = 0;
  const FileBytes file = testing::example_trace(2000);
  const auto chunks = testing::chunks_of(file);
  ASSERT_EQ(chunks[1].header.codec, TraceChunkHeader::Codec::kZstd);
  for (int round = 0; round < 4000; ++round) {
    const auto begin =
        file.begin() + static_cast<std::ptrdiff_t>(chunks[1].offset + kTraceChunkHeaderSize);
    FileBytes stored(begin, begin + static_cast<std::ptrdiff_t>(chunks[1].header.stored));
    TraceChunkHeader header = chunks[1].header;
    if (random() % 3 == 0) {
      header.raw = static_cast<std::uint32_t>(random() % (kMostChunkBytes + 1));
    } else {
      mutate(stored, random);
    }
    header.stored = static_cast<std::uint32_t>(stored.size());
    header.checksum = trace_checksum(stored);
    const auto head = chunk_header_bytes(header);
    FileBytes bytes(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(chunks[1].offset));
    bytes.insert(bytes.end(), head.begin(), head.end());
    bytes.insert(bytes.end(), stored.begin(), stored.end());
    refused += read(bytes).failed ? 1 : 0;
  }
  EXPECT_GT(refused, 3000u);
}

// No test: writes the corpus anew, for a new major version, when it is asked for
// (--gtest_also_run_disabled_tests).
TEST(TraceFuzz, DISABLED_WritesTheCorpus) {
  const auto write = [](const char* name, const FileBytes& bytes) {
    std::ofstream(std::filesystem::path(SUPERPIPE_TRACE_CORPUS) / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  };
  write("few_launches.sptrace", testing::example_trace(3));
  write("many_launches.sptrace", testing::example_trace(2000));
  FileBytes died = testing::example_trace(500);
  died.resize(testing::chunks_of(died).back().offset + 7);
  write("process_died.sptrace", died);
}

}  // namespace
}  // namespace superpipe
