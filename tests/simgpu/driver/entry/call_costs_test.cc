#include "tools/simgpu/driver/entry/call_costs.h"

#include <gtest/gtest.h>

namespace simgpu {
namespace {

TEST(CallCosts, AreNoneUnlessSet) {
  const CallCosts costs;
  EXPECT_EQ(costs.find("cuMemCreate"), nullptr);
  EXPECT_EQ(costs.pin_ns_per_byte(), 0);
  EXPECT_EQ(costs.loading_ns(), 0);
}

TEST(CallCosts, AreThoseOfACardTimesAFactor) {
  CallCosts costs;
  costs.set_all(8, 0.5);
  ASSERT_NE(costs.find("cuMemMap"), nullptr);
  EXPECT_DOUBLE_EQ(costs.find("cuMemMap")->nanoseconds, 8 * 1500);
  EXPECT_EQ(costs.find("cuMemMap")->lock, CallLock::kProcess);
  EXPECT_EQ(costs.find("cuLaunchKernel")->lock, CallLock::kContextAtFirst);
  EXPECT_FALSE(costs.find("cuMemAlloc")->synchronises);
  EXPECT_EQ(costs.find("cuDriverGetVersion"), nullptr);
  EXPECT_DOUBLE_EQ(costs.pin_ns_per_byte(), 2);
  // Beside a kernel that uses the host's memory an unmapping takes 0.4 ms on a card.
  EXPECT_DOUBLE_EQ(costs.find("cuMemUnmap")->nanoseconds + costs.busy_unmap_ns(), 8 * 400e3);
}

TEST(CallCosts, OfOneFunctionAreSetApart) {
  CallCosts costs;
  costs.set_all(1, 1);
  costs.set("cuMemMap", 7);
  EXPECT_DOUBLE_EQ(costs.find("cuMemMap")->nanoseconds, 7);
  CallCosts alone;
  alone.set("cuMemUnmap", 7);
  EXPECT_EQ(alone.find("cuMemUnmap")->lock, CallLock::kProcess);
  EXPECT_EQ(alone.find("cuMemMap"), nullptr);
}

TEST(CallCosts, ImplicitSynchronisationCostsNoTimeOfItsOwn) {
  CallCosts costs;
  costs.set_implicit_sync();
  ASSERT_NE(costs.find("cuMemAlloc"), nullptr);
  EXPECT_TRUE(costs.find("cuMemAlloc")->synchronises);
  EXPECT_EQ(costs.find("cuMemAlloc")->nanoseconds, 0);
  EXPECT_EQ(costs.find("cuMemCreate"), nullptr);
}

}  // namespace
}  // namespace simgpu
