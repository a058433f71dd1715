// What the calls of libraries do where host memory runs out.
#include "tools/simgpu/host_memory.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <new>
#include <vector>

namespace simgpu {
namespace {

/// There is never memory for one.
struct Homeless {
  static void* operator new(std::size_t /*bytes*/, const std::nothrow_t& /*tag*/) noexcept {
    return nullptr;
  }
};

TEST(AnswerOr, IsWhatTheCallAnswers) {
  EXPECT_EQ(answer_or<int>(2, [] { return 0; }), 0);
}

TEST(AnswerOr, IsTheOtherAnswerIfTheCallThrows) {
  const auto call = [] { return static_cast<int>(std::vector<int>().at(0)); };
  EXPECT_EQ(answer_or<int>(2, call), 2);
  EXPECT_EQ(answer_or<int>(2, []() -> int { throw std::bad_alloc(); }), 2);
}

TEST(GiveCopy, GivesWhatTheProgramDestroys) {
  int* given = nullptr;
  ASSERT_TRUE(give_copy(&given, 5));
  EXPECT_EQ(*given, 5);
  delete given;
}

TEST(GiveCopy, LeavesThePlaceAsItIsWithoutMemory) {
  Homeless before;
  Homeless* place = &before;
  EXPECT_FALSE(give_copy(&place));
  EXPECT_EQ(place, &before);
}

}  // namespace
}  // namespace simgpu
