// The numbers of buffers.
#include "residency/pieces/buffer_numbers.h"

#include <gtest/gtest.h>

namespace superpipe::testing {
namespace {

TEST(BufferNumbers, CountOnFromThoseOfEarlierContexts) {
  BufferNumbers numbers{6};
  EXPECT_EQ(numbers.so_far(), 6U);
  EXPECT_EQ(numbers.next(), 7U);
  EXPECT_EQ(numbers.next(), 8U);
  EXPECT_EQ(numbers.so_far(), 8U);
}

TEST(BufferNumbers, OneThatWasTakenBackIsGivenAgainUnlessAnotherCameToBeSince) {
  BufferNumbers numbers{0};
  (void)numbers.next();
  numbers.take_back(numbers.next());
  EXPECT_EQ(numbers.next(), 2U);
  numbers.take_back(1);
  EXPECT_EQ(numbers.next(), 3U);
}

}  // namespace
}  // namespace superpipe::testing
