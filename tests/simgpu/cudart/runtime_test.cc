// The runtime library on simgpu: launches compute, memory and streams do what the runtime API
// documents.

#include <cuda.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/simgpu/cudart/kernels.h"

namespace cudart_test {
namespace {

constexpr int kCount = 1000;

// Device memory that the test frees.
template <typename Value>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count) : count_(count) {
    EXPECT_EQ(cudaMalloc(&data_, bytes()), cudaSuccess);
  }
  explicit DeviceArray(const std::vector<Value>& values) : DeviceArray(values.size()) {
    EXPECT_EQ(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~DeviceArray() { EXPECT_EQ(cudaFree(data_), cudaSuccess); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  Value* get() const { return data_; }
  size_t bytes() const { return count_ * sizeof(Value); }
  std::vector<Value> read() const {
    std::vector<Value> values(count_);
    EXPECT_EQ(cudaMemcpy(values.data(), data_, bytes(), cudaMemcpyDeviceToHost), cudaSuccess);
    return values;
  }

 private:
  size_t count_;
  Value* data_ = nullptr;
};

std::vector<float> ramp(float first) {
  std::vector<float> values(kCount);
  std::iota(values.begin(), values.end(), first);
  return values;
}

class RuntimeTest : public ::testing::Test {
 protected:
  void SetUp() override { static_cast<void>(cudaGetLastError()); }
  void TearDown() override { EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess); }
};

using Launch = RuntimeTest;
using Device = RuntimeTest;
using Error = RuntimeTest;
using Memory = RuntimeTest;
using Pool = RuntimeTest;
using Graph = RuntimeTest;
using Stream = RuntimeTest;
using Symbol = RuntimeTest;
using EntryPoint = RuntimeTest;

TEST_F(Launch, AddsVectorsWhenLaunchedWithTripleBrackets) {
  const DeviceArray<float> a(ramp(1));
  const DeviceArray<float> b(ramp(100));
  const DeviceArray<float> out(kCount);
  ASSERT_EQ(launch_vector_add(a.get(), b.get(), out.get(), kCount, nullptr), cudaSuccess);
  const std::vector<float> sums = out.read();
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(sums[i], 101.0F + 2.0F * static_cast<float>(i)) << i;
}

TEST_F(Launch, PassesStructsByValueWithTheirPadding) {
  const DeviceArray<float> in(ramp(0));
  const DeviceArray<float> out(kCount);
  const ScaleParameters parameters{3.0F, kCount, in.get(), 'x', out.get()};
  ASSERT_EQ(launch_scale(parameters, 0.5, nullptr), cudaSuccess);
  const std::vector<float> scaled = out.read();
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(scaled[i], 3.0F * static_cast<float>(i) + 0.5F) << i;
}

TEST_F(Launch, ComputesWhenLaunchedThroughTheApi) {
  const DeviceArray<float> a(ramp(0));
  const DeviceArray<float> b(ramp(0));
  const DeviceArray<float> out(kCount);
  const float* first = a.get();
  const float* second = b.get();
  float* result = out.get();
  int count = kCount;
  void* arguments[] = {&first, &second, &result, &count};
  ASSERT_EQ(cudaLaunchKernel(vector_add_address(), dim3(4), dim3(256), arguments, 0, nullptr),
            cudaSuccess);
  EXPECT_EQ(out.read()[7], 14.0F);
  ASSERT_EQ(cudaMemset(result, 0, out.bytes()), cudaSuccess);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(4);
  config.blockDim = dim3(256);
  ASSERT_EQ(cudaLaunchKernelExC(&config, vector_add_address(), arguments), cudaSuccess);
  EXPECT_EQ(out.read()[9], 18.0F);
  ASSERT_EQ(cudaMemset(result, 0, out.bytes()), cudaSuccess);
  cudaKernel_t kernel = nullptr;
  ASSERT_EQ(cudaGetKernel(&kernel, vector_add_address()), cudaSuccess);
  ASSERT_EQ(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(4), dim3(256), arguments,
                             0, nullptr),
            cudaSuccess);
  EXPECT_EQ(out.read()[11], 22.0F);
}

TEST_F(Launch, RefusesBlocksThatTheDeviceCannotRun) {
  EXPECT_EQ(launch_with_block(4096), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch_with_block(0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(Launch, RefusesAnAddressThatIsNoKernel) {
  int no_kernel = 0;
  void* arguments[] = {nullptr};
  EXPECT_EQ(cudaLaunchKernel(&no_kernel, dim3(1), dim3(1), arguments, 0, nullptr),
            cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDeviceFunction);
}

TEST_F(Launch, TellsAttributesOccupancyAndParameters) {
  cudaFuncAttributes attributes{};
  ASSERT_EQ(cudaFuncGetAttributes(&attributes, vector_add_address()), cudaSuccess);
  EXPECT_EQ(attributes.maxThreadsPerBlock, 1024);
  EXPECT_EQ(attributes.binaryVersion, 90);
  EXPECT_GT(attributes.numRegs, 0);
  int blocks = 0;
  ASSERT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, vector_add_address(), 256, 0),
            cudaSuccess);
  EXPECT_GT(blocks, 0);
  size_t offset = 0;
  size_t size = 0;
  ASSERT_EQ(cudaFuncGetParamInfo(vector_add_address(), 3, &offset, &size), cudaSuccess);
  EXPECT_EQ(offset, 24U);
  EXPECT_EQ(size, 4U);
  EXPECT_EQ(cudaFuncGetParamInfo(vector_add_address(), 4, &offset, &size), cudaErrorInvalidValue);
  const char* name = nullptr;
  ASSERT_EQ(cudaFuncGetName(&name, vector_add_address()), cudaSuccess);
  EXPECT_STREQ(name, "_ZN11cudart_test10vector_addEPKfS1_Pfi");
}

TEST_F(Launch, RaisesTheDynamicSharedMemoryOfAKernel) {
  ASSERT_EQ(cudaFuncSetAttribute(vector_add_address(), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 96 * 1024),
            cudaSuccess);
  cudaFuncAttributes attributes{};
  ASSERT_EQ(cudaFuncGetAttributes(&attributes, vector_add_address()), cudaSuccess);
  EXPECT_EQ(attributes.maxDynamicSharedSizeBytes, 96 * 1024);
}

TEST_F(Device, TellsItsPropertiesAndAttributes) {
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  ASSERT_GE(count, 1);
  cudaDeviceProp properties{};
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_NE(std::string(properties.name), "");
  EXPECT_GT(properties.totalGlobalMem, 0U);
  EXPECT_EQ(properties.warpSize, 32);
  EXPECT_EQ(properties.maxThreadsPerBlock, 1024);
  int major = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), cudaSuccess);
  EXPECT_EQ(major, properties.major);
  size_t free = 0;
  size_t total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(total, properties.totalGlobalMem);
  EXPECT_LE(free, total);
}

TEST_F(Device, RefusesOrdinalsThatDoNotExist) {
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(count), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
  cudaDeviceProp properties{};
  EXPECT_EQ(cudaGetDeviceProperties(&properties, count), cudaErrorInvalidDevice);
  int device = 7;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 0);
}

TEST_F(Device, IsFoundByItsPciBusId) {
  char name[32] = {};
  ASSERT_EQ(cudaDeviceGetPCIBusId(name, sizeof(name), 0), cudaSuccess);
  int device = 7;
  ASSERT_EQ(cudaDeviceGetByPCIBusId(&device, name), cudaSuccess);
  EXPECT_EQ(device, 0);
}

TEST_F(Device, TellsVersions) {
  int version = 0;
  ASSERT_EQ(cudaRuntimeGetVersion(&version), cudaSuccess);
  EXPECT_EQ(version, CUDART_VERSION);
  ASSERT_EQ(cudaDriverGetVersion(&version), cudaSuccess);
  EXPECT_GE(version, CUDART_VERSION);
}

TEST_F(Device, WorksAgainAfterAReset) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 4096), cudaSuccess);
  ASSERT_EQ(cudaDeviceReset(), cudaSuccess);
  const DeviceArray<float> a(ramp(1));
  const DeviceArray<float> out(kCount);
  ASSERT_EQ(launch_vector_add(a.get(), a.get(), out.get(), kCount, nullptr), cudaSuccess);
  EXPECT_EQ(out.read()[0], 2.0F);
}

TEST_F(Device, GivesOtherThreadsTheSamePrimaryContext) {
  const DeviceArray<float> in(ramp(4));
  std::vector<float> seen(kCount);
  std::thread other([&] {
    EXPECT_EQ(cudaMemcpy(seen.data(), in.get(), in.bytes(), cudaMemcpyDeviceToHost), cudaSuccess);
  });
  other.join();
  EXPECT_EQ(seen, ramp(4));
}

TEST_F(Error, IsKeptForOneThreadUntilAsked) {
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, size_t{1} << 60), cudaErrorMemoryAllocation);
  EXPECT_EQ(memory, nullptr);
  std::thread other([] { EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess); });
  other.join();
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(Error, HasNameAndText) {
  EXPECT_STREQ(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorGraphExecUpdateFailure), "graph exec update failure");
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(1011)), "unrecognized error code");
}

TEST_F(Error, IsNotSupportedForWhatSimgpuLacks) {
  cudaArray_t array = nullptr;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  EXPECT_EQ(format.x, 32);
  EXPECT_EQ(cudaMallocArray(&array, &format, 16, 16), cudaErrorNotSupported);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotSupported);
}

TEST_F(Memory, CopiesEachWay) {
  const DeviceArray<float> a(ramp(5));
  const DeviceArray<float> b(kCount);
  ASSERT_EQ(cudaMemcpy(b.get(), a.get(), a.bytes(), cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(b.read(), ramp(5));
  std::vector<float> host(kCount);
  ASSERT_EQ(cudaMemcpy(host.data(), b.get(), b.bytes(), cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(host, ramp(5));
  std::vector<float> other(kCount);
  ASSERT_EQ(cudaMemcpy(other.data(), host.data(), b.bytes(), cudaMemcpyHostToHost), cudaSuccess);
  EXPECT_EQ(other, host);
  EXPECT_EQ(cudaMemcpy(other.data(), host.data(), 4, static_cast<cudaMemcpyKind>(7)),
            cudaErrorInvalidMemcpyDirection);
}

TEST_F(Memory, AnswersZeroBytesWithNull) {
  void* memory = &memory;
  EXPECT_EQ(cudaMalloc(&memory, 0), cudaSuccess);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(nullptr), cudaSuccess);
}

TEST_F(Memory, RefusesToFreeTwice) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 4096), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue);
}

TEST_F(Memory, CopiesRectangles) {
  constexpr size_t kWidth = 60;
  constexpr size_t kRows = 7;
  void* device = nullptr;
  size_t pitch = 0;
  ASSERT_EQ(cudaMallocPitch(&device, &pitch, kWidth, kRows), cudaSuccess);
  EXPECT_GE(pitch, kWidth);
  std::vector<uint8_t> host(kWidth * kRows);
  std::iota(host.begin(), host.end(), uint8_t{0});
  ASSERT_EQ(cudaMemcpy2D(device, pitch, host.data(), kWidth, kWidth, kRows, cudaMemcpyHostToDevice),
            cudaSuccess);
  std::vector<uint8_t> back(kWidth * kRows);
  ASSERT_EQ(cudaMemcpy2D(back.data(), kWidth, device, pitch, kWidth, kRows, cudaMemcpyDeviceToHost),
            cudaSuccess);
  EXPECT_EQ(back, host);
  EXPECT_EQ(
      cudaMemcpy2D(device, kWidth - 1, host.data(), kWidth, kWidth, kRows, cudaMemcpyHostToDevice),
      cudaErrorInvalidPitchValue);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

TEST_F(Memory, FillsWithBytes) {
  const DeviceArray<uint8_t> bytes(4096);
  ASSERT_EQ(cudaMemset(bytes.get(), 0x5a, 4096), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(bytes.get() + 100, 1, 50, nullptr), cudaSuccess);
  const std::vector<uint8_t> seen = bytes.read();
  EXPECT_EQ(seen[99], 0x5a);
  EXPECT_EQ(seen[100], 1);
  EXPECT_EQ(seen[149], 1);
  EXPECT_EQ(seen[150], 0x5a);
}

TEST_F(Memory, KnowsWhatAPointerIs) {
  const DeviceArray<float> device(16);
  cudaPointerAttributes attributes{};
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, device.get()), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.device, 0);
  EXPECT_EQ(attributes.devicePointer, device.get());
  void* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, 4096), cudaSuccess);
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, pinned), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(attributes.hostPointer, pinned);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  int local = 0;
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, &local), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
}

TEST_F(Memory, RegistersHostMemoryOnce) {
  std::vector<uint8_t> pages(1 << 20);
  ASSERT_EQ(cudaHostRegister(pages.data(), pages.size(), cudaHostRegisterDefault), cudaSuccess);
  EXPECT_EQ(cudaHostRegister(pages.data(), pages.size(), cudaHostRegisterDefault),
            cudaErrorHostMemoryAlreadyRegistered);
  EXPECT_EQ(cudaHostUnregister(pages.data()), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(pages.data()), cudaErrorHostMemoryNotRegistered);
}

TEST_F(Pool, AllocatesInStreamOrder) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  void* memory = nullptr;
  ASSERT_EQ(cudaMallocAsync(&memory, 1 << 20, stream), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(memory, 3, 1 << 20, stream), cudaSuccess);
  std::vector<uint8_t> host(1 << 20);
  ASSERT_EQ(cudaMemcpyAsync(host.data(), memory, host.size(), cudaMemcpyDeviceToHost, stream),
            cudaSuccess);
  ASSERT_EQ(cudaFreeAsync(memory, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(host.front(), 3);
  EXPECT_EQ(host.back(), 3);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(Pool, KeepsItsReleaseThreshold) {
  cudaMemPool_t pool = nullptr;
  ASSERT_EQ(cudaDeviceGetDefaultMemPool(&pool, 0), cudaSuccess);
  uint64_t threshold = 123456789;
  ASSERT_EQ(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold),
            cudaSuccess);
  uint64_t read = 0;
  ASSERT_EQ(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &read), cudaSuccess);
  EXPECT_EQ(read, threshold);
  threshold = 0;
  ASSERT_EQ(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold),
            cudaSuccess);
  EXPECT_EQ(cudaMemPoolTrimTo(pool, 0), cudaSuccess);
}

TEST_F(Stream, OrdersWorkAcrossStreamsByEvents) {
  cudaStream_t first = nullptr;
  cudaStream_t second = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), cudaSuccess);
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  float* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, 2 * kCount * sizeof(float)), cudaSuccess);
  for (int i = 0; i < kCount; ++i) pinned[i] = static_cast<float>(i);
  const DeviceArray<float> in(kCount);
  const DeviceArray<float> out(kCount);
  ASSERT_EQ(cudaMemcpyAsync(in.get(), pinned, in.bytes(), cudaMemcpyHostToDevice, first),
            cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, first), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
  ASSERT_EQ(launch_vector_add(in.get(), in.get(), out.get(), kCount, second), cudaSuccess);
  ASSERT_EQ(
      cudaMemcpyAsync(pinned + kCount, out.get(), out.bytes(), cudaMemcpyDeviceToHost, second),
      cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(pinned[kCount + 123], 246.0F);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(first), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(second), cudaSuccess);
}

TEST_F(Stream, RunsHostFunctionsInOrder) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  std::vector<int> order;
  struct Call {
    std::vector<int>* order;
    int value;
  };
  Call calls[] = {{&order, 1}, {&order, 2}, {&order, 3}};
  for (Call& call : calls) {
    ASSERT_EQ(cudaLaunchHostFunc(
                  stream,
                  [](void* data) {
                    const auto* const made = static_cast<Call*>(data);
                    made->order->push_back(made->value);
                  },
                  &call),
              cudaSuccess);
  }
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(Stream, MeasuresTimeBetweenEvents) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  ASSERT_EQ(cudaEventCreate(&begin), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&end), cudaSuccess);
  const DeviceArray<float> a(ramp(0));
  ASSERT_EQ(cudaEventRecord(begin), cudaSuccess);
  ASSERT_EQ(launch_vector_add(a.get(), a.get(), a.get(), kCount, nullptr), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(end), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(end), cudaSuccess);
  float milliseconds = -1;
  ASSERT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaSuccess);
  EXPECT_GT(milliseconds, 0);
  EXPECT_EQ(cudaEventDestroy(begin), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(end), cudaSuccess);
}

TEST_F(Stream, IsNotCapturingByItself) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusInvalidated;
  ASSERT_EQ(cudaStreamIsCapturing(stream, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(Graph, ReplaysWhatWasCaptured) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  const DeviceArray<float> sum(ramp(0));
  const DeviceArray<float> step(std::vector<float>(kCount, 1.0F));
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  ASSERT_EQ(launch_vector_add(sum.get(), step.get(), sum.get(), kCount, stream), cudaSuccess);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  ASSERT_EQ(cudaStreamGetCaptureInfo(stream, &status, &id, nullptr, nullptr, nullptr, nullptr),
            cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_NE(id, 0U);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 16), cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  static_cast<void>(cudaGetLastError());
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  ASSERT_EQ(launch_vector_add(sum.get(), step.get(), sum.get(), kCount, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch),
            cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  for (int launch = 0; launch < 3; ++launch) {
    ASSERT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
  }
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(sum.read(), ramp(3));
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(Graph, RunsNodesThatAProgramAdds) {
  const std::vector<float> twos(kCount, 2.0F);
  const DeviceArray<float> a(ramp(0));
  const DeviceArray<float> b(ramp(0));
  const DeviceArray<float> out(ramp(0));
  std::vector<float> result(kCount);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaGraphCreate(&graph, 0), cudaSuccess);
  cudaMemsetParams fill{};
  fill.dst = b.get();
  fill.elementSize = 4;
  fill.width = kCount;
  fill.height = 1;
  cudaGraphNode_t filled = nullptr;
  ASSERT_EQ(cudaGraphAddMemsetNode(&filled, graph, nullptr, 0, &fill), cudaSuccess);
  cudaGraphNode_t copied = nullptr;
  ASSERT_EQ(cudaGraphAddMemcpyNode1D(&copied, graph, nullptr, 0, a.get(), twos.data(), a.bytes(),
                                     cudaMemcpyHostToDevice),
            cudaSuccess);
  const float* a_address = a.get();
  const float* b_address = b.get();
  float* out_address = out.get();
  int count = kCount;
  void* arguments[] = {&a_address, &b_address, &out_address, &count};
  cudaKernelNodeParams kernel{};
  kernel.func = const_cast<void*>(vector_add_address());
  kernel.gridDim = dim3((kCount + 255) / 256);
  kernel.blockDim = dim3(256);
  kernel.kernelParams = arguments;
  const cudaGraphNode_t inputs[] = {filled, copied};
  cudaGraphNode_t added = nullptr;
  ASSERT_EQ(cudaGraphAddKernelNode(&added, graph, inputs, 2, &kernel), cudaSuccess);
  cudaGraphNodeParams last{};
  last.type = cudaGraphNodeTypeMemcpy;
  last.memcpy.copyParams.srcPtr = {out.get(), out.bytes(), out.bytes(), 1};
  last.memcpy.copyParams.dstPtr = {result.data(), out.bytes(), out.bytes(), 1};
  last.memcpy.copyParams.extent = {out.bytes(), 1, 1};
  last.memcpy.copyParams.kind = cudaMemcpyDeviceToHost;
  cudaGraphNode_t read = nullptr;
  ASSERT_EQ(cudaGraphAddNode(&read, graph, &added, nullptr, 1, &last), cudaSuccess);
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(executable, nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(result, twos);
  // The kernel's own parameters, with one changed, go back into the executable graph.
  cudaKernelNodeParams changed{};
  ASSERT_EQ(cudaGraphKernelNodeGetParams(added, &changed), cudaSuccess);
  EXPECT_EQ(changed.blockDim.x, 256U);
  b_address = a.get();
  changed.kernelParams = arguments;
  ASSERT_EQ(cudaGraphExecKernelNodeSetParams(executable, added, &changed), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(executable, nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(result, std::vector<float>(kCount, 4.0F));
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(Symbol, KeepsWhatIsCopiedToIt) {
  const int written[] = {1, 2, 3, 4};
  ASSERT_EQ(cudaMemcpyToSymbol(device_symbol(), written, sizeof(written)), cudaSuccess);
  int read[2] = {};
  ASSERT_EQ(cudaMemcpyFromSymbol(read, device_symbol(), sizeof(read), 2 * sizeof(int)),
            cudaSuccess);
  EXPECT_EQ(read[0], 3);
  EXPECT_EQ(read[1], 4);
  size_t bytes = 0;
  ASSERT_EQ(cudaGetSymbolSize(&bytes, constant_symbol()), cudaSuccess);
  EXPECT_EQ(bytes, 8 * sizeof(float));
  void* address = nullptr;
  ASSERT_EQ(cudaGetSymbolAddress(&address, constant_symbol()), cudaSuccess);
  EXPECT_NE(address, nullptr);
}

TEST_F(Symbol, RefusesCopiesBeyondItsEndAndUnknownSymbols) {
  const int written[8] = {};
  EXPECT_EQ(cudaMemcpyToSymbol(device_symbol(), written, sizeof(written)), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyToSymbol(&written, written, 4), cudaErrorInvalidSymbol);
}

TEST_F(EntryPoint, LeadsToTheDriver) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
  ASSERT_EQ(cudaGetDriverEntryPointByVersion("cuDriverGetVersion", &function, 12000,
                                             cudaEnableDefault, &status),
            cudaSuccess);
  EXPECT_EQ(status, cudaDriverEntryPointSuccess);
  int version = 0;
  EXPECT_EQ(reinterpret_cast<CUresult (*)(int*)>(function)(&version), CUDA_SUCCESS);
  EXPECT_GE(version, 13000);
}

TEST_F(EntryPoint, IsSymbolNotFoundForAnUnknownName) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSuccess;
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuNoSuchFunction", &function, 12000,
                                             cudaEnableDefault, &status),
            cudaSuccess);
  EXPECT_EQ(status, cudaDriverEntryPointSymbolNotFound);
}

}  // namespace
}  // namespace cudart_test
