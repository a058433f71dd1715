// Work in green contexts of the primary context, on buffers that do not fit on the device together.
//
//     green_program SCENARIO KERNELS.fatbin
#include <cuda.h>

#include <array>
#include <cstdio>
#include <vector>

#include "tests/interposer/programs/program.h"

using programs::accumulate;
using programs::allocate;
using programs::content;
using programs::kBytes;
using programs::kFloats;
using programs::load_layers;
using programs::print_buffer;

namespace {

constexpr int kLayers = 8;
constexpr int kPasses = 4;

/// Two green contexts that share the device.
std::array<CUgreenCtx, 2> make_green_contexts() {
  CUdevResource whole{};
  CHECK(cuDeviceGetDevResource(0, &whole, CU_DEV_RESOURCE_TYPE_SM));
  CUdevResource part{};
  CUdevResource rest{};
  unsigned groups = 1;
  CHECK(cuDevSmResourceSplitByCount(&part, &groups, &whole, &rest, 0, 64));
  std::array<CUgreenCtx, 2> green{};
  std::array<CUdevResource, 2> resources{part, rest};
  for (std::size_t i = 0; i < green.size(); ++i) {
    CUdevResourceDesc description = nullptr;
    CHECK(cuDevResourceGenerateDesc(&description, &resources[i], 1));
    CHECK(cuGreenCtxCreate(&green[i], description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  }
  return green;
}

CUstream stream_of(CUgreenCtx green) {
  CUstream stream = nullptr;
  CHECK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
  return stream;
}

CUcontext converted(CUgreenCtx green) {
  CUcontext context = nullptr;
  CHECK(cuCtxFromGreenCtx(&context, green));
  return context;
}

/// What has been submitted to `from` comes before what `to` gets from now on.
void order(CUstream from, CUstream to) {
  CUevent event = nullptr;
  CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventRecord(event, from));
  CHECK(cuStreamWaitEvent(to, event, 0));
  CHECK(cuEventDestroy(event));
}

/// Passes over all layers that write them, each half in a stream of its own.
void run_passes(CUstream first, CUstream second, CUdeviceptr state,
                const std::vector<CUdeviceptr>& weights) {
  for (int pass = 0; pass < kPasses; ++pass) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const CUstream stream = i < weights.size() / 2 ? first : second;
      const CUstream next = i + 1 < weights.size() / 2 || i + 1 == weights.size() ? first : second;
      accumulate(state, weights[i], 0.25f, stream);
      accumulate(weights[i], state, 0.125f, stream);
      if (next != stream) order(stream, next);
    }
  }
  CHECK(cuStreamSynchronize(first));
  CHECK(cuStreamSynchronize(second));
}

void print_all(CUdeviceptr state, const std::vector<CUdeviceptr>& weights) {
  print_buffer("state", state);
  for (const CUdeviceptr weight : weights) print_buffer("weight", weight);
}

CUdeviceptr make_state() {
  const CUdeviceptr state = allocate();
  CHECK(cuMemsetD8(state, 0, kBytes));
  CHECK(cuCtxSynchronize());
  return state;
}

/// Streams of green contexts, while the primary context is current.
void streams() {
  const auto weights = load_layers(kLayers);
  const CUdeviceptr state = make_state();
  const auto green = make_green_contexts();
  const std::array<CUstream, 2> streams{stream_of(green[0]), stream_of(green[1])};
  run_passes(streams[0], streams[1], state, weights);
  print_all(state, weights);
  // The same when their handles as contexts are known.
  for (const CUgreenCtx each : green) (void)converted(each);
  run_passes(streams[0], streams[1], state, weights);
  print_all(state, weights);
  for (const CUstream stream : streams) CHECK(cuStreamDestroy(stream));
  for (const CUgreenCtx each : green) CHECK(cuGreenCtxDestroy(each));
  for (const CUdeviceptr weight : weights) accumulate(state, weight, 0.5f);
  print_all(state, weights);
}

/// Everything where green contexts are current, in streams that were made there.
void current() {
  const auto green = make_green_contexts();
  std::array<CUstream, 2> streams{};
  for (std::size_t i = 0; i < green.size(); ++i) {
    CHECK(cuCtxPushCurrent(converted(green[i])));
    CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    CHECK(cuCtxPopCurrent(nullptr));
  }
  CHECK(cuCtxPushCurrent(converted(green[1])));
  std::vector<CUdeviceptr> weights(kLayers);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    CHECK(cuMemAllocAsync(&weights[i], kBytes, streams[0]));
    CHECK(cuMemcpyHtoDAsync(weights[i], content(static_cast<int>(i)).data(), kBytes, streams[0]));
    CHECK(cuStreamSynchronize(streams[0]));
  }
  const CUdeviceptr state = allocate();
  CHECK(cuMemsetD8Async(state, 0, kBytes, streams[0]));
  run_passes(streams[0], streams[1], state, weights);
  std::vector<float> values(kFloats);
  for (const CUdeviceptr weight : weights) {
    CHECK(cuMemcpyDtoHAsync(values.data(), weight, kBytes, streams[0]));
    CHECK(cuStreamSynchronize(streams[0]));
    std::printf("weight %016llx\n",
                static_cast<unsigned long long>(programs::hash_of(values.data(), kBytes)));
    CHECK(cuMemFreeAsync(weight, streams[1]));
  }
  CHECK(cuStreamSynchronize(streams[1]));
  CHECK(cuCtxPopCurrent(nullptr));
  print_buffer("state", state);
  CHECK(cuMemFree(state));
  for (const CUstream stream : streams) CHECK(cuStreamDestroy(stream));
  for (const CUgreenCtx each : green) CHECK(cuGreenCtxDestroy(each));
}

CUcontext context_of(CUstream stream) {
  CUcontext context = nullptr;
  CHECK(cuStreamGetCtx(stream, &context));
  return context;
}

/// The default stream of a green context, which is not that of the primary one. `asks_stream`: the
/// program has the handle to make current from a stream.
void default_stream(bool asks_stream) {
  const auto weights = load_layers(kLayers);
  const CUdeviceptr state = make_state();
  const auto green = make_green_contexts();
  const CUstream stream = stream_of(green[0]);
  run_passes(stream, stream, state, weights);
  CHECK(cuCtxPushCurrent(asks_stream ? context_of(stream) : converted(green[0])));
  for (int pass = 0; pass < kPasses; ++pass) {
    for (std::size_t i = 0; i < 3; ++i) accumulate(weights[i], state, 0.25f);
  }
  CHECK(cuStreamSynchronize(nullptr));
  CHECK(cuCtxPopCurrent(nullptr));
  print_all(state, weights);
  run_passes(stream, stream, state, weights);
  print_all(state, weights);
}

void default_stream_of_converted() { default_stream(/*asks_stream=*/false); }
void default_stream_by_a_stream() { default_stream(/*asks_stream=*/true); }

/// Green contexts that go before their streams, which the program leaves to the end of the process.
void destroyed_first() {
  const auto weights = load_layers(kLayers);
  const CUdeviceptr state = make_state();
  const auto green = make_green_contexts();
  const std::array<CUstream, 2> streams{stream_of(green[0]), stream_of(green[1])};
  run_passes(streams[0], streams[1], state, weights);
  for (const CUgreenCtx each : green) CHECK(cuGreenCtxDestroy(each));
  for (int pass = 0; pass < kPasses; ++pass) {
    for (const CUdeviceptr weight : weights) accumulate(state, weight, 0.5f);
  }
  print_all(state, weights);
}

}  // namespace

int main(int count, char** arguments) {
  using programs::without_words;
  return programs::run_scenario(count, arguments,
                                {
                                    {"streams", without_words<streams>},
                                    {"current", without_words<current>},
                                    {"default_stream", without_words<default_stream_of_converted>},
                                    {"by_a_stream", without_words<default_stream_by_a_stream>},
                                    {"destroyed_first", without_words<destroyed_first>},
                                });
}
