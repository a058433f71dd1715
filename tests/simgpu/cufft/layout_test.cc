// Where the numbers of a transform lie, and how much it computes.
#include "tools/simgpu/cufft/layout.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace simgpu::cufft {
namespace {

Transform transform_of(std::vector<std::int64_t> extents, int type, std::int64_t batch = 1) {
  Transform made{std::move(extents), batch, {}, {}};
  EXPECT_TRUE(set_type(made, type));
  return made;
}

TEST(BytesOf, ComplexSideHasAllNumbersOfTheBatch) {
  const Transform transform = transform_of({4, 6}, kC2C, 5);
  EXPECT_EQ(bytes_of(transform, transform.input, false), 4U * 6 * 5 * 8);
  EXPECT_EQ(bytes_of(transform, transform.output, false), 4U * 6 * 5 * 8);
}

TEST(BytesOf, ComplexSideOfARealTransformHasHalfOfTheLastDimension) {
  const Transform forward = transform_of({4, 7}, kR2C);
  EXPECT_EQ(bytes_of(forward, forward.input, false), 4U * 7 * 4);
  EXPECT_EQ(bytes_of(forward, forward.output, false), 4U * 4 * 8);
  const Transform back = transform_of({4, 8}, kZ2D);
  EXPECT_EQ(bytes_of(back, back.input, false), 4U * 5 * 16);
  EXPECT_EQ(bytes_of(back, back.output, false), 4U * 8 * 8);
}

TEST(BytesOf, RealSideInPlaceHasRoomForTheComplexOne) {
  const Transform transform = transform_of({4, 8}, kR2C);
  // Rows are 10 numbers apart, and the last one has 8.
  EXPECT_EQ(bytes_of(transform, transform.input, true), (3U * 10 + 8) * 4);
  EXPECT_EQ(bytes_of(transform, transform.output, true), 4U * 5 * 8);
}

TEST(BytesOf, LayoutOfItsOwnEndsWithItsLastNumber) {
  Transform transform = transform_of({4, 6}, kC2C, 3);
  transform.input.storage = {100, 10};
  transform.input.stride = 2;
  transform.input.distance = 1000;
  EXPECT_EQ(bytes_of(transform, transform.input, false), (2U * 1000 + (3 * 10 + 5) * 2 + 1) * 8);
  transform.input.storage = {4, 5};
  EXPECT_EQ(bytes_of(transform, transform.input, false), 0U) << "rows overlap: not known";
}

TEST(IsValid, TakesOneToThreePositiveExtents) {
  EXPECT_TRUE(is_valid(transform_of({1}, kC2C)));
  EXPECT_TRUE(is_valid(transform_of({2, 3, 4}, kC2C)));
  EXPECT_FALSE(is_valid(transform_of({}, kC2C)));
  EXPECT_FALSE(is_valid(transform_of({2, 2, 2, 2}, kC2C)));
  EXPECT_FALSE(is_valid(transform_of({0}, kC2C)));
  EXPECT_FALSE(is_valid(transform_of({4}, kC2C, 0)));
}

TEST(IsValid, RefusesALayoutThatDoesNotFit) {
  Transform transform = transform_of({4, 6}, kC2C, 2);
  transform.output.storage = {4, 6};
  transform.output.distance = 24;
  EXPECT_TRUE(is_valid(transform));
  transform.output.distance = 0;
  EXPECT_FALSE(is_valid(transform)) << "of a batch";
  transform.output = {8, false, {4}, 1, 24};
  EXPECT_FALSE(is_valid(transform)) << "of another rank";
}

TEST(SetType, RefusesWhatIsNoType) {
  Transform transform;
  EXPECT_FALSE(set_type(transform, 0));
  EXPECT_FALSE(set_type(transform, 0x2b));
}

TEST(WorkOf, GrowsWithTheLogarithmAndIsHalfForRealNumbers) {
  const Product complex = work_of(transform_of({1024}, kC2C, 3));
  EXPECT_EQ(complex.m, 1024U);
  EXPECT_EQ(complex.n, 25U) << "5 N log2(N) operations";
  EXPECT_EQ(complex.batches, 3U);
  EXPECT_EQ(work_of(transform_of({1024}, kR2C)).n, 12U);
}

}  // namespace
}  // namespace simgpu::cufft
