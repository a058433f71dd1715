// Allocation and freeing, of managed buffers and of pass-through memory.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/interposer/managed_fixture.h"

namespace superpipe {
namespace {

constexpr CUdeviceptr kDriverAddress = 0x7700000000;
constexpr std::size_t kSmall = 64;  // passes through

/// How much the driver's allocations take, of whatever size.
std::int64_t taken_by_each = 0;

class MemoryHooksTest : public testing::BudgetFixture {
 protected:
  void SetUp() override {
    BudgetFixture::SetUp();
    taken_by_each = 0;
    driver().cuMemAlloc_v2 = [](CUdeviceptr* address, std::size_t) {
      *address = kDriverAddress;
      testing::change_device_usage(taken_by_each);
      return CUDA_SUCCESS;
    };
    driver().cuMemFree_v2 = [](CUdeviceptr) {
      testing::change_device_usage(-taken_by_each);
      return CUDA_SUCCESS;
    };
  }
  /// The calling thread's context is now another than the managed one, on `device`.
  static void leave_managed_context(bool same_device) {
    driver().cuCtxGetCurrent = [](CUcontext* context) {
      *context = reinterpret_cast<CUcontext>(0x20);
      return CUDA_SUCCESS;
    };
    if (same_device) return;
    driver().cuCtxGetDevice = [](CUdevice* device) {
      *device = 1;
      return CUDA_SUCCESS;
    };
  }
};

TEST_F(MemoryHooksTest, LeavesSmallAllocationsToTheDriverAndCountsThem) {
  taken_by_each = kSmall;
  CUdeviceptr address = 0;
  ASSERT_EQ(hook::cuMemAlloc_v2(&address, kSmall), CUDA_SUCCESS);
  EXPECT_EQ(address, kDriverAddress);
  EXPECT_EQ(passthrough(), Bytes{kSmall});
  ASSERT_EQ(hook::cuMemFree_v2(address), CUDA_SUCCESS);
  wait_for_passthrough(Bytes{});
}

TEST_F(MemoryHooksTest, CountsWhatAnotherContextOfTheDeviceAllocates) {
  taken_by_each = 6 << 20;
  leave_managed_context(/*same_device=*/true);
  CUdeviceptr address = 0;
  ASSERT_EQ(hook::cuMemAlloc_v2(&address, 6 << 20), CUDA_SUCCESS);
  EXPECT_EQ(address, kDriverAddress);
  EXPECT_EQ(passthrough(), 6_MiB);
  ASSERT_EQ(hook::cuMemFree_v2(address), CUDA_SUCCESS);
  wait_for_passthrough(Bytes{});
  testing::install_null_driver(2);
}

TEST_F(MemoryHooksTest, DoesNotCountWhatIsAllocatedOnAnotherDevice) {
  leave_managed_context(/*same_device=*/false);
  CUdeviceptr address = 0;
  ASSERT_EQ(hook::cuMemAlloc_v2(&address, 6 << 20), CUDA_SUCCESS);
  EXPECT_EQ(passthrough(), Bytes{});
  testing::install_null_driver(2);
}

TEST_F(MemoryHooksTest, LeavesSizesThatNoDeviceHasToTheDriver) {
  leave_managed_context(/*same_device=*/true);
  driver().cuMemAlloc_v2 = [](CUdeviceptr*, std::size_t) { return CUDA_ERROR_INVALID_VALUE; };
  for (const std::size_t size : {std::size_t{1} << 63, std::size_t{1} << 62, SIZE_MAX}) {
    CUdeviceptr address = 0;
    EXPECT_EQ(hook::cuMemAlloc_v2(&address, size), CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_EQ(passthrough(), Bytes{});
  testing::install_null_driver(2);
}

TEST_F(MemoryHooksTest, AnswersOutOfMemoryWhenTheBudgetHasNoRoomForASmallAllocation) {
  taken_by_each = 64 << 20;
  leave_managed_context(/*same_device=*/true);
  CUdeviceptr address = 0;
  ASSERT_EQ(hook::cuMemAlloc_v2(&address, 64 << 20), CUDA_SUCCESS);
  address = 7;
  EXPECT_EQ(hook::cuMemAlloc_v2(&address, kSmall), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(address, 0U);
  ASSERT_EQ(hook::cuMemFree_v2(kDriverAddress), CUDA_SUCCESS);
  testing::install_null_driver(2);
}

TEST_F(MemoryHooksTest, AnswersWithTheErrorThatAKernelLeftBehind) {
  driver().cuEventQuery = [](CUevent) { return CUDA_ERROR_ILLEGAL_ADDRESS; };
  driver().cuEventRecord = [](CUevent, CUstream) { return CUDA_ERROR_ILLEGAL_ADDRESS; };
  CUdeviceptr address = 0;
  EXPECT_EQ(hook::cuMemAlloc_v2(&address, kBytes), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(address, 0U);
  EXPECT_EQ(hook::cuMemFreeAsync(buffer_, nullptr), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(MemoryHooksTest, AFreeIsNeverOutOfMemory) {
  driver().cuEventRecord = [](CUevent, CUstream) { return CUDA_ERROR_UNKNOWN; };
  EXPECT_EQ(hook::cuMemFreeAsync(buffer_, nullptr), CUDA_ERROR_LAUNCH_FAILED);
}

TEST_F(MemoryHooksTest, AnswersWhatTheDriverSaysOfAFree) {
  driver().cuMemFree_v2 = [](CUdeviceptr) { return CUDA_ERROR_INVALID_CONTEXT; };
  EXPECT_EQ(hook::cuMemFree_v2(kDriverAddress), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(hook::cuMemFree_v2(buffer_ + 64), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemoryHooksTest, GivesPitchedMemoryTheDevicesAlignmentOfRows) {
  CUdeviceptr address = 0;
  std::size_t pitch = 0;
  ASSERT_EQ(hook::cuMemAllocPitch_v2(&address, &pitch, 1000, 16, 4), CUDA_SUCCESS);
  EXPECT_EQ(pitch, 1024U);
  EXPECT_TRUE(ContextRegistry::managed()->in_arena(address));
}

/// The totals of the device that the hooks tell: by the device's properties, and with what is free.
struct Told {
  std::size_t properties = 0;
  std::size_t total = 0;
  std::size_t free = 0;
};

class ToldMemory : public MemoryHooksTest, public ::testing::WithParamInterface<MemoryReport> {
 protected:
  void SetUp() override {
    MemoryHooksTest::SetUp();
    driver().cuDeviceTotalMem_v2 = [](std::size_t* bytes, CUdevice) {
      std::size_t free = 0;
      return driver().cuMemGetInfo_v2(&free, bytes);
    };
  }
  void configure(Configuration& configuration) override {
    MemoryHooksTest::configure(configuration);
    configuration.memory_report = GetParam();
  }
  static Told ask() {
    Told told;
    EXPECT_EQ(hook::cuDeviceTotalMem_v2(&told.properties, 0), CUDA_SUCCESS);
    EXPECT_EQ(hook::cuMemGetInfo_v2(&told.free, &told.total), CUDA_SUCCESS);
    return told;
  }
  static void end_context() {
    CUcontext context = nullptr;
    driver().cuCtxGetCurrent(&context);
    ContextRegistry::of_process().on_destroying(context);
  }
};

// PyTorch multiplies the one and limits itself by the other.
TEST_P(ToldMemory, HasOneTotalBeforeAndAfterThereIsAContext) {
  end_context();
  ASSERT_EQ(ContextRegistry::managed(), nullptr);
  std::size_t before = 0;
  ASSERT_EQ(hook::cuDeviceTotalMem_v2(&before, 0), CUDA_SUCCESS);
  std::vector<std::size_t> free;
  for (int i = 0; i < 3; ++i) {
    const Told told = ask();
    EXPECT_EQ(told.properties, before);
    EXPECT_EQ(told.total, before);
    EXPECT_LE(told.free, before);
    free.push_back(told.free);
    allocate(4 << 20);
  }
  ASSERT_NE(ContextRegistry::managed(), nullptr);
  if (GetParam() == MemoryReport::kReal) return;  // what does not fit the device takes none of it
  EXPECT_LE(free[1] + (4 << 20), free[0]);
  EXPECT_LE(free[2] + (4 << 20), free[1]);
}

TEST_P(ToldMemory, HasTheSameTotalInAContextThatIsNotManaged) {
  const Told managed = ask();
  leave_managed_context(/*same_device=*/false);
  const Told other = ask();
  EXPECT_EQ(other.properties, managed.properties);
  EXPECT_EQ(other.total, managed.total);
  EXPECT_LE(other.free, other.total);
}

std::string name_of_mode(const ::testing::TestParamInfo<MemoryReport>& mode) {
  constexpr const char* kNames[] = {"Auto", "Virtual", "Budget", "Real"};
  return kNames[static_cast<std::size_t>(mode.param)];
}
INSTANTIATE_TEST_SUITE_P(InEachMode, ToldMemory,
                         ::testing::Values(MemoryReport::kAuto, MemoryReport::kVirtual,
                                           MemoryReport::kBudget, MemoryReport::kReal),
                         name_of_mode);

TEST_F(MemoryHooksTest, AnswersHintsForBuffersItself) {
  driver().cuMemAdvise = [](CUdeviceptr, std::size_t, CUmem_advise, CUdevice) {
    return CUDA_ERROR_INVALID_VALUE;  // the driver knows no unified memory there
  };
  EXPECT_EQ(hook::cuMemAdvise(buffer_, kBytes, CU_MEM_ADVISE_SET_READ_MOSTLY, 0), CUDA_SUCCESS);
  EXPECT_EQ(hook::cuMemAdvise(kDriverAddress, kBytes, CU_MEM_ADVISE_SET_READ_MOSTLY, 0),
            CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace superpipe
