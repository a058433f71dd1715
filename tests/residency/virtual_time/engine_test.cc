// Spans of time of an engine that does one thing at a time.
#include "residency/virtual_time/engine.h"

#include <gtest/gtest.h>

namespace superpipe::virtual_time {
namespace {

TEST(Engine, WorkThatIsReadyTogetherRunsOneAfterAnother) {
  Engine engine;
  EXPECT_EQ(engine.reserve(Time{10}, Time{5}).begin, Time{10});
  const Engine::Span second = engine.reserve(Time{10}, Time{5});
  EXPECT_EQ(second.begin, Time{15});
  EXPECT_EQ(second.end, Time{20});
  EXPECT_EQ(engine.busy(), Time{10});
}

TEST(Engine, WorkTakesTheFirstGapThatItFitsIn) {
  Engine engine;
  (void)engine.reserve(Time{0}, Time{10});
  (void)engine.reserve(Time{100}, Time{10});
  EXPECT_EQ(engine.reserve(Time{0}, Time{91}).begin, Time{110});
  EXPECT_EQ(engine.reserve(Time{0}, Time{90}).begin, Time{10});
  EXPECT_EQ(engine.reserve(Time{0}, Time{1}).begin, Time{201});
}

TEST(Engine, ForgetsOnlyWhatIsOver) {
  Engine engine;
  (void)engine.reserve(Time{0}, Time{10});
  (void)engine.reserve(Time{20}, Time{10});
  engine.forget_before(Time{25});
  EXPECT_EQ(engine.reserve(Time{25}, Time{5}).begin, Time{30});
}

}  // namespace
}  // namespace superpipe::virtual_time
