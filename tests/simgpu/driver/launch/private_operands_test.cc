#include "tools/simgpu/driver/launch/private_operands.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/memory/physical_memory.h"

namespace simgpu {
namespace {

/// Device memory of two segments that follow each other at kBegin, as the program sees it.
class PrivateOperandsTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kBegin = 0x7000'0000'1200;

  void SetUp() override {
    std::iota(first_.begin(), first_.end(), static_cast<unsigned char>(0));
    std::iota(second_.begin(), second_.end(), static_cast<unsigned char>(100));
    operands_.add(
        kBegin, kBegin + first_.size() + second_.size(),
        {{first_.data(), first_.size(), nullptr, 0}, {second_.data(), second_.size(), nullptr, 0}});
  }
  [[nodiscard]] unsigned char* copy_of(std::uint64_t address) const {
    return reinterpret_cast<unsigned char*>(operands_.to_copy(address));
  }

  std::array<unsigned char, 40> first_{};
  std::array<unsigned char, 60> second_{};
  PrivateOperands operands_;
};

TEST_F(PrivateOperandsTest, BeginAsTheProgramsBytes) {
  EXPECT_EQ(std::memcmp(copy_of(kBegin), first_.data(), first_.size()), 0);
  EXPECT_EQ(std::memcmp(copy_of(kBegin + 40), second_.data(), second_.size()), 0);
}

TEST_F(PrivateOperandsTest, FaultAtAGuardUnlessTheyEndThere) {
  constexpr std::uint64_t kElsewhere = kBegin + 0x10'0000;
  operands_.add_guard(kBegin + 100);
  EXPECT_EQ(operands_.end_to_copy(kBegin + 100), operands_.to_copy(kBegin) + 100);
  operands_.add_guard(kElsewhere);
  const std::uint64_t guard = operands_.end_to_copy(kElsewhere);
  EXPECT_NE(guard, kElsewhere);
  EXPECT_EQ(operands_.to_program(guard + 8), kElsewhere + 8);
  EXPECT_DEATH((void)*reinterpret_cast<volatile unsigned char*>(guard), "");
  operands_.collect();
  operands_.publish();
}

TEST_F(PrivateOperandsTest, ShowWhatWasWrittenOnlyWhenTheyArePublished) {
  std::memset(copy_of(kBegin + 36), 0xEE, 8);  // across the two segments
  operands_.collect();
  EXPECT_EQ(first_[36], 36);
  EXPECT_EQ(second_[0], 100);
  operands_.publish();
  EXPECT_EQ(first_[35], 35);
  EXPECT_EQ(first_[36], 0xEE);
  EXPECT_EQ(second_[3], 0xEE);
  EXPECT_EQ(second_[4], 104);
}

// Words of every place in a block, and a last one that is cut short; what is not written keeps what
// another kernel has written meanwhile.
TEST(PrivateOperands, PublishTheWrittenWordsAndNoOthers) {
  constexpr std::uint64_t kBegin = 0x7000'0000'1004;
  std::mt19937 random(7);
  for (const std::size_t size : {1, 3, 4, 255, 256, 257, 1021, 4096}) {
    for (const unsigned written_of_8 : {0u, 1u, 4u, 7u, 8u}) {
      std::vector<unsigned char> bytes(size, 1);
      PrivateOperands operands;
      operands.add(kBegin, kBegin + size, {{bytes.data(), size, nullptr, 0}});
      auto* const copy = reinterpret_cast<unsigned char*>(operands.to_copy(kBegin));
      std::vector<unsigned char> expected(size, 2);
      for (std::size_t word = 0; word < size; word += 4) {
        if (random() % 8 >= written_of_8) continue;
        const std::size_t length = std::min<std::size_t>(4, size - word);
        std::memset(copy + word, 3, length);
        std::memset(expected.data() + word, 3, length);
      }
      std::memset(bytes.data(), 2, size);
      operands.collect();
      operands.publish();
      EXPECT_EQ(bytes, expected) << size << " bytes, " << written_of_8 << " words of 8";
    }
  }
}

// Another kernel may write elsewhere in the same allocation meanwhile.
TEST_F(PrivateOperandsTest, LeaveAloneWhatWasNotWritten) {
  *copy_of(kBegin) = 0xEE;
  operands_.collect();
  first_[8] = 0x77;
  operands_.publish();
  EXPECT_EQ(first_[0], 0xEE);
  EXPECT_EQ(first_[8], 0x77);
}

TEST_F(PrivateOperandsTest, TranslateTheAddressOneBehindARange) {
  EXPECT_EQ(operands_.end_to_copy(kBegin + 100), operands_.to_copy(kBegin) + 100);
  EXPECT_EQ(operands_.end_to_copy(kBegin + 4), operands_.to_copy(kBegin) + 4);
  EXPECT_EQ(operands_.end_to_copy(kBegin + 101), kBegin + 101) << "which is none of ours";
}

// Blocks of a pool lie side by side.
TEST_F(PrivateOperandsTest, LeaveAloneMemoryThatBeginsWhereARangeEnds) {
  EXPECT_EQ(operands_.to_copy(kBegin + 100), kBegin + 100);
}

// A number that a kernel computes may be anything.
TEST_F(PrivateOperandsTest, PublishNumbersThatLookLikeAddressesOfCopiesAsTheyAre) {
  const std::uint64_t number = operands_.to_copy(kBegin + 80);
  std::memcpy(copy_of(kBegin + 8), &number, sizeof(number));
  operands_.collect();
  operands_.publish();
  std::uint64_t found = 0;
  std::memcpy(&found, first_.data() + 8, sizeof(found));
  EXPECT_EQ(found, number);
}

// Large ranges, which the system copies page by page, behave as small ones do.
TEST(PrivateOperands, OfManyPagesShowWhatWasWrittenOnlyWhenTheyArePublished) {
  constexpr std::uint64_t kBytes = 40 * kPage;
  constexpr std::uint64_t kBegin = 0x7000'0000'0000;
  static_assert(kBytes > PrivateOperands::kCopied);
  static Device device{0, Card{.memory_bytes = std::uint64_t{64} << 20}, 0, 1};
  const auto small = std::make_shared<SmallBlocks>(device);
  const PhysicalPtr first = Physical::create(small, 8 * kPage);
  const PhysicalPtr second = Physical::create(small, 32 * kPage);
  std::memset(first->window(), 1, 8 * kPage);
  std::memset(second->window(), 2, 32 * kPage);
  PrivateOperands operands;
  // The range begins within a page of the first.
  operands.add(kBegin + 512, kBegin + kBytes,
               {{first->window() + 512, 8 * kPage - 512, first, 0},
                {second->window(), 32 * kPage, second, 0}});
  auto* const copy = reinterpret_cast<unsigned char*>(operands.to_copy(kBegin + 512));
  EXPECT_EQ(copy[0], 1);
  EXPECT_EQ(copy[8 * kPage - 512], 2);
  copy[0] = 0xEE;
  copy[8 * kPage - 513] = 0xEE;
  copy[8 * kPage - 512] = 0xEE;
  copy[kBytes - 513] = 0xEE;
  second->window()[5 * kPage] = 0x77;  // another kernel's
  operands.collect();
  EXPECT_TRUE(operands.touched(kBegin + 512, 0));
  EXPECT_TRUE(operands.touched(kBegin + 512, 1));
  EXPECT_EQ(first->window()[512], 1);
  second->window()[5 * kPage + 4] = 0x77;
  operands.publish();
  EXPECT_EQ(first->window()[512], 0xEE);
  EXPECT_EQ(first->window()[8 * kPage - 1], 0xEE);
  EXPECT_EQ(second->window()[0], 0xEE);
  EXPECT_EQ(second->window()[1], 2);
  EXPECT_EQ(second->window()[32 * kPage - 1], 0xEE);
  EXPECT_EQ(second->window()[5 * kPage], 0x77);
  EXPECT_EQ(second->window()[5 * kPage + 4], 0x77);
}

// As a GPU's kernel reads either, whatever the size.
TEST(PrivateOperands, WhereNoneIsSmallShowWhatOthersWriteToPagesThatTheKernelHasNotWritten) {
  constexpr std::uint64_t kBegin = 0x7000'0000'0000;
  static Device device{0, Card{.memory_bytes = std::uint64_t{64} << 20}, 0, 1};
  const auto small = std::make_shared<SmallBlocks>(device);
  const PhysicalPtr memory = Physical::create(small, 2 * kPage);
  std::memset(memory->window(), 1, 2 * kPage);
  for (const std::uint64_t copied : {PrivateOperands::kCopied, std::uint64_t{0}}) {
    PrivateOperands operands{copied};
    operands.add(kBegin, kBegin + 2 * kPage, {{memory->window(), 2 * kPage, memory, 0}});
    auto* const copy = reinterpret_cast<volatile unsigned char*>(operands.to_copy(kBegin));
    copy[0] = 0xEE;
    memory->window()[kPage] = 0x77;  // another stream's
    EXPECT_EQ(copy[kPage], copied == 0 ? 0x77 : 1);
    operands.collect();
    EXPECT_EQ(memory->window()[0], 1);
    operands.publish();
    EXPECT_EQ(memory->window()[0], 0xEE);
    EXPECT_EQ(memory->window()[kPage], 0x77);
    std::memset(memory->window(), 1, 2 * kPage);
  }
}

TEST(PrivateOperands, TellWhichSegmentsWereTouched) {
  constexpr std::uint64_t kBegin = 0x7000'0000'0000;
  static Device device{0, Card{.memory_bytes = std::uint64_t{64} << 20}, 0, 1};
  const auto small = std::make_shared<SmallBlocks>(device);
  PrivateOperands operands;
  std::vector<Segment> segments;
  for (std::uint64_t number = 1; number <= 3; ++number) {
    const PhysicalPtr memory = Physical::create(small, kGranularity);
    segments.push_back({memory->window(), kGranularity, memory, number});
  }
  operands.add(kBegin, kBegin + 3 * kGranularity, segments);
  const auto* const copy =
      reinterpret_cast<const volatile unsigned char*>(operands.to_copy(kBegin));
  (void)copy[kGranularity + 5000];
  operands.collect();
  EXPECT_FALSE(operands.touched(kBegin, 0));
  EXPECT_TRUE(operands.touched(kBegin, 1));
  EXPECT_FALSE(operands.touched(kBegin, 2));
}

TEST_F(PrivateOperandsTest, HaveNoAccessBehindTheirPages) {
  EXPECT_DEATH(copy_of(kBegin)[4096] = 1, "");
}

}  // namespace
}  // namespace simgpu
