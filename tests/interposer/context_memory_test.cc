// Host memory runs out while the program's contexts are noted.
#include <gtest/gtest.h>

#include "interposer/contexts/context_references.h"
#include "tests/residency/allocation_faults.h"

namespace superpipe::testing {
namespace {

// A reference that nobody takes back would keep the primary context managed after its end.
TEST(ContextReferencesMemory, CountsNoReferenceOfAGreenContextThatIsNotNoted) {
  auto* const green = reinterpret_cast<CUgreenCtx>(0x40);
  AllocationFaults& faults = AllocationFaults::mine();
  for (std::uint64_t first = 1; first < 10; ++first) {
    ContextReferences references;
    references.on_primary_retained(0);
    faults.count = 0;
    faults.first = first;
    faults.how_many = 1;
    {
      const Arming arming(1);
      references.on_green_created(green, 0);
    }
    faults.first = 0;
    EXPECT_TRUE(ContextCount::has_several()) << "its default stream is not the primary context's";
    EXPECT_EQ(references.on_green_destroying(green), std::nullopt);
    EXPECT_TRUE(references.on_primary_releasing(0)) << first;
  }
}

}  // namespace
}  // namespace superpipe::testing
