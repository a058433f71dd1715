#include "tools/superpipe/export_tracks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "tests/tools/line_sink.h"

namespace superpipe::cli {
namespace {

using ::testing::ElementsAre;

class TrackExporterTest : public ::testing::Test {
 protected:
  TrackExporterTest() {
    exporter_.begin({});
    exporter_.on_kernel({1, 1, "gemm"});
    exporter_.on_stream({1, 16});
    exporter_.on_allocation({1, 1}, {kBuffer, 100, 1_MiB, 2_MiB, 0, 0});
  }
  void fetch(std::int64_t time, std::uint64_t transfer, bool demand = true) {
    exporter_.on_fetch({time, 1}, {{transfer}, kBuffer, Bytes{}, 1_MiB, 2_MiB, demand});
  }
  void end(std::int64_t time, std::uint64_t transfer) {
    exporter_.on_transfer_end({time, 1}, {{transfer}});
  }
  void launch(std::int64_t time, std::uint64_t number) {
    exporter_.on_launch({time, 1}, {{number}, 1, 1, std::span(&kBuffer, 1)});
  }

  static constexpr BufferId kBuffer{1};
  LineSink sink_;
  TrackExporter exporter_{sink_};
};

TEST_F(TrackExporterTest, TransfersFollowOneAnother) {
  fetch(1'000, 1);
  fetch(2'000, 2, false);
  end(101'000, 1);
  end(301'000, 2);
  exporter_.finish();
  EXPECT_THAT(sink_.on("host to device"),
              ElementsAre("1000+100000 demand fetch >1", "101000+200000 prefetch >2"));
}

TEST_F(TrackExporterTest, EndsOfOneLookShareItsTime) {
  fetch(1'000, 1);
  fetch(1'000, 2);
  end(201'000, 1);
  end(201'100, 2);
  exporter_.finish();
  EXPECT_THAT(sink_.on("host to device"),
              ElementsAre("1000+100050 demand fetch >1", "101050+100050 demand fetch >2"));
}

TEST_F(TrackExporterTest, ArrowsLeadToTheFirstLaunchOnly) {
  fetch(1'000, 1);
  end(50'000, 1);
  launch(60'000, 1);
  launch(70'000, 2);
  exporter_.finish();
  EXPECT_THAT(sink_.on("host to device"), ElementsAre("1000+49000 demand fetch >1"));
  EXPECT_THAT(sink_.on("stream 0x10: launches"), ElementsAre("60000 gemm <1", "70000 gemm"));
}

TEST_F(TrackExporterTest, ArrowsEndWhenTheBuffersOfAnEarlyLaunchHaveCome) {
  fetch(1'000, 1);
  fetch(1'000, 2);
  launch(2'000, 1);
  end(100'000, 1);
  end(200'000, 2);
  exporter_.finish();
  EXPECT_THAT(sink_.on("stream 0x10: launches"),
              ElementsAre("2000 gemm", "200000 buffers arrived <1 <2"));
}

TEST_F(TrackExporterTest, EventsOfSeveralThreadsMayBeOutOfOrder) {
  end(150'000, 2);
  fetch(2'000, 2);
  fetch(1'000, 1);  // its end was dropped
  launch(160'000, 1);
  exporter_.finish();
  EXPECT_THAT(sink_.on("host to device"),
              ElementsAre("2000+74000 demand fetch >2", "76000+74000 demand fetch >1"));
  EXPECT_THAT(sink_.on("stream 0x10: launches"), ElementsAre("160000 gemm <2 <1"));
}

TEST_F(TrackExporterTest, ResidentPagesFollowTheBuffersLife) {
  fetch(1'000, 1);
  exporter_.on_eviction({2'000, 1}, {{1}, kBuffer, Bytes{}, Bytes{}, 2_MiB});
  fetch(3'000, 2);
  // The free was not recorded; the id belongs to another buffer now, and with it the pages.
  exporter_.on_allocation({4'000, 1}, {kBuffer, 500, 1_MiB, 2_MiB, 0, 0});
  exporter_.on_free({5'000, 1}, {kBuffer, 500, 0});
  exporter_.finish();
  EXPECT_THAT(sink_.on("call site not known"), ElementsAre("1000 2097152", "2000 0", "3000 2097152",
                                                           "4000 0", "4000 2097152", "5000 0"));
}

TEST_F(TrackExporterTest, ContentThatIsCopiedAheadOfNeedStaysResident) {
  fetch(1'000, 1);
  exporter_.on_eviction({2'000, 1}, {{1}, kBuffer, Bytes{}, 2_MiB, Bytes{}});
  exporter_.on_free({5'000, 1}, {kBuffer, 500, 0});
  exporter_.finish();
  EXPECT_THAT(sink_.on("call site not known"), ElementsAre("1000 2097152", "5000 0"));
}

TEST_F(TrackExporterTest, PagesThatComeBeforeTheAllocationAreResident) {
  constexpr BufferId kNew{2};
  exporter_.on_call_site({1, "load+0x3 model.so+0x4"});
  exporter_.on_fetch({1'000, 1}, {{1}, kNew, Bytes{}, Bytes{}, 2_MiB, false});
  exporter_.on_fetch({1'100, 1}, {{1}, kNew, 2_MiB, Bytes{}, 2_MiB, false});
  exporter_.on_allocation({2'000, 1}, {kNew, 900, 4_MiB, 4_MiB, 0, 1});
  exporter_.on_eviction({3'000, 1}, {{1}, kNew, 2_MiB, Bytes{}, 2_MiB});
  exporter_.finish();
  EXPECT_THAT(sink_.on("load"), ElementsAre("2000 4194304", "3000 2097152"));
}

TEST_F(TrackExporterTest, PagesOfABufferOfALayerThatComeBeforeItsAllocationAreTheLayers) {
  TracedLayers layers;
  layers.layer_of = {0};
  layers.layers = 1;
  LineSink sink;
  TrackExporter exporter(sink, layers);
  exporter.begin({});
  exporter.on_fetch({1'000, 1}, {{1}, kBuffer, Bytes{}, Bytes{}, 2_MiB, false});
  exporter.on_allocation({2'000, 1}, {kBuffer, 900, 1_MiB, 2_MiB, 0, 0});
  exporter.finish();
  EXPECT_THAT(sink.on("layer 1: resident pages"), ElementsAre("2000 2097152"));
}

// No event tells when the pages of a freed buffer are used for others.
TEST_F(TrackExporterTest, NoMorePagesAreResidentThanABufferHas) {
  fetch(1'000, 1);
  exporter_.on_free({2'000, 1}, {kBuffer, 100, 0});
  exporter_.on_allocation({3'000, 1}, {kBuffer, 500, 4_MiB, 4_MiB, 0, 0});
  exporter_.on_fetch({4'000, 1}, {{2}, kBuffer, 2_MiB, Bytes{}, 2_MiB, false});
  exporter_.on_free({5'000, 1}, {kBuffer, 500, 0});
  exporter_.on_fetch({6'000, 1}, {{3}, kBuffer, Bytes{}, Bytes{}, 2_MiB, false});
  exporter_.on_fetch({6'000, 1}, {{3}, kBuffer, 2_MiB, Bytes{}, 2_MiB, false});
  exporter_.on_allocation({7'000, 1}, {kBuffer, 900, 4_MiB, 4_MiB, 0, 0});
  exporter_.finish();
  EXPECT_THAT(sink_.on("call site not known"),
              ElementsAre("1000 2097152", "2000 0", "4000 2097152", "5000 0", "7000 4194304"));
}

TEST_F(TrackExporterTest, KernelsAndStallsOfAStreamDoNotOverlap) {
  launch(1'000, 1);
  launch(2'000, 2);
  exporter_.on_kernel_time({9'000, 1}, {{1}, -6'000, 500, 1});
  exporter_.on_kernel_time({9'000, 1}, {{2}, -5'600, 500, 2});
  exporter_.on_stall({9'000, 1}, {{1}, -6'000, 900});
  exporter_.on_stall({9'000, 1}, {{2}, -5'600, 900});
  exporter_.finish();
  EXPECT_THAT(sink_.on("stream 0x10: kernels"),
              ElementsAre("3000+500 gemm", "3500+400 2 launches"));
  EXPECT_THAT(sink_.on("stream 0x10: stalls"), ElementsAre("2100+900 gemm", "3000+400 gemm"));
}

TEST_F(TrackExporterTest, StallsOfMemsetsAndCopiesAreCalledSo) {
  exporter_.on_stall({9'000, 1}, {{0}, -6'000, 900});
  exporter_.on_stall({9'000, 1}, {{0}, -5'600, 900});
  exporter_.finish();
  EXPECT_THAT(sink_.on("memsets and copies on the device: stalls"),
              ElementsAre("2100+900 (memset, or copy on the device)",
                          "3000+400 (memset, or copy on the device)"));
}

TEST_F(TrackExporterTest, CallSitesAreThoseOfTheProgram) {
  exporter_.on_thread({1, 77});
  exporter_.on_call_site({1, "cudaMalloc+0x1 /usr/lib/libcudart.so.13+0x2\nload+0x3 model.so+0x4"});
  exporter_.on_allocation({2, 1}, {BufferId{2}, 900, 1_MiB, 2_MiB, 0, 1});
  exporter_.finish();
  EXPECT_THAT(sink_.argument("call site"), "load");
}

TEST_F(TrackExporterTest, GroupOfCallSitesComesWithItsFirst) {
  LineSink sink;
  TrackExporter exporter(sink);
  exporter.begin({});
  exporter.finish();
  EXPECT_FALSE(sink.has("Resident pages by call site"));
  EXPECT_TRUE(sink_.has("Resident pages by call site"));
}

TEST_F(TrackExporterTest, MarksAreClosedHoweverTheTraceEnds) {
  exporter_.on_thread({1, 77});
  exporter_.on_text({1, "step"});
  exporter_.on_mark({10, 1}, {TraceMark::kEnd, 0, 0});  // its begin was dropped
  exporter_.on_mark({20, 1}, {TraceMark::kBegin, 1, 0});
  exporter_.on_mark({30, 1}, {TraceMark::kBegin, 1, 5});
  exporter_.on_mark({40, 2}, {TraceMark::kBegin, 1, 6});
  exporter_.on_mark({50, 2}, {TraceMark::kEnd, 0, 5});
  exporter_.on_mark({60, 2}, {TraceMark::kBegin, 1, 7});
  exporter_.finish();
  EXPECT_THAT(sink_.on("marked ranges 1"), ElementsAre("30( step", "50)", "60( step", "60)"));
  EXPECT_THAT(sink_.on("marked ranges 2"), ElementsAre("40( step", "60)"));
}

TEST_F(TrackExporterTest, WaitsHaveARowForEachThread) {
  exporter_.on_thread({1, 77});
  exporter_.on_wait({100'000, 1}, {TraceWait::kDevice, 60'000});
  exporter_.on_wait({150'000, 1}, {TraceWait::kCopy, 70'000});
  exporter_.on_wait({200'000, 2}, {TraceWait::kLaunch, 300'000});
  exporter_.finish();
  EXPECT_THAT(sink_.on("thread 77: waits"),
              ElementsAre("40000+60000 waits for the device", "100000+50000 waits for a copy"));
  EXPECT_THAT(sink_.on("threads not known: waits"), ElementsAre("0+200000 an operation waits"));
}

TEST_F(TrackExporterTest, SurvivesTimesThatCannotBe) {
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  constexpr auto kMostNs = std::numeric_limits<std::uint64_t>::max();
  for (const std::int64_t time : {kLeast, std::int64_t{-1}, kMost}) {
    launch(time, 1);
    exporter_.on_kernel_time({time, 1}, {{1}, time, kMostNs, kMostNs});
    exporter_.on_stall({time, 1}, {{1}, time, kMostNs});
    exporter_.on_pass({time, 1}, {{1}});
    exporter_.on_wait({time, 1}, {kMostNs, kMostNs});
    fetch(time, 1);
    end(time, 1);
  }
  exporter_.finish();
}

}  // namespace
}  // namespace superpipe::cli
