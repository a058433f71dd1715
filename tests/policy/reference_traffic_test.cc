#include "policy/reference_traffic.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/policy/exhaustive_schedule.h"
#include "tests/policy/properties.h"
#include "tests/policy/small_programs.h"

namespace superpipe {
namespace {

constexpr Replacement kAll[] = {Replacement::kMin, Replacement::kLru, Replacement::kBip};

// In pieces.
double fetched(const SmallProgram& program, int fit, Replacement replacement) {
  const SmallSequence sequence(program);
  const Bytes bytes = fetched_bytes(sequence.get(), pieces_bytes(fit), replacement);
  return static_cast<double>(bytes.count()) / static_cast<double>(kPiece.count());
}

double fetched_per_pass(const SmallProgram& pass, int fit, Replacement replacement) {
  const SmallSequence sequence(pass);
  const Bytes bytes = fetched_bytes_per_pass(sequence.get(), pieces_bytes(fit), replacement);
  return static_cast<double>(bytes.count()) / static_cast<double>(kPiece.count());
}

const SmallProgram kCycle{{1, 1, 1}, {{0, {kFirst}}, {0, {kSecond}}, {0, {kThird}}}};

TEST(FetchedBytes, AreNoneForNothing) {
  for (const Replacement replacement : kAll) {
    EXPECT_EQ(fetched({{}, {}}, 0, replacement), 0.0);
    EXPECT_EQ(fetched({{1}, {{0, {}}}}, 0, replacement), 0.0);
    EXPECT_EQ(fetched_per_pass({{}, {}}, 0, replacement), 0.0);
    EXPECT_EQ(fetched_per_pass({{1}, {{0, {}}}}, 0, replacement), 0.0);
  }
}

TEST(FetchedBytes, AreThoseOfEachBufferOnceWhereAllFits) {
  for (const Replacement replacement : kAll) {
    EXPECT_EQ(
        fetched({{2, 3}, {{0, {kFirst, kFirst}}, {0, {kSecond}}, {0, {kFirst}}}}, 5, replacement),
        5.0);
    EXPECT_EQ(fetched_per_pass(kCycle, 3, replacement), 0.0);
  }
}

TEST(FetchedBytes, RaiseTheDeviceToTheLargestWorkingSet) {
  const SmallProgram program{{2, 1, 1}, {{0, {kFirst, kSecond}}, {0, {kThird}}, {0, {kFirst}}}};
  for (const Replacement replacement : kAll) {
    EXPECT_EQ(fetched(program, 0, replacement), fetched(program, 3, replacement));
    EXPECT_EQ(fetched_per_pass(program, 0, replacement), fetched_per_pass(program, 3, replacement));
  }
}

TEST(FetchedBytes, OfBipAreLittleMoreThanWhatDoesNotFitOfACycle) {
  EXPECT_EQ(fetched_per_pass(kCycle, 1, Replacement::kBip), 3.0);
  EXPECT_LT(fetched_per_pass(kCycle, 2, Replacement::kBip), 2.1);
  EXPECT_GE(fetched_per_pass(kCycle, 2, Replacement::kBip), 2.0) << "whole buffers";
}

TEST(FetchedBytes, OfBipFollowAProgramThatGoesOnToOtherBuffers) {
  const SmallProgram stays{{1, 1}, {{0, {kFirst}}, {0, {kSecond}}, {0, {kSecond}}}};
  EXPECT_EQ(fetched(stays, 1, Replacement::kBip), 2.0);
  EXPECT_EQ(fetched_per_pass(stays, 1, Replacement::kBip), 2.0);
}

TEST(FetchedBytes, OfLruAreAllOfACycleThatDoesNotFit) {
  EXPECT_EQ(fetched_per_pass(kCycle, 2, Replacement::kLru), 3.0);
  EXPECT_EQ(fetched_per_pass(kCycle, 2, Replacement::kMin), 1.5);
}

TEST(FetchedBytes, OfLruEvictWhatWasUsedLongestAgo) {
  // The third takes the place of the first; the second stays.
  const SmallProgram program{{1, 1, 1},
                             {{0, {kFirst}}, {0, {kSecond}}, {0, {kThird}}, {0, {kSecond}}}};
  EXPECT_EQ(fetched(program, 2, Replacement::kLru), 3.0);
  const SmallProgram other{{1, 1, 1},
                           {{0, {kFirst}}, {0, {kSecond}}, {0, {kThird}}, {0, {kFirst}}}};
  EXPECT_EQ(fetched(other, 2, Replacement::kLru), 4.0);
}

TEST(FetchedBytes, OfLruMoveWholeBuffersAndOfMinParts) {
  // One place is lacking for the second: MIN evicts a piece of the first, LRU all three.
  const SmallProgram program{{3, 2}, {{0, {kFirst}}, {0, {kSecond}}, {0, {kFirst}}}};
  EXPECT_EQ(fetched(program, 4, Replacement::kMin), 6.0);
  EXPECT_EQ(fetched(program, 4, Replacement::kLru), 8.0);
}

RC_GTEST_PROP(FetchedBytes, OfMinAreTheFewestOfAllSchedules, ()) {
  const SmallProgram program = any_small_program(6, 0);
  const int fit = any_fit(program);
  RC_ASSERT(fetched(program, fit, Replacement::kMin) == fewest_fetches(program, fit));
}

RC_GTEST_PROP(FetchedBytesPerPass, OfMinAreTheFewestOfAllSchedules, ()) {
  const SmallProgram pass = any_small_program(5, 1);
  const int fit = any_fit(pass);
  RC_ASSERT(std::abs(fetched_per_pass(pass, fit, Replacement::kMin) -
                     fewest_fetches_per_pass(pass, fit)) < 1e-5);
}

RC_GTEST_PROP(FetchedBytes, OfMinAreNeverMoreThanOfLru, ()) {
  const SmallProgram program = any_small_program(20, 0);
  const int fit = any_fit(program);
  RC_ASSERT(fetched(program, fit, Replacement::kMin) <= fetched(program, fit, Replacement::kLru));
  RC_ASSERT(fetched_per_pass(program, fit, Replacement::kMin) <=
            fetched_per_pass(program, fit, Replacement::kLru));
}

}  // namespace
}  // namespace superpipe
