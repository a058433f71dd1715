// A CUDA program on the driver API that uses two devices and knows nothing of superpipe. Each
// scenario prints what it computed.
//
//     peer_program SCENARIO KERNELS.cubin
//
// Its buffers on device 0 are those that superpipe manages.
#include <cuda.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/interposer/programs/program.h"

using programs::allocate;
using programs::content;
using programs::function;
using programs::kBytes;
using programs::kFloats;
using programs::load_layers;
using programs::print_buffer;

namespace {

constexpr int kLayers = 8;

/// A device with its primary context, and the kernels loaded there.
struct Device {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUstream stream = nullptr;
};
Device first;
Device second;

/// Makes the context of `device` current, and the functions of its module those to launch.
void use(const Device& device) {
  CHECK(cuCtxSetCurrent(device.context));
  programs::module = device.module;
}

void accumulate_on(const Device& device, CUdeviceptr output, CUdeviceptr input, float factor) {
  use(device);
  programs::accumulate(output, input, factor, device.stream);
}

CUdeviceptr allocate_on(const Device& device) {
  use(device);
  const CUdeviceptr address = allocate();
  CHECK(cuMemsetD8(address, 0, kBytes));
  CHECK(cuCtxSynchronize());
  return address;
}

void synchronize(const Device& device) {
  use(device);
  CHECK(cuCtxSynchronize());
}

/// Uses all layers on the device that has them, in turn, so that under a budget they come and go.
void run_pass(const std::vector<CUdeviceptr>& layers, CUdeviceptr state, float factor) {
  for (const CUdeviceptr layer : layers) accumulate_on(first, state, layer, factor);
  synchronize(first);
}

/// Device 1 reads and writes layers of device 0 between passes of that.
void use_from_second(const std::vector<CUdeviceptr>& layers) {
  const CUdeviceptr state = allocate_on(first);
  const CUdeviceptr sum = allocate_on(second);
  for (int pass = 0; pass < 3; ++pass) {
    run_pass(layers, state, 0.5f);
    // Two layers, which another device may use at any time from then on.
    for (const CUdeviceptr layer : {layers[0], layers[5]}) {
      accumulate_on(second, sum, layer, 2.0f);
      accumulate_on(second, layer, sum, 0.25f);
      synchronize(second);
    }
  }
  use(first);
  print_buffer("state", state);
  for (const CUdeviceptr layer : layers) print_buffer("layer", layer);
  use(second);
  print_buffer("sum", sum);
}

void enable_peer_access() {
  use(second);
  CHECK(cuCtxEnablePeerAccess(first.context, 0));
  std::printf("again %d\n", cuCtxEnablePeerAccess(first.context, 0));
  use(first);
}

/// The program's first call that concerns memory allows the access.
void enabled_early() {
  enable_peer_access();
  use_from_second(load_layers(kLayers));
}

/// Buffers are mapped already, and under a budget most have been evicted since they were.
void enabled_late() {
  const std::vector<CUdeviceptr> layers = load_layers(kLayers);
  const CUdeviceptr warm = allocate_on(first);
  run_pass(layers, warm, 1.0f);
  enable_peer_access();
  use_from_second(layers);
}

CUmemAccessDesc access_of(int device) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return access;
}

std::vector<CUdeviceptr> allocate_layers_in_order() {
  use(first);
  std::vector<CUdeviceptr> layers;
  for (int i = 0; i < kLayers; ++i) {
    CUdeviceptr layer = 0;
    CHECK(cuMemAllocAsync(&layer, kBytes, first.stream));
    CHECK(cuStreamSynchronize(first.stream));
    CHECK(cuMemcpyHtoD(layer, content(i).data(), kBytes));
    layers.push_back(layer);
  }
  CHECK(cuCtxSynchronize());
  return layers;
}

/// Memory of a pool, which peer access of contexts does not open.
void pool() {
  const std::vector<CUdeviceptr> layers = allocate_layers_in_order();
  CUmemoryPool default_pool = nullptr;
  CHECK(cuDeviceGetDefaultMemPool(&default_pool, 0));
  const CUmemAccessDesc access = access_of(1);
  CHECK(cuMemPoolSetAccess(default_pool, &access, 1));
  use_from_second(layers);
}

/// Memory of a pool that is freed in the order of the other device's stream, and comes again.
void freed_by_peer() {
  CUmemoryPool default_pool = nullptr;
  CHECK(cuDeviceGetDefaultMemPool(&default_pool, 0));
  const CUmemAccessDesc access = access_of(1);
  CHECK(cuMemPoolSetAccess(default_pool, &access, 1));
  std::vector<CUdeviceptr> layers = allocate_layers_in_order();
  const CUdeviceptr sum = allocate_on(second);
  for (int pass = 0; pass < 3; ++pass) {
    for (const CUdeviceptr layer : layers) {
      accumulate_on(second, sum, layer, 0.5f);
      CHECK(cuMemFreeAsync(layer, second.stream));
    }
    layers = allocate_layers_in_order();
  }
  synchronize(second);
  print_buffer("sum", sum);
}

/// Copies between devices by calls that do not say whose memory it is. No access is given.
void copies() {
  const std::vector<CUdeviceptr> layers = load_layers(kLayers);
  const CUdeviceptr state = allocate_on(first);
  const CUdeviceptr there = allocate_on(second);
  for (int pass = 0; pass < 2; ++pass) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      accumulate_on(first, state, layers[i], 0.5f);
      switch (i % 4) {
        case 0:
          CHECK(cuMemcpyDtoDAsync(there, layers[i], kBytes, first.stream));
          break;
        case 1:
          CHECK(cuMemcpyDtoD(there, layers[i], kBytes));
          break;
        case 2:
          CHECK(cuMemcpyAsync(there, layers[i], kBytes, first.stream));
          break;
        default:
          CHECK(cuMemcpy(there, layers[i], kBytes));
          break;
      }
      synchronize(first);
      accumulate_on(second, there, there, 1.0f);
      synchronize(second);
      use(first);
      CHECK(cuMemcpyDtoD(layers[(i + 3) % layers.size()], there, kBytes));
      synchronize(first);
    }
  }
  print_buffer("state", state);
  for (const CUdeviceptr layer : layers) print_buffer("layer", layer);
}

/// Copies between devices for which nobody waits: behind kernels that write their source, before
/// others that write it again, and while their source has to leave for the buffers that those name.
/// In the order of a stream that waits for no other, or of the default stream, which those that
/// were made with `flags` wait for, as it does for them.
void copies_between(unsigned int flags) {
  const std::vector<CUdeviceptr> layers = load_layers(kLayers);
  std::vector<CUdeviceptr> there;
  for (int i = 0; i < kLayers; ++i) there.push_back(allocate_on(second));
  use(first);
  CUstream compute = nullptr;
  CHECK(cuStreamCreate(&compute, flags));
  for (int pass = 0; pass < 2; ++pass) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const CUdeviceptr other = layers[(i + 3) % layers.size()];
      programs::accumulate(layers[i], other, 0.5f, compute);
      if (flags == CU_STREAM_NON_BLOCKING) {
        CHECK(cuMemcpyDtoDAsync(there[i], layers[i], kBytes, compute));
      } else if (i % 2 == 0) {
        CHECK(cuMemcpyDtoD(there[i], layers[i], kBytes));
      } else {
        CHECK(cuMemcpy(there[i], layers[i], kBytes));
      }
      programs::accumulate(layers[i], other, 0.25f, compute);
    }
  }
  synchronize(first);
  for (const CUdeviceptr layer : layers) print_buffer("layer", layer);
  use(second);
  for (const CUdeviceptr copy : there) print_buffer("there", copy);
}
void copies_in_order() { copies_between(CU_STREAM_NON_BLOCKING); }
void default_copies() { copies_between(CU_STREAM_DEFAULT); }

/// The same on a stream that does nothing else: nothing behind the copies tells when they are done.
void copies_aside() {
  const std::vector<CUdeviceptr> layers = load_layers(kLayers);
  std::vector<CUdeviceptr> there;
  for (int i = 0; i < kLayers; ++i) there.push_back(allocate_on(second));
  use(first);
  CUstream aside = nullptr;
  CHECK(cuStreamCreate(&aside, CU_STREAM_NON_BLOCKING));
  CUevent ready = nullptr;
  CHECK(cuEventCreate(&ready, CU_EVENT_DISABLE_TIMING));
  for (std::size_t i = 0; i < layers.size(); ++i) {
    programs::accumulate(layers[i], layers[(i + 1) % layers.size()], 0.5f, first.stream);
    CHECK(cuEventRecord(ready, first.stream));
    CHECK(cuStreamWaitEvent(aside, ready, 0));
    CHECK(cuMemcpyDtoDAsync(there[i], layers[i], kBytes, aside));
  }
  synchronize(first);
  for (const CUdeviceptr layer : layers) print_buffer("layer", layer);
  use(second);
  for (const CUdeviceptr copy : there) print_buffer("there", copy);
}

/// A copy between devices while both have work that goes on only when the copy has been asked for.
void held_copies() {
  const CUdeviceptr layer = load_layers(1).front();
  std::atomic<bool> may_go_on{false};
  const auto hold = [](void* data) {
    while (!static_cast<std::atomic<bool>*>(data)->load()) std::this_thread::yield();
  };
  const CUdeviceptr there = allocate_on(second);
  CHECK(cuLaunchHostFunc(second.stream, hold, &may_go_on));
  use(first);
  CHECK(cuLaunchHostFunc(first.stream, hold, &may_go_on));
  CHECK(cuMemcpyDtoD(there, layer, kBytes));
  CHECK(cuStreamSynchronize(nullptr));
  may_go_on = true;
  use(second);
  print_buffer("there", there);
}

/// copies() once device 1 may use buffers, which it does not.
void open_copies() {
  enable_peer_access();
  copies();
}

/// Copies that say whose memory it is, on either device's stream.
void peer_copies() {
  const std::vector<CUdeviceptr> layers = load_layers(kLayers);
  const CUdeviceptr state = allocate_on(first);
  const CUdeviceptr there = allocate_on(second);
  for (int pass = 0; pass < 2; ++pass) {
    run_pass(layers, state, 0.5f);
    for (const int i : {1, 6}) {
      const CUdeviceptr layer = layers[static_cast<std::size_t>(i)];
      CHECK(cuMemcpyPeerAsync(there, second.context, layer, first.context, kBytes, first.stream));
      synchronize(first);
      accumulate_on(second, there, there, 1.0f);
      CHECK(cuMemcpyPeerAsync(layer, first.context, there, second.context, kBytes, second.stream));
      synchronize(second);
    }
  }
  use(first);
  print_buffer("state", state);
  for (const CUdeviceptr layer : layers) print_buffer("layer", layer);
}

/// Asks for what other processes would open.
void share() {
  const CUdeviceptr buffer = allocate();
  CUipcMemHandle handle{};
  std::printf("handle %d\n", cuIpcGetMemHandle(&handle, buffer));
  std::printf("inside %d\n", cuIpcGetMemHandle(&handle, buffer + 4096));
  CHECK(cuMemFree(buffer));
  std::printf("freed %d\n", cuIpcGetMemHandle(&handle, buffer));
  CUdeviceptr of_pool = 0;
  CHECK(cuMemAllocAsync(&of_pool, kBytes, nullptr));
  std::printf("pool %d\n", cuIpcGetMemHandle(&handle, of_pool));
  CHECK(cuMemFreeAsync(of_pool, nullptr));
}

void enter(Device* device, int ordinal, const char* kernels) {
  CHECK(cuDevicePrimaryCtxRetain(&device->context, ordinal));
  CHECK(cuCtxSetCurrent(device->context));
  CHECK(cuModuleLoad(&device->module, kernels));
  CHECK(cuStreamCreate(&device->stream, CU_STREAM_NON_BLOCKING));
}

template <void (*kScenario)()>
void on_two_devices(const programs::Words& words) {
  enter(&second, 1, words[0].c_str());
  enter(&first, 0, words[0].c_str());
  use(first);
  kScenario();
}

}  // namespace

int main(int argc, char** argv) {
  return programs::run_scenario(argc, argv,
                                {{"enabled_early", on_two_devices<enabled_early>},
                                 {"enabled_late", on_two_devices<enabled_late>},
                                 {"pool", on_two_devices<pool>},
                                 {"freed_by_peer", on_two_devices<freed_by_peer>},
                                 {"copies", on_two_devices<copies>},
                                 {"copies_in_order", on_two_devices<copies_in_order>},
                                 {"copies_aside", on_two_devices<copies_aside>},
                                 {"default_copies", on_two_devices<default_copies>},
                                 {"held_copies", on_two_devices<held_copies>},
                                 {"open_copies", on_two_devices<open_copies>},
                                 {"peer_copies", on_two_devices<peer_copies>},
                                 {"share", programs::without_words<share>}});
}
