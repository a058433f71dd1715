// Host memory runs out in the accounts: what is not known to be free stays counted.
#include <gtest/gtest.h>

#include "interposer/passthrough/page_accounts.h"
#include "tests/residency/allocation_faults.h"

namespace superpipe::testing {
namespace {

constexpr std::uint64_t kAddress = 0x10000000;

/// Creates, maps, releases and unmaps pages while allocation number `failing` fails. @return the
/// bytes that came free, and whether that allocation was made at all.
std::pair<Bytes, bool> freed_when_failing(std::uint64_t failing) {
  Bytes freed;
  PageAccounts accounts([&freed](Bytes size) { freed += size; });
  AllocationFaults& faults = AllocationFaults::mine();
  faults.count = 0;
  faults.first = failing;
  faults.how_many = 1;
  {
    const Arming armed(1);
    accounts.create(7, Bytes{100});
    EXPECT_EQ(freed, Bytes{}) << "given back at their creation";
    accounts.map(kAddress, Bytes{100}, 7);
    (void)accounts.take_reference(7);
    (void)accounts.take_mappings(kAddress, Bytes{100});
  }
  const bool failed = faults.count >= failing;
  faults.first = 0;
  return {freed, failed};
}

TEST(AccountsAllocationFailure, NeverGivesBackMoreThanThereWas) {
  for (std::uint64_t failing = 1;; ++failing) {
    const auto [freed, failed] = freed_when_failing(failing);
    if (!failed) {
      EXPECT_EQ(freed, Bytes{100}) << "nothing failed";
      EXPECT_GT(failing, 4U);
      return;
    }
    EXPECT_EQ(freed, Bytes{}) << "allocation " << failing << " failed: counted for good";
  }
}

}  // namespace
}  // namespace superpipe::testing
