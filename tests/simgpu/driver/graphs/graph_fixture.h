// A driver with the test plugin, a non-blocking stream, and graphs of its kernels.
#pragma once

#include "tests/simgpu/driver/support/module_fixture.h"

namespace simgpu {

/// The kernel `add` of the test plugin: out[i] += in[i] * (i % 8 + 1). The first element counts how
/// often it ran, if `in` is 1.
class GraphDriver : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    add_ = function(load(), "add");
    out_ = device(std::vector<float>(8, 0.0F));
    in_ = device(std::vector<float>(8, 1.0F));
  }

  static CUstream make_stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream stream = nullptr;
    EXPECT_EQ(cuStreamCreate(&stream, flags), CUDA_SUCCESS);
    return stream;
  }
  static CUevent make_event() {
    CUevent event = nullptr;
    EXPECT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    return event;
  }
  /// One launch of `add` on `stream`.
  CUresult add_on(CUstream stream) { return add_on(stream, out_); }
  CUresult add_on(CUstream stream, CUdeviceptr out) {
    void* parameters[] = {&out, &in_, &count_};
    return cuLaunchKernel(add_, 1, 1, 1, 8, 1, 1, 0, stream, parameters, nullptr);
  }
  /// A kernel node of `add`.
  CUgraphNode add_node(CUgraph graph, std::vector<CUgraphNode> after) {
    CUDA_KERNEL_NODE_PARAMS kernel = kernel_parameters(&out_);
    CUgraphNode node = nullptr;
    EXPECT_EQ(cuGraphAddKernelNode_v2(&node, graph, after.data(), after.size(), &kernel),
              CUDA_SUCCESS);
    return node;
  }
  CUDA_KERNEL_NODE_PARAMS kernel_parameters(CUdeviceptr* out) {
    pointers_ = {out, &in_, &count_};
    CUDA_KERNEL_NODE_PARAMS kernel{};
    kernel.func = add_;
    kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
    kernel.blockDimX = 8;
    kernel.blockDimY = kernel.blockDimZ = 1;
    kernel.kernelParams = pointers_.data();
    return kernel;
  }
  static CUgraph make_graph() {
    CUgraph graph = nullptr;
    EXPECT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    return graph;
  }
  static CUgraphExec instantiate(CUgraph graph, unsigned long long flags = 0) {
    CUgraphExec executable = nullptr;
    EXPECT_EQ(cuGraphInstantiateWithFlags(&executable, graph, flags), CUDA_SUCCESS);
    return executable;
  }
  void launch_and_wait(CUgraphExec executable) {
    ASSERT_EQ(cuGraphLaunch(executable, stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  }
  /// How often `add` ran on `out`.
  float runs(CUdeviceptr out) { return host<float>(out, 8)[0]; }
  float runs() { return runs(out_); }
  static std::size_t node_count(CUgraph graph) {
    std::size_t count = 0;
    EXPECT_EQ(cuGraphGetNodes(graph, nullptr, &count), CUDA_SUCCESS);
    return count;
  }
  static CUstreamCaptureStatus status_of(CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    EXPECT_EQ(cuStreamIsCapturing(stream, &status), CUDA_SUCCESS);
    return status;
  }

  CUstream stream_ = nullptr;
  CUfunction add_ = nullptr;
  CUdeviceptr out_ = 0;
  CUdeviceptr in_ = 0;
  int count_ = 8;
  std::vector<void*> pointers_;
};

}  // namespace simgpu
