#include "interposer/passthrough/unmanaged_memory.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>

#include "interposer/passthrough/code_memory.h"
#include "interposer/passthrough/device_changes.h"

namespace superpipe {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
const MemoryPoolPtr kPool =
    std::make_shared<MemoryPool>(reinterpret_cast<CUmemoryPool>(0x10), std::nullopt);
const MemoryPoolPtr kOther =
    std::make_shared<MemoryPool>(reinterpret_cast<CUmemoryPool>(0x20), std::nullopt);

/// Allocates as a hook does; the pool then holds `reserved`. @return all that this adds.
UnmanagedChange allocate(UnmanagedMemory& memory, Bytes size, const MemoryPoolPtr& pool,
                         Bytes reserved) {
  const UnmanagedChange asked = memory.take({size, pool});
  return asked + memory.settle(pool, reserved, memory.version_of(pool));
}

TEST(UnmanagedMemory, ForgetsAnAllocationOnce) {
  UnmanagedMemory memory;
  EXPECT_TRUE(memory.remember(0x1000, {Bytes{700}}));
  EXPECT_EQ(memory.forget(0x1000)->size, Bytes{700});
  EXPECT_FALSE(memory.forget(0x1000));
}

TEST(UnmanagedMemory, SharesBlocksBetweenSmallAllocations) {
  UnmanagedMemory memory;
  EXPECT_EQ(memory.take({1_MiB}).taken, 2 * kMiB);
  EXPECT_EQ(memory.take({1_MiB - Bytes{511}}).taken, 0);  // rounded to 512 B: the block is full
  EXPECT_EQ(memory.take({Bytes{1}}).taken, 2 * kMiB);
  EXPECT_EQ(memory.give_back({1_MiB}).taken, -2 * kMiB);
  EXPECT_EQ(memory.give_back({Bytes{1}}).taken, 0);
  EXPECT_EQ(memory.give_back({1_MiB - Bytes{511}}).taken, -2 * kMiB);
}

TEST(UnmanagedMemory, GivesPoolsBlocksApart) {
  UnmanagedMemory memory;
  EXPECT_EQ(memory.take({Bytes{512}}).taken, 2 * kMiB);
  EXPECT_EQ(allocate(memory, Bytes{512}, kPool, 2_MiB).taken, 2 * kMiB);
  EXPECT_EQ(allocate(memory, Bytes{512}, kPool, 2_MiB).taken, 0);
  EXPECT_EQ(allocate(memory, Bytes{512}, kOther, 2_MiB).taken, 2 * kMiB);
  EXPECT_EQ(memory.give_back({Bytes{512}}).taken, -2 * kMiB);
}

TEST(UnmanagedMemory, CountsThatPoolsKeepTheirBlocks) {
  UnmanagedMemory memory;
  EXPECT_EQ(allocate(memory, 1_MiB, kPool, 2_MiB).taken, 2 * kMiB);
  EXPECT_EQ(memory.give_back({1_MiB, kPool}).taken, 0);
  EXPECT_EQ(allocate(memory, 1_MiB, kPool, 2_MiB).taken, 0);
}

TEST(UnmanagedMemory, BelievesTheDriverAboutPools) {
  UnmanagedMemory memory;
  EXPECT_EQ(allocate(memory, 1_MiB, kPool, 2_MiB).taken, 2 * kMiB);
  EXPECT_EQ(allocate(memory, 1_MiB, kPool, 32_MiB).taken, 30 * kMiB);
  EXPECT_EQ(allocate(memory, 40_MiB, kPool, 64_MiB).taken, 32 * kMiB) << "one count, not two";
}

TEST(UnmanagedMemory, KeepsHeadroomForTheNextGrowthOfAPool) {
  UnmanagedMemory memory;
  EXPECT_EQ(memory.take({Bytes{512}}).headroom, 0) << "without pools nothing grows by itself";
  EXPECT_EQ(memory.take({Bytes{512}, kPool}), (UnmanagedChange{2 * kMiB, 2 * kMiB}));
  EXPECT_EQ(memory.settle(kPool, Bytes{512}, memory.version_of(kPool)), UnmanagedChange{});
  // It grew although what it holds, packed, had room: what was headroom is taken, and as much kept.
  EXPECT_EQ(allocate(memory, Bytes{512}, kPool, 4_MiB), (UnmanagedChange{2 * kMiB, 0}));
  // It grew by more than was thought: the next time it may again.
  EXPECT_EQ(allocate(memory, Bytes{512}, kPool, 36_MiB), (UnmanagedChange{32 * kMiB, 30 * kMiB}));
  EXPECT_EQ(memory.peak(), 38_MiB) << "headroom is not taken";
}

TEST(UnmanagedMemory, KeepsHeadroomForEveryCallUnderWay) {
  UnmanagedMemory memory;
  EXPECT_EQ(memory.take({Bytes{512}, kPool}).headroom, 2 * kMiB);
  EXPECT_EQ(memory.take({Bytes{512}, kPool}).headroom, 2 * kMiB);
  EXPECT_EQ(memory.take({Bytes{512}, kOther}).headroom, 2 * kMiB);
  EXPECT_EQ(memory.refuse({Bytes{512}, kOther}).headroom, -2 * kMiB);
  EXPECT_EQ(memory.settle(kPool, 2_MiB, 0).headroom, -2 * kMiB);
  EXPECT_EQ(memory.settle(kPool, 2_MiB, 0).headroom, 0);
}

TEST(UnmanagedMemory, KeepsNoHeadroomForWhatWasAskedFor) {
  UnmanagedMemory memory;
  EXPECT_EQ(allocate(memory, 8_GiB, kPool, 8_GiB), (UnmanagedChange{(8 << 10) * kMiB, 2 * kMiB}));
}

TEST(UnmanagedMemory, BelievesThatAPoolHoldsLessUnlessItMayHaveGrownSince) {
  UnmanagedMemory memory;
  allocate(memory, 1_MiB, kPool, 32_MiB);
  const std::uint64_t version = memory.version_of(kPool);
  memory.take({1_MiB, kPool});
  EXPECT_EQ(memory.note_pool(kPool, 4_MiB, version).taken, 0) << "a call is under way";
  memory.settle(kPool, 32_MiB, memory.version_of(kPool));
  EXPECT_EQ(memory.note_pool(kPool, 4_MiB, version).taken, 0) << "there was one since";
  EXPECT_EQ(memory.note_pool(kPool, 4_MiB, memory.version_of(kPool)).taken, -28 * kMiB);
  EXPECT_EQ(memory.settle(kOther, std::nullopt, 0).taken, 0);
}

TEST(UnmanagedMemory, CountsCodeInBlocksOfItsSum) {
  UnmanagedMemory memory;
  EXPECT_EQ(memory.begin_load(), (UnmanagedChange{0, 2 * kMiB}));
  EXPECT_EQ(memory.set_code(1_MiB), (UnmanagedChange{2 * kMiB, 0}));
  EXPECT_EQ(memory.end_load(), (UnmanagedChange{0, -2 * kMiB}));
  EXPECT_EQ(memory.set_code(2_MiB).taken, 0);
  EXPECT_EQ(memory.set_code(2_MiB + Bytes{1}).taken, 2 * kMiB);
  EXPECT_EQ(memory.besides_code(), Bytes{});
  EXPECT_EQ(memory.set_code(Bytes{}).taken, -4 * kMiB);
}

TEST(UnmanagedMemory, LearnsNoHeadroomFromCallsSideBySide) {
  UnmanagedMemory memory;
  memory.take({Bytes{512}, kPool});
  memory.take({Bytes{512}, kPool});
  const std::uint64_t version = memory.version_of(kPool);
  memory.settle(kPool, 64_MiB, version);
  EXPECT_EQ(memory.settle(kPool, 64_MiB, version).headroom, 0);
  EXPECT_EQ(memory.peak_headroom(), 2_MiB);
}

class CodeCensusTest : public ::testing::Test {
 protected:
  /// Does `delta` to the device within a call. @return what code takes then, as far as was told.
  std::int64_t after(CodeChange change, std::int64_t delta) {
    begin();
    held_ += delta;
    return end(change);
  }
  void begin() {
    census_->begin([&] { return measured(); });
  }
  std::int64_t end(CodeChange change) {
    census_->end(
        change, [&] { return measured(); },
        [&](Bytes bytes) { told_ = static_cast<std::int64_t>(bytes.count()); });
    return told_;
  }
  std::optional<std::int64_t> measured() const {
    return measurable_ ? std::optional(held_) : std::nullopt;
  }

  std::optional<CodeCensus> census_{std::in_place};
  std::int64_t held_ = 0;
  std::int64_t told_ = -1;
  bool measurable_ = true;
};

TEST_F(CodeCensusTest, MeasuresCallsSideBySideTogether) {
  begin();
  held_ += 10;
  begin();
  held_ += 5;
  EXPECT_EQ(end(CodeChange::kLoad), -1) << "the other has not come to its end";
  held_ += 2;
  EXPECT_EQ(end(CodeChange::kLoad), 17);
  EXPECT_EQ(after(CodeChange::kLoad, 0), 17);
}

TEST_F(CodeCensusTest, BelievesNothingThatCodeCannotDo) {
  EXPECT_EQ(after(CodeChange::kLoad, 100), 100);
  held_ += 50;  // another's
  EXPECT_EQ(after(CodeChange::kLoad, -20), 100);
  EXPECT_EQ(after(CodeChange::kUnload, -30), 70);
  EXPECT_EQ(after(CodeChange::kLoad, CodeCensus::kMostPlausible + 1), 70);
}

TEST_F(CodeCensusTest, CountsNoMoreThanHasComeSinceTheBeginning) {
  census_.emplace(1000);
  held_ = 1000;
  EXPECT_EQ(after(CodeChange::kLoad, 100), 100);
  held_ -= 60;  // a context went, and its code with it
  EXPECT_EQ(after(CodeChange::kLoad, 5), 45);
}

TEST_F(CodeCensusTest, KeepsCodeThatWasHiddenByAnothersOvercount) {
  EXPECT_EQ(after(CodeChange::kLoad, 100), 100);
  held_ -= 60;  // counted elsewhere, though the device no longer holds it
  EXPECT_EQ(after(CodeChange::kLoad, 5), 45);
  held_ += 60;  // and now not counted any more
  EXPECT_EQ(after(CodeChange::kLoad, 0), 105);
}

TEST_F(CodeCensusTest, CountsNothingThatCouldNotBeMeasured) {
  measurable_ = false;
  begin();
  measurable_ = true;
  held_ += 10;
  EXPECT_EQ(end(CodeChange::kLoad), 0) << "nobody knows what was before";
  begin();
  measurable_ = false;
  EXPECT_EQ(end(CodeChange::kLoad), 0);
}

TEST(DeviceChanges, ReadsOnlyWhereNothingChanges) {
  EXPECT_EQ(DeviceChanges::undisturbed([] { return 1; }), 1);
  int reads = 0;
  // A change in the midst of the first reading: it is done again.
  EXPECT_EQ(DeviceChanges::undisturbed([&] {
              if (++reads == 1) const DeviceChanges::Section change;
              return reads;
            }),
            2);
  const DeviceChanges::Section change;
  EXPECT_EQ(DeviceChanges::undisturbed([] { return 1; }), std::nullopt);
}

TEST(UnmanagedMemory, ForgetsAPoolWithItsLastAllocation) {
  UnmanagedMemory memory;
  allocate(memory, Bytes{512}, kPool, 32_MiB);
  EXPECT_EQ(memory.forget_pool(kPool), (UnmanagedChange{0, -30 * kMiB}))
      << "it grows no more, but may keep all until the last allocation goes";
  EXPECT_EQ(memory.note_pool(kPool, 2_MiB, memory.version_of(kPool)), UnmanagedChange{});
  EXPECT_EQ(memory.give_back({Bytes{512}, kPool}), (UnmanagedChange{-32 * kMiB, 0}));
  EXPECT_TRUE(memory.pools().empty());
  EXPECT_EQ(memory.forget_pool(kPool), UnmanagedChange{});
}

TEST(UnmanagedMemory, ForgetsAPoolWithoutAllocationsAtOnce) {
  UnmanagedMemory memory;
  allocate(memory, Bytes{512}, kPool, 32_MiB);
  memory.give_back({Bytes{512}, kPool});
  EXPECT_EQ(memory.forget_pool(kPool), (UnmanagedChange{-32 * kMiB, -30 * kMiB}));
  EXPECT_TRUE(memory.pools().empty());
}

TEST(UnmanagedMemory, EndsACallToAPoolThatWasDestroyedMeanwhile) {
  UnmanagedMemory memory;
  memory.take({Bytes{512}, kPool});
  memory.forget_pool(kPool);
  memory.settle(kPool, std::nullopt, memory.version_of(kPool));
  EXPECT_EQ(memory.besides_code(), 2_MiB) << "the driver had it from somewhere";
  EXPECT_EQ(memory.give_back({Bytes{512}, kPool}).taken, -2 * kMiB);
  EXPECT_TRUE(memory.pools().empty());
}

TEST(UnmanagedMemory, KeepsNoHeadroomForACallToADestroyedPool) {
  UnmanagedMemory memory;
  const auto pool = std::make_shared<MemoryPool>(kPool->handle(), std::nullopt);
  pool->destroy([](CUmemoryPool) { return CUDA_SUCCESS; });
  memory.forget_pool(pool);
  EXPECT_EQ(memory.take({Bytes{512}, pool}), (UnmanagedChange{2 * kMiB, 0}));
}

TEST(UnmanagedMemory, CountsAPoolApartFromTheNextAtItsHandle) {
  const auto next = std::make_shared<MemoryPool>(kPool->handle(), std::nullopt);
  // In either order of sizes, and of frees.
  for (const auto& [old_size, next_size] : {std::pair{8_MiB, 4_MiB}, std::pair{4_MiB, 8_MiB}}) {
    UnmanagedMemory memory;
    allocate(memory, old_size, kPool, old_size);
    memory.forget_pool(kPool);
    allocate(memory, next_size, next, next_size);
    EXPECT_EQ(memory.besides_code(), 12_MiB);
    memory.give_back({old_size, kPool});
    EXPECT_EQ(memory.besides_code(), next_size);
    memory.give_back({next_size, next});
    EXPECT_EQ(memory.besides_code(), next_size) << "the pool keeps it";
    memory.forget_pool(next);
    EXPECT_EQ(memory.besides_code(), Bytes{});
  }
}

TEST(UnmanagedMemory, GivesLargeAllocationsBlocksOfTheirOwn) {
  UnmanagedMemory memory;
  EXPECT_EQ(memory.take({1_MiB + Bytes{1}}).taken, 2 * kMiB);
  EXPECT_EQ(memory.take({3_MiB}).taken, 4 * kMiB);
  EXPECT_EQ(memory.give_back({3_MiB}).taken, -4 * kMiB);
}

TEST(UnmanagedMemory, KeepsThePeakAfterFrees) {
  UnmanagedMemory memory;
  memory.take({2_MiB});
  memory.take({4_MiB});
  memory.give_back({2_MiB});
  memory.take({Bytes{1}});
  EXPECT_EQ(memory.peak(), 6_MiB);
}

}  // namespace
}  // namespace superpipe
