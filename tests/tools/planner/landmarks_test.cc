#include "tools/superpipe/planner/landmarks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "tests/tools/planner/written_trace.h"

namespace superpipe::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::WrittenTrace;

constexpr std::uint32_t kForward = 1;
constexpr std::uint32_t kBackward = 2;
constexpr std::uint32_t kUpdate = 3;
constexpr std::uint32_t kOtherKernel = 4;

class LandmarksTest : public ::testing::Test {
 protected:
  LandmarksTest() {
    // Kernels are defined in the order of their numbers.
    for (const std::uint32_t kernel : {kForward, kBackward, kUpdate, kOtherKernel}) {
      trace_.launch(kernel, {}, 1000);
    }
    for (int i = 0; i < 4; ++i) weights_.push_back(trace_.allocate(4_MiB));
  }

  void launch(std::uint32_t kernel, const std::vector<BufferId>& buffers) {
    trace_.launch(kernel, buffers, 1000);
    ++launches_;
  }
  void launch_each(std::uint32_t kernel) {
    for (const BufferId weight : weights_) launch(kernel, {weight});
  }
  std::vector<std::size_t> passes() {
    return passes_by_landmarks(std::get<TracedProgram>(trace_.program()), launches_);
  }

  WrittenTrace trace_;
  std::vector<BufferId> weights_;
  std::size_t launches_ = 0;  // that name a buffer
};

TEST_F(LandmarksTest, LeftoversInArgumentsDoNotHideThePasses) {
  std::vector<std::size_t> expected;
  for (std::size_t pass = 0; pass < 10; ++pass) {
    expected.push_back(launches_);
    launch_each(kForward);
    // In each second pass, and of different weights.
    for (std::size_t i = 0; i < pass * pass % 4; ++i) {
      launch(kOtherKernel, {weights_[(pass + i) % 4]});
    }
    if (pass % 3 == 0) launch(kOtherKernel, {weights_[pass % 4]});
  }
  EXPECT_EQ(passes(), expected);
}

TEST_F(LandmarksTest, BuffersThatAreMadeAnewAreNone) {
  for (int pass = 0; pass < 5; ++pass) {
    for (const BufferId weight : weights_) {
      const BufferId activation = trace_.allocate(2_MiB);
      launch(kForward, {weight, activation});
      launch(kOtherKernel, {activation});
      trace_.free(activation);
    }
  }
  EXPECT_THAT(passes(), ElementsAre(0, 8, 16, 24, 32));
}

TEST_F(LandmarksTest, APassOfAccumulatedGradientsEndsWithTheUpdate) {
  for (int step = 0; step < 4; ++step) {
    for (int part = 0; part < 3; ++part) {
      launch_each(kForward);
      launch_each(kBackward);
    }
    launch(kUpdate, {weights_[0], weights_[1]});
    launch(kUpdate, {weights_[2], weights_[3]});
  }
  EXPECT_THAT(passes(), ElementsAre(0, 26, 52, 78));
}

TEST_F(LandmarksTest, WhatComesEachSecondTimeAndWorksOnLittleMakesNoLongerPass) {
  const BufferId small = trace_.allocate(2_MiB);
  for (int pass = 0; pass < 12; ++pass) {
    launch_each(kForward);
    if (pass % 2 == 0) launch(kUpdate, {small});
  }
  EXPECT_THAT(passes(), SizeIs(12));
}

TEST_F(LandmarksTest, WhatComesLongBeforeThePassesIsNone) {
  launch(kForward, {weights_[0]});  // such as a check of the first layer
  for (const BufferId weight : weights_) {
    for (int i = 0; i < 3; ++i) launch(kOtherKernel, {weight});
  }
  for (int pass = 0; pass < 12; ++pass) launch_each(kForward);
  const std::vector<std::size_t> found = passes();
  ASSERT_THAT(found, SizeIs(12));
  EXPECT_EQ(found.front(), 13U);
}

TEST_F(LandmarksTest, OnlyTheFirstLaunchesAreLookedAt) {
  for (int pass = 0; pass < 12; ++pass) launch_each(kForward);
  EXPECT_THAT(passes_by_landmarks(std::get<TracedProgram>(trace_.program()), 16),
              ElementsAre(0, 4, 8, 12));
}

TEST_F(LandmarksTest, AProgramThatDoesNotRepeatItselfHasNone) {
  launch_each(kForward);
  launch_each(kBackward);
  launch_each(kUpdate);
  EXPECT_THAT(passes(), IsEmpty());
}

// What all layers share comes back with each of them.
TEST_F(LandmarksTest, ALayerIsNotTakenForAPass) {
  for (const std::size_t count : {2U, 12U}) {
    WrittenTrace trace;
    const BufferId shared = trace.allocate(2_MiB);
    std::vector<BufferId> weights;
    for (int i = 0; i < 4; ++i) weights.push_back(trace.allocate(4_MiB));
    for (std::size_t pass = 0; pass < count; ++pass) {
      for (const BufferId weight : weights) {
        trace.launch(kForward, {weight, shared}, 1000);
        trace.launch(kBackward, {shared}, 1000);
        trace.launch(kBackward, {shared}, 1000);
      }
    }
    const auto program = std::get<TracedProgram>(trace.program());
    EXPECT_THAT(passes_by_landmarks(program, 12 * count), SizeIs(count < 3 ? 0 : count));
  }
}

TEST_F(LandmarksTest, UnevenRepetitionsAreNone) {
  std::size_t between = 1;
  for (int time = 0; time < 8; ++time, between *= 2) {
    launch(kForward, {weights_[0]});
    for (std::size_t i = 0; i < between; ++i) {
      const BufferId passing = trace_.allocate(2_MiB);
      launch(kOtherKernel, {passing});
      trace_.free(passing);
    }
  }
  EXPECT_THAT(passes(), IsEmpty());
}

}  // namespace
}  // namespace superpipe::cli
