#include <gtest/gtest.h>

#include <set>

#include "examples/layers/content.h"
#include "examples/layers/workload.h"

namespace layers {
namespace {

TEST(Coefficient, IsOddSoThatEveryBitOfEveryWordCounts) {
  for (Word index = 0; index < 64 * kTileWords; ++index) ASSERT_EQ(coefficient(index) % 2, 1U);
}

TEST(Coefficient, DiffersFromPlaceToPlace) {
  std::set<Word> seen;
  constexpr Word kWords = 64 * kTileWords;
  for (Word index = 0; index < kWords; ++index) seen.insert(coefficient(index));
  EXPECT_EQ(seen.size(), kWords);
}

TEST(NextActivation, IsOneToOne) {
  std::set<Word> seen;
  constexpr Word kValues = 10'000;
  for (Word i = 0; i < kValues; ++i) seen.insert(next_activation(i * kGolden, 7, 3));
  EXPECT_EQ(seen.size(), kValues);
}

TEST(ContentDigest, DependsOnValuesAndTheirOrder) {
  EXPECT_NE(content_digest({1, 2}), content_digest({2, 1}));
  EXPECT_NE(content_digest({0}), content_digest({0, 0}));
  EXPECT_EQ(content_digest({5, 6}), content_digest({5, 6}));
}

TEST(ExpectedDigests, ChangeWithEverySetting) {
  Settings settings;
  settings.layers = 2;
  settings.layer_words = 2 * kTileWords;
  settings.activation_words = kTileWords;
  const auto differs = [&settings](const Settings& other) {
    return expected_digests(settings).front() != expected_digests(other).front();
  };
  Settings more_passes = settings;
  more_passes.passes = 2;
  EXPECT_TRUE(differs(more_passes));
  Settings more_layers = settings;
  more_layers.layers = 3;
  EXPECT_TRUE(differs(more_layers));
  Settings longer = settings;
  longer.layer_words *= 2;
  EXPECT_TRUE(differs(longer));
}

TEST(ExpectedDigests, TrainingChangesWeightsAndForwardDoesNot) {
  Settings settings;
  settings.layers = 1;
  settings.layer_words = kTileWords;
  settings.activation_words = kTileWords;
  const auto weights = [&settings] {
    for (const ContentDigest& digest : expected_digests(settings)) {
      if (digest.buffer == "weights 0") return digest.digest;
    }
    return Word{0};
  };
  const Word before = weights();
  settings.passes = 3;
  EXPECT_EQ(weights(), before);
  settings.mode = Mode::kTrain;
  EXPECT_NE(weights(), before);
}

}  // namespace
}  // namespace layers
