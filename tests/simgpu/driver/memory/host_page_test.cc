// Pages on the host that are mapped at device addresses.
#include <algorithm>

#include "tests/simgpu/driver/support/driver_fixture.h"

namespace {

using simgpu_test::kGranule;
using simgpu_test::kMiB;

/// A page on the host, or whatever `place` says.
CUmemAllocationProp properties_at(CUmemLocation place) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = place;
  return prop;
}

constexpr CUmemLocation kNode{CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};
constexpr CUmemLocation kHost{CU_MEM_LOCATION_TYPE_HOST, 0};

class HostPage : public simgpu_test::DriverTest {
 protected:
  static CUmemGenericAllocationHandle create_on_host(std::size_t size = kGranule,
                                                     CUmemLocation place = kNode) {
    CUmemGenericAllocationHandle handle = 0;
    const CUmemAllocationProp prop = properties_at(place);
    EXPECT_SUCCESS(cuMemCreate(&handle, size, &prop, 0));
    return handle;
  }
  static void map(CUdeviceptr address, CUmemGenericAllocationHandle page) {
    EXPECT_SUCCESS(cuMemMap(address, kGranule, 0, page, 0));
    EXPECT_SUCCESS(set_access(address, kGranule, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  }
  static CUresult open_to_host(CUdeviceptr address, CUmemAccess_flags flags,
                               CUmemLocation place = kNode) {
    CUmemAccessDesc access{};
    access.location = place;
    access.flags = flags;
    return cuMemSetAccess(address, kGranule, &access, 1);
  }
  static std::vector<unsigned char> all(unsigned char value) {
    std::vector<unsigned char> bytes(kGranule, value);
    return bytes;
  }
};

TEST_F(HostPage, CountsAgainstNoDeviceAndComesZeroed) {
  const CUmemGenericAllocationHandle first = create_on_host();
  EXPECT_EQ(used(), 0U);
  const CUdeviceptr address = reserve_and_map(kGranule, first, kGranule);
  EXPECT_EQ(read(address, kGranule), all(0));
  fill(address, 0x5A, kGranule);
  EXPECT_SUCCESS(cuMemUnmap(address, kGranule));
  EXPECT_SUCCESS(cuMemRelease(first));
  // Most likely the same bytes again.
  const CUmemGenericAllocationHandle second = create_on_host(kGranule, kHost);
  map(address, second);
  EXPECT_EQ(read(address, kGranule), all(0));
  EXPECT_EQ(used(), 0U);
  EXPECT_SUCCESS(cuMemUnmap(address, kGranule));
  EXPECT_SUCCESS(cuMemRelease(second));
}

TEST_F(HostPage, OutlivesItsHandleByItsMappings) {
  const CUmemGenericAllocationHandle page = create_on_host();
  const CUdeviceptr address = reserve_and_map(kGranule, page, kGranule);
  EXPECT_SUCCESS(cuMemRelease(page));
  fill(address, 7, kGranule);
  EXPECT_EQ(read(address, kGranule), all(7));
  EXPECT_SUCCESS(cuMemUnmap(address, kGranule));
}

TEST_F(HostPage, TakesTurnsWithADevicePageAtAnAddressAndEachKeepsItsBytes) {
  const CUmemGenericAllocationHandle on_device = create(kGranule);
  const CUmemGenericAllocationHandle on_host = create_on_host();
  const CUdeviceptr address = reserve_and_map(kGranule, on_device, kGranule);
  const CUdeviceptr window = reserve_and_map(kGranule, on_host, kGranule);
  fill(address, 1, kGranule);
  EXPECT_SUCCESS(cuMemcpyDtoD(window, address, kGranule));
  EXPECT_SUCCESS(cuCtxSynchronize());
  fill(address, 9, kGranule);
  EXPECT_SUCCESS(cuMemUnmap(address, kGranule));
  map(address, on_host);
  EXPECT_EQ(read(address, kGranule), all(1)) << "what came through the window";
  fill(address, 2, kGranule);
  EXPECT_EQ(read(window, kGranule), all(2));
  EXPECT_SUCCESS(cuMemUnmap(address, kGranule));
  map(address, on_device);
  EXPECT_EQ(read(address, kGranule), all(9));
}

TEST_F(HostPage, OfANodeThatDoesNotExistIsRefused) {
  CUmemGenericAllocationHandle handle = 42;
  for (const int node : {1, -1}) {
    const CUmemAllocationProp prop = properties_at({CU_MEM_LOCATION_TYPE_HOST_NUMA, node});
    EXPECT_EQ(cuMemCreate(&handle, kGranule, &prop, 0), CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_EQ(handle, 42U);
}

TEST_F(HostPage, IsTheHostsToUseWhenItWasOpenedToIt) {
  const CUdeviceptr address = reserve_and_map(kGranule, create_on_host(), kGranule);
  unsigned long long flags = 42;
  EXPECT_SUCCESS(cuMemGetAccess(&flags, &kNode, address));
  EXPECT_EQ(flags, static_cast<unsigned long long>(CU_MEM_ACCESS_FLAGS_PROT_NONE));
  ASSERT_SUCCESS(open_to_host(address, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  EXPECT_SUCCESS(cuMemGetAccess(&flags, &kNode, address));
  EXPECT_EQ(flags, static_cast<unsigned long long>(CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  auto* const bytes = reinterpret_cast<unsigned char*>(address);
  fill(address, 3, kGranule);
  EXPECT_TRUE(std::all_of(bytes, bytes + kGranule, [](unsigned char byte) { return byte == 3; }));
  std::fill_n(bytes, kGranule, static_cast<unsigned char>(4));
  EXPECT_EQ(read(address, kGranule), all(4));
}

TEST_F(HostPage, AloneCanBeOpenedToTheHost) {
  const CUdeviceptr address = reserve_and_map(kGranule, create(kGranule), kGranule);
  EXPECT_EQ(open_to_host(address, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), CUDA_ERROR_NOT_SUPPORTED);
  const CUdeviceptr other = reserve_and_map(kGranule, create_on_host(), kGranule);
  EXPECT_EQ(open_to_host(other, CU_MEM_ACCESS_FLAGS_PROT_READ, {CU_MEM_LOCATION_TYPE_HOST_NUMA, 1}),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(HostPage, IsKnownByItsHandleAndItsAddress) {
  const CUmemGenericAllocationHandle page = create_on_host();
  const CUdeviceptr address = reserve_and_map(kGranule, page, kGranule);
  CUmemAllocationProp prop{};
  EXPECT_SUCCESS(cuMemGetAllocationPropertiesFromHandle(&prop, page));
  EXPECT_EQ(prop.location.type, CU_MEM_LOCATION_TYPE_HOST_NUMA);
  CUmemGenericAllocationHandle again = 0;
  EXPECT_SUCCESS(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(address + 5)));
  EXPECT_EQ(again, page);
  CUdeviceptr base = 0;
  EXPECT_SUCCESS(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address + 5));
  EXPECT_EQ(base, address);
  unsigned type = 0;
  EXPECT_SUCCESS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
  EXPECT_EQ(type, static_cast<unsigned>(CU_MEMORYTYPE_HOST));
  void* host = nullptr;
  EXPECT_EQ(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, address),
            CUDA_ERROR_INVALID_VALUE);
  ASSERT_SUCCESS(open_to_host(address, CU_MEM_ACCESS_FLAGS_PROT_READ));
  EXPECT_SUCCESS(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, address));
  EXPECT_EQ(host, reinterpret_cast<void*>(address));
}

TEST_F(HostPage, IsForADeviceThatWasGivenAccessOnly) {
  const CUmemGenericAllocationHandle page = create_on_host();
  CUdeviceptr address = 0;
  EXPECT_SUCCESS(cuMemAddressReserve(&address, kGranule, 0, 0, 0));
  EXPECT_SUCCESS(cuMemMap(address, kGranule, 0, page, 0));
  EXPECT_EQ(cuMemsetD8(address, 1, kGranule), CUDA_ERROR_INVALID_VALUE);
  EXPECT_SUCCESS(set_access(address, kGranule, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  EXPECT_SUCCESS(cuMemsetD8(address, 1, kGranule));
}

}  // namespace
