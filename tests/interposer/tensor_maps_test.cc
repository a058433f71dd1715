#include "interposer/kernels/tensor_maps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "tests/interposer/managed_fixture.h"

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Map = std::array<std::uint64_t, TensorMaps::kBytes / 8>;

class TensorMapsTest : public testing::ManagedFixture {
 protected:
  void SetUp() override {
    ManagedFixture::SetUp();
    maps_.emplace(ContextRegistry::managed()->residency());
  }

  static Map map(std::uint64_t number) {
    Map bytes;
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = 0x1234'5678'0000'0000 + i;
    bytes[3] = number;
    return bytes;
  }
  std::vector<std::uint64_t> found(const Map& bytes) const {
    WordList words;
    maps_->collect(bytes.data(), words);
    return {words.words().begin(), words.words().end()};
  }
  std::vector<std::uint64_t> found_in(const std::vector<std::uint64_t>& data,
                                      std::uint64_t place) const {
    WordList words;
    maps_->collect_all_copied(data.data(), 8 * data.size(), place, words);
    return {words.words().begin(), words.words().end()};
  }

  std::optional<TensorMaps> maps_;
};

TEST_F(TensorMapsTest, FindsTheAddressBehindTheBytes) {
  EXPECT_FALSE(maps_->any());
  EXPECT_THAT(found(map(1)), IsEmpty());
  ASSERT_TRUE(maps_->remember(map(1).data(), buffer_));
  ASSERT_TRUE(maps_->remember(map(2).data(), other_ + 64));
  EXPECT_TRUE(maps_->any());
  EXPECT_THAT(found(map(1)), ElementsAre(buffer_));
  EXPECT_THAT(found(map(2)), ElementsAre(other_ + 64));
  EXPECT_THAT(found(map(3)), IsEmpty());
}

TEST_F(TensorMapsTest, CountsEachEncoding) {
  EXPECT_EQ(maps_->encoded(), 0U);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(maps_->remember(map(1).data(), buffer_));
  EXPECT_EQ(maps_->encoded(), 3U);
  EXPECT_EQ(maps_->size(), 1U);
}

TEST_F(TensorMapsTest, TellsMapsApartThatDifferInOneBit) {
  ASSERT_TRUE(maps_->remember(map(1).data(), buffer_));
  for (std::size_t bit = 0; bit < 8 * TensorMaps::kBytes; ++bit) {
    Map other = map(1);
    other[bit / 64] ^= std::uint64_t{1} << bit % 64;
    EXPECT_THAT(found(other), IsEmpty()) << bit;
  }
}

TEST_F(TensorMapsTest, TakesTheNewestAddressOfTheSameBytes) {
  ASSERT_TRUE(maps_->remember(map(1).data(), buffer_));
  ASSERT_TRUE(maps_->remember(map(1).data(), other_));
  EXPECT_THAT(found(map(1)), ElementsAre(other_));
  EXPECT_EQ(maps_->size(), 1U);
}

TEST_F(TensorMapsTest, FindsMapsWhereTheDeviceCouldReadThem) {
  ASSERT_TRUE(maps_->remember(map(1).data(), buffer_));
  const auto with_map_at = [](std::size_t bytes) {
    std::vector<std::uint64_t> data(40);
    const Map one = map(1);
    std::memcpy(data.data() + bytes / 8, one.data(), sizeof one);
    return data;
  };
  EXPECT_THAT(found_in(with_map_at(64), 0), ElementsAre(buffer_));
  EXPECT_THAT(found_in(with_map_at(64), 0x1000), ElementsAre(buffer_));
  EXPECT_THAT(found_in(with_map_at(56), 0x1008), ElementsAre(buffer_));
  EXPECT_THAT(found_in(with_map_at(0), 0x1000), ElementsAre(buffer_));
  EXPECT_THAT(found_in(with_map_at(192), 0x1000), ElementsAre(buffer_)) << "up to the last byte";
  EXPECT_THAT(found_in(with_map_at(56), 0x1000), IsEmpty()) << "no device could read it there";
}

TEST_F(TensorMapsTest, StaysGoodForMemoryThatComesAgain) {
  ASSERT_TRUE(maps_->remember(map(1).data(), buffer_));
  ASSERT_EQ(hook::cuMemFree_v2(buffer_), CUDA_SUCCESS);
  EXPECT_THAT(found(map(1)), ElementsAre(buffer_));
}

// Programs may encode new maps for ever: what is kept is bounded by what lives.
TEST_F(TensorMapsTest, ForgetsMapsOfFreedBuffersWhenThereAreVeryManyAndSaysSoOnce) {
  ::testing::internal::CaptureStderr();
  const CUdeviceptr freed = allocate();
  ASSERT_EQ(hook::cuMemFree_v2(freed), CUDA_SUCCESS);
  for (std::uint64_t i = 0; i < 3 * TensorMaps::kKept; ++i) {
    ASSERT_TRUE(maps_->remember(map(i).data(), i % 4 == 0 ? buffer_ : freed));
  }
  EXPECT_LT(maps_->size(), 2 * TensorMaps::kKept);
  for (std::uint64_t i = 0; i < 3 * TensorMaps::kKept; i += 4) {
    ASSERT_THAT(found(map(i)), ElementsAre(buffer_)) << i;
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
}

}  // namespace
}  // namespace superpipe
