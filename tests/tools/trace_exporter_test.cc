#include "tools/superpipe/trace_exporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/tools/export_testing.h"
#include "tools/superpipe/export_csv.h"

namespace superpipe::cli {
namespace {

TEST(ParseFrame, TakesFunctionAndPlaceApart) {
  const CallFrame known = parse_frame("_ZN5model4loadEi+0x12 /lib/model.so+0x1012");
  EXPECT_EQ(known.function, "model::load(int)");
  EXPECT_EQ(known.place, "/lib/model.so+0x1012");
  const CallFrame spaced = parse_frame("operator new(int)+0x1 a.so+0x2");
  EXPECT_EQ(spaced.function, "operator new(int)");
  for (const char* const line : {"model.so+0x1012", "? model.so+0x1012"}) {
    const CallFrame nameless = parse_frame(line);
    EXPECT_EQ(nameless.function, "model.so+0x1012");
    EXPECT_EQ(nameless.place, "model.so+0x1012");
  }
  const CallFrame in_folder = parse_frame("f+0x12 /my models/a.so+0x10");
  EXPECT_EQ(in_folder.function, "f");
  EXPECT_EQ(in_folder.place, "/my models/a.so+0x10");
  EXPECT_EQ(parse_frame("? /my models/a.so+0x10").place, "/my models/a.so+0x10");
  EXPECT_EQ(parse_frame("f a.so+0x10").function, "f");
}

TEST(ParseFrame, KnowsFramesOfPython) {
  const CallFrame frame = parse_frame("Net.<locals>.forward /my models/+0x1 net.py:27");
  EXPECT_TRUE(frame.is_python());
  EXPECT_EQ(frame.function, "Net.<locals>.forward");
  EXPECT_EQ(frame.place, "/my models/+0x1 net.py:27");
  EXPECT_EQ(frame.file(), "/my models/+0x1 net.py");
  EXPECT_EQ(frame.line, 27u);
  // Names of Python are not those of C++.
  EXPECT_EQ(parse_frame("_ZN5model4loadEi a.py:1").function, "_ZN5model4loadEi");
  for (const char* const line : {"f+0x1 a.so+0x2", "f a.py:", "f a.py:1x", "a.py:0"}) {
    EXPECT_FALSE(parse_frame(line).is_python()) << line;
  }
}

TEST(AsUtf8, ReplacesOnlyWhatIsNoUtf8) {
  EXPECT_EQ(as_utf8("a \xC3\xA4 \"\n"), "a \xC3\xA4 \"\n");
  EXPECT_EQ(as_utf8("a\xFFz"), "a\xEF\xBF\xBDz");
}

TEST(TraceNames, SaysWhatIsNotKnown) {
  TraceNames names;
  EXPECT_EQ(names.kernel(1), "unknown kernel");
  EXPECT_EQ(names.stream(1), "unknown stream");
  EXPECT_TRUE(names.frames(1).empty());
  names.add(TraceKernel{1, 0xABC, ""});
  names.add(TraceKernel{2, 1, "_Z4gemmPf"});
  names.add(TraceStream{1, 0x10});
  names.add(TraceStream{2, 0});
  EXPECT_EQ(names.kernel(1), "kernel 0xabc");
  EXPECT_EQ(names.kernel(2), "gemm(float*)");
  EXPECT_EQ(names.stream(1), "stream 0x10");
  EXPECT_EQ(names.stream(2), "default stream");
}

TEST(LiveAllocations, EndsWhatAnotherAllocationReplaces) {
  LiveAllocations live;
  EXPECT_FALSE(live.add({BufferId{3}, 100, 1_MiB, 2_MiB, 0, 1}));
  EXPECT_FALSE(live.add({kNoBuffer, 100, 1_KiB, Bytes{}, 0, 2}));
  const auto ended = live.add({BufferId{3}, 200, 4_MiB, 4_MiB, 0, 5});
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->number, 1u);
  EXPECT_EQ(ended->what.address, 100u);
  EXPECT_FALSE(live.remove({BufferId{4}, 0, 0}));
  const auto driver = live.remove({kNoBuffer, 100, 0});
  ASSERT_TRUE(driver);
  EXPECT_EQ(driver->what.call_site, 2u);
  const auto freed = live.remove({BufferId{3}, 0, 0});
  ASSERT_TRUE(freed);
  EXPECT_EQ(freed->what.address, 200u);
}

TEST(RecentLaunches, ForgetsWhatIsLongAgo) {
  RecentLaunches launches;
  EXPECT_EQ(launches.find({0}), nullptr);
  launches.add({{7}, 1, 2, {}});
  ASSERT_NE(launches.find({7}), nullptr);
  EXPECT_EQ(launches.find({7})->stream, 2u);
  launches.add({{7 + RecentLaunches::kKept}, 3, 4, {}});
  EXPECT_EQ(launches.find({7}), nullptr);
}

TEST(CsvWriter, QuotesWhatWouldEndACell) {
  TextSink sink;
  CsvWriter writer(sink);
  writer.begin({});
  writer.on_thread({1, 4711});
  writer.on_text({1, "a \"b\",\nc"});
  writer.on_mark({5, 1}, {TraceMark::kBegin, 1, 9});
  const auto row = sink.text.substr(sink.text.find('\n') + 1);
  EXPECT_EQ(row.substr(0, 12), "mark,5,4711,");
  EXPECT_THAT(row, ::testing::HasSubstr("begin,\"a \"\"b\"\",\nc\",9,"));
}

// Allocations that pass through have no number among buffers, and ids come again.
TEST(CsvWriter, SaysTheLayerOfEachBuffer) {
  TracedLayers layers;
  layers.layers = 2;
  layers.shared = 2;
  layers.layer_of = {0, 1, kNoLayer, 2};
  TextSink sink;
  CsvWriter writer(sink, layers);
  writer.begin({});
  sink.text.clear();
  std::string said;
  for (const BufferId id : {BufferId{0}, kNoBuffer, BufferId{1}, BufferId{1}, BufferId{0}}) {
    writer.on_allocation({5, 1}, {id, 100, 1_MiB, 2_MiB, 0, 1});
    said += sink.text.substr(sink.text.rfind(',') + 1);
    sink.text.clear();
  }
  EXPECT_EQ(said, "1\n\n2\n\nshared\n");
}

}  // namespace
}  // namespace superpipe::cli
