// How long launches take that name nothing: by their place, as far as that was measured.
#include "tools/superpipe/planner/nameless_times.h"

#include <gtest/gtest.h>

namespace superpipe::cli::testing {
namespace {

using Place = NamelessTimes::Place;

constexpr NamelessTimes::Named kQueries{1, 6_MiB};
constexpr NamelessTimes::Named kProjection{1, 2_MiB};
constexpr NamelessTimes::Named kPerceptron{1, 9_MiB};
constexpr std::uint32_t kCopy = 7;

TEST(NamelessTimesTest, AreThoseOfTheSamePlace) {
  NamelessTimes times;
  for (int layer = 0; layer < 3; ++layer) {
    times.add({kCopy, {kProjection, kQueries}}, 10);
    times.add({kCopy, {kPerceptron, kProjection}}, 50);
  }
  times.settle();
  EXPECT_EQ(times.estimate({kCopy, {kProjection, kQueries}}), 10);
  EXPECT_EQ(times.estimate({kCopy, {kPerceptron, kProjection}}), 50);
}

TEST(NamelessTimesTest, WhereAPlaceWasHardlyMeasuredTheLaunchJustBeforeTells) {
  NamelessTimes times;
  times.add({kCopy, {kPerceptron, kProjection}}, 60);
  times.add({kCopy, {kPerceptron, kPerceptron}}, 40);
  times.add({kCopy, {kQueries, kPerceptron}}, 10);
  times.settle();
  EXPECT_EQ(times.estimate({kCopy, {kPerceptron, kProjection}}), 50);
  EXPECT_EQ(times.estimate({kCopy, {kPerceptron, kQueries}}), 50);
}

TEST(NamelessTimesTest, AtAPlaceThatIsNotKnownTheyAreThoseOfTheKernel) {
  NamelessTimes times;
  times.add({kCopy, {kPerceptron, kProjection}}, 60);
  times.add({kCopy, {kQueries, kPerceptron}}, 20);
  times.settle();
  EXPECT_EQ(times.estimate({kCopy, {kProjection, kQueries}}), 40);
  EXPECT_EQ(times.estimate(Place{kCopy, {}}), 40);
  EXPECT_EQ(times.estimate(Place{kCopy + 1, {}}), std::nullopt);
}

TEST(NamelessTimesTest, ATimeOfWhichNobodyKnowsThePlaceIsOneOfTheKernel) {
  NamelessTimes times;
  times.add(kCopy, 30);
  times.add(kCopy, 30);
  times.add({kCopy, {kPerceptron, kProjection}}, 60);
  times.settle();
  EXPECT_EQ(times.estimate(Place{kCopy, {}}), 40);
  EXPECT_EQ(times.estimate({kCopy, {kPerceptron, kProjection}}), 40) << "one is too few";
}

TEST(NamelessTimesTest, TakesSoManyTimesAndPlacesAndNoMore) {
  NamelessTimes times;
  for (std::size_t i = 0; i < NamelessTimes::kMostOfPlace; ++i) times.add(kCopy, 10);
  for (int i = 0; i < 1000; ++i) times.add(kCopy, 90);
  for (std::uint32_t i = 0; i < NamelessTimes::kMostPlaces + 10; ++i) {
    times.add({kCopy + 1, {NamelessTimes::Named{i, 2_MiB}}}, 20);
  }
  times.settle();
  EXPECT_EQ(times.estimate(Place{kCopy, {}}), 10);
  EXPECT_EQ(times.estimate(Place{kCopy + 1, {}}), 20);
}

TEST(NamelessTimesTest, AnOutlierOfAPlaceIsNotBelieved) {
  NamelessTimes times;
  for (int pass = 0; pass < 5; ++pass) times.add({kCopy, {kPerceptron, kProjection}}, 20);
  times.add({kCopy, {kPerceptron, kProjection}}, 9'000);
  times.settle();
  EXPECT_EQ(times.estimate({kCopy, {kPerceptron, kProjection}}), 20);
}

}  // namespace
}  // namespace superpipe::cli::testing
