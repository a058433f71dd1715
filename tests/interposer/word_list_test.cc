// A launch's words: in order, past the list's inline part too, and never lost without a word.
#include "interposer/kernels/word_list.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace superpipe {
namespace {

/// The numbers from 0 to below `count`.
std::vector<std::uint64_t> numbers(std::size_t count) {
  std::vector<std::uint64_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<std::uint64_t> words_of(const WordList& list) {
  return {list.words().begin(), list.words().end()};
}

TEST(WordListTest, IsEmptyAtFirst) {
  const WordList list;
  EXPECT_TRUE(list.empty());
  EXPECT_TRUE(list.words().empty());
}

TEST(WordListTest, KeepsItsWordsInOrderAtAndPastItsInlinePart) {
  for (const std::size_t count : {std::size_t{1}, WordList::kInline - 1, WordList::kInline,
                                  WordList::kInline + 1, 3 * WordList::kInline}) {
    WordList list;
    for (const std::uint64_t word : numbers(count)) list.add(word);
    EXPECT_EQ(words_of(list), numbers(count)) << count;
    EXPECT_FALSE(list.empty());
    EXPECT_FALSE(list.failed());
  }
}

}  // namespace
}  // namespace superpipe
