// What a process sees of the driver's settings, by name: settings_test.cc runs it with them.
#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/hang_limit.h"

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// Prints the code of a call as "what=code".
CUresult say(const char* what, CUresult result) {
  std::printf("%s=%d\n", what, static_cast<int>(result));
  return result;
}

void start() {
  CUcontext context = nullptr;
  if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
      cuCtxSetCurrent(context) != CUDA_SUCCESS) {
    std::exit(3);
  }
}

CUstream make_stream() {
  CUstream stream = nullptr;
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  return stream;
}

CUdeviceptr map_page() {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  cuMemCreate(&handle, 2 * kMiB, &prop, 0);
  cuMemAddressReserve(&address, 2 * kMiB, 0, 0, 0);
  cuMemMap(address, 2 * kMiB, 0, handle, 0);
  cuMemSetAccess(address, 2 * kMiB, &access, 1);
  return address;
}

/// The first word at `address`, of which the next thousand are expected to be the same.
unsigned long long word_at(CUdeviceptr address) {
  std::vector<unsigned long long> words(1000);
  cuMemcpyDtoH(words.data(), address, words.size() * sizeof(words[0]));
  for (const unsigned long long word : words) {
    if (word != words[0]) std::printf("the words differ\n");
  }
  return words[0];
}

/// Prints how many different words never-written memory of six origins holds, and how many are 0.
void read_unwritten() {
  start();
  const CUstream stream = make_stream();
  CUmemoryPool pool = nullptr;
  cuDeviceGetDefaultMemPool(&pool, 0);
  cuuint64_t keep = ~cuuint64_t{0};
  cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
  std::vector<unsigned long long> words;
  for (int time = 0; time < 2; ++time) {
    CUdeviceptr address = 0;
    cuMemAlloc(&address, kMiB);
    words.push_back(word_at(address));
    cuMemFree(address);
    words.push_back(word_at(map_page()));
    cuMemAllocAsync(&address, 2 * kMiB, stream);
    cuStreamSynchronize(stream);
    words.push_back(word_at(address));
    cuMemFreeAsync(address, stream);
    cuStreamSynchronize(stream);
  }
  int zeros = 0;
  for (const unsigned long long word : words) zeros += word == 0 ? 1 : 0;
  const std::set<unsigned long long> different{words.begin(), words.end()};
  std::printf("different=%zu zeros=%d\n", different.size(), zeros);
}

void show_addresses() {
  start();
  CUdeviceptr first = 0;
  CUdeviceptr second = 0;
  CUdeviceptr again = 0;
  CUdeviceptr hinted = 0;
  CUdeviceptr allocated = 0;
  constexpr CUdeviceptr kHint = 0x5'0000'0000;
  cuMemAddressReserve(&first, 64 * kMiB, 0, 0, 0);
  cuMemAddressReserve(&second, 64 * kMiB, 0, 0, 0);
  cuMemAddressFree(first, 64 * kMiB);
  cuMemAddressReserve(&again, 64 * kMiB, 0, 0, 0);
  cuMemAddressReserve(&hinted, 64 * kMiB, 0, kHint, 0);
  cuMemAlloc(&allocated, kMiB);
  std::printf("first=%llx next=%d again=%d hinted=%d allocated=%llx\n", first,
              second == first + 64 * kMiB ? 1 : 0, again == first ? 1 : 0, hinted == kHint ? 1 : 0,
              allocated);
}

void show_capacity() {
  start();
  std::size_t free = 0;
  std::size_t total = 0;
  cuMemGetInfo(&free, &total);
  std::printf("free=%zu total=%zu\n", free / kMiB, total / kMiB);
  CUdeviceptr address = 0;
  say("more", cuMemAlloc(&address, free + kMiB));
  say("all", cuMemAlloc(&address, free));
}

/// Breaks the primary context, and says how it is after it was released, reset and retained again.
void break_primary() {
  start();
  const CUdeviceptr address = map_page();
  const CUstream stream = make_stream();
  void* host = nullptr;
  cuMemAllocHost(&host, 2 * kMiB);
  cuMemcpyHtoDAsync(address, host, 2 * kMiB, stream);
  cuMemUnmap(address, 2 * kMiB);
  say("broken", cuStreamSynchronize(stream));
  CUcontext context = nullptr;
  cuDevicePrimaryCtxRelease(0);
  cuDevicePrimaryCtxRetain(&context, 0);
  say("retained", cuCtxSynchronize());
  say("reset", cuDevicePrimaryCtxReset(0));
  say("retain", cuDevicePrimaryCtxRetain(&context, 0));
  cuCtxSetCurrent(context);
  say("synchronize", cuCtxSynchronize());
  CUdeviceptr other = 0;
  say("allocate", cuMemAlloc(&other, kMiB));
}

/// A copy from pageable memory, during which earlier work of its stream is pending.
void copy_pageable() {
  start();
  CUdeviceptr first = 0;
  CUdeviceptr second = 0;
  cuMemAlloc(&first, kMiB);
  cuMemAlloc(&second, kMiB);
  std::vector<unsigned char> bytes(kMiB, 7);
  CUevent before = nullptr;
  cuEventCreate(&before, CU_EVENT_DISABLE_TIMING);
  cuMemcpyHtoDAsync(first, bytes.data(), kMiB, nullptr);
  cuEventRecord(before, nullptr);
  cuMemcpyHtoD(second, bytes.data(), kMiB);
  say("before", cuEventQuery(before));
  say("copy", cuStreamQuery(nullptr));
  std::memset(bytes.data(), 8, bytes.size());
  cuMemcpyDtoH(bytes.data(), second, kMiB);
  std::printf("bytes=%d,%d\n", bytes.front(), bytes.back());
}

struct Meeting {
  std::atomic<int> arrived{0};
  std::atomic<bool> over{false};
};

void CUDA_CB arrive(void* data) {
  auto* const meeting = static_cast<Meeting*>(data);
  ++meeting->arrived;
  meeting->over.wait(false);
}

/// How many host functions of two streams run at once. If it shall be one, the other is given some
/// time to begin all the same.
void meet_in_host_functions(int expected) {
  start();
  Meeting meeting;
  for (int stream = 0; stream < 2; ++stream) cuLaunchHostFunc(make_stream(), arrive, &meeting);
  const superpipe::testing::HangGuard guard;
  while (meeting.arrived < expected && !guard.is_over()) std::this_thread::yield();
  for (int look = 0; look < 10'000 && meeting.arrived == 1; ++look) std::this_thread::yield();
  std::printf("at once=%d\n", meeting.arrived.load());
  meeting.over = true;
  meeting.over.notify_all();
  cuCtxSynchronize();
  std::printf("in all=%d\n", meeting.arrived.load());
}

/// Access of both devices to a page of device 0, asked for together and for each alone.
void open_page() {
  start();
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle page = 0;
  CUdeviceptr address = 0;
  cuMemCreate(&page, 2 * kMiB, &properties, 0);
  cuMemAddressReserve(&address, 2 * kMiB, 0, 0, 0);
  cuMemMap(address, 2 * kMiB, 0, page, 0);
  CUmemAccessDesc access[2] = {};
  for (int device = 0; device < 2; ++device) {
    access[device].location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    access[device].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  say("both", cuMemSetAccess(address, 2 * kMiB, access, 2));
  say("own", cuMemSetAccess(address, 2 * kMiB, &access[0], 1));
  say("other", cuMemSetAccess(address, 2 * kMiB, &access[1], 1));
}

/// What the device says of pages on the host, and what becomes of one of each kind.
void create_host_pages() {
  start();
  int numa = -2;
  int host = -2;
  int node = -2;
  cuDeviceGetAttribute(&numa, CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0);
  cuDeviceGetAttribute(&host, CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0);
  cuDeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0);
  std::printf("numa=%d host=%d node=%d\n", numa, host, node);
  std::fflush(stdout);
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  CUmemGenericAllocationHandle page = 0;
  properties.location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};
  say("numa", cuMemCreate(&page, 2 * kMiB, &properties, 0));
  properties.location = {CU_MEM_LOCATION_TYPE_HOST, 0};
  say("host", cuMemCreate(&page, 2 * kMiB, &properties, 0));
  std::size_t granularity = 0;
  say("size",
      cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
}

CUfunction load_kernel() {
  constexpr char kPtx[] =
      ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry nothing()\n{ ret; }\n";
  CUmodule module = nullptr;
  CUfunction nothing = nullptr;
  cuModuleLoadData(&module, kPtx);
  cuModuleGetFunction(&nothing, module, "nothing");
  return nothing;
}

/// Launches the kernel on `stream`. @return an event behind it.
CUevent launch(CUfunction kernel, CUstream stream) {
  CUevent event = nullptr;
  cuEventCreate(&event, CU_EVENT_DEFAULT);
  cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
  cuEventRecord(event, stream);
  return event;
}

float milliseconds(CUevent first, CUevent last) {
  float elapsed = 0;
  cuEventElapsedTime(&elapsed, first, last);
  return elapsed;
}

/// How long three kernels on three streams take together.
float milliseconds_of_three(CUfunction kernel) {
  std::vector<CUevent> ends;
  CUevent begin = nullptr;
  cuEventCreate(&begin, CU_EVENT_DEFAULT);
  cuEventRecord(begin, make_stream());
  for (int stream = 0; stream < 3; ++stream) ends.push_back(launch(kernel, make_stream()));
  cuCtxSynchronize();
  float last = 0;
  for (CUevent end : ends) last = std::max(last, milliseconds(begin, end));
  return last;
}

/// Launches three kernels of 60 ms at once, and prints in how many rounds they ran. A busy machine
/// makes them take longer, but never shorter: if it is more than `expected` rounds, they are
/// launched again.
void launch_three(int expected) {
  start();
  const CUfunction kernel = load_kernel();
  const superpipe::testing::HangGuard guard;
  long rounds = 0;
  do {
    rounds = std::lround(milliseconds_of_three(kernel) / 60);
  } while (rounds > expected && !guard.is_over());
  std::printf("rounds=%ld\n", rounds);
}

/// Launches a kernel on a stream of the least priority and then one on a stream of the greatest,
/// while another kernel runs. @return whether the latter ended first, as far as can be told: the
/// kernel before them may have ended too soon.
bool greatest_ends_first(CUfunction kernel) {
  const CUstream low = make_stream();
  CUstream high = nullptr;
  cuStreamCreateWithPriority(&high, CU_STREAM_NON_BLOCKING, -5);
  const CUevent begin = launch(kernel, make_stream());
  std::this_thread::sleep_for(std::chrono::milliseconds{10});
  const CUevent low_end = launch(kernel, low);
  std::this_thread::sleep_for(std::chrono::milliseconds{10});
  const CUevent high_end = launch(kernel, high);
  const bool is_running = cuEventQuery(begin) == CUDA_ERROR_NOT_READY;
  cuCtxSynchronize();
  return is_running && milliseconds(begin, high_end) < milliseconds(begin, low_end);
}

/// Prints which of two kernels of different priorities ended first. If it is the one that was
/// launched first, they are launched again: on a busy machine the other may have reached the device
/// late.
void launch_by_priority() {
  start();
  const CUfunction kernel = load_kernel();
  const superpipe::testing::HangGuard guard;
  bool is_high_first = false;
  do {
    is_high_first = greatest_ends_first(kernel);
  } while (!is_high_first && !guard.is_over());
  std::printf(is_high_first ? "high,low\n" : "low,high\n");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  const int expected = argc > 2 ? std::atoi(argv[2]) : 0;
  if (name == "read_unwritten") {
    read_unwritten();
  } else if (name == "show_addresses") {
    show_addresses();
  } else if (name == "show_capacity") {
    show_capacity();
  } else if (name == "break_primary") {
    break_primary();
  } else if (name == "copy_pageable") {
    copy_pageable();
  } else if (name == "launch_three") {
    launch_three(expected);
  } else if (name == "launch_by_priority") {
    launch_by_priority();
  } else if (name == "meet_in_host_functions") {
    meet_in_host_functions(expected);
  } else if (name == "open_page") {
    open_page();
  } else if (name == "create_host_pages") {
    create_host_pages();
  } else {
    std::fprintf(stderr, "no such scenario\n");
    return 2;
  }
  return 0;
}
