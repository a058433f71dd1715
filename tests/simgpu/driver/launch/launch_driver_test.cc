// Launches through the built driver: kernels of a plugin, mixers, refused launches, modelled time.
#include <atomic>

#include "tests/simgpu/driver/support/module_fixture.h"

namespace simgpu {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Lt;

using LaunchDriver = DriverTest;
using MixerDriver = DriverTest;
using OccupancyDriver = DriverTest;

/// The parameters of add(float* out, const float* in, int n).
struct AddArguments {
  CUdeviceptr out = 0;
  CUdeviceptr in = 0;
  int n = 0;
  std::vector<void*> pointers() { return {&out, &in, &n}; }
};

TEST_F(LaunchDriver, RunsThePluginsKernel) {
  AddArguments arguments{device<float>({1, 1, 1, 1}), device<float>({1, 2, 3, 4}), 4};
  ASSERT_EQ(launch(function(load(), "add"), arguments.pointers(), 4), CUDA_SUCCESS);
  EXPECT_THAT(host<float>(arguments.out, 4), ElementsAre(2.0F, 5.0F, 10.0F, 17.0F));
}

// Numbers that a kernel writes may look like addresses of what it works on, and stay as they are.
TEST_F(LaunchDriver, TellsAKernelTheProgramsAddressOfWhatItWorksOn) {
  CUdeviceptr out = device<std::uint64_t>({0, 0});
  CUdeviceptr target = device<float>({1, 2, 3, 4}) + 8;
  ASSERT_EQ(launch(function(load(), "point_at"), {&out, &target}), CUDA_SUCCESS);
  const std::vector<std::uint64_t> stored = host<std::uint64_t>(out, 2);
  EXPECT_EQ(stored[0], target);
  EXPECT_NE(stored[1], target) << "the kernel works on a copy";
}

TEST_F(LaunchDriver, PassesTheExtentsOfTheLaunch) {
  // Only two threads: the third and fourth element stay.
  AddArguments arguments{device<float>({1, 1, 1, 1}), device<float>({1, 2, 3, 4}), 4};
  ASSERT_EQ(launch(function(load(), "add"), arguments.pointers(), 2), CUDA_SUCCESS);
  EXPECT_THAT(host<float>(arguments.out, 4), ElementsAre(2.0F, 5.0F, 1.0F, 1.0F));
}

TEST_F(LaunchDriver, CopiesParametersBeforeItReturns) {
  const CUfunction add = function(load(), "add");
  AddArguments arguments{device<float>({0, 0}), device<float>({1, 1}), 2};
  const AddArguments original = arguments;
  ASSERT_EQ(launch(function(load(), "nothing"), {}), CUDA_SUCCESS);  // keeps the stream busy 3 ms
  ASSERT_EQ(launch(add, arguments.pointers(), 2), CUDA_SUCCESS);
  arguments = {1, 2, 1000};
  EXPECT_THAT(host<float>(original.out, 2), ElementsAre(1.0F, 2.0F));
}

TEST_F(LaunchDriver, TakesTheParameterBufferForm) {
  struct {
    CUdeviceptr out;
    CUdeviceptr in;
    int n;
  } packed{device<float>({0, 0}), device<float>({5, 6}), 2};
  std::size_t size = 20;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  const CUfunction add = function(load(), "add");
  ASSERT_EQ(cuLaunchKernel(add, 1, 1, 1, 2, 1, 1, 0, nullptr, nullptr, extra), CUDA_SUCCESS);
  EXPECT_THAT(host<float>(packed.out, 2), ElementsAre(5.0F, 12.0F));
  size = 19;
  EXPECT_EQ(cuLaunchKernel(add, 1, 1, 1, 2, 1, 1, 0, nullptr, nullptr, extra),
            CUDA_ERROR_INVALID_VALUE);
  void* unknown[] = {reinterpret_cast<void*>(9), &packed, CU_LAUNCH_PARAM_END};
  EXPECT_EQ(cuLaunchKernel(add, 1, 1, 1, 2, 1, 1, 0, nullptr, nullptr, unknown),
            CUDA_ERROR_INVALID_VALUE);
  void* only_pointer[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_END};
  EXPECT_EQ(cuLaunchKernel(add, 1, 1, 1, 2, 1, 1, 0, nullptr, nullptr, only_pointer),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(LaunchDriver, TakesAKernelCastToAFunction) {
  const std::vector<std::byte> bytes = read_test_image("kernels.fatbin");
  CUlibrary library = nullptr;
  ASSERT_EQ(cuLibraryLoadData(&library, bytes.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
            CUDA_SUCCESS);
  CUkernel add = nullptr;
  ASSERT_EQ(cuLibraryGetKernel(&add, library, "add"), CUDA_SUCCESS);
  AddArguments arguments{device<float>({0, 0}), device<float>({1, 1}), 2};
  ASSERT_EQ(launch(reinterpret_cast<CUfunction>(add), arguments.pointers(), 2), CUDA_SUCCESS);
  EXPECT_THAT(host<float>(arguments.out, 2), ElementsAre(1.0F, 2.0F));
  EXPECT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
  EXPECT_EQ(launch(reinterpret_cast<CUfunction>(add), arguments.pointers(), 2),
            CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(LaunchDriver, KeepsStreamOrder) {
  CUstream stream = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  const CUfunction add = function(load(), "add");
  AddArguments arguments{device<float>({0, 0}), device<float>({1, 1}), 2};
  std::vector<void*> parameters = arguments.pointers();
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(cuLaunchKernel(add, 1, 1, 1, 2, 1, 1, 0, stream, parameters.data(), nullptr),
              CUDA_SUCCESS);
    ASSERT_EQ(cuMemcpyDtoDAsync_v2(arguments.in, arguments.out, 8, stream), CUDA_SUCCESS);
  }
  ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  // out += in, in = out: each step doubles element 0 after the first, triples element 1.
  EXPECT_THAT(host<float>(arguments.out, 2), ElementsAre(524288.0F, 2.0F * 1162261467.0F));
  EXPECT_EQ(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
}

/// Modelled milliseconds of one launch.
float milliseconds(CUfunction function, std::vector<void*> parameters, unsigned threads) {
  CUevent begin = nullptr;
  CUevent end = nullptr;
  EXPECT_EQ(cuEventCreate(&begin, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuEventCreate(&end, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuEventRecord(begin, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(
      cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, nullptr, parameters.data(), nullptr),
      CUDA_SUCCESS);
  EXPECT_EQ(cuEventRecord(end, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuEventSynchronize(end), CUDA_SUCCESS);
  float elapsed = -1;
  EXPECT_EQ(cuEventElapsedTime_v2(&elapsed, begin, end), CUDA_SUCCESS);
  return elapsed;
}

TEST_F(LaunchDriver, TakesTheTimeThatThePluginModels) {
  const CUmodule module = load();
  EXPECT_GE(milliseconds(function(module, "nothing"), {}, 1), 3.0F);  // 3000 us, fixed
  AddArguments arguments{device<float>(std::vector<float>(500)),
                         device<float>(std::vector<float>(500)), 500};
  EXPECT_GE(milliseconds(function(module, "add"), arguments.pointers(), 500), 5.0F);  // 10 us * n
}

TEST_F(LaunchDriver, RefusesExtentsThatNoDeviceHas) {
  const CUfunction nothing = function(load(), "nothing");
  const auto result = [&](unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                          unsigned bz, unsigned shared = 0) {
    return cuLaunchKernel(nothing, gx, gy, gz, bx, by, bz, shared, nullptr, nullptr, nullptr);
  };
  EXPECT_EQ(result(0, 1, 1, 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(result(1, 1, 1, 1, 0, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(result(1, 65536, 1, 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(result(1, 1, 65536, 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(result(0x80000000U, 1, 1, 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(result(1, 1, 1, 1025, 1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(result(1, 1, 1, 1, 1, 65), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(result(1, 1, 1, 32, 33, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(result(1, 1, 1, 1, 1, 1, 49153), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(result(1, 1, 1, 1024, 1, 1, 49152), CUDA_SUCCESS);
  EXPECT_EQ(result(0x7fffffffU, 65535, 65535, 1, 1, 1), CUDA_SUCCESS);
}

TEST_F(LaunchDriver, RefusesBlocksBeyondTheKernelsLaunchBound) {
  const CUfunction bounded = function(load(), kBoundedName);
  CUdeviceptr out = device<float>({0});
  EXPECT_EQ(launch(bounded, {&out}, 128), CUDA_SUCCESS);
  EXPECT_EQ(launch(bounded, {&out}, 129), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
}

TEST_F(LaunchDriver, AllowsMoreSharedMemoryOnceAskedFor) {
  const CUfunction nothing = function(load(), "nothing");
  const auto result = [&] {
    return cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 200000, nullptr, nullptr, nullptr);
  };
  EXPECT_EQ(result(), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuFuncSetAttribute(nothing, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 200000),
            CUDA_SUCCESS);
  EXPECT_EQ(result(), CUDA_SUCCESS);
}

TEST_F(LaunchDriver, RefusesMissingOrDoubleParameters) {
  const CUfunction add = function(load(), "add");
  AddArguments arguments{device<float>({0}), device<float>({0}), 1};
  std::vector<void*> parameters = arguments.pointers();
  void* extra[] = {CU_LAUNCH_PARAM_END};
  const auto result = [&](void** values, void** list) {
    return cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, nullptr, values, list);
  };
  EXPECT_EQ(result(nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(result(parameters.data(), extra), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(result(nullptr, extra), CUDA_ERROR_INVALID_VALUE);
  parameters[1] = nullptr;
  EXPECT_EQ(result(parameters.data(), nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(LaunchDriver, RefusesHandlesThatNameNothingHere) {
  const CUmodule module = load();
  const CUfunction nothing = function(module, "nothing");
  EXPECT_EQ(launch(nullptr, {}), CUDA_ERROR_INVALID_HANDLE);
  CUcontext other = nullptr;
  ASSERT_EQ(cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(launch(nothing, {}), CUDA_ERROR_INVALID_HANDLE);  // of another context
  ASSERT_EQ(cuCtxDestroy_v2(other), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(launch(nothing, {}), CUDA_ERROR_INVALID_CONTEXT);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
  EXPECT_EQ(launch(nothing, {}), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(LaunchDriver, RunsLaunchesQueuedBeforeTheirModuleWasUnloaded) {
  const CUmodule module = load();
  AddArguments arguments{device<float>({0, 0}), device<float>({1, 1}), 2};
  ASSERT_EQ(launch(function(module, "nothing"), {}), CUDA_SUCCESS);
  ASSERT_EQ(launch(function(module, "add"), arguments.pointers(), 2), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
  EXPECT_THAT(host<float>(arguments.out, 2), ElementsAre(1.0F, 2.0F));
}

CUlaunchConfig one_block(std::vector<CUlaunchAttribute>& attributes) {
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.attrs = attributes.data();
  config.numAttrs = static_cast<unsigned>(attributes.size());
  return config;
}

TEST_F(LaunchDriver, ExTakesAttributes) {
  const CUfunction nothing = function(load(), "nothing");
  std::vector<CUlaunchAttribute> attributes(1);
  CUlaunchConfig config = one_block(attributes);
  const auto result = [&] { return cuLaunchKernelEx(&config, nothing, nullptr, nullptr); };
  EXPECT_EQ(cuLaunchKernelEx(nullptr, nothing, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  EXPECT_EQ(result(), CUDA_SUCCESS);
  attributes[0].id = static_cast<CUlaunchAttributeID>(15);
  EXPECT_EQ(result(), CUDA_ERROR_INVALID_VALUE);
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attributes[0].value.clusterDim = {2, 1, 1};
  EXPECT_EQ(result(), CUDA_ERROR_INVALID_VALUE);  // does not divide the grid
  config.gridDimX = 32;
  EXPECT_EQ(result(), CUDA_SUCCESS);
  attributes[0].value.clusterDim = {16, 1, 1};
  EXPECT_EQ(result(), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  ASSERT_EQ(cuFuncSetAttribute(nothing, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
            CUDA_SUCCESS);
  EXPECT_EQ(result(), CUDA_SUCCESS);
  config.attrs = nullptr;
  EXPECT_EQ(result(), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(LaunchDriver, ExRecordsTheEventOfItsAttributes) {
  CUevent event = nullptr;
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  std::vector<CUlaunchAttribute> attributes(1);
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
  attributes[0].value.launchCompletionEvent.event = event;
  const CUlaunchConfig config = one_block(attributes);
  std::atomic<bool> may_begin{false};
  ASSERT_EQ(cuLaunchHostFunc(
                nullptr, [](void* open) { static_cast<std::atomic<bool>*>(open)->wait(false); },
                &may_begin),
            CUDA_SUCCESS);
  ASSERT_EQ(cuLaunchKernelEx(&config, function(load(), "nothing"), nullptr, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  may_begin = true;
  may_begin.notify_all();
  EXPECT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
}

TEST_F(LaunchDriver, CooperativeNeedsAllBlocksResident) {
  const CUfunction nothing = function(load(), "nothing");
  int multiprocessors = 0;
  ASSERT_EQ(cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0),
            CUDA_SUCCESS);
  const auto resident = static_cast<unsigned>(2 * multiprocessors);  // of 1024 threads each
  const auto result = [&](unsigned blocks) {
    return cuLaunchCooperativeKernel(nothing, blocks, 1, 1, 1024, 1, 1, 0, nullptr, nullptr);
  };
  EXPECT_EQ(result(resident), CUDA_SUCCESS);
  EXPECT_EQ(result(resident + 1), CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
}

/// Runs copy<double>(out, in, n), which no plugin has, and gives what it wrote.
std::vector<std::uint64_t> mix_copy(CUfunction copy, CUdeviceptr out, CUdeviceptr in) {
  std::size_t n = 3;
  void* parameters[] = {&out, &in, &n};
  EXPECT_EQ(cuLaunchKernel(copy, 1, 1, 1, 64, 1, 1, 0, nullptr, parameters, nullptr), CUDA_SUCCESS);
  std::vector<std::uint64_t> lanes(8);
  EXPECT_EQ(cuMemcpyDtoH_v2(lanes.data(), out, 64), CUDA_SUCCESS);
  return lanes;
}

TEST_F(MixerDriver, WritesTheOutputAndNeverThePointerToConst) {
  const CUfunction copy = function(load(), kCopyName);
  std::vector<std::uint64_t> input(16, 11);
  const CUdeviceptr in = device(input);
  const CUdeviceptr out = device(std::vector<std::uint64_t>(16, 1000));
  const std::vector<std::uint64_t> written = mix_copy(copy, out, in);
  std::vector<double> numbers(written.size());
  std::memcpy(numbers.data(), written.data(), 64);
  EXPECT_THAT(numbers, Each(AllOf(Ge(1.0), Lt(2.0))));
  EXPECT_EQ(host<std::uint64_t>(in, 16), input);
  EXPECT_THAT(host<std::uint64_t>(out + 64, 8), Each(1000U));
}

TEST_F(MixerDriver, DependsOnTheDataAndNotOnTheAddresses) {
  const CUfunction copy = function(load(), kCopyName);
  const auto run = [&](std::uint64_t value) {
    return mix_copy(copy, device(std::vector<std::uint64_t>(8)),
                    device(std::vector<std::uint64_t>(8, value)));
  };
  const auto first = run(1);
  EXPECT_EQ(run(1), first);
  EXPECT_NE(run(2), first);
}

TEST_F(MixerDriver, SaysOncePerKernelThatItsResultsAreNotComputed) {
  CUdeviceptr out = device<float>({0});
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(launch(function(load(), kBoundedName), {&out}), CUDA_SUCCESS);
  }
  ASSERT_EQ(launch(function(load(), "nothing"), {}), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  const std::string lines = ::testing::internal::GetCapturedStderr();
  // In one process with other tests that launched it, the line came before.
  EXPECT_LE(std::count(lines.begin(), lines.end(), '\n'), 1) << lines;
  if (!lines.empty()) {
    EXPECT_THAT(lines, HasSubstr("kernel _Z7boundedPf runs as a mixer; its results are not "
                                 "computed; add it to "));
    EXPECT_THAT(lines, HasSubstr("simgpu_test_plugin.so"));
  }
}

TEST_F(MixerDriver, FaultsOnAnUnmappedWordAndTheContextStaysBroken) {
  CUdeviceptr reserved = 0;
  ASSERT_EQ(cuMemAddressReserve(&reserved, std::size_t{2} << 20, 0, 0, 0), CUDA_SUCCESS);
  CUcontext broken = nullptr;
  ASSERT_EQ(cuCtxCreate_v2(&broken, 0, 0), CUDA_SUCCESS);
  const CUfunction bounded = function(load(), kBoundedName);
  CUdeviceptr word = reserved + 4096;
  ASSERT_EQ(launch(bounded, {&word}), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(launch(bounded, {&word}), CUDA_ERROR_ILLEGAL_ADDRESS);
  (void)cuCtxDestroy_v2(broken);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(reserved, std::size_t{2} << 20), CUDA_SUCCESS);
}

TEST_F(OccupancyDriver, AnswersForFunctionsAndKernels) {
  const CUfunction nothing = function(load(), "nothing");
  int blocks = 0;
  ASSERT_EQ(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 256, 0), CUDA_SUCCESS);
  EXPECT_EQ(blocks, 8);
  int grid = 0;
  int block = 0;
  ASSERT_EQ(cuOccupancyMaxPotentialBlockSize(&grid, &block, nothing, nullptr, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(block, 1024);
  int multiprocessors = 0;
  ASSERT_EQ(cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(grid, 2 * multiprocessors);
  ASSERT_EQ(cuOccupancyMaxPotentialBlockSize(&grid, &block, nothing, nullptr, 0, 100),
            CUDA_SUCCESS);
  EXPECT_LE(block, 100);
  std::size_t shared = 0;
  ASSERT_EQ(cuOccupancyAvailableDynamicSMemPerBlock(&shared, nothing, 8, 256), CUDA_SUCCESS);
  EXPECT_EQ(shared, 233472U / 8 - 1024);
  EXPECT_EQ(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 0, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nullptr, 32, 0),
            CUDA_ERROR_INVALID_HANDLE);
}

}  // namespace
}  // namespace simgpu
