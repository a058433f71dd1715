// A CUDA program on the driver API that knows nothing of superpipe; each scenario prints what it
// computed, so that runs can be compared byte by byte.
//
//     managed_program SCENARIO KERNELS.fatbin [ARGUMENT]
#include <cuda.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/interposer/programs/program.h"

using programs::accumulate;
using programs::accumulate_listed;
using programs::allocate;
using programs::content;
using programs::function;
using programs::hash_of;
using programs::kBytes;
using programs::kFloats;
using programs::load_layers;
using programs::module;
using programs::print_buffer;
using programs::run_passes;

namespace {

/// Forward passes through all layers.
void forward() {
  const auto weights = load_layers(8);
  const CUdeviceptr state = allocate();
  CHECK(cuMemsetD8(state, 0, kBytes));
  for (int pass = 0; pass < 6; ++pass) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      accumulate(state, weights[i], 1.0f / static_cast<float>(i + 2));
    }
  }
  print_buffer("state", state);
  for (const CUdeviceptr weight : weights) print_buffer("weight", weight);
  for (const CUdeviceptr weight : weights) CHECK(cuMemFree(weight));
  CHECK(cuMemFree(state));
}

/// Kernels that write every layer, forwards and backwards.
void training() {
  const auto weights = load_layers(12);
  for (int pass = 0; pass < 4; ++pass) {
    for (std::size_t i = 1; i < weights.size(); ++i) accumulate(weights[i], weights[i - 1], 0.5f);
    for (std::size_t i = weights.size() - 1; i > 0; --i) {
      accumulate(weights[i - 1], weights[i], 0.25f);
    }
  }
  for (const CUdeviceptr weight : weights) print_buffer("weight", weight);
}

/// Streams, stream-ordered allocation, pinned and pageable asynchronous copies.
void asynchronous() {
  CUstream streams[2];
  for (CUstream& stream : streams) CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  void* pinned = nullptr;
  CHECK(cuMemHostAlloc(&pinned, kBytes, 0));
  std::vector<CUdeviceptr> buffers(8);
  for (int i = 0; i < 8; ++i) {
    const CUstream stream = streams[i % 2];
    CHECK(cuMemAllocAsync(&buffers[static_cast<std::size_t>(i)], kBytes, stream));
    const auto values = content(i);
    if (i % 4 < 2) {
      CHECK(cuMemcpyHtoDAsync(buffers[static_cast<std::size_t>(i)], values.data(), kBytes, stream));
    } else {
      CHECK(cuStreamSynchronize(streams[0]));
      CHECK(cuStreamSynchronize(streams[1]));
      std::memcpy(pinned, values.data(), kBytes);
      CHECK(cuMemcpyHtoDAsync(buffers[static_cast<std::size_t>(i)], pinned, kBytes, stream));
    }
  }
  CHECK(cuCtxSynchronize());
  CUevent event;
  CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  for (int pass = 0; pass < 4; ++pass) {
    for (std::size_t i = 1; i < buffers.size(); ++i) {
      const CUstream stream = streams[i % 2];
      accumulate(buffers[i], buffers[i - 1], 0.5f, stream);
      CHECK(cuEventRecord(event, stream));
      CHECK(cuStreamWaitEvent(streams[(i + 1) % 2], event, 0));
    }
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    std::vector<float> values(kFloats);
    CHECK(cuStreamSynchronize(streams[0]));
    CHECK(cuStreamSynchronize(streams[1]));
    if (i % 2 == 0) {
      CHECK(cuMemcpyDtoHAsync(pinned, buffers[i], kBytes, streams[0]));
      CHECK(cuStreamSynchronize(streams[0]));
      std::memcpy(values.data(), pinned, kBytes);
    } else {
      CHECK(cuMemcpyDtoHAsync(values.data(), buffers[i], kBytes, streams[0]));
      CHECK(cuStreamSynchronize(streams[0]));
    }
    std::printf("buffer %016llx\n",
                static_cast<unsigned long long>(hash_of(values.data(), kBytes)));
  }
  // Freed and allocated again in stream order: the old content must not be needed, the new must be.
  for (int round = 0; round < 3; ++round) {
    CHECK(cuMemFreeAsync(buffers[7], streams[0]));
    CHECK(cuMemAllocAsync(&buffers[7], kBytes, streams[0]));
    CHECK(cuMemsetD32Async(buffers[7], 0x3F800000, kFloats, streams[0]));
    accumulate(buffers[7], buffers[static_cast<std::size_t>(round)], 1, streams[0]);
  }
  CHECK(cuStreamSynchronize(streams[0]));
  print_buffer("reused", buffers[7]);
  for (const CUdeviceptr buffer : buffers) CHECK(cuMemFreeAsync(buffer, streams[0]));
  CHECK(cuStreamSynchronize(streams[0]));
  for (const CUstream stream : streams) CHECK(cuStreamDestroy(stream));
}

/// Pointers where a scan of plain parameters would miss them.
void hidden_pointers() {
  struct Operands {
    int count;
    CUdeviceptr output;
    CUdeviceptr input;
  };
  const auto weights = load_layers(8);
  const CUdeviceptr state = allocate();
  CHECK(cuMemsetD8(state, 0, kBytes));
  const CUfunction with_struct = function("accumulate_struct");
  for (int pass = 0; pass < 3; ++pass) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      // The first launch has a null pointer where later ones have a buffer.
      const bool null = pass == 0 && i == 0;
      Operands operands{null ? 0 : kFloats, null ? 0 : state, null ? 0 : weights[i]};
      float factor = 0.5f;
      void* parameters[] = {&operands, &factor};
      CHECK(cuLaunchKernel(with_struct, kFloats / 256, 1, 1, 256, 1, 1, 0, nullptr, parameters,
                           nullptr));
    }
  }
  print_buffer("struct", state);

  // The same by one argument buffer.
  struct {
    CUdeviceptr output;
    CUdeviceptr input;
    float factor;
    int count;
  } packed{state, weights[3], 2.0f, kFloats};
  std::size_t size = sizeof packed;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  CHECK(cuLaunchKernel(function("accumulate"), kFloats / 256, 1, 1, 256, 1, 1, 0, nullptr, nullptr,
                       extra));
  print_buffer("extra", state);

  // A list of pointers in device memory.
  const CUdeviceptr lists = allocate(4 * sizeof(CUdeviceptr));
  const CUdeviceptr pointers[4] = {weights[0], weights[1], weights[2], weights[5]};
  CHECK(cuMemcpyHtoD(lists, pointers, sizeof pointers));
  for (const CUdeviceptr weight : weights) accumulate(state, weight, 0.125f);
  accumulate_listed(lists);
  print_buffer("state", state);
  for (const CUdeviceptr weight : weights) print_buffer("weight", weight);
}

/// Copies and memsets of every linear kind, on buffers that may be anywhere.
void copies() {
  const auto buffers = load_layers(8);
  const CUdeviceptr state = allocate();
  CHECK(cuMemsetD8(state, 0, kBytes));
  const auto touch_all = [&] {
    for (const CUdeviceptr buffer : buffers) accumulate(state, buffer, 0.5f);
  };
  touch_all();
  touch_all();
  CHECK(cuMemcpyDtoD(buffers[0], buffers[7], kBytes));
  touch_all();
  CHECK(cuMemcpy(buffers[1], buffers[6] + kBytes / 2, kBytes / 2));
  touch_all();
  const auto fresh = content(99);
  CHECK(cuMemcpy(buffers[2], reinterpret_cast<CUdeviceptr>(fresh.data()), kBytes));
  touch_all();
  CHECK(cuMemsetD32(buffers[3] + 4096, 0x3F000000, 1000));
  CHECK(cuMemcpyHtoD(buffers[4] + 8192, fresh.data(), 12288));
  CHECK(cuMemsetD2D8(buffers[5], 1024, 0, 512, 64));
  CUDA_MEMCPY2D box{};
  box.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  box.srcDevice = buffers[0];
  box.srcPitch = 2048;
  box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  box.dstDevice = buffers[6];
  box.dstPitch = 4096;
  box.WidthInBytes = 1024;
  box.Height = 128;
  CHECK(cuMemcpy2D(&box));
  touch_all();
  std::vector<float> part(1024);
  CHECK(cuMemcpyDtoH(part.data(), buffers[2] + 512, sizeof(float) * part.size()));
  std::printf("part %016llx\n",
              static_cast<unsigned long long>(hash_of(part.data(), sizeof(float) * part.size())));
  std::vector<float> back(kFloats);
  CHECK(cuMemcpy(reinterpret_cast<CUdeviceptr>(back.data()), buffers[6], kBytes));
  std::printf("back %016llx\n", static_cast<unsigned long long>(hash_of(back.data(), kBytes)));
  print_buffer("state", state);
  for (const CUdeviceptr buffer : buffers) print_buffer("buffer", buffer);
}

/// What the driver says about pointers, pools and the device; "yes" where it must be the same.
void attributes() {
  const auto buffers = load_layers(8);
  const CUdeviceptr state = allocate();
  for (const CUdeviceptr buffer : buffers) accumulate(state, buffer, 1);
  CHECK(cuCtxSynchronize());
  CUcontext context = nullptr;
  CHECK(cuCtxGetCurrent(&context));
  for (const CUdeviceptr buffer : buffers) {
    CUdeviceptr base = 0;
    std::size_t size = 0;
    CHECK(cuMemGetAddressRange(&base, &size, buffer + 4096));
    std::printf("range %s %s\n", base == buffer ? "yes" : "no", size == kBytes ? "yes" : "no");
    unsigned type = 0;
    CUcontext owner = nullptr;
    CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, buffer));
    CHECK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, buffer));
    std::printf("type %u owner %s\n", type, owner == context ? "yes" : "no");
    int ordinal = -1;
    unsigned managed = 0;
    CUdeviceptr device_pointer = 0;
    void* host = &ordinal;
    CUpointer_attribute names[] = {
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void* values[] = {&ordinal, &managed, &device_pointer, &host};
    CHECK(cuPointerGetAttributes(4, names, values, buffer));
    std::printf("ordinal %d managed %u device %s host %s\n", ordinal, managed & 0xFFu,
                device_pointer == buffer ? "yes" : "no", host == nullptr ? "null" : "some");
    std::printf("aligned %s\n", buffer % 512 == 0 ? "yes" : "no");
  }
  std::printf("free inside %d\n", cuMemFree(buffers[0] + 512));
  CUmemoryPool pool = nullptr;
  CHECK(cuDeviceGetDefaultMemPool(&pool, 0));
  cuuint64_t before = 0;
  cuuint64_t after = 0;
  CUdeviceptr pooled = 0;
  CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &before));
  CHECK(cuMemAllocAsync(&pooled, kBytes, nullptr));
  CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &after));
  std::printf("pool grew %llu\n", static_cast<unsigned long long>(after - before));
  CHECK(cuMemFreeAsync(pooled, nullptr));
  CHECK(cuStreamSynchronize(nullptr));
  CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &after));
  std::printf("pool back %s\n", after == before ? "yes" : "no");
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  std::size_t device_total = 0;
  CHECK(cuMemGetInfo(&free_bytes, &total));
  CHECK(cuDeviceTotalMem(&device_total, 0));
  std::printf("totals agree %s, free below total %s\n", total == device_total ? "yes" : "no",
              free_bytes < total ? "yes" : "no");
}

/// Limits itself as PyTorch does (set_per_process_memory_fraction): the share is made of the total
/// among the device's properties, which it asks for first, and the limit of the other one.
void fraction() {
  std::size_t of_properties = 0;
  CHECK(cuDeviceTotalMem(&of_properties, 0));
  const double share = 25.0 * (1 << 20) / static_cast<double>(of_properties);
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  CHECK(cuMemGetInfo(&free_bytes, &total));
  const double limit = share * static_cast<double>(total);
  int count = 0;
  while (count < 50 && static_cast<double>(count + 1) * kBytes <= limit) {
    (void)allocate();
    ++count;
  }
  std::printf("limited to %d buffers\n", count);
  CHECK(cuMemGetInfo(&free_bytes, &total));
  std::printf("totals agree %s\n", total == of_properties ? "yes" : "no");
}

/// Sizes itself as vLLM does (gpu_memory_utilization): starts where nine tenths of the total are
/// free, and takes as much as is left of them. `library`: one that it has loaded.
void utilization(const char* library) {
  if (library != nullptr && ::dlopen(library, RTLD_NOW) == nullptr) std::printf("not loaded\n");
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  CHECK(cuMemGetInfo(&free_bytes, &total));
  const auto wanted = static_cast<std::size_t>(0.9 * static_cast<double>(total));
  std::printf("starts %s\n", free_bytes >= wanted ? "yes" : "no");
  std::printf("plans %zu MiB\n", wanted >> 20);
}

/// The context goes and comes again, with everything in it.
void reset(const char* kernels) {
  forward();
  CUdevice device = 0;
  CHECK(cuDevicePrimaryCtxReset(device));
  programs::use_primary_context(kernels);
  const auto weights = load_layers(6);
  for (int pass = 0; pass < 3; ++pass) {
    for (std::size_t i = 1; i < weights.size(); ++i) accumulate(weights[0], weights[i], 1);
  }
  print_buffer("again", weights[0]);
}

/// A forked child that allocates: it must neither hang nor disturb its parent.
void fork_child() {
  const auto weights = load_layers(8);
  const CUdeviceptr state = allocate();
  CHECK(cuMemsetD8(state, 0, kBytes));
  for (const CUdeviceptr weight : weights) accumulate(state, weight, 1);
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    // What the driver answers in a child is its own affair; ours is to answer at all.
    CUdeviceptr address = 0;
    (void)cuMemAlloc(&address, kBytes);
    std::exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  std::printf("child %d\n", status);
  for (const CUdeviceptr weight : weights) accumulate(state, weight, 1);
  print_buffer("state", state);
}

/// Launches that need more than any budget below 32 MiB, and others between them.
void too_large() {
  constexpr std::size_t kBig = 16 << 20;
  CUdeviceptr big = allocate(kBig);
  CUdeviceptr other = allocate(kBig);
  const auto weights = load_layers(2);
  std::printf("allocated\n");
  float factor = 1;
  int count = 1024;
  void* parameters[] = {&big, &other, &factor, &count};
  const CUfunction kernel = function("_ZN5model12accumulate_2EPfPKffi");
  for (int i = 0; i < 2; ++i) {
    const CUresult result =
        cuLaunchKernel(kernel, 4, 1, 1, 256, 1, 1, 0, nullptr, parameters, nullptr);
    std::printf("launch %d\n", static_cast<int>(result));
    // What was refused broke nothing, and what ran did not stay.
    accumulate(weights[0], weights[1], 1);
    print_buffer("weight", weights[0]);
  }
}

/// Modules with variables, loaded and unloaded between passes.
void late_code(const char* large_module) {
  constexpr std::size_t kTable = (3 << 17) * sizeof(float);
  const auto weights = load_layers(8);
  const CUdeviceptr state = allocate();
  CHECK(cuMemsetD8(state, 0, kBytes));
  run_passes(3, state, weights);
  for (int round = 0; round < 2; ++round) {
    CUmodule modules[3];
    CUdeviceptr tables[3];
    for (int i = 0; i < 3; ++i) {
      CHECK(cuModuleLoad(&modules[i], large_module));
      std::size_t size = 0;
      CHECK(cuModuleGetGlobal(&tables[i], &size, modules[i], "table"));
      CHECK(cuMemsetD8(tables[i], static_cast<unsigned char>(i + round), size));
      run_passes(2, state, weights);
    }
    for (int i = 0; i < 3; ++i) {
      std::vector<unsigned char> bytes(kTable);
      CHECK(cuMemcpyDtoH(bytes.data(), tables[i], kTable));
      std::printf("table %016llx\n",
                  static_cast<unsigned long long>(hash_of(bytes.data(), kTable)));
      CHECK(cuModuleUnload(modules[i]));
    }
    run_passes(2, state, weights);
  }
  print_buffer("state", state);
}

/// Looks up a kernel, and launches it for the first time, while the device waits for the program.
void lookup_while_busy() {
  static std::atomic<bool> go{false};
  const auto weights = load_layers(8);
  CUdeviceptr state = allocate();
  CHECK(cuMemsetD8(state, 0, kBytes));
  run_passes(3, state, weights);
  CHECK(cuLaunchHostFunc(
      nullptr,
      [](void*) {
        while (!go) std::this_thread::yield();
      },
      nullptr));
  run_passes(1, state, {weights.begin() + 3, weights.end()});
  const CUfunction kernel = function("accumulate_struct");
  struct {
    int count;
    CUdeviceptr output, input;
  } operands{kFloats, state, weights[7]};
  float factor = 0.5f;
  void* parameters[] = {&operands, &factor};
  CHECK(cuLaunchKernel(kernel, kFloats / 256, 1, 1, 256, 1, 1, 0, nullptr, parameters, nullptr));
  go = true;
  print_buffer("state", state);
}

/// Memory that is made of pages of the program's own, `count` times 2 MiB, beside buffers.
void own_pages(int count) {
  const auto weights = load_layers(8);
  const CUdeviceptr state = allocate();
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  for (int i = 0; i < count; ++i) {
    CUmemGenericAllocationHandle pages{};
    CHECK(cuMemCreate(&pages, kBytes, &properties, 0));
  }
  CHECK(cuMemsetD8(state, 0, kBytes));
  for (const CUdeviceptr weight : weights) accumulate(state, weight, 0.5f);
  print_buffer("state", state);
}

/// Launches a kernel of a library again and again, while other code comes and goes.
void library_kernels(const char* kernels) {
  CUlibrary library = nullptr;
  CHECK(cuLibraryLoadFromFile(&library, kernels, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUkernel kernel = nullptr;
  CHECK(cuLibraryGetKernel(&kernel, library, "accumulate"));
  const auto weights = load_layers(8);
  const CUdeviceptr state = allocate();
  CHECK(cuMemsetD8(state, 0, kBytes));
  for (int pass = 0; pass < 3; ++pass) {
    for (CUdeviceptr weight : weights) {
      CUdeviceptr output = state;
      float factor = 0.5f;
      int floats = kFloats;
      void* parameters[] = {&output, &weight, &factor, &floats};
      CHECK(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), kFloats / 256, 1, 1, 256, 1, 1, 0,
                           nullptr, parameters, nullptr));
    }
    CUmodule other = nullptr;
    CHECK(cuModuleLoad(&other, kernels));
    CHECK(cuModuleUnload(other));
  }
  print_buffer("state", state);
  CHECK(cuLibraryUnload(library));
}

/// Has eight layers until its standard input ends, and says when it has them.
void hold() {
  const auto weights = load_layers(8);
  std::printf("holds\n");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  for (const CUdeviceptr weight : weights) print_buffer("weight", weight);
}

/// Has eight layers, and then becomes another program, which waits in the same way.
void hold_and_exec() {
  (void)load_layers(8);
  std::printf("execs\n");
  std::fflush(stdout);
  ::execlp("cat", "cat", static_cast<char*>(nullptr));
}

/// Opens the driver by its path, past whatever stands before it.
void second_copy(const char* driver) {
  const void* const opened = dlopen(driver, RTLD_NOW | RTLD_LOCAL);
  std::printf("opened %s\n", opened == nullptr ? dlerror() : "yes");
  allocate();
}

/// Has a child do what the arguments say, which is then the first process to call the driver.
/// @return the child's exit code.
template <typename Run>
int run_in_child(const Run& run) {
  const pid_t child = ::fork();
  if (child == 0) return run();
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int run(int count, char** arguments) {
  using programs::without_words;
  using programs::Words;
  return programs::run_scenario(
      count, arguments,
      {
          {"forward", without_words<forward>},
          {"training", without_words<training>},
          {"asynchronous", without_words<asynchronous>},
          {"hidden_pointers", without_words<hidden_pointers>},
          {"copies", without_words<copies>},
          {"attributes", without_words<attributes>},
          {"fraction", without_words<fraction>},
          {"utilization",
           [](const Words& words) { utilization(words.size() > 1 ? words[1].c_str() : nullptr); }},
          {"reset", [](const Words& words) { reset(words.at(0).c_str()); }},
          {"fork", without_words<fork_child>},
          {"too_large", without_words<too_large>},
          {"lookup_while_busy", without_words<lookup_while_busy>},
          {"late_code", [](const Words& words) { late_code(words.at(1).c_str()); }},
          {"second_copy", [](const Words& words) { second_copy(words.at(1).c_str()); }},
          {"own_pages", [](const Words& words) { own_pages(std::stoi(words.at(1))); }},
          {"library_kernels", [](const Words& words) { library_kernels(words.at(0).c_str()); }},
          {"hold", without_words<hold>},
          {"hold_and_exec", without_words<hold_and_exec>},
      });
}

}  // namespace

int main(int count, char** arguments) {
  constexpr std::string_view kInChild = "in_child:";
  const std::string_view scenario = count > 1 ? arguments[1] : "";
  if (!scenario.starts_with(kInChild)) return run(count, arguments);
  arguments[1] += kInChild.size();
  return run_in_child([&] { return run(count, arguments); });
}
