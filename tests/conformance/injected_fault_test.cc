// The suite's checks must be able to fail: on simgpu, with faults by request, they are seen to.

#include "tests/conformance/fixture.h"

namespace conformance {
namespace {

using InjectedFault = ConformanceTest;

// Reserve, create, map, fill, read back: what every buffer of superpipe goes through.
int use_pages() {
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle pages = 0;
  const CUmemAllocationProp properties = device_pages();
  if (cu().cuMemAddressReserve(&address, kGranule, 0, 0, 0) != CUDA_SUCCESS) return kNotAsClaimed;
  if (cu().cuMemCreate(&pages, kGranule, &properties, 0) != CUDA_SUCCESS) return kNotAsClaimed;
  if (map(address, kGranule, pages) != CUDA_SUCCESS) return kNotAsClaimed;
  if (fill(nullptr, address, 9, kGranuleWords) != CUDA_SUCCESS) return kNotAsClaimed;
  uint32_t word = 0;
  if (cu().cuMemcpyDtoH(&word, address + kGranule - 4, 4) != CUDA_SUCCESS) return kNotAsClaimed;
  if (word != 9) return kNotAsClaimed;
  return cu().cuMemUnmap(address, kGranule) == CUDA_SUCCESS ? kAsClaimed : kNotAsClaimed;
}
const ScenarioRegistration kUsePages("use_pages", use_pages);

// Out of memory once, then as if nothing had been.
int survive_out_of_memory() {
  CUmemGenericAllocationHandle pages = 0x77;
  const CUmemAllocationProp properties = device_pages();
  if (cu().cuMemCreate(&pages, kGranule, &properties, 0) != CUDA_ERROR_OUT_OF_MEMORY) {
    return kNotAsClaimed;
  }
  return pages == 0x77 ? use_pages() : kNotAsClaimed;
}
const ScenarioRegistration kSurvive("survive_out_of_memory", survive_out_of_memory);

TEST_F(InjectedFault, IsAbsentWhenNoneIsAskedFor) {
  EXPECT_EQ(run_in_child("use_pages"), kAsClaimed);
}

TEST_F(InjectedFault, OfEachStepIsSeen) {
  if (!is_simgpu()) GTEST_SKIP() << "only simgpu has faults by request";
  for (const char* fault : {"cuMemAddressReserve:oom@1", "cuMemCreate:oom@1", "cuMemMap:fail@1",
                            "cuMemSetAccess:fail@1", "cuLaunchKernel:fail@1+",
                            "cuMemcpyDtoH:fail@1", "cuMemUnmap:fail@1"}) {
    EXPECT_EQ(run_in_child("use_pages", {std::string("SIMGPU_FAULTS=") + fault}), kNotAsClaimed)
        << fault << " went unnoticed";
  }
}

TEST_F(InjectedFault, OfMemoryIsOverWithTheCall) {
  if (!is_simgpu()) GTEST_SKIP() << "only simgpu has faults by request";
  EXPECT_EQ(run_in_child("survive_out_of_memory", {"SIMGPU_FAULTS=cuMemCreate:oom@1"}), kAsClaimed);
  EXPECT_EQ(run_in_child("survive_out_of_memory"), kNotAsClaimed);
}

}  // namespace
}  // namespace conformance
