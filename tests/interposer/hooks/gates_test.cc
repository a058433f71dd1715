#include "interposer/hooks/gates.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>

#include "tests/interposer/null_driver.h"

namespace superpipe {
namespace {

class GatesTest : public ::testing::Test {
 protected:
  void SetUp() override { testing::install_null_driver(2); }
  void TearDown() override { Gates::forget(); }
};

TEST_F(GatesTest, PermitsHostFunctionsUntilTheProgramHasPassedAGate) {
  EXPECT_TRUE(HostFunctionPermit::ask().is_given());
  Gates::note();
  EXPECT_TRUE(Gates::any());
  EXPECT_FALSE(HostFunctionPermit::ask().is_given());
  EXPECT_TRUE(HostFunctionPermit::insist().is_given());
  EXPECT_FALSE(HostFunctionPermit().is_given());
}

TEST_F(GatesTest, TheFirstGateWaitsForTheHostFunctionsOfOurs) {
  HostFunctionPermit permit = HostFunctionPermit::ask();
  HostFunctionPermit moved;
  moved = std::move(permit);
  std::jthread stream([ours = std::move(moved)]() mutable {
    // The gate has been passed by the program, whose call has not returned.
    while (!Gates::any()) std::this_thread::yield();
    ours = {};
  });
  Gates::note();
  EXPECT_TRUE(Gates::any());
}

TEST_F(GatesTest, TheFirstGateWaitsNotForeverAndTheOthersNotAtAll) {
  const HostFunctionPermit permit = HostFunctionPermit::ask();
  Gates::note();  // the stream does not get to the host function
  Gates::note();
  EXPECT_TRUE(permit.is_given());
}

}  // namespace
}  // namespace superpipe
