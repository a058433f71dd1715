#include <cstring>

#include "tests/simgpu/driver/support/driver_fixture.h"

namespace {

using simgpu_test::kMiB;
using Memory = simgpu_test::DriverTest;

TEST_F(Memory, ContextCountsAsUsedFromItsCreation) {
  CUcontext second = nullptr;
  EXPECT_SUCCESS(cuCtxCreate(&second, nullptr, 0, 0));
  EXPECT_EQ(used(), simgpu_test::kContextBytes);
  EXPECT_SUCCESS(cuCtxDestroy(second));
  EXPECT_SUCCESS(cuCtxSetCurrent(context_));
  EXPECT_EQ(used(), 0U);
}

TEST_F(Memory, LargeAllocationIsChargedInWholeGranules) {
  const CUdeviceptr address = allocate(3 * kMiB);
  EXPECT_EQ(used(), 4 * kMiB);
  EXPECT_SUCCESS(cuMemFree(address));
  EXPECT_EQ(used(), 0U);
}

TEST_F(Memory, SmallAllocationsShareOneGranule) {
  std::vector<CUdeviceptr> small;
  for (int index = 0; index < 8; ++index) small.push_back(allocate(200 * 1024));
  EXPECT_EQ(used(), 2 * kMiB);
  for (const CUdeviceptr address : small) EXPECT_SUCCESS(cuMemFree(address));
  EXPECT_EQ(used(), 0U);
}

TEST_F(Memory, AllocationPastCapacityFailsAndSetsItsOutputToZero) {
  allocate(available());
  CUdeviceptr address = 42;
  EXPECT_EQ(cuMemAlloc(&address, 1), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(address, 0U);
}

TEST_F(Memory, FreeMakesRoomForAnAllocationOfTheSameSize) {
  const std::size_t all = available();
  EXPECT_SUCCESS(cuMemFree(allocate(all)));
  EXPECT_NE(allocate(all), 0U);
}

TEST_F(Memory, FreshMemoryReadsZeroEvenWhereItWasWrittenBefore) {
  const CUdeviceptr first = allocate(4 * kMiB);
  fill(first, 0xAB, 4 * kMiB);
  EXPECT_SUCCESS(cuMemFree(first));
  const CUdeviceptr second = allocate(4 * kMiB);
  EXPECT_EQ(read(second, 4 * kMiB), std::vector<unsigned char>(4 * kMiB, 0));
}

TEST_F(Memory, FreeRefusesWhatIsNoLiveAllocationsBase) {
  const CUdeviceptr address = allocate(kMiB);
  EXPECT_EQ(cuMemFree(address + 512), CUDA_ERROR_INVALID_VALUE);
  EXPECT_SUCCESS(cuMemFree(address));
  EXPECT_EQ(cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Memory, RefusesAnAllocationOfZeroBytes) {
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAlloc(&address, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAlloc(nullptr, 512), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Memory, AddressRangeIsTheAllocationAsAskedFor) {
  const CUdeviceptr address = allocate(1000);
  CUdeviceptr base = 0;
  std::size_t size = 0;
  EXPECT_SUCCESS(cuMemGetAddressRange(&base, &size, address + 999));
  EXPECT_EQ(base, address);
  EXPECT_EQ(size, 1000U);
  EXPECT_EQ(cuMemGetAddressRange(&base, &size, address + 1000), CUDA_ERROR_NOT_FOUND);
}

TEST_F(Memory, PitchIsAlignedAndCoversARow) {
  CUdeviceptr address = 0;
  std::size_t pitch = 0;
  EXPECT_SUCCESS(cuMemAllocPitch(&address, &pitch, 1000, 7, 4));
  EXPECT_EQ(pitch, 1024U);
  EXPECT_EQ(cuMemAllocPitch(&address, &pitch, 1000, 7, 3), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Memory, PointerAttributesTellDeviceFromPinnedFromUnknown) {
  const CUdeviceptr device = allocate(kMiB);
  unsigned char* const host = allocate_host(kMiB);
  int on_stack = 0;
  unsigned type = 0;
  EXPECT_SUCCESS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device + 5));
  EXPECT_EQ(type, unsigned{CU_MEMORYTYPE_DEVICE});
  EXPECT_SUCCESS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                       reinterpret_cast<CUdeviceptr>(host + 5)));
  EXPECT_EQ(type, unsigned{CU_MEMORYTYPE_HOST});
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                  reinterpret_cast<CUdeviceptr>(&on_stack)),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Memory, PointerAttributesOfUnknownMemoryAreZeroNotAnError) {
  int on_stack = 0;
  unsigned type = 7;
  int ordinal = 7;
  CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* values[] = {&type, &ordinal};
  EXPECT_SUCCESS(
      cuPointerGetAttributes(2, names, values, reinterpret_cast<CUdeviceptr>(&on_stack)));
  EXPECT_EQ(type, 0U);
  EXPECT_EQ(ordinal, CU_DEVICE_INVALID);
}

TEST_F(Memory, RangeAttributesNameTheAllocation) {
  const CUdeviceptr address = allocate(3000);
  CUdeviceptr base = 0;
  std::size_t size = 0;
  CUcontext owner = nullptr;
  CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                 CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_CONTEXT};
  void* values[] = {&base, &size, &owner};
  EXPECT_SUCCESS(cuPointerGetAttributes(3, names, values, address + 100));
  EXPECT_EQ(base, address);
  EXPECT_EQ(size, 3000U);
  EXPECT_EQ(owner, context_);
}

TEST_F(Memory, RegisteredHostMemoryIsPinnedUntilUnregistered) {
  std::vector<unsigned char> memory(3 * kMiB);
  unsigned char* const middle = memory.data() + kMiB;
  EXPECT_SUCCESS(cuMemHostRegister(middle, kMiB, 0));
  CUdeviceptr device = 0;
  EXPECT_SUCCESS(cuMemHostGetDevicePointer(&device, middle + 10, 0));
  EXPECT_EQ(device, reinterpret_cast<CUdeviceptr>(middle + 10));
  EXPECT_EQ(cuMemHostRegister(middle + kMiB - 1, 16, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(cuMemHostUnregister(middle + 1), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_SUCCESS(cuMemHostUnregister(middle));
  EXPECT_EQ(cuMemHostUnregister(middle), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_EQ(cuMemHostGetDevicePointer(&device, middle, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Memory, RegisterRefusesAddressesThatAreNotMapped) {
  EXPECT_EQ(cuMemHostRegister(reinterpret_cast<void*>(0x1000), 4096, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostRegister(reinterpret_cast<void*>(allocate(kMiB)), 4096, 0),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Memory, FreeHostRefusesRegisteredAndForeignMemory) {
  std::vector<unsigned char> memory(kMiB);
  EXPECT_SUCCESS(cuMemHostRegister(memory.data(), kMiB, 0));
  EXPECT_EQ(cuMemFreeHost(memory.data()), CUDA_ERROR_INVALID_VALUE);
  EXPECT_SUCCESS(cuMemHostUnregister(memory.data()));
  EXPECT_EQ(cuMemFreeHost(memory.data()), CUDA_ERROR_INVALID_VALUE);
  unsigned char* const host = allocate_host(kMiB);
  EXPECT_SUCCESS(cuMemFreeHost(host));
  EXPECT_EQ(cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Memory, HostFlagsAreThoseAskedForAndMapped) {
  void* memory = nullptr;
  EXPECT_SUCCESS(cuMemHostAlloc(&memory, kMiB, CU_MEMHOSTALLOC_PORTABLE));
  unsigned flags = 0;
  EXPECT_SUCCESS(cuMemHostGetFlags(&flags, memory));
  EXPECT_EQ(flags, unsigned{CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP});
  EXPECT_EQ(cuMemHostAlloc(&memory, kMiB, 0x40), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Memory, ResetOfThePrimaryContextFreesItsMemory) {
  allocate(16 * kMiB);
  EXPECT_SUCCESS(cuDevicePrimaryCtxReset(0));
  ASSERT_SUCCESS(cuDevicePrimaryCtxRetain(&context_, 0));
  EXPECT_EQ(used(), 0U);
}

}  // namespace
