#include "interposer/graphs/noted_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

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

class ManyNotedWordsTest : public NotedWordsTest {
 protected:
  /// Notes `count` words of a buffer that is freed already.
  void add_freed(NotedWords& noted, std::size_t count) {
    freed_ = allocate(count * sizeof(std::uint64_t));
    ASSERT_EQ(hook::cuMemFree_v2(freed_), CUDA_SUCCESS);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t word = freed_ + i * sizeof word;
      ASSERT_EQ(noted.add({&word, 1}), Status::kOk);
    }
  }
  CUdeviceptr freed_ = 0;
};

// The program may get the addresses back before it launches the graph again.
TEST_F(ManyNotedWordsTest, AreKeptThoughTheirBuffersWereFreed) {
  NotedWords noted(ContextRegistry::managed()->residency());
  add_freed(noted, NotedWords::kKept);
  EXPECT_THAT(noted.all(), Contains(freed_));
}

TEST_F(ManyNotedWordsTest, OfFreedBuffersAreForgottenWhenTheyAreTooManyAndALineSaysSo) {
  NotedWords noted(ContextRegistry::managed()->residency());
  ::testing::internal::CaptureStderr();
  const std::uint64_t live = buffer_;
  ASSERT_EQ(noted.add({&live, 1}), Status::kOk);
  add_freed(noted, 4 * NotedWords::kKept);
  EXPECT_THAT(noted.all(), SizeIs(Le(NotedWords::kKept)));
  EXPECT_THAT(noted.all(), Contains(buffer_));
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
}

}  // namespace
}  // namespace superpipe
