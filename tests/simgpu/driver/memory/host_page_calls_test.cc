// What driver calls cost that have to do with pages on the host.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tools/simgpu/driver/memory/host_pages.h"
#include "tools/simgpu/driver/memory/physical_memory.h"
#include "tools/simgpu/driver/process/statistics.h"

namespace simgpu {
namespace {

/// Calls take as long as on a card, and pinning runs at 1 GB/s.
class HostPageCalls : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("SIMGPU_CALL_COSTS", "1", 1);
    setenv("SIMGPU_PIN_GBPS", "1", 1);
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  }
  /// Modelled microseconds that `call` takes.
  template <typename Call>
  static double microseconds(const Call& call) {
    const std::int64_t before = statistics().call_ns;
    EXPECT_EQ(call(), CUDA_SUCCESS);
    return static_cast<double>(statistics().call_ns - before) * 1e-3;
  }
  static CUresult create(CUmemLocationType place, CUmemGenericAllocationHandle* page) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = place;
    return cuMemCreate(page, kGranularity, &properties, 0);
  }
};

TEST_F(HostPageCalls, CreationCostsThePinningOfItsBytes) {
  CUmemGenericAllocationHandle page = 0;
  EXPECT_NEAR(microseconds([&] { return create(CU_MEM_LOCATION_TYPE_HOST_NUMA, &page); }),
              kGranularity * 1e-3, 0.1);
  EXPECT_NEAR(microseconds([&] { return create(CU_MEM_LOCATION_TYPE_DEVICE, &page); }), 193, 0.1);
}

TEST_F(HostPageCalls, UnmappingCostsMoreBesideAKernelThatUsesSuchPages) {
  CUmemGenericAllocationHandle page = 0;
  CUdeviceptr address = 0;
  ASSERT_EQ(create(CU_MEM_LOCATION_TYPE_HOST_NUMA, &page), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAddressReserve(&address, kGranularity, 0, 0, 0), CUDA_SUCCESS);
  const auto unmap = [&] { return cuMemUnmap(address, kGranularity); };
  ASSERT_EQ(cuMemMap(address, kGranularity, 0, page, 0), CUDA_SUCCESS);
  EXPECT_NEAR(microseconds(unmap), 26, 0.1);
  ASSERT_EQ(cuMemMap(address, kGranularity, 0, page, 0), CUDA_SUCCESS);
  {
    const auto kernel = HostPages::instance().begin_use();
    EXPECT_NEAR(microseconds(unmap), 400, 0.1);
  }
  ASSERT_EQ(cuMemMap(address, kGranularity, 0, page, 0), CUDA_SUCCESS);
  EXPECT_NEAR(microseconds(unmap), 26, 0.1);
}

}  // namespace
}  // namespace simgpu
