// The memory that a launch names has to be there from its start to its end, and which words name
// memory is settled when it is submitted.
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/hang_limit.h"
#include "tests/simgpu/driver/support/module_fixture.h"

namespace simgpu {
namespace {

constexpr std::size_t kGranule = std::size_t{2} << 20;

/// Memory that is mapped, not allocated; launches that last for 100 ms.
class OperandsDriver : public DriverTest {
 protected:
  static void SetUpTestSuite() {
    setenv("SIMGPU_KERNEL_US", "100000", 1);
    DriverTest::SetUpTestSuite();
  }
  void SetUp() override {
    DriverTest::SetUp();
    ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  }

  CUmemGenericAllocationHandle create() {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(cuMemCreate(&handle, kGranule, &properties, 0), CUDA_SUCCESS);
    last_created_ = handle;
    return handle;
  }
  static void map(CUdeviceptr address, CUmemGenericAllocationHandle handle) {
    ASSERT_EQ(cuMemMap(address, kGranule, 0, handle, 0), CUDA_SUCCESS);
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    ASSERT_EQ(cuMemSetAccess(address, kGranule, &access, 1), CUDA_SUCCESS);
  }
  CUdeviceptr map_new() {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAddressReserve(&address, kGranule, 0, 0, 0), CUDA_SUCCESS);
    map(address, create());
    return address;
  }

  /// Launches `function`, and returns in the midst of it.
  void launch_and_wait_for_start(CUfunction function, std::vector<void*> parameters) {
    ASSERT_EQ(cuLaunchHostFunc(
                  stream_, [](void* started) { *static_cast<std::atomic<bool>*>(started) = true; },
                  &started_),
              CUDA_SUCCESS);
    ASSERT_EQ(cuLaunchKernel(function, 1, 1, 1, 300, 1, 1, 0, stream_, parameters.data(), nullptr),
              CUDA_SUCCESS);
    while (!started_) std::this_thread::yield();
    started_ = false;
    // The kernel follows at once, as far as the machine lets it, and lasts for 100 ms.
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
  }

  /// Runs a kernel on two mapped buffers, lets `change` do something to them in its midst, and
  /// expects the kernel to fault. On a busy machine the change may come before the kernel begins,
  /// or after its end: then both come again.
  template <typename Change>
  void expect_fault(const char* name, const Change& change) {
    const superpipe::testing::HangGuard guard;
    CUresult result = CUDA_SUCCESS;
    while (result == CUDA_SUCCESS && !guard.is_over()) {
      CUdeviceptr out = map_new();
      CUdeviceptr in = map_new();
      std::size_t n = 10'000;  // of which the plugin takes 10 us each
      launch_and_wait_for_start(function(load(), name), {&out, &in, &n});
      change(out, in);
      result = cuCtxSynchronize();
    }
    EXPECT_EQ(result, CUDA_ERROR_ILLEGAL_ADDRESS);
  }
  static std::size_t free_memory() {
    std::size_t free = 0;
    std::size_t total = 0;
    EXPECT_EQ(cuMemGetInfo_v2(&free, &total), CUDA_SUCCESS);
    return free;
  }
  static void unmap(CUdeviceptr address) { ASSERT_EQ(cuMemUnmap(address, kGranule), CUDA_SUCCESS); }

  CUstream stream_ = nullptr;
  std::atomic<bool> started_{false};
  CUmemGenericAllocationHandle last_created_ = 0;
};

TEST_F(OperandsDriver, FaultWhenAnInputIsUnmappedUnderAMixer) {
  expect_fault(kCopyName, [](CUdeviceptr, CUdeviceptr in) { unmap(in); });
}

TEST_F(OperandsDriver, FaultWhenAnOutputIsUnmappedUnderAMixer) {
  expect_fault(kCopyName, [](CUdeviceptr out, CUdeviceptr) { unmap(out); });
}

TEST_F(OperandsDriver, FaultWhenAnOutputIsRemappedUnderAMixer) {
  expect_fault(kCopyName, [this](CUdeviceptr out, CUdeviceptr) {
    unmap(out);
    map(out, create());
  });
}

TEST_F(OperandsDriver, FaultWhenAnInputIsUnmappedUnderAPluginsKernel) {
  expect_fault("add", [](CUdeviceptr, CUdeviceptr in) { unmap(in); });
}

TEST_F(OperandsDriver, FaultWhenAnOutputIsRemappedUnderAPluginsKernel) {
  expect_fault("add", [this](CUdeviceptr out, CUdeviceptr) {
    unmap(out);
    map(out, create());
  });
}

// Even if the program remaps the very same memory, no address translation outlives an unmapping.
TEST_F(OperandsDriver, FaultWhenAnInputWasUnmappedAndIsThereAgain) {
  expect_fault(kCopyName, [this](CUdeviceptr, CUdeviceptr in) {
    unmap(in);
    map(in, last_created_);
  });
}

// A copy that nothing orders after a kernel must not be able to rely on its results.
TEST_F(OperandsDriver, OfAPluginsKernelShowItsResultsWhenItEnds) {
  CUstream other = nullptr;
  ASSERT_EQ(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  const superpipe::testing::HangGuard guard;
  for (bool still_ran = false; !still_ran;) {
    ASSERT_FALSE(guard.is_over());
    CUdeviceptr out = device(std::vector<float>(64, 1.0F));
    CUdeviceptr in = device(std::vector<float>(64, 2.0F));
    int n = 10'000;  // of which the plugin takes 10 us each
    launch_and_wait_for_start(function(load(), "add"), {&out, &in, &n});
    float early = 0;
    ASSERT_EQ(cuMemcpyDtoHAsync_v2(&early, out, sizeof(early), other), CUDA_SUCCESS);
    // On a busy machine the copy may have come when the kernel had ended.
    still_ran = cuStreamQuery(stream_) == CUDA_ERROR_NOT_READY;
    if (still_ran) {
      EXPECT_EQ(early, 1.0F);
    }
    ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
    EXPECT_EQ(host<float>(out, 1)[0], 3.0F);
  }
}

TEST_F(OperandsDriver, AreOutOfReachForHostCode) {
  const CUdeviceptr memory = device(std::vector<float>(64, 1.0F));
  const CUdeviceptr mapped = map_new();
  if (pkey_alloc(0, 0) < 0) GTEST_SKIP() << "this processor has no memory protection keys";
  EXPECT_DEATH((void)*reinterpret_cast<volatile float*>(memory),
               "host code accessed device memory");
  EXPECT_DEATH(*reinterpret_cast<volatile float*>(mapped) = 1, "host code accessed device memory");
}

// A struct that was on the program's stack has half of an old pointer beside a 0 in it, and
// something was once mapped where the word would lie. Another word that names what was mapped is an
// address.
TEST_F(OperandsDriver, AreNoWordsInStructsWhoseLowerHalfIsZero) {
  constexpr std::size_t kReserved = std::size_t{8} << 30;
  constexpr CUdeviceptr kUpperHalf = ~CUdeviceptr{0xffff'ffff};
  CUdeviceptr reserved = 0;
  ASSERT_EQ(cuMemAddressReserve(&reserved, kReserved, 0, 0, 0), CUDA_SUCCESS);
  const CUdeviceptr word = (reserved + (std::size_t{1} << 32)) & kUpperHalf;
  map(word, create());
  unmap(word);
  const auto run = [this](CUdeviceptr inside) {
    std::vector<unsigned char> wide(20000);
    std::memcpy(wide.data() + 64, &inside, sizeof inside);
    CUdeviceptr out = map_new();
    void* parameters[] = {wide.data(), &out};
    EXPECT_EQ(cuLaunchKernel(function(load(), "wide"), 1, 1, 1, 32, 1, 1, 0, stream_, parameters,
                             nullptr),
              CUDA_SUCCESS);
    return cuCtxSynchronize();
  };
  EXPECT_EQ(run(word), CUDA_SUCCESS);
  EXPECT_EQ(run(word + 4096), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(OperandsDriver, MayBeUnmappedWhenTheKernelIsDone) {
  CUdeviceptr out = map_new();
  CUdeviceptr in = map_new();
  std::size_t n = 300;
  for (const char* const name : {kCopyName, "add"}) {
    launch_and_wait_for_start(function(load(), name), {&out, &in, &n});
    ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS) << name;
  }
  EXPECT_EQ(cuMemUnmap(in, kGranule), CUDA_SUCCESS);
  EXPECT_EQ(cuMemUnmap(out, kGranule), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
}

// What lies beside an operand is the program's to unmap.
TEST_F(OperandsDriver, DoNotIncludeMemoryThatTheyOnlyBorderOn) {
  CUdeviceptr out = map_new();
  CUdeviceptr in = map_new();
  const CUdeviceptr other = map_new();
  std::size_t n = 300;
  launch_and_wait_for_start(function(load(), kCopyName), {&out, &in, &n});
  unmap(other);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
}

// Two buffers side by side are one range of mapped memory, of which a host kernel touches the one
// that it was given.
TEST_F(OperandsDriver, OfAPluginsKernelAreTheMappingsThatItTouches) {
  CUdeviceptr both = 0;
  ASSERT_EQ(cuMemAddressReserve(&both, 2 * kGranule, 0, 0, 0), CUDA_SUCCESS);
  map(both, create());
  CUdeviceptr out = map_new();
  int n = 10'000;
  const superpipe::testing::HangGuard guard;
  for (bool still_ran = false; !still_ran;) {
    ASSERT_FALSE(guard.is_over());
    const CUmemGenericAllocationHandle beside = create();
    map(both + kGranule, beside);
    launch_and_wait_for_start(function(load(), "add"), {&out, &both, &n});
    const std::size_t before = free_memory();
    unmap(both + kGranule);
    ASSERT_EQ(cuMemRelease(beside), CUDA_SUCCESS);
    EXPECT_EQ(free_memory(), before + kGranule) << "the kernel keeps nothing of what lies beside";
    // On a busy machine the kernel may have ended before that.
    still_ran = cuStreamQuery(stream_) == CUDA_ERROR_NOT_READY;
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  }
}

// A word that means nothing when the launch is submitted means nothing when it runs, whatever the
// host has allocated since.
TEST_F(OperandsDriver, AreSettledWhenTheLaunchIsSubmitted) {
  const CUfunction copy = function(load(), kCopyName);
  const CUfunction nothing = function(load(), "nothing");
  std::vector<std::vector<std::uint64_t>> results;
  for (const bool allocates : {false, true}) {
    CUdeviceptr out = device(std::vector<std::uint64_t>(8));
    CUdeviceptr in = device(std::vector<std::uint64_t>(8, 1));
    CUdeviceptr stale = device(std::vector<std::uint64_t>(512, 7));
    ASSERT_EQ(cuMemFree_v2(stale), CUDA_SUCCESS);
    std::size_t n = stale;
    void* parameters[] = {&out, &in, &n};
    ASSERT_EQ(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, nullptr),
              CUDA_SUCCESS);
    ASSERT_EQ(cuLaunchKernel(copy, 1, 1, 1, 64, 1, 1, 0, stream_, parameters, nullptr),
              CUDA_SUCCESS);
    if (allocates) {
      EXPECT_EQ(device(std::vector<std::uint64_t>(512, 9)), stale) << "the address comes again";
    }
    ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
    results.push_back(host<std::uint64_t>(out, 8));
  }
  EXPECT_EQ(results[0], results[1]);
}

// The host frees a pool's block in stream order and gets it back with a smaller size, while a copy
// from beyond that size is still to come: in the stream's order it comes before the free.
TEST_F(OperandsDriver, OfACopyAreThoseOfItsPlaceInTheStream) {
  const CUfunction nothing = function(load(), "nothing");
  CUdeviceptr block = 0;
  ASSERT_EQ(cuMemAllocAsync(&block, 4096, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8Async(block, 0x5A, 4096, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, nullptr), CUDA_SUCCESS);
  void* read = nullptr;
  ASSERT_EQ(cuMemAllocHost_v2(&read, 16), CUDA_SUCCESS);
  std::memset(read, 0, 16);
  ASSERT_EQ(cuMemcpyDtoHAsync_v2(read, block + 0x810, 16, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemFreeAsync(block, stream_), CUDA_SUCCESS);
  CUdeviceptr smaller = 0;
  ASSERT_EQ(cuMemAllocAsync(&smaller, 0x800, stream_), CUDA_SUCCESS);
  EXPECT_EQ(smaller, block);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(static_cast<unsigned char*>(read)[15], 0x5A);
  EXPECT_EQ(cuMemFreeHost(read), CUDA_SUCCESS);
}

}  // namespace
}  // namespace simgpu
