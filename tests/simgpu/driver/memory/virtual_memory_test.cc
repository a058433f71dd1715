#include <algorithm>

#include "tests/simgpu/driver/support/driver_fixture.h"

namespace {

using simgpu_test::kGranule;
using simgpu_test::kMiB;
using VirtualMemory = simgpu_test::DriverTest;

TEST_F(VirtualMemory, HandlesCountAgainstCapacityAndReservationsDoNot) {
  CUdeviceptr address = 0;
  EXPECT_SUCCESS(cuMemAddressReserve(&address, std::size_t{1} << 40, 0, 0, 0));
  EXPECT_EQ(used(), 0U);
  const CUmemGenericAllocationHandle handle = create(8 * kMiB);
  EXPECT_EQ(used(), 8 * kMiB);
  EXPECT_SUCCESS(cuMemRelease(handle));
  EXPECT_EQ(used(), 0U);
  EXPECT_SUCCESS(cuMemAddressFree(address, std::size_t{1} << 40));
}

TEST_F(VirtualMemory, CreateFailsWhenTheDeviceIsFull) {
  const CUmemGenericAllocationHandle most = create(available());
  const CUmemAllocationProp prop = properties();
  CUmemGenericAllocationHandle handle = 42;
  EXPECT_EQ(cuMemCreate(&handle, kGranule, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(handle, 42U);
  EXPECT_SUCCESS(cuMemRelease(most));
  EXPECT_SUCCESS(cuMemCreate(&handle, kGranule, &prop, 0));
  EXPECT_SUCCESS(cuMemRelease(handle));
}

TEST_F(VirtualMemory, CreateRefusesWhatTheDocumentationRefuses) {
  CUmemGenericAllocationHandle handle = 0;
  CUmemAllocationProp prop = properties();
  EXPECT_EQ(cuMemCreate(&handle, kGranule + 1, &prop, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemCreate(&handle, 0, &prop, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemCreate(&handle, kGranule, &prop, 1), CUDA_ERROR_INVALID_VALUE);
  prop.location.id = 2;
  EXPECT_EQ(cuMemCreate(&handle, kGranule, &prop, 0), CUDA_ERROR_INVALID_DEVICE);
  prop = properties();
  prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
  EXPECT_EQ(cuMemCreate(&handle, kGranule, &prop, 0), CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(VirtualMemory, AliasesShareBytes) {
  const CUmemGenericAllocationHandle handle = create(kGranule);
  const CUdeviceptr first = reserve_and_map(kGranule, handle, kGranule);
  const CUdeviceptr second = reserve_and_map(kGranule, handle, kGranule);
  ASSERT_NE(first, second);
  fill(first, 0x5C, kGranule);
  EXPECT_EQ(read(second, kGranule), std::vector<unsigned char>(kGranule, 0x5C));
}

TEST_F(VirtualMemory, MappingOutlivesTheReleaseOfItsHandle) {
  const CUmemGenericAllocationHandle handle = create(kGranule);
  const CUdeviceptr address = reserve_and_map(kGranule, handle, kGranule);
  EXPECT_SUCCESS(cuMemRelease(handle));
  EXPECT_EQ(used(), kGranule);
  fill(address, 0x11, kGranule);
  EXPECT_EQ(read(address, 4096), std::vector<unsigned char>(4096, 0x11));
  EXPECT_SUCCESS(cuMemUnmap(address, kGranule));
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(VirtualMemory, ContentSurvivesUnmapAndMapElsewhere) {
  const CUmemGenericAllocationHandle handle = create(kGranule);
  const CUdeviceptr first = reserve_and_map(2 * kGranule, handle, kGranule);
  fill(first, 0x77, kGranule);
  EXPECT_SUCCESS(cuMemUnmap(first, kGranule));
  EXPECT_SUCCESS(cuMemMap(first + kGranule, kGranule, 0, handle, 0));
  EXPECT_SUCCESS(set_access(first + kGranule, kGranule, CU_MEM_ACCESS_FLAGS_PROT_READ));
  EXPECT_EQ(read(first + kGranule, kGranule), std::vector<unsigned char>(kGranule, 0x77));
}

TEST_F(VirtualMemory, MapRefusesPartsOffsetsOverlapsAndUnreservedAddresses) {
  const CUmemGenericAllocationHandle handle = create(2 * kGranule);
  CUdeviceptr address = 0;
  EXPECT_SUCCESS(cuMemAddressReserve(&address, 4 * kGranule, 0, 0, 0));
  EXPECT_EQ(cuMemMap(address, kGranule, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(address, kGranule, kGranule, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(address + 3 * kGranule, 2 * kGranule, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(address, 2 * kGranule, 0, handle + 1000, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(allocate(4 * kGranule), 2 * kGranule, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_SUCCESS(cuMemMap(address, 2 * kGranule, 0, handle, 0));
  EXPECT_EQ(cuMemMap(address + kGranule, 2 * kGranule, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(VirtualMemory, UnmapTakesWholeMappingsOnlyAndOnlyOnce) {
  const CUmemGenericAllocationHandle handle = create(2 * kGranule);
  const CUdeviceptr address = reserve_and_map(4 * kGranule, handle, 2 * kGranule);
  EXPECT_EQ(cuMemUnmap(address, kGranule), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(address + kGranule, kGranule), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(address, 4 * kGranule), CUDA_ERROR_INVALID_VALUE);
  EXPECT_SUCCESS(cuMemUnmap(address, 2 * kGranule));
  EXPECT_EQ(cuMemUnmap(address, 2 * kGranule), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(VirtualMemory, UnmapTakesAdjoiningMappingsTogether) {
  const CUdeviceptr address = reserve_and_map(2 * kGranule, create(kGranule), kGranule);
  EXPECT_SUCCESS(cuMemMap(address + kGranule, kGranule, 0, create(kGranule), 0));
  EXPECT_SUCCESS(cuMemUnmap(address, 2 * kGranule));
}

TEST_F(VirtualMemory, AddressFreeRefusesMappedRangesAndParts) {
  const CUmemGenericAllocationHandle handle = create(kGranule);
  const CUdeviceptr address = reserve_and_map(2 * kGranule, handle, kGranule);
  EXPECT_EQ(cuMemAddressFree(address, 2 * kGranule), CUDA_ERROR_INVALID_VALUE);
  EXPECT_SUCCESS(cuMemUnmap(address, kGranule));
  EXPECT_EQ(cuMemAddressFree(address, kGranule), CUDA_ERROR_INVALID_VALUE);
  EXPECT_SUCCESS(cuMemAddressFree(address, 2 * kGranule));
  EXPECT_EQ(cuMemAddressFree(address, 2 * kGranule), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(VirtualMemory, SetAccessTakesWholeMappingsOnly) {
  const CUmemGenericAllocationHandle handle = create(2 * kGranule);
  const CUdeviceptr address = reserve_and_map(4 * kGranule, handle, 2 * kGranule);
  EXPECT_EQ(set_access(address, kGranule, CU_MEM_ACCESS_FLAGS_PROT_READ), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(set_access(address, 4 * kGranule, CU_MEM_ACCESS_FLAGS_PROT_READ),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_SUCCESS(set_access(address, 2 * kGranule, CU_MEM_ACCESS_FLAGS_PROT_READ));
  CUmemLocation location{};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  unsigned long long flags = 0;
  EXPECT_SUCCESS(cuMemGetAccess(&flags, &location, address));
  EXPECT_EQ(flags, static_cast<unsigned long long>(CU_MEM_ACCESS_FLAGS_PROT_READ));
}

TEST_F(VirtualMemory, CopyRefusesMemoryWithoutAccess) {
  const CUmemGenericAllocationHandle handle = create(kGranule);
  CUdeviceptr address = 0;
  EXPECT_SUCCESS(cuMemAddressReserve(&address, kGranule, 0, 0, 0));
  std::vector<unsigned char> bytes(64);
  EXPECT_EQ(cuMemcpyHtoD(address, bytes.data(), 64), CUDA_ERROR_INVALID_VALUE);
  EXPECT_SUCCESS(cuMemMap(address, kGranule, 0, handle, 0));
  EXPECT_EQ(cuMemcpyHtoD(address, bytes.data(), 64), CUDA_ERROR_INVALID_VALUE);
  EXPECT_SUCCESS(set_access(address, kGranule, CU_MEM_ACCESS_FLAGS_PROT_READ));
  EXPECT_EQ(cuMemcpyHtoD(address, bytes.data(), 64), CUDA_ERROR_INVALID_VALUE);
  EXPECT_SUCCESS(cuMemcpyDtoH(bytes.data(), address, 64));
  EXPECT_SUCCESS(set_access(address, kGranule, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  EXPECT_SUCCESS(cuMemcpyHtoD(address, bytes.data(), 64));
}

TEST_F(VirtualMemory, CopyCrossesAdjoiningMappings) {
  const CUdeviceptr address = reserve_and_map(2 * kGranule, create(kGranule), kGranule);
  EXPECT_SUCCESS(cuMemMap(address + kGranule, kGranule, 0, create(kGranule), 0));
  EXPECT_SUCCESS(set_access(address + kGranule, kGranule, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  std::vector<unsigned char> bytes(kMiB);
  for (std::size_t index = 0; index < bytes.size(); ++index) {
    bytes[index] = static_cast<unsigned char>(index * 7 + index / 256);
  }
  const CUdeviceptr across = address + kGranule - kMiB / 2;
  EXPECT_SUCCESS(cuMemcpyHtoD(across, bytes.data(), bytes.size()));
  EXPECT_EQ(read(across, bytes.size()), bytes);
}

TEST_F(VirtualMemory, RetainedHandleIsTheMappedOne) {
  const CUmemGenericAllocationHandle handle = create(kGranule);
  const CUdeviceptr address = reserve_and_map(kGranule, handle, kGranule);
  CUmemGenericAllocationHandle retained = 0;
  EXPECT_SUCCESS(cuMemRetainAllocationHandle(&retained, reinterpret_cast<void*>(address + 4096)));
  EXPECT_EQ(retained, handle);
  EXPECT_SUCCESS(cuMemRelease(handle));
  EXPECT_SUCCESS(cuMemRelease(handle));
  EXPECT_EQ(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
  CUmemAllocationProp prop{};
  EXPECT_EQ(cuMemGetAllocationPropertiesFromHandle(&prop, handle), CUDA_ERROR_INVALID_VALUE);
  // The mapping still is, and so a handle can be had again.
  EXPECT_SUCCESS(cuMemRetainAllocationHandle(&retained, reinterpret_cast<void*>(address)));
  EXPECT_SUCCESS(cuMemGetAllocationPropertiesFromHandle(&prop, retained));
  EXPECT_EQ(prop.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
  EXPECT_EQ(cuMemRetainAllocationHandle(&retained, reinterpret_cast<void*>(allocate(kMiB))),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(VirtualMemory, GranularityIsTwoMebibytes) {
  const CUmemAllocationProp prop = properties();
  std::size_t granularity = 0;
  EXPECT_SUCCESS(
      cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  EXPECT_EQ(granularity, kGranule);
}

TEST_F(VirtualMemory, ReservationHonoursAlignmentAndAFreeHint) {
  CUdeviceptr first = 0;
  EXPECT_SUCCESS(cuMemAddressReserve(&first, kGranule, 64 * kMiB, 0, 0));
  EXPECT_EQ(first % (64 * kMiB), 0U);
  EXPECT_SUCCESS(cuMemAddressFree(first, kGranule));
  CUdeviceptr second = 0;
  EXPECT_SUCCESS(cuMemAddressReserve(&second, kGranule, 0, first, 0));
  EXPECT_EQ(second, first);
  EXPECT_EQ(cuMemAddressReserve(&first, kGranule, 3, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressReserve(&first, kGranule - 1, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(VirtualMemory, FreeOfAMappedAddressIsRefused) {
  const CUdeviceptr address = reserve_and_map(kGranule, create(kGranule), kGranule);
  EXPECT_EQ(cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr base = 0;
  EXPECT_EQ(cuMemGetAddressRange(&base, nullptr, address), CUDA_ERROR_NOT_FOUND);
}

TEST_F(VirtualMemory, UnmapUnderACopyBreaksTheContext) {
  CUcontext breaking = nullptr;
  ASSERT_SUCCESS(cuCtxCreate(&breaking, nullptr, 0, 0));
  const CUdeviceptr address = reserve_and_map(16 * kMiB, create(16 * kMiB), 16 * kMiB);
  unsigned char* const host = allocate_host(16 * kMiB);
  const CUstream stream = make_stream();
  // 16 MiB take 67 ms at this fixture's bandwidth; the unmap comes long before they have passed.
  EXPECT_SUCCESS(cuMemcpyHtoDAsync(address, host, 16 * kMiB, stream));
  // What is queued behind it, a minute by the model, goes with the context.
  for (int copy = 0; copy < 900; ++copy) {
    EXPECT_SUCCESS(cuMemcpyHtoDAsync(address, host, 16 * kMiB, stream));
  }
  EXPECT_SUCCESS(cuMemUnmap(address, 16 * kMiB));
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUdeviceptr other = 0;
  EXPECT_EQ(cuMemAlloc(&other, 512), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_SUCCESS(cuCtxDestroy(breaking));
  EXPECT_SUCCESS(cuCtxSetCurrent(context_));
  EXPECT_SUCCESS(cuMemAlloc(&other, 512));
}

}  // namespace
