#include "interposer/reports/fault_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <utility>
#include <vector>

#include "interposer/kernels/recent_launches.h"
#include "interposer/reports/fault_watch.h"
#include "tests/interposer/managed_fixture.h"

namespace superpipe {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

Fault fault_of(std::vector<AbsentBuffer> absent) {
  Fault fault;
  fault.error = "CUDA_ERROR_ILLEGAL_ADDRESS";
  fault.kernels = {"second", "first"};
  fault.absent = std::move(absent);
  return fault;
}

TEST(FaultReport, NamesTheErrorTheKernelsAndWhatWasNotThere) {
  const auto lines = fault_report(fault_of({{12, 8_MiB, ""}, {3, 2_MiB, ""}}));
  EXPECT_THAT(
      lines,
      ElementsAre(
          AllOf(HasSubstr("failed with CUDA_ERROR_ILLEGAL_ADDRESS"),
                HasSubstr("neither the kernel nor the address")),
          HasSubstr("the latest first: second, first"),
          AllOf(HasSubstr("buffer 12 of 8388608 bytes (8 MiB); buffer 3 of 2097152 bytes (2 MiB)"),
                Not(HasSubstr("more"))),
          AllOf(HasSubstr("SUPERPIPE_PIN=3,12 (--pin 3,12)"), HasSubstr("10 MiB"))));
}

TEST(FaultReport, AdvisesToPinTheBufferOfTheAddressAlone) {
  Fault fault = fault_of({{12, 8_MiB, ""}, {3, 2_MiB, ""}});
  fault.address = 0x6b0081000000;
  fault.near = NearBuffer{3, 2_MiB, Bytes{}, true};
  const auto lines = fault_report(fault);
  ASSERT_THAT(lines, SizeIs(4));
  EXPECT_THAT(lines[0], HasSubstr("address 0x6b0081000000, in buffer 3 of 2097152 bytes (2 MiB), "
                                  "which was not on the device there"));
  EXPECT_THAT(lines[3], HasSubstr("SUPERPIPE_PIN=3 ("));
}

TEST(FaultReport, AdvisesNothingForAnAddressBehindABufferOrOfNone) {
  Fault fault = fault_of({{12, 8_MiB, ""}});
  fault.address = 0x6b0081000000;
  EXPECT_THAT(fault_report(fault),
              ElementsAre(HasSubstr("in no live buffer"), ::testing::_, ::testing::_));
  fault.near = NearBuffer{12, 8_MiB, Bytes{16}, false};
  EXPECT_THAT(fault_report(fault),
              ElementsAre(HasSubstr("16 bytes (16 B) past the end of buffer 12"), ::testing::_,
                          ::testing::_));
}

TEST(FaultReport, SuspectsWhatLaunchesDidWithout) {
  const auto lines = fault_report(fault_of({{12, 8_MiB, ""}, {3, 2_MiB, "multiply(float*)"}}));
  ASSERT_THAT(lines, SizeIs(4));
  EXPECT_THAT(lines[2], HasSubstr("buffer 3 of 2097152 bytes (2 MiB), without which kernel "
                                  "multiply(float*) was launched"));
  EXPECT_THAT(lines[3], HasSubstr("SUPERPIPE_PIN=3 ("));
}

TEST(FaultReport, KeepsWhatIsPinnedAlready) {
  Fault fault = fault_of({{12, 8_MiB, ""}});
  fault.pins = "2,4M";
  EXPECT_THAT(fault_report(fault).back(), HasSubstr("SUPERPIPE_PIN=2,4M,12 (--pin 2,4M,12)"));
}

TEST(FaultReport, DescribesTheFirstOfManyBuffers) {
  std::vector<AbsentBuffer> absent;
  for (std::uint64_t number = 1; number <= 20; ++number) absent.push_back({number, 2_MiB, ""});
  const auto lines = fault_report(fault_of(absent));
  EXPECT_THAT(lines[2], AllOf(HasSubstr("buffer 8 of"), Not(HasSubstr("buffer 9 of")),
                              HasSubstr("; and 12 more")));
  EXPECT_THAT(lines[3], HasSubstr("SUPERPIPE_PIN=1-8 ("));
}

TEST(FaultReport, ClaimsNoPartWhereAllWasThere) {
  Fault fault = fault_of({});
  fault.kernels.clear();
  EXPECT_THAT(fault_report(fault),
              ElementsAre(::testing::_, HasSubstr("no kernel was launched"),
                          HasSubstr("all managed buffers were on the device")));
}

TEST(RecentLaunches, TellsTheKernelsOfTheLastLaunchesOnceEach) {
  RecentLaunches launches;
  EXPECT_THAT(launches.kernels(), IsEmpty());
  for (const std::uint64_t kernel : {1, 2, 2, 3, 1}) launches.note(KernelId{kernel});
  EXPECT_THAT(launches.kernels(), ElementsAre(KernelId{1}, KernelId{3}, KernelId{2}));
  for (std::size_t i = 0; i < RecentLaunches::kKept; ++i) launches.note(KernelId{9});
  EXPECT_THAT(launches.kernels(), ElementsAre(KernelId{9}));
}

using AddressInTest = testing::ManagedFixture;

TEST_F(AddressInTest, FindsTheLastAddressOfOursInALog) {
  const ResidencyManager& residency = ContextRegistry::managed()->residency();
  char log[256];
  std::snprintf(log, sizeof log, "[1] 0x%llx\n[2] a 0x%llx, b 0x10 0x\n",
                static_cast<unsigned long long>(other_),
                static_cast<unsigned long long>(buffer_ + 8));
  EXPECT_EQ(address_in(log, residency), buffer_ + 8);
  EXPECT_EQ(address_in("nothing 0x10", residency), std::nullopt);
  EXPECT_EQ(address_in("", residency), std::nullopt);
}

TEST(MayBeAccessFault, HoldsForErrorsOfMemoryAlone) {
  EXPECT_TRUE(may_be_access_fault(CUDA_ERROR_ILLEGAL_ADDRESS));
  EXPECT_TRUE(may_be_access_fault(CUDA_ERROR_LAUNCH_FAILED));
  EXPECT_FALSE(may_be_access_fault(CUDA_SUCCESS));
  EXPECT_FALSE(may_be_access_fault(CUDA_ERROR_NOT_READY));
  EXPECT_FALSE(may_be_access_fault(CUDA_ERROR_OUT_OF_MEMORY));
}

}  // namespace
}  // namespace superpipe
