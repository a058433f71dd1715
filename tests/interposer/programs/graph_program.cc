// A CUDA program on the driver API that launches graphs; each scenario prints what it computed, so
// that runs can be compared byte by byte.
//
//     graph_program SCENARIO KERNELS.fatbin
#include <cuda.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "tests/interposer/programs/program.h"

using programs::accumulate;
using programs::allocate;
using programs::function;
using programs::kBytes;
using programs::kFloats;
using programs::load_layers;
using programs::print_buffer;

namespace {

constexpr int kLayers = 8;
constexpr int kPasses = 4;

CUstream make_stream() {
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

/// The graph that `submit(stream)` is captured into.
template <typename Submit>
CUgraph capture(const Submit& submit) {
  const CUstream stream = make_stream();
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  submit(stream);
  CUgraph graph = nullptr;
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuStreamDestroy(stream));
  return graph;
}

CUgraphExec instantiate(CUgraph graph) {
  CUgraphExec executable = nullptr;
  CHECK(cuGraphInstantiate(&executable, graph, 0));
  return executable;
}

/// The parameters of a kernel node that accumulates.
class Accumulation {
 public:
  Accumulation(CUdeviceptr output, CUdeviceptr input, float factor)
      : output_(output), input_(input), factor_(factor) {
    node_.func = function("accumulate");
    node_.gridDimX = kFloats / 256;
    node_.gridDimY = node_.gridDimZ = 1;
    node_.blockDimX = 256;
    node_.blockDimY = node_.blockDimZ = 1;
    node_.kernelParams = parameters_;
  }
  Accumulation(const Accumulation&) = delete;
  Accumulation& operator=(const Accumulation&) = delete;

  [[nodiscard]] const CUDA_KERNEL_NODE_PARAMS* node() const { return &node_; }

 private:
  CUdeviceptr output_;
  CUdeviceptr input_;
  float factor_;
  int count_ = kFloats;
  void* parameters_[4] = {&output_, &input_, &factor_, &count_};
  CUDA_KERNEL_NODE_PARAMS node_{};
};

CUgraphNode add_accumulation(CUgraph graph, const Accumulation& accumulation,
                             const std::vector<CUgraphNode>& after = {}) {
  CUgraphNode node = nullptr;
  CHECK(cuGraphAddKernelNode(&node, graph, after.data(), after.size(), accumulation.node()));
  return node;
}

void print_all(CUdeviceptr state, const std::vector<CUdeviceptr>& weights) {
  CHECK(cuCtxSynchronize());
  print_buffer("state", state);
  for (const CUdeviceptr weight : weights) print_buffer("weight", weight);
}

CUdeviceptr make_state() {
  const CUdeviceptr state = allocate();
  CHECK(cuMemsetD8(state, 0, kBytes));
  CHECK(cuCtxSynchronize());
  return state;
}

/// A graph for each two layers, captured once and launched in each pass.
void captured() {
  const auto weights = load_layers(kLayers);
  const CUdeviceptr state = make_state();
  std::vector<CUgraphExec> executables;
  for (std::size_t i = 0; i < weights.size(); i += 2) {
    const CUgraph graph = capture([&](CUstream stream) {
      accumulate(state, weights[i], 0.5f, stream);
      accumulate(weights[i + 1], state, 0.25f, stream);
    });
    executables.push_back(instantiate(graph));
    CHECK(cuGraphDestroy(graph));
  }
  const CUstream stream = make_stream();
  for (int pass = 0; pass < kPasses; ++pass) {
    for (const CUgraphExec executable : executables) CHECK(cuGraphLaunch(executable, stream));
  }
  print_all(state, weights);
  for (const CUgraphExec executable : executables) CHECK(cuGraphExecDestroy(executable));
  // Their buffers are as free to go as before.
  for (int pass = 0; pass < kPasses; ++pass) {
    for (const CUdeviceptr weight : weights) accumulate(state, weight, 0.125f, stream);
  }
  print_all(state, weights);
}

/// Copies and fills in graphs, captured and added.
void memory_nodes() {
  const auto weights = load_layers(kLayers);
  const CUdeviceptr state = make_state();
  void* in = nullptr;
  void* out = nullptr;
  CHECK(cuMemHostAlloc(&in, kBytes, 0));
  CHECK(cuMemHostAlloc(&out, kBytes, 0));
  std::memcpy(in, programs::content(99).data(), kBytes);
  CUcontext context = nullptr;
  CHECK(cuCtxGetCurrent(&context));

  std::vector<CUgraphExec> executables;
  executables.push_back(instantiate(capture([&](CUstream stream) {
    CHECK(cuMemcpyHtoDAsync(weights[0], in, kBytes, stream));
    CHECK(cuMemcpyDtoDAsync(weights[1], weights[2], kBytes, stream));
    accumulate(weights[1], weights[0], 0.5f, stream);
    CHECK(cuMemcpyDtoHAsync(out, weights[1], kBytes, stream));
  })));
  executables.push_back(instantiate(capture([&](CUstream stream) {
    CHECK(cuMemsetD32Async(weights[3], 0x3F800000, kFloats, stream));
    accumulate(state, weights[3], 0.5f, stream);
  })));
  CUgraph graph = nullptr;
  CHECK(cuGraphCreate(&graph, 0));
  CUDA_MEMSET_NODE_PARAMS fill{};
  fill.dst = weights[4];
  fill.elementSize = 4;
  fill.value = 0x40000000;
  fill.width = kFloats;
  fill.height = 1;
  CUgraphNode filled = nullptr;
  CHECK(cuGraphAddMemsetNode(&filled, graph, nullptr, 0, &fill, context));
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = weights[4];
  copy.dstDevice = weights[5];
  copy.WidthInBytes = kBytes;
  copy.Height = copy.Depth = 1;
  CUgraphNode copied = nullptr;
  CHECK(cuGraphAddMemcpyNode(&copied, graph, &filled, 1, &copy, context));
  const CUgraphExec added = instantiate(graph);
  executables.push_back(added);

  const CUstream stream = make_stream();
  for (int pass = 0; pass < kPasses; ++pass) {
    for (const CUgraphExec executable : executables) {
      CHECK(cuGraphLaunch(executable, stream));
      for (const CUdeviceptr weight : {weights[6], weights[7]}) {
        accumulate(state, weight, 0.125f, stream);
      }
    }
    CHECK(cuStreamSynchronize(stream));
    std::printf("out %016llx\n", static_cast<unsigned long long>(programs::hash_of(out, kBytes)));
    // What a node of an executable graph names from now on, it names at the next launch.
    copy.dstDevice = pass % 2 == 0 ? weights[6] : weights[5];
    CHECK(cuGraphExecMemcpyNodeSetParams(added, copied, &copy, context));
  }
  print_all(state, weights);
}

/// Graphs that are built, cloned, put into others and changed in every way there is.
void changed() {
  const auto weights = load_layers(kLayers);
  const CUdeviceptr state = make_state();
  CUgraph graph = nullptr;
  CHECK(cuGraphCreate(&graph, 0));
  const Accumulation first(state, weights[0], 0.5f);
  const Accumulation second(state, weights[1], 0.25f);
  const CUgraphNode node = add_accumulation(graph, first);
  add_accumulation(graph, second, {node});

  // A clone, and then another input for the first node of the original.
  CUgraph clone = nullptr;
  CHECK(cuGraphClone(&clone, graph));
  const Accumulation third(state, weights[2], 0.5f);
  CHECK(cuGraphKernelNodeSetParams(node, third.node()));

  // A graph in a graph.
  CUgraph parent = nullptr;
  CHECK(cuGraphCreate(&parent, 0));
  CUgraphNode child = nullptr;
  CHECK(cuGraphAddChildGraphNode(&child, parent, nullptr, 0, clone));
  const Accumulation last(weights[3], state, 0.125f);
  add_accumulation(parent, last, {child});

  const CUgraphExec original = instantiate(graph);
  const CUgraphExec nested = instantiate(parent);
  const CUstream stream = make_stream();
  const auto pass = [&] {
    CHECK(cuGraphLaunch(original, stream));
    for (const CUdeviceptr weight : weights) accumulate(state, weight, 0.0625f, stream);
    CHECK(cuGraphLaunch(nested, stream));
    for (const CUdeviceptr weight : weights) accumulate(state, weight, 0.0625f, stream);
  };
  pass();
  const Accumulation fourth(state, weights[4], 0.5f);
  CHECK(cuGraphExecKernelNodeSetParams(original, node, fourth.node()));
  pass();

  CUgraph other = nullptr;
  CHECK(cuGraphCreate(&other, 0));
  const Accumulation fifth(state, weights[5], 0.5f);
  const Accumulation sixth(state, weights[6], 0.25f);
  add_accumulation(other, sixth, {add_accumulation(other, fifth)});
  CHECK(cuGraphExecChildGraphNodeSetParams(nested, child, other));
  pass();
  CUgraphExecUpdateResultInfo info{};
  CHECK(cuGraphExecUpdate(original, other, &info));
  CHECK(cuGraphDestroy(other));
  pass();
  print_all(state, weights);
}

/// A graph that is launched into a capture.
void launched_in_capture() {
  const auto weights = load_layers(kLayers);
  const CUdeviceptr state = make_state();
  const CUgraphExec inner =
      instantiate(capture([&](CUstream stream) { accumulate(state, weights[0], 0.5f, stream); }));
  const CUgraphExec outer = instantiate(capture([&](CUstream stream) {
    CHECK(cuGraphLaunch(inner, stream));
    accumulate(state, weights[1], 0.5f, stream);
  }));
  CHECK(cuGraphExecDestroy(inner));
  const CUstream stream = make_stream();
  for (int pass = 0; pass < kPasses; ++pass) {
    CHECK(cuGraphLaunch(outer, stream));
    for (const CUdeviceptr weight : weights) accumulate(weight, state, 0.0625f, stream);
  }
  print_all(state, weights);
}

/// A graph with a conditional node, whose body the driver does not tell.
void conditional() {
  const auto weights = load_layers(kLayers);
  const CUdeviceptr state = make_state();
  CUgraph graph = nullptr;
  CHECK(cuGraphCreate(&graph, 0));
  CUcontext context = nullptr;
  CHECK(cuCtxGetCurrent(&context));
  CUgraphConditionalHandle handle{};
  CHECK(cuGraphConditionalHandleCreate(&handle, graph, context, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
  CUgraphNodeParams parameters{};
  parameters.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  parameters.conditional.handle = handle;
  parameters.conditional.type = CU_GRAPH_COND_TYPE_IF;
  parameters.conditional.size = 1;
  parameters.conditional.ctx = context;
  CUgraphNode node = nullptr;
  CHECK(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &parameters));
  const Accumulation only(state, weights[0], 0.5f);
  add_accumulation(parameters.conditional.phGraph_out[0], only);
  const CUgraphExec executable = instantiate(graph);
  const CUstream stream = make_stream();
  for (int pass = 0; pass < kPasses; ++pass) {
    CHECK(cuGraphLaunch(executable, stream));
    for (const CUdeviceptr weight : weights) accumulate(state, weight, 0.0625f, stream);
  }
  print_all(state, weights);
}

/// What a graph allocates as it runs: `count` allocations of 2 MiB that are there at once.
CUgraph with_memory_of_its_own(CUdeviceptr state, CUdeviceptr weight, int count) {
  return capture([=](CUstream stream) {
    std::vector<CUdeviceptr> own(static_cast<std::size_t>(count));
    for (CUdeviceptr& memory : own) {
      CHECK(cuMemAllocAsync(&memory, kBytes, stream));
      CHECK(cuMemsetD32Async(memory, 0, kFloats, stream));
      accumulate(memory, weight, 0.5f, stream);
    }
    for (const CUdeviceptr memory : own) {
      accumulate(state, memory, 0.25f, stream);
      CHECK(cuMemFreeAsync(memory, stream));
    }
  });
}

void pass_over(CUdeviceptr state, const std::vector<CUdeviceptr>& weights, CUstream stream) {
  for (const CUdeviceptr weight : weights) accumulate(weight, state, 0.0625f, stream);
  CHECK(cuStreamSynchronize(stream));
}

/// Graphs that allocate, launched and uploaded while buffers fill the device, whose memory is given
/// back between.
void own_memory() {
  const auto weights = load_layers(kLayers);
  const CUdeviceptr state = make_state();
  const CUstream stream = make_stream();
  const CUgraph graph = with_memory_of_its_own(state, weights[0], 3);
  const CUgraphExec executable = instantiate(graph);
  for (int round = 0; round < 3; ++round) {
    for (int pass = 0; pass < 3; ++pass) pass_over(state, weights, stream);
    if (round == 1) CHECK(cuGraphUpload(executable, stream));
    for (int pass = 0; pass < kPasses; ++pass) {
      CHECK(cuGraphLaunch(executable, stream));
      CHECK(cuGraphLaunch(executable, stream));
      pass_over(state, weights, stream);
    }
    CHECK(cuDeviceGraphMemTrim(0));
  }
  CHECK(cuGraphExecDestroy(executable));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuDeviceGraphMemTrim(0));
  pass_over(state, weights, stream);
  print_all(state, weights);
}

/// A graph that allocates more than a budget below 32 MiB.
void own_memory_too_large() {
  const auto weights = load_layers(2);
  const CUdeviceptr state = make_state();
  const CUgraphExec executable = instantiate(with_memory_of_its_own(state, weights[0], 16));
  std::printf("launch %d\n", static_cast<int>(cuGraphLaunch(executable, make_stream())));
  CHECK(cuCtxSynchronize());
  pass_over(state, weights, make_stream());
  print_buffer("weight", weights[0]);
}

/// One graph that names everything.
void too_large() {
  const auto weights = load_layers(16);
  const CUdeviceptr state = make_state();
  const CUgraphExec executable = instantiate(capture([&](CUstream stream) {
    for (const CUdeviceptr weight : weights) accumulate(state, weight, 0.5f, stream);
  }));
  std::printf("launch %d\n", static_cast<int>(cuGraphLaunch(executable, make_stream())));
  CHECK(cuCtxSynchronize());
  print_buffer("weight", weights[0]);
}

}  // namespace

int main(int count, char** arguments) {
  using programs::without_words;
  return programs::run_scenario(count, arguments,
                                {{"captured", without_words<captured>},
                                 {"memory_nodes", without_words<memory_nodes>},
                                 {"changed", without_words<changed>},
                                 {"launched_in_capture", without_words<launched_in_capture>},
                                 {"conditional", without_words<conditional>},
                                 {"own_memory", without_words<own_memory>},
                                 {"own_memory_too_large", without_words<own_memory_too_large>},
                                 {"too_large", without_words<too_large>}});
}
