// Traces are read as they were written, and what is no trace is told in one line.
#include "profiler/trace_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/profiler/trace_examples.h"

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using testing::example_events;
using testing::example_trace;
using ::testing::HasSubstr;
using testing::MemorySink;
using ::testing::Not;
using Problem = TraceError::Kind;

TraceResult<TraceReader> reader_of(std::span<const std::byte> bytes) {
  return TraceReader::from(std::make_unique<TraceBytesSource>(bytes), "run.sptrace");
}

/// Writes down what it is given, a word an event.
class Words : public TraceVisitor {
 public:
  void on_kernel(const TraceKernel& event) override { names.emplace_back(event.name); }
  void on_launch(const TraceMoment& when, const TraceLaunch& event) override {
    launches.push_back(event.launch.value);
    times.push_back(when.time);
    threads.push_back(when.thread);
    buffers.assign(event.buffers.begin(), event.buffers.end());
  }
  void on_fetch(const TraceMoment& when, const TraceFetch& event) override {
    EXPECT_EQ(when.thread, 2u);
    EXPECT_EQ(event.offset, 2_MiB);
    EXPECT_EQ(event.footprint, 2_MiB);
    EXPECT_TRUE(event.demand);
    ++fetches;
  }
  void on_transfer_end(const TraceMoment& when, const TraceTransferEnd& event) override {
    EXPECT_EQ(event.transfer.value, 1u);
    transfer_end = when.time;
  }
  void on_allocation(const TraceMoment& /*when*/, const TraceAllocation& event) override {
    sizes.push_back(event.size);
    passthrough += event.buffer == kNoBuffer ? 1 : 0;
  }
  void on_unknown(std::uint32_t type) override { unknown.push_back(type); }

  std::vector<std::string> names;
  std::vector<std::uint64_t> launches;
  std::vector<std::int64_t> times;
  std::vector<std::uint32_t> threads;
  std::vector<BufferId> buffers;
  std::vector<Bytes> sizes;
  std::vector<std::uint32_t> unknown;
  std::int64_t transfer_end = 0;
  int fetches = 0;
  int passthrough = 0;
};

TEST(TraceReader, ReadsWhatWasWritten) {
  const auto bytes = example_trace(3);
  auto reader = reader_of(bytes);
  ASSERT_TRUE(reader.ok()) << reader.error().message;
  EXPECT_EQ(reader->properties().text("superpipe.version"), "0.1.0");
  EXPECT_THAT(reader->properties().texts("process.argument"), ElementsAre("python", "generate.py"));
  EXPECT_EQ(reader->properties().number("device.total_bytes"), 25'757'220'864u);
  EXPECT_EQ(reader->properties().number("superpipe.version"), std::nullopt);
  Words words;
  ASSERT_EQ(reader->read_all(words), std::nullopt);
  EXPECT_THAT(words.names, ElementsAre("_Z6kernelPf"));
  EXPECT_THAT(words.launches, ElementsAre(1u, 2u, 3u));
  EXPECT_THAT(words.times, ElementsAre(2501, 4003, 5506));
  EXPECT_THAT(words.threads, ElementsAre(1u, 1u, 1u));
  EXPECT_THAT(words.buffers, ElementsAre(BufferId{7}, BufferId{0}));
  EXPECT_THAT(words.sizes, ElementsAre(Bytes{5'000'000}, 1_MiB, 4_KiB));
  EXPECT_EQ(words.passthrough, 1);
  EXPECT_EQ(words.fetches, 1);
  EXPECT_EQ(words.transfer_end, 5511);  // earlier than what comes before it
  EXPECT_TRUE(reader->ending().is_complete);
  EXPECT_EQ(reader->ending().events, example_events(3));
  EXPECT_EQ(reader->ending().dropped, 3u);
}

TEST(TraceReader, ReadsManyChunks) {
  constexpr std::uint64_t kLaunches = 200'000;
  const auto bytes = example_trace(kLaunches);
  ASSERT_GT(testing::chunks_of(bytes).size(), 5u);
  auto reader = reader_of(bytes);
  ASSERT_TRUE(reader.ok());
  Words words;
  ASSERT_EQ(reader->read_all(words), std::nullopt);
  ASSERT_EQ(words.launches.size(), kLaunches);
  for (std::size_t i = 0; i < kLaunches; ++i) ASSERT_EQ(words.launches[i], i + 1);
  EXPECT_EQ(reader->ending().events, example_events(kLaunches));
}

TEST(TraceReader, KeepsExtremeValues) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
  MemorySink sink;
  TraceWriter writer(sink);
  writer.begin();
  const BufferId ids[] = {BufferId{0xFFFF'FFFE}, BufferId{0}};
  for (const std::int64_t time : {kMost, kLeast, std::int64_t{0}, kMost}) {
    writer.add({time, 0xFFFF'FFFF},
               TraceLaunch{{time < 0 ? 0 : ~std::uint64_t{0}}, 0xFFFF'FFFF, 0, ids});
  }
  writer.finish(0, 0);
  auto reader = reader_of(sink.bytes);
  ASSERT_TRUE(reader.ok());
  Words words;
  ASSERT_EQ(reader->read_all(words), std::nullopt);
  EXPECT_THAT(words.times, ElementsAre(kMost, kLeast, 0, kMost));
  EXPECT_THAT(words.launches,
              ElementsAre(~std::uint64_t{0}, 0u, ~std::uint64_t{0}, ~std::uint64_t{0}));
  EXPECT_THAT(words.buffers, ElementsAre(BufferId{0xFFFF'FFFE}, BufferId{0}));
  EXPECT_EQ(words.threads.back(), 0xFFFF'FFFFu);
}

TEST(TraceReader, DescribesItsTypesInTheFile) {
  const auto bytes = example_trace();
  const auto reader = reader_of(bytes);
  ASSERT_TRUE(reader.ok());
  const std::pair<std::uint32_t, std::string> launch{
      TraceLaunch::kType, "launch launch:count kernel:number stream:number buffers:buffers"};
  EXPECT_THAT(reader->schema(), ::testing::Contains(launch));
}

TEST(TraceReader, ReadsUpToTheLastChunkOfAProcessThatDied) {
  const auto bytes = example_trace(100'000);
  const auto chunks = testing::chunks_of(bytes);
  const std::size_t last = chunks.size() - 2;
  for (const std::size_t size :
       {chunks[last].offset, chunks[last].offset + 1,
        chunks[last].offset + kTraceChunkHeaderSize - 1,
        chunks[last].offset + kTraceChunkHeaderSize,
        chunks[last].offset + kTraceChunkHeaderSize + chunks[last].header.stored - 1}) {
    auto reader = reader_of(std::span(bytes).first(size));
    ASSERT_TRUE(reader.ok());
    Words words;
    ASSERT_EQ(reader->read_all(words), std::nullopt) << size;
    EXPECT_FALSE(reader->ending().is_complete);
    EXPECT_GT(words.launches.size(), 10'000u);
    EXPECT_LT(words.launches.size(), 100'000u);
  }
}

void expect_refused(std::span<const std::byte> bytes, Problem kind, const char* what) {
  auto reader = reader_of(bytes);
  Words words;
  std::optional<TraceError> problem;
  if (reader.ok()) {
    problem = reader->read_all(words);
  } else {
    problem = reader.error();
  }
  ASSERT_TRUE(problem.has_value()) << what;
  EXPECT_EQ(problem->kind, kind) << problem->message;
  EXPECT_THAT(problem->message, HasSubstr("run.sptrace"));
  EXPECT_THAT(problem->message, HasSubstr(what));
  EXPECT_THAT(problem->message, Not(HasSubstr("\n")));
}

TEST(TraceReader, RefusesWhatIsNoTrace) {
  expect_refused({}, Problem::kEmpty, "is empty");
  const std::string text(1000, 'x');
  expect_refused(std::as_bytes(std::span(text)), Problem::kForeign, "no trace of superpipe");
  expect_refused(std::as_bytes(std::span(text)).first(3), Problem::kForeign, "no trace");
}

TEST(TraceReader, RefusesATraceThatIsCutOffBeforeItsEvents) {
  const auto bytes = example_trace();
  const std::size_t first = testing::chunks_of(bytes)[1].offset;
  for (std::size_t size = 8; size < first; ++size) {
    expect_refused(std::span(bytes).first(size), Problem::kTruncated, "is cut off");
  }
}

TEST(TraceReader, RefusesAnotherMajorVersion) {
  auto bytes = example_trace();
  const auto rewrite = [&bytes](std::uint8_t major) {
    bytes[8] = std::byte{major};
    const std::uint64_t checksum = trace_checksum(std::span(bytes).first(16));
    std::memcpy(bytes.data() + 16, &checksum, sizeof checksum);
  };
  rewrite(2);
  expect_refused(bytes, Problem::kNewer, "has format 2.3, and this version of superpipe reads 1.x");
  rewrite(0);
  expect_refused(bytes, Problem::kForeign, "has format 0.3");
}

TEST(TraceReader, RefusesEachFlippedBit) {
  const auto good = example_trace(5);
  for (std::size_t at = 0; at < good.size(); ++at) {
    auto bytes = good;
    bytes[at] ^= std::byte{0x10};
    auto reader = reader_of(bytes);
    Words words;
    const bool read = reader.ok() && !reader->read_all(words);
    EXPECT_FALSE(read) << "a bit at " << at << " was flipped, and nobody saw it";
  }
}

TEST(TraceReader, RefusesChunksThatAreMissingRepeatedOrBehindTheEnd) {
  const auto good = example_trace(100'000);
  const auto chunks = testing::chunks_of(good);
  const auto size_of = [&](std::size_t i) {
    return kTraceChunkHeaderSize + chunks[i].header.stored;
  };
  auto missing = good;
  missing.erase(missing.begin() + static_cast<std::ptrdiff_t>(chunks[1].offset),
                missing.begin() + static_cast<std::ptrdiff_t>(chunks[1].offset + size_of(1)));
  expect_refused(missing, Problem::kCorrupt, "a chunk's header at byte");
  auto repeated = good;
  repeated.insert(repeated.begin() + static_cast<std::ptrdiff_t>(chunks[1].offset),
                  good.begin() + static_cast<std::ptrdiff_t>(chunks[1].offset),
                  good.begin() + static_cast<std::ptrdiff_t>(chunks[1].offset + size_of(1)));
  expect_refused(repeated, Problem::kCorrupt, "a chunk's header at byte");
  auto longer = good;
  longer.push_back(std::byte{0});
  expect_refused(longer, Problem::kCorrupt, "what follows its end");
}

// A file with the chunks of `good`, the second of which has `raw` for its records.
std::vector<std::byte> with_events(const std::vector<std::byte>& good,
                                   const std::vector<std::byte>& raw, std::uint32_t records,
                                   TraceVersion version = kTraceVersion) {
  const auto chunks = testing::chunks_of(good);
  std::vector<std::byte> bytes(good.begin(),
                               good.begin() + static_cast<std::ptrdiff_t>(chunks[1].offset));
  testing::set_minor_version(bytes, version.minor);
  TraceChunkHeader header = chunks[1].header;
  header.records = records;
  const auto chunk = testing::chunk_with(header, raw);
  bytes.insert(bytes.end(), chunk.begin(), chunk.end());
  return bytes;
}

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(TraceReader, RefusesEventsThatCannotBe) {
  const auto good = example_trace(1);
  const auto expect_corrupt = [&](std::initializer_list<int> raw, std::uint32_t records,
                                  const char* what) {
    expect_refused(with_events(good, bytes_of(raw), records), Problem::kCorrupt, what);
  };
  constexpr int kPass = TracePass::kType, kUse = TraceUse::kType;
  expect_corrupt({kPass, 2, 0, 2}, 2, "a chunk");           // the header says two records
  expect_corrupt({kPass, 3, 0, 2}, 1, "a chunk");           // the record ends behind the chunk
  expect_corrupt({kPass, 1, 0}, 1, "an event");             // a field is missing
  expect_corrupt({kPass, 3, 0, 2, 9}, 1, "an event");       // a field too many
  expect_corrupt({63, 1, 0}, 1, "an event");                // no such type
  expect_corrupt({kUse, 4, 0, 0, 2, 0}, 1, "an event");     // a bool of 2
  expect_corrupt({kUse, 5, 0, 0, 1, 9, 0}, 1, "an event");  // 9 buffers, and one of them is there
  expect_corrupt({kUse, 9, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F}, 1, "an event");
  expect_corrupt({kPass, 11, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02}, 1,
                 "an event");  // more than 64 bits
  // The same bytes, but right.
  auto reader = reader_of(with_events(good, bytes_of({kPass, 2, 0, 2}), 1));
  ASSERT_TRUE(reader.ok());
  Words words;
  EXPECT_EQ(reader->read_all(words), std::nullopt);
}

TEST(TraceReader, SkipsWhatALaterMinorVersionBrought) {
  const auto good = example_trace(1);
  constexpr int kUse = TraceUse::kType;
  // An unknown type, 10 ns after the last event, and a known one with a field more, 5 ns later.
  const auto raw = bytes_of(
      {63, 3, 20, 1, 2, TraceLaunch::kType, 7, 10, 2, 1, 1, 0, 77, 42, kUse, 4, 0, 0, 1, 0});
  auto reader = reader_of(with_events(good, raw, 3, {1, kTraceVersion.minor + 1}));
  ASSERT_TRUE(reader.ok());
  Words words;
  ASSERT_EQ(reader->read_all(words), std::nullopt);
  EXPECT_THAT(words.unknown, ElementsAre(63u));
  EXPECT_THAT(words.times, ElementsAre(15));
  // A reader of that version would take it for damage.
  expect_refused(with_events(good, raw, 3), Problem::kCorrupt, "an event");
}

TEST(TraceReader, WhatAnEarlierMinorVersionLackedHasItsDefault) {
  const auto good = example_trace(1);
  // 10 ns after the last event, of launch 1: no kernel.
  const auto raw = bytes_of({TraceKernelTime::kType, 5, 20, 2, 1, 9, 1});
  class Times : public TraceVisitor {
   public:
    void on_kernel_time(const TraceMoment&, const TraceKernelTime& event) override {
      durations.push_back(event.duration_ns);
      kernels.push_back(event.kernel);
    }
    std::vector<std::uint64_t> durations;
    std::vector<TraceIndex> kernels;
  } times;
  auto reader = reader_of(with_events(good, raw, 1, {1, 0}));
  ASSERT_TRUE(reader.ok());
  ASSERT_EQ(reader->read_all(times), std::nullopt);
  EXPECT_THAT(times.durations, ElementsAre(9U));
  EXPECT_THAT(times.kernels, ElementsAre(0U));
  // In a file of this version it is damage.
  expect_refused(with_events(good, raw, 1), Problem::kCorrupt, "an event");
}

TEST(TraceReader, NamesAFileThatItCannotOpen) {
  const auto missing = TraceReader::open("/no/such/file.sptrace");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, Problem::kFile);
  EXPECT_THAT(missing.error().message, HasSubstr("/no/such/file.sptrace: No such file"));
  const auto folder = TraceReader::open("/");
  ASSERT_FALSE(folder.ok());
  EXPECT_THAT(folder.error().message, HasSubstr("no regular file"));
}

TEST(TraceReader, ReadsAFile) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("trace_reader_test." + std::to_string(::getpid()) + ".sptrace");
  const auto bytes = example_trace();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  auto reader = TraceReader::open(path.string());
  std::filesystem::remove(path);
  ASSERT_TRUE(reader.ok()) << reader.error().message;
  Words words;
  EXPECT_EQ(reader->read_all(words), std::nullopt);
  EXPECT_TRUE(reader->ending().is_complete);
}

TEST(TraceReader, StopsAtASourceThatFails) {
  class Broken final : public TraceSource {
   public:
    TraceResult<std::size_t> read(std::span<std::byte> /*bytes*/) override {
      return TraceError{Problem::kFile, "Input/output error"};
    }
  };
  const auto reader = TraceReader::from(std::make_unique<Broken>(), "run.sptrace");
  ASSERT_FALSE(reader.ok());
  EXPECT_THAT(reader.error().message, HasSubstr("run.sptrace cannot be read: Input/output error"));
}

TEST(TraceWriter, WritesNothingMoreAfterItsSinkFailed) {
  constexpr std::size_t kRoom = 2000;
  MemorySink sink(kRoom);
  TraceWriter writer(sink);
  testing::write_example(writer, 100'000);
  ASSERT_TRUE(writer.problem().has_value());
  EXPECT_THAT(*writer.problem(), HasSubstr("no space left"));
  EXPECT_EQ(writer.bytes(), sink.bytes.size());
  EXPECT_LE(sink.bytes.size(), kRoom);
}

TEST(TraceWriter, LeavesOutARecordOfAnAbsurdSize) {
  MemorySink sink;
  TraceWriter writer(sink);
  writer.begin();
  const std::vector<BufferId> many(600'000, BufferId{1u << 30});
  std::vector<BufferId> alternating(many);
  for (std::size_t i = 0; i < alternating.size(); i += 2) alternating[i] = BufferId{0};
  writer.add({1, 1}, TraceLaunch{{1}, 1, 1, alternating});
  writer.add({2, 1}, TraceLaunch{{2}, 1, 1, std::span(many).first(3)});
  writer.finish(3, 0);
  auto reader = reader_of(sink.bytes);
  ASSERT_TRUE(reader.ok());
  Words words;
  ASSERT_EQ(reader->read_all(words), std::nullopt);
  EXPECT_THAT(words.launches, ElementsAre(2u));
  EXPECT_THAT(words.times, ElementsAre(2));
}

}  // namespace
}  // namespace superpipe
