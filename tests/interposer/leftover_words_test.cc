#include "interposer/leftover_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace superpipe {
namespace {

using ::testing::ElementsAre;

constexpr std::uint64_t kLive = 0x6B00'0000'0000;
bool is_live(std::uint64_t word) { return word >= kLive && word < kLive + (1 << 20); }

/// A kernel of a struct of four words and a pointer.
class LeftoverWordsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    append_parameter(layout_, sizeof words_);
    append_parameter(layout_, sizeof pointer_);
  }
  void launch() { leftovers_.note(layout_, parameters_.data(), is_live); }
  /// What is left without `count` suspected words; only -1 if there are not so many.
  std::vector<std::int64_t> without(std::size_t count) const {
    WordList words;
    if (!leftovers_.collect_without(layout_, parameters_.data(), count, is_live, words)) {
      return {-1};
    }
    std::vector<std::int64_t> found;
    for (const std::uint64_t word : words.words()) {
      found.push_back(static_cast<std::int64_t>(word - kLive));
    }
    return found;
  }

  KernelLayout layout_{};
  LeftoverWords leftovers_;
  std::array<std::uint64_t, 4> words_{kLive + 1, 5, kLive + 2, kLive + 3};
  std::uint64_t pointer_ = kLive + 100;
  std::array<void*, 2> parameters_{&words_, &pointer_};
};

TEST_F(LeftoverWordsTest, SuspectsWhatStaysTheSameWhileOtherOperandsChange) {
  EXPECT_THAT(without(1), ElementsAre(-1));
  for (std::uint32_t i = 0; i <= LeftoverWords::kSuspected; ++i) {
    EXPECT_THAT(without(1), ElementsAre(-1)) << i;
    words_[0] = kLive + 10 + i;
    launch();
  }
  EXPECT_THAT(without(1), ElementsAre(14, 2, 100)) << "the last of the struct goes first";
  EXPECT_THAT(without(2), ElementsAre(14, 100));
  EXPECT_THAT(without(3), ElementsAre(-1)) << "a parameter of its own is no leftover";
}

TEST_F(LeftoverWordsTest, SuspectsNothingWhileAllStaysTheSame) {
  for (int i = 0; i < 100; ++i) launch();
  EXPECT_THAT(without(1), ElementsAre(-1));
}

TEST_F(LeftoverWordsTest, ClearsWhatWasAnotherAddressOnce) {
  for (std::uint32_t i = 0; i < 20; ++i) {
    pointer_ = kLive + 100 + i;
    if (i == 5) words_[3] = kLive + 4;
    launch();
  }
  EXPECT_THAT(without(2), ElementsAre(4, 119)) << "the first and the third word";
  EXPECT_THAT(without(3), ElementsAre(-1));
}

TEST_F(LeftoverWordsTest, KeepsKernelsApart) {
  for (std::uint32_t i = 0; i < 20; ++i) {
    pointer_ = kLive + 100 + i;
    launch();
  }
  KernelLayout other{};
  append_parameter(other, sizeof words_);
  append_parameter(other, sizeof pointer_);
  WordList words;
  EXPECT_FALSE(leftovers_.collect_without(other, parameters_.data(), 1, is_live, words));
}

}  // namespace
}  // namespace superpipe
