// What programs take from the device beside plain allocations: pools of their own, code, registered
// host memory, contexts.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/fixture.h"

namespace conformance {
namespace {

using OwnPool = ConformanceTest;
using LoadedCode = ConformanceTest;
using Registration = ConformanceTest;
using Array = ConformanceTest;
using OwnContext = ConformanceTest;

constexpr uint32_t kResourceWords = 1024;
constexpr size_t kResourceBytes = kResourceWords * sizeof(uint32_t);

size_t free_memory() {
  size_t free = 0;
  size_t total = 0;
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemGetInfo(&free, &total));
  return free;
}

CUresult make_pool(CUmemoryPool* pool) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return cu().cuMemPoolCreate(pool, &properties);
}

TEST_F(OwnPool, GivesMemoryThatIsUsedInStreamOrder) {
  const Stream stream;
  CUmemoryPool pool = nullptr;
  CU_ASSERT(make_pool(&pool));
  CUdeviceptr memory = 0;
  CU_ASSERT(cu().cuMemAllocFromPoolAsync(&memory, kResourceBytes, pool, stream.get()));
  CU_ASSERT(fill(stream.get(), memory, 31, kResourceWords));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  EXPECT_EQ(word_at(memory + kResourceBytes - 4), 31U);
  CU_ASSERT(cu().cuMemFreeAsync(memory, stream.get()));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemPoolDestroy(pool));
}

TEST_F(OwnPool, TakesBackMemoryInAStreamThatIsNamedWithoutACurrentContext) {
  const Stream stream;
  CUmemoryPool pool = nullptr;
  CU_ASSERT(make_pool(&pool));
  CUdeviceptr memory = 0;
  CU_ASSERT(cu().cuMemAllocFromPoolAsync(&memory, kResourceBytes, pool, stream.get()));
  CUcontext current = nullptr;
  CU_ASSERT(cu().cuCtxPopCurrent_v2(&current));
  const CUresult in_default_stream = cu().cuMemFreeAsync(memory, nullptr);
  const CUresult in_named_stream = cu().cuMemFreeAsync(memory, stream.get());
  CU_ASSERT(cu().cuCtxPushCurrent_v2(current));
  CU_EXPECT(CUDA_ERROR_INVALID_CONTEXT, in_default_stream);
  CU_EXPECT(CUDA_SUCCESS, in_named_stream);
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemPoolDestroy(pool));
}

TEST_F(OwnPool, MayBeDestroyedWhileItsAllocationsLive) {
  // The manual: the pool's resources are released when its last allocation is freed.
  const Stream stream;
  CU_ASSERT(cu().cuCtxSynchronize());
  const size_t before = free_memory();
  CUmemoryPool pool = nullptr;
  CU_ASSERT(make_pool(&pool));
  CUdeviceptr memory = 0;
  CU_ASSERT(cu().cuMemAllocFromPoolAsync(&memory, kGranule, pool, stream.get()));
  CU_ASSERT(fill(stream.get(), memory, 32, kResourceWords, long_time()));
  CU_ASSERT(cu().cuMemPoolDestroy(pool));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  EXPECT_EQ(word_at(memory), 32U);
  CU_ASSERT(fill(stream.get(), memory, 33, kResourceWords));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  EXPECT_EQ(word_at(memory), 33U);
  CU_ASSERT(cu().cuMemFreeAsync(memory, stream.get()));
  CU_ASSERT(cu().cuCtxSynchronize());
  EXPECT_GE(free_memory(), before);
}

TEST_F(OwnPool, IsNotTheDevicesOwn) {
  CUmemoryPool pool = nullptr;
  CUmemoryPool current = nullptr;
  CUmemoryPool standard = nullptr;
  CU_ASSERT(make_pool(&pool));
  CU_ASSERT(cu().cuDeviceGetMemPool(&current, 0));
  CU_ASSERT(cu().cuDeviceGetDefaultMemPool(&standard, 0));
  EXPECT_EQ(current, standard);
  EXPECT_NE(pool, standard);
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemPoolDestroy(pool));
}

TEST_F(OwnPool, RemembersItsThresholdAndGivesBackWhatIsTrimmed) {
  const Stream stream;
  CUmemoryPool pool = nullptr;
  CU_ASSERT(make_pool(&pool));
  cuuint64_t threshold = UINT64_MAX;
  CU_ASSERT(cu().cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  CUdeviceptr memory = 0;
  CU_ASSERT(cu().cuMemAllocFromPoolAsync(&memory, kGranule, pool, stream.get()));
  CU_ASSERT(cu().cuMemFreeAsync(memory, stream.get()));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  cuuint64_t asked = 0;
  CU_ASSERT(cu().cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &asked));
  EXPECT_EQ(asked, threshold);
  CU_ASSERT(cu().cuMemPoolTrimTo(pool, 0));
  cuuint64_t held = 1;
  CU_ASSERT(cu().cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &held));
  EXPECT_EQ(held, 0U);
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemPoolDestroy(pool));
}

TEST_F(LoadedCode, TakesFreeMemoryAtOnceOrAtItsFirstLaunchAndGivesItBack) {
  // With lazy loading a kernel's code comes to the device when the kernel is first launched or
  // loaded, so that free memory falls at calls that allocate nothing.
  const Buffer data(16);
  CU_ASSERT(cu().cuCtxSynchronize());
  CUmoduleLoadingMode mode{};
  CU_ASSERT(cu().cuModuleGetLoadingMode(&mode));
  const size_t before = free_memory();
  CUmodule module = nullptr;
  CU_ASSERT(cu().cuModuleLoadDataEx(&module, fat_binary(), 0, nullptr, nullptr));
  const size_t loaded = free_memory();
  CUfunction fresh = nullptr;
  CU_ASSERT(cu().cuModuleGetFunction(&fresh, module, "fill_after"));
  CUdeviceptr out = data.address();
  uint32_t value = 3;
  uint32_t count = 16;
  unsigned long long delay = 0;
  void* arguments[] = {&out, &value, &count, &delay};
  CU_ASSERT(cu().cuLaunchKernel(fresh, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
  CU_ASSERT(cu().cuCtxSynchronize());
  const size_t launched = free_memory();
  CU_ASSERT(cu().cuModuleUnload(module));
  CU_ASSERT(cu().cuCtxSynchronize());
  const size_t unloaded = free_memory();
  EXPECT_EQ(word_at(out), 3U);
  RecordProperty("loading", mode == CU_MODULE_LAZY_LOADING ? "lazy" : "eager");
  RecordProperty("bytes_at_load", std::to_string(static_cast<long long>(before - loaded)));
  RecordProperty("bytes_at_launch", std::to_string(static_cast<long long>(loaded - launched)));
  RecordProperty("bytes_given_back", std::to_string(static_cast<long long>(unloaded - launched)));
  EXPECT_LE(loaded, before);
  EXPECT_LE(launched, loaded);
  EXPECT_GE(unloaded, launched);
}

TEST_F(LoadedCode, HasNamesThatTellItsKernels) {
  const char* name = nullptr;
  CU_ASSERT(cu().cuFuncGetName(&name, function("combine")));
  EXPECT_STREQ(name, "combine");
  CUlibrary library = nullptr;
  CU_ASSERT(
      cu().cuLibraryLoadData(&library, fat_binary(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUkernel kernel = nullptr;
  CU_ASSERT(cu().cuLibraryGetKernel(&kernel, library, "copy_words"));
  CU_ASSERT(cu().cuKernelGetName(&name, kernel));
  EXPECT_STREQ(name, "copy_words");
  CUmodule module = nullptr;
  CU_ASSERT(cu().cuLibraryGetModule(&module, library));
  CUfunction of_module = nullptr;
  CU_ASSERT(cu().cuModuleGetFunction(&of_module, module, "copy_words"));
  CU_ASSERT(cu().cuFuncGetName(&name, of_module));
  EXPECT_STREQ(name, "copy_words");
  CU_EXPECT(CUDA_SUCCESS, cu().cuLibraryUnload(library));
}

TEST_F(LoadedCode, TellsWhoseItsKernelsAre) {
  CUmodule module = nullptr;
  CU_ASSERT(cu().cuModuleLoadData(&module, fat_binary()));
  CUfunction of_module = nullptr;
  CU_ASSERT(cu().cuModuleGetFunction(&of_module, module, "copy_words"));
  CUmodule owner = nullptr;
  CU_ASSERT(cu().cuFuncGetModule(&owner, of_module));
  EXPECT_EQ(owner, module);
  CU_EXPECT(CUDA_SUCCESS, cu().cuModuleUnload(module));

  CUlibrary library = nullptr;
  CU_ASSERT(
      cu().cuLibraryLoadData(&library, fat_binary(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUkernel kernel = nullptr;
  CU_ASSERT(cu().cuLibraryGetKernel(&kernel, library, "copy_words"));
  CUlibrary of_kernel = nullptr;
  CU_ASSERT(cu().cuKernelGetLibrary(&of_kernel, kernel));
  EXPECT_EQ(of_kernel, library);
  unsigned int count = 0;
  CU_ASSERT(cu().cuLibraryGetKernelCount(&count, library));
  std::vector<CUkernel> kernels(count);
  CU_ASSERT(cu().cuLibraryEnumerateKernels(kernels.data(), count, library));
  EXPECT_NE(std::ranges::find(kernels, kernel), kernels.end());
  CU_EXPECT(CUDA_SUCCESS, cu().cuLibraryUnload(library));
}

TEST_F(LoadedCode, RunsCooperativelyToo) {
  const Buffer data(kResourceWords);
  CUdeviceptr out = data.address();
  uint32_t value = 34;
  uint32_t count = kResourceWords;
  unsigned long long delay = 0;
  void* arguments[] = {&out, &value, &count, &delay};
  CU_ASSERT(cu().cuLaunchCooperativeKernel(function("fill_after"), 1, 1, 1, 1, 1, 1, 0, nullptr,
                                           arguments));
  EXPECT_EQ(word_at(out + kResourceBytes - 4), 34U);
}

/// Address space of the host in which nothing can be read.
class Nowhere {
 public:
  explicit Nowhere(size_t bytes)
      : bytes_(bytes),
        address_(
            mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~Nowhere() { munmap(address_, bytes_); }
  Nowhere(const Nowhere&) = delete;
  Nowhere& operator=(const Nowhere&) = delete;
  [[nodiscard]] char* data() const { return static_cast<char*>(address_); }
  [[nodiscard]] bool allow(size_t bytes) const {
    return mprotect(address_, bytes, PROT_READ | PROT_WRITE) == 0;
  }

 private:
  size_t bytes_;
  void* address_;
};

TEST_F(Registration, OfGigabytesThatAreNotThereFailsAndLeavesNothingRegistered) {
  constexpr size_t kHuge = size_t{8} << 30;
  constexpr size_t kThere = size_t{1} << 20;
  const Nowhere host(kHuge);
  ASSERT_NE(host.data(), MAP_FAILED);
  CU_EXPECT_REFUSED(cu().cuMemHostRegister(host.data(), kHuge, CU_MEMHOSTREGISTER_PORTABLE));
  CU_EXPECT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cu().cuMemHostUnregister(host.data()));
  // A beginning that is there does not help.
  ASSERT_TRUE(host.allow(kThere));
  CU_EXPECT_REFUSED(cu().cuMemHostRegister(host.data(), kHuge, CU_MEMHOSTREGISTER_PORTABLE));
  // Afterwards what is there can be registered, and used.
  auto* const words = reinterpret_cast<uint32_t*>(host.data());
  std::fill_n(words, kResourceWords, 35);
  CU_ASSERT(cu().cuMemHostRegister(host.data(), kThere, CU_MEMHOSTREGISTER_PORTABLE));
  const Buffer data(kResourceWords);
  const Stream stream;
  CU_ASSERT(cu().cuMemcpyHtoDAsync(data.address(), words, kResourceBytes, stream.get()));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  EXPECT_EQ(word_at(data.address() + kResourceBytes - 4), 35U);
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemHostUnregister(host.data()));
}

TEST_F(Registration, OfAGigabyteWorksAndIsTimed) {
  constexpr size_t kGigabyte = size_t{1} << 30;
  const Nowhere host(kGigabyte);
  ASSERT_NE(host.data(), MAP_FAILED);
  ASSERT_TRUE(host.allow(kGigabyte));
  const auto start = std::chrono::steady_clock::now();
  CU_ASSERT(cu().cuMemHostRegister(host.data(), kGigabyte, CU_MEMHOSTREGISTER_PORTABLE));
  const auto took = std::chrono::steady_clock::now() - start;
  RecordProperty("register_ms_per_gib",
                 std::to_string(std::chrono::duration<double, std::milli>(took).count()));
  auto* const last = reinterpret_cast<uint32_t*>(host.data() + kGigabyte - kResourceBytes);
  std::fill_n(last, kResourceWords, 36);
  const Buffer data(kResourceWords);
  const Stream stream;
  CU_ASSERT(cu().cuMemcpyHtoDAsync(data.address(), last, kResourceBytes, stream.get()));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  EXPECT_EQ(word_at(data.address()), 36U);
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemHostUnregister(host.data()));
}

TEST_F(OwnContext, SeesADeviceThatIsNotSmallerThanWhatIsFree) {
  size_t whole = 0;
  CU_ASSERT(cu().cuDeviceTotalMem(&whole, 0));
  EXPECT_GE(whole, free_memory());
}

TEST_F(Array, TakesFreeMemoryAndGivesItBack) {
  // Arrays have no address, so what they take is seen in free memory alone; small ones share a
  // chunk.
  constexpr size_t kSide = 512;
  CU_ASSERT(cu().cuCtxSynchronize());
  const size_t before = free_memory();
  CUDA_ARRAY_DESCRIPTOR plane{};
  plane.Width = plane.Height = kSide;
  plane.Format = CU_AD_FORMAT_FLOAT;
  plane.NumChannels = 1;
  CUDA_ARRAY3D_DESCRIPTOR deep{};
  deep.Width = deep.Height = kSide;
  deep.Format = CU_AD_FORMAT_FLOAT;
  deep.NumChannels = 1;
  CUarray first = nullptr;
  CUarray second = nullptr;
  CUmipmappedArray third = nullptr;
  CU_ASSERT(cu().cuArrayCreate(&first, &plane));
  CU_ASSERT(cu().cuArray3DCreate(&second, &deep));
  CU_ASSERT(cu().cuMipmappedArrayCreate(&third, &deep, 2));
  const size_t during = free_memory();
  EXPECT_LE(during, before);
  RecordProperty("bytes_of_three_arrays_of_a_mebibyte", std::to_string(before - during));
  CU_EXPECT(CUDA_SUCCESS, cu().cuArrayDestroy(first));
  CU_EXPECT(CUDA_SUCCESS, cu().cuArrayDestroy(second));
  CU_EXPECT(CUDA_SUCCESS, cu().cuMipmappedArrayDestroy(third));
  EXPECT_GE(free_memory(), during);
}

TEST_F(OwnContext, HasStreamsThatKnowItAndTheirFlags) {
  CUcontext primary = nullptr;
  CU_ASSERT(cu().cuCtxGetCurrent(&primary));
  for (const unsigned wanted : {CU_STREAM_DEFAULT, CU_STREAM_NON_BLOCKING}) {
    const Stream stream(wanted);
    CUcontext context = nullptr;
    unsigned flags = 99;
    CU_ASSERT(cu().cuStreamGetCtx(stream.get(), &context));
    EXPECT_EQ(context, primary);
    CU_ASSERT(cu().cuStreamGetFlags(stream.get(), &flags));
    EXPECT_EQ(flags, wanted);
  }
}

TEST_F(OwnContext, IsMadeBesideThePrimaryOneAndGoesWithItsMemory) {
  CUcontext primary = nullptr;
  CU_ASSERT(cu().cuCtxGetCurrent(&primary));
  CUcontext own = nullptr;
  CU_ASSERT(cu().cuCtxCreate(&own, nullptr, 0, 0));
  CUcontext current = nullptr;
  CU_ASSERT(cu().cuCtxGetCurrent(&current));
  EXPECT_EQ(current, own);
  EXPECT_NE(own, primary);
  const size_t before = free_memory();
  CUdeviceptr memory = 0;
  CU_ASSERT(cu().cuMemAlloc(&memory, kGranule / 2));
  CU_ASSERT(cu().cuMemsetD32(memory, 37, kResourceWords));
  EXPECT_EQ(word_at(memory), 37U);
  CU_ASSERT(cu().cuCtxDestroy(own));
  CU_ASSERT(cu().cuCtxSetCurrent(primary));
  EXPECT_GE(free_memory(), before);
}

TEST_F(OwnContext, LeavesThePrimaryOneActive) {
  unsigned flags = 99;
  int active = 0;
  CU_ASSERT(cu().cuDevicePrimaryCtxGetState(0, &flags, &active));
  EXPECT_EQ(active, 1);
}

int reset_primary() {
  CUdeviceptr memory = 0;
  CUcontext context = nullptr;
  unsigned flags = 0;
  int active = 1;
  if (cu().cuMemAlloc(&memory, kGranule) != CUDA_SUCCESS) return kSetUpFailed;
  const size_t before = free_memory();
  if (cu().cuDevicePrimaryCtxReset(0) != CUDA_SUCCESS) return kNotAsClaimed;
  if (cu().cuDevicePrimaryCtxGetState(0, &flags, &active) != CUDA_SUCCESS) return kNotAsClaimed;
  if (active != 0) return kNotAsClaimed;
  if (cu().cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS) return kNotAsClaimed;
  if (cu().cuCtxSetCurrent(context) != CUDA_SUCCESS) return kNotAsClaimed;
  if (free_memory() < before) return kNotAsClaimed;
  // The old context's memory is gone, and the new context works.
  if (cu().cuMemFree(memory) == CUDA_SUCCESS) return kNotAsClaimed;
  if (cu().cuMemAlloc(&memory, kGranule) != CUDA_SUCCESS) return kNotAsClaimed;
  return cu().cuMemsetD32(memory, 1, kResourceWords) == CUDA_SUCCESS ? kAsClaimed : kNotAsClaimed;
}
const ScenarioRegistration kResetPrimary("reset_primary", reset_primary);

TEST_F(OwnContext, IsNewAfterAResetOfThePrimaryOne) {
  EXPECT_EQ(run_in_child("reset_primary"), kAsClaimed);
}

TEST_F(OwnContext, HasNoTableOfAnUnknownName) {
  // superpipe passes tables on as they are; what it has to know is that none is made up.
  const CUuuid unknown{};
  const void* table = nullptr;
  CU_EXPECT_REFUSED(cu().cuGetExportTable(&table, &unknown));
  EXPECT_EQ(table, nullptr);
}

}  // namespace
}  // namespace conformance
