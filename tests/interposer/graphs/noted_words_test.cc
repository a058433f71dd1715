#include "interposer/graphs/noted_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/interposer/managed_fixture.h"

namespace superpipe {
namespace {

using ::testing::Contains;
using ::testing::Le;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

using NotedWordsTest = testing::ManagedFixture;

TEST_F(NotedWordsTest, AreKeptOnce) {
  NotedWords noted(ContextRegistry::managed()->residency());
  const std::array<std::uint64_t, 2> words{buffer_, other_};
  EXPECT_EQ(noted.add(words), Status::kOk);
  EXPECT_EQ(noted.add(words), Status::kOk);
  EXPECT_THAT(noted.all(), UnorderedElementsAre(buffer_, other_));
}

TEST_F(NotedWordsTest, ForgetFreedBuffersWhenTheyAreMany) {
  NotedWords noted(ContextRegistry::managed()->residency());
  const CUdeviceptr freed = allocate(1 << 20);
  ASSERT_EQ(hook::cuMemFree_v2(freed), CUDA_SUCCESS);
  for (std::uint64_t word = freed; word < freed + 100'000; word += 8) {
    ASSERT_EQ(noted.add({&word, 1}), Status::kOk);
  }
  const std::uint64_t live = buffer_;
  ASSERT_EQ(noted.add({&live, 1}), Status::kOk);
  EXPECT_THAT(noted.all(), SizeIs(Le(1024U)));
  EXPECT_THAT(noted.all(), Contains(buffer_));
}

}  // namespace
}  // namespace superpipe
