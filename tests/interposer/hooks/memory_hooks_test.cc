// What is left to the driver but takes device memory: counted from its making to its end.
#include <gtest/gtest.h>

#include "tests/interposer/managed_fixture.h"

namespace superpipe {
namespace {

constexpr CUdeviceptr kDriverAddress = 0x7700000000;
constexpr std::size_t kSmall = 64;  // passes through

class MemoryHooksTest : public testing::ManagedFixture {
 protected:
  void SetUp() override {
    ManagedFixture::SetUp();
    driver().cuMemAlloc_v2 = [](CUdeviceptr* address, std::size_t) {
      *address = kDriverAddress;
      return CUDA_SUCCESS;
    };
    driver().cuMemFree_v2 = [](CUdeviceptr) { return CUDA_SUCCESS; };
  }
  static Bytes unmanaged() {
    return ContextRegistry::managed()->residency().stats().passthrough_bytes;
  }

  static CUmemGenericAllocationHandle create_pages(std::size_t size) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(hook::cuMemCreate(&handle, size, &properties, 0), CUDA_SUCCESS);
    return handle;
  }
};

TEST_F(MemoryHooksTest, CountsPagesUntilTheyAreReleasedAndUnmapped) {
  const auto handle = create_pages(4 << 20);
  EXPECT_EQ(unmanaged(), 4_MiB);
  ASSERT_EQ(hook::cuMemMap(kDriverAddress, 4 << 20, 0, handle, 0), CUDA_SUCCESS);
  ASSERT_EQ(hook::cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(unmanaged(), 4_MiB);
  ASSERT_EQ(hook::cuMemUnmap(kDriverAddress, 4 << 20), CUDA_SUCCESS);
  EXPECT_EQ(unmanaged(), Bytes{});
}

TEST_F(MemoryHooksTest, CountsPagesThatTheDriverWouldNotRelease) {
  const auto handle = create_pages(4 << 20);
  driver().cuMemRelease = [](CUmemGenericAllocationHandle) { return CUDA_ERROR_INVALID_VALUE; };
  EXPECT_EQ(hook::cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(unmanaged(), 4_MiB);
  driver().cuMemRelease = [](CUmemGenericAllocationHandle) { return CUDA_SUCCESS; };
  EXPECT_EQ(hook::cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(unmanaged(), Bytes{});
}

TEST_F(MemoryHooksTest, CountsExportedPagesForGood) {
  driver().cuMemExportToShareableHandle = [](void*, CUmemGenericAllocationHandle,
                                             CUmemAllocationHandleType,
                                             unsigned long long) { return CUDA_SUCCESS; };
  const auto handle = create_pages(4 << 20);
  int descriptor = -1;
  ASSERT_EQ(hook::cuMemExportToShareableHandle(&descriptor, handle,
                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_SUCCESS);
  ASSERT_EQ(hook::cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(unmanaged(), 4_MiB);
}

TEST_F(MemoryHooksTest, RefusesToUnmapABufferUnderItself) {
  driver().cuMemUnmap = [](CUdeviceptr, std::size_t) {
    ADD_FAILURE() << "the driver was asked";
    return CUDA_SUCCESS;
  };
  EXPECT_EQ(hook::cuMemUnmap(buffer_, 2 << 20), CUDA_ERROR_INVALID_VALUE);
  driver().cuMemUnmap = [](CUdeviceptr, std::size_t) { return CUDA_SUCCESS; };
}

TEST_F(MemoryHooksTest, CountsArraysWithTheirLevels) {
  driver().cuArrayCreate_v2 = [](CUarray* array, const CUDA_ARRAY_DESCRIPTOR*) {
    *array = reinterpret_cast<CUarray>(0x9990);
    return CUDA_SUCCESS;
  };
  driver().cuMipmappedArrayCreate = [](CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR*,
                                       unsigned) {
    *array = reinterpret_cast<CUmipmappedArray>(0xaaa0);
    return CUDA_SUCCESS;
  };
  driver().cuArrayDestroy = [](CUarray) { return CUDA_SUCCESS; };
  driver().cuMipmappedArrayDestroy = [](CUmipmappedArray) { return CUDA_SUCCESS; };

  const CUDA_ARRAY_DESCRIPTOR flat{1024, 1024, CU_AD_FORMAT_FLOAT, 2};  // 8 MiB
  CUarray array = nullptr;
  ASSERT_EQ(hook::cuArrayCreate_v2(&array, &flat), CUDA_SUCCESS);
  EXPECT_EQ(unmanaged(), 8_MiB);

  CUDA_ARRAY3D_DESCRIPTOR deep{};
  deep.Width = 1024;
  deep.Height = 1024;
  deep.Depth = 2;
  deep.Format = CU_AD_FORMAT_UNSIGNED_INT8;
  deep.NumChannels = 4;
  CUmipmappedArray levels = nullptr;
  // 8 MiB, then 1024^2 bytes, rounded together to whole blocks.
  ASSERT_EQ(hook::cuMipmappedArrayCreate(&levels, &deep, 2), CUDA_SUCCESS);
  EXPECT_EQ(unmanaged(), 18_MiB);

  ASSERT_EQ(hook::cuArrayDestroy(array), CUDA_SUCCESS);
  ASSERT_EQ(hook::cuMipmappedArrayDestroy(levels), CUDA_SUCCESS);
  EXPECT_EQ(unmanaged(), Bytes{});
}

TEST_F(MemoryHooksTest, DoesNotCountArraysWithoutMemory) {
  driver().cuArray3DCreate_v2 = [](CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR*) {
    *array = reinterpret_cast<CUarray>(0x9990);
    return CUDA_SUCCESS;
  };
  CUDA_ARRAY3D_DESCRIPTOR sparse{};
  sparse.Width = sparse.Height = 4096;
  sparse.Format = CU_AD_FORMAT_FLOAT;
  sparse.NumChannels = 4;
  sparse.Flags = CUDA_ARRAY3D_SPARSE;
  CUarray array = nullptr;
  ASSERT_EQ(hook::cuArray3DCreate_v2(&array, &sparse), CUDA_SUCCESS);
  EXPECT_EQ(unmanaged(), Bytes{});
}

TEST_F(MemoryHooksTest, CountsWhatAnotherContextOfTheDeviceAllocates) {
  driver().cuCtxGetCurrent = [](CUcontext* context) {
    *context = reinterpret_cast<CUcontext>(0x20);
    return CUDA_SUCCESS;
  };
  CUdeviceptr address = 0;
  ASSERT_EQ(hook::cuMemAlloc_v2(&address, 6 << 20), CUDA_SUCCESS);
  EXPECT_EQ(address, kDriverAddress);
  EXPECT_EQ(unmanaged(), 6_MiB);
  ASSERT_EQ(hook::cuMemFree_v2(address), CUDA_SUCCESS);
  EXPECT_EQ(unmanaged(), Bytes{});
  testing::install_null_driver(2);
}

TEST_F(MemoryHooksTest, DoesNotCountWhatIsAllocatedOnAnotherDevice) {
  driver().cuCtxGetCurrent = [](CUcontext* context) {
    *context = reinterpret_cast<CUcontext>(0x20);
    return CUDA_SUCCESS;
  };
  driver().cuCtxGetDevice = [](CUdevice* device) {
    *device = 1;
    return CUDA_SUCCESS;
  };
  CUdeviceptr address = 0;
  ASSERT_EQ(hook::cuMemAlloc_v2(&address, 6 << 20), CUDA_SUCCESS);
  EXPECT_EQ(unmanaged(), Bytes{});
  testing::install_null_driver(2);
}

TEST_F(MemoryHooksTest, LeavesSizesThatNoDeviceHasToTheDriver) {
  const Bytes before = [] {
    create_pages(4 << 20);
    return unmanaged();
  }();
  driver().cuMemCreate = [](CUmemGenericAllocationHandle*, std::size_t, const CUmemAllocationProp*,
                            unsigned long long) { return CUDA_ERROR_OUT_OF_MEMORY; };
  for (const std::size_t size : {std::size_t{1} << 63, std::size_t{1} << 62, SIZE_MAX}) {
    CUmemAllocationProp properties{};
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(hook::cuMemCreate(&handle, size, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(unmanaged(), before);
  }
}

TEST_F(MemoryHooksTest, AnswersWithTheErrorThatAKernelLeftBehind) {
  driver().cuEventQuery = [](CUevent) { return CUDA_ERROR_ILLEGAL_ADDRESS; };
  driver().cuEventRecord = [](CUevent, CUstream) { return CUDA_ERROR_ILLEGAL_ADDRESS; };
  CUdeviceptr address = 0;
  EXPECT_EQ(hook::cuMemAlloc_v2(&address, kBytes), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(address, 0U);
  EXPECT_EQ(hook::cuMemFreeAsync(buffer_, nullptr), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(MemoryHooksTest, CountsAnAddressThatComesAgainBeforeItsFreeHasReturned) {
  CUdeviceptr address = 0;
  ASSERT_EQ(hook::cuMemAlloc_v2(&address, kSmall), CUDA_SUCCESS);
  ASSERT_EQ(unmanaged(), 2_MiB);
  // As another thread may, while the first is between the driver's free and what follows.
  driver().cuMemFree_v2 = [](CUdeviceptr) {
    driver().cuMemFree_v2 = [](CUdeviceptr) { return CUDA_SUCCESS; };
    CUdeviceptr again = 0;
    return hook::cuMemAlloc_v2(&again, kSmall);
  };
  ASSERT_EQ(hook::cuMemFree_v2(address), CUDA_SUCCESS);
  EXPECT_EQ(unmanaged(), 2_MiB);
  ASSERT_EQ(hook::cuMemFree_v2(address), CUDA_SUCCESS);
  EXPECT_EQ(unmanaged(), Bytes{});
}

TEST_F(MemoryHooksTest, CountsWhatTheDriverWouldNotFree) {
  CUdeviceptr address = 0;
  ASSERT_EQ(hook::cuMemAlloc_v2(&address, kSmall), CUDA_SUCCESS);
  driver().cuMemFree_v2 = [](CUdeviceptr) { return CUDA_ERROR_INVALID_CONTEXT; };
  EXPECT_EQ(hook::cuMemFree_v2(address), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(unmanaged(), 2_MiB);
}

}  // namespace
}  // namespace superpipe
