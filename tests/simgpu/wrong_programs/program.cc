#include "tests/simgpu/wrong_programs/program.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "tests/hang_limit.h"
#include "tests/simgpu/wrong_programs/kernels.h"

namespace wrong_programs {
namespace {

/// How often let_run() looks at a stream that has to wait: a mistake of simgpu's would mostly show
/// by then.
constexpr int kLooks = 20;
/// How soon an operation mostly begins when the one in front of it is complete.
constexpr std::chrono::milliseconds kSoon{100};
constexpr std::chrono::milliseconds kPause{1};

alignas(8) constexpr unsigned char kImage[] = {
#include "wrong_programs_kernels.inc"
};

}  // namespace

const std::vector<WrongProgram>& programs() {
  static const auto* const all = [] {
    auto* const rows = new std::vector<WrongProgram>;
    for (const auto& table : {wrong_host_memory(), wrong_lifetimes(), wrong_mappings(),
                              wrong_movement(), wrong_waits()}) {
      rows->insert(rows->end(), table.begin(), table.end());
    }
    return rows;
  }();
  return *all;
}

const std::vector<RightProgram>& right_programs() {
  static const auto* const all = new std::vector<RightProgram>(right_table());
  return *all;
}

int run_program(const std::string& name, bool ordered) {
  for (const WrongProgram& program : programs()) {
    if (program.name != name) continue;
    Run run(ordered);
    program.body(run);
  }
  for (const RightProgram& program : right_programs()) {
    if (program.name != name) continue;
    Run run(ordered);
    program.body(run);
  }
  return 2;
}

Gate::Gate() {
  void* memory = nullptr;
  if (cuMemAllocHost(&memory, 4096) != CUDA_SUCCESS) std::abort();
  words_ = static_cast<volatile std::uint32_t*>(memory);
  words_[kStarted] = 0;
  words_[kOpen] = 0;
}

void Gate::hold(CUstream stream) {
  const auto wait = [](void* words) {
    while (static_cast<volatile std::uint32_t*>(words)[kOpen] == 0) {
      std::this_thread::sleep_for(kPause);
    }
  };
  if (cuLaunchHostFunc(stream, wait, const_cast<std::uint32_t*>(words_)) != CUDA_SUCCESS) {
    std::abort();
  }
}

void Gate::wait_for_kernel() const {
  const superpipe::testing::HangGuard guard;
  while (words_[kStarted] == 0) {
    if (guard.is_over()) std::abort();
    std::this_thread::sleep_for(kPause);
  }
}

void Gate::open() { words_[kOpen] = 1; }

Run::Run(bool ordered) : ordered_(ordered) {
  CUcontext context = nullptr;
  check(cuInit(0));
  check(cuDevicePrimaryCtxRetain(&context, 0));
  check(cuCtxSetCurrent(context));
  check(cuModuleLoadData(&module_, kImage));
}

CUdeviceptr Run::buffer(std::uint32_t value) {
  CUdeviceptr address = 0;
  check(cuMemAlloc(&address, kBytes));
  fill(address, value);
  return address;
}

std::uint32_t* Run::pinned(std::uint32_t value, std::size_t bytes) {
  void* memory = nullptr;
  check(cuMemAllocHost(&memory, bytes));
  auto* const words = static_cast<std::uint32_t*>(memory);
  std::fill_n(words, bytes / sizeof(std::uint32_t), value);
  return words;
}

CUdeviceptr Run::reserve(std::size_t pages) {
  CUdeviceptr address = 0;
  check(cuMemAddressReserve(&address, pages * kPage, 0, 0, 0));
  return address;
}

CUmemGenericAllocationHandle Run::page() { return page_at(CU_MEM_LOCATION_TYPE_DEVICE); }

CUmemGenericAllocationHandle Run::host_page() { return page_at(CU_MEM_LOCATION_TYPE_HOST_NUMA); }

CUmemGenericAllocationHandle Run::page_at(CUmemLocationType place) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = place;
  CUmemGenericAllocationHandle handle = 0;
  check(cuMemCreate(&handle, kPage, &properties, 0));
  return handle;
}

void Run::map(CUdeviceptr address, CUmemGenericAllocationHandle page) {
  check(cuMemMap(address, kPage, 0, page, 0));
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  check(cuMemSetAccess(address, kPage, &access, 1));
}

void Run::unmap(CUdeviceptr address) { check(cuMemUnmap(address, kPage)); }

CUdeviceptr Run::mapped(std::uint32_t value) {
  const CUdeviceptr address = reserve();
  map(address, page());
  fill(address, value);
  return address;
}

void Run::fill(CUdeviceptr address, std::uint32_t value) {
  check(cuMemsetD32(address, value, kWords));
  check(cuCtxSynchronize());
}

CUstream Run::stream(unsigned flags) {
  CUstream stream = nullptr;
  check(cuStreamCreate(&stream, flags));
  return stream;
}

void Run::order(CUstream later, CUstream earlier) {
  check(cuStreamWaitEvent(later, mark(earlier), 0));
}

void Run::launch(const char* kernel, CUstream stream, std::vector<void*> arguments) {
  CUfunction function = nullptr;
  check(cuModuleGetFunction(&function, module_, kernel));
  check(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments.data(), nullptr));
}

void Run::copy_words(CUstream stream, CUdeviceptr out, CUdeviceptr in) {
  std::uint32_t count = kWords;
  launch(kCopyWords, stream, {&out, &in, &count});
}

void Run::fill_words(CUstream stream, CUdeviceptr out, std::uint32_t value) {
  std::uint32_t count = kWords;
  launch("fill_words", stream, {&out, &value, &count});
}

void Run::fill_gated(const char* kernel, CUstream stream, CUdeviceptr out, std::uint32_t value,
                     const Gate& gate) {
  std::uint32_t count = kWords;
  CUdeviceptr words = gate.words();
  launch(kernel, stream, {&out, &value, &count, &words});
}

void Run::copy_gated(const char* kernel, CUstream stream, CUdeviceptr out, CUdeviceptr in,
                     const Gate& gate) {
  std::uint32_t count = kWords;
  CUdeviceptr words = gate.words();
  launch(kernel, stream, {&out, &in, &count, &words});
}

void Run::mix(CUstream stream, CUdeviceptr out, CUdeviceptr in) {
  launch(kMix, stream, {&out, &in});
}

void Run::copy_in(CUstream stream, CUdeviceptr to, const std::uint32_t* from) {
  check(cuMemcpyHtoDAsync(to, from, kBytes, stream));
}

void Run::copy_out(CUstream stream, std::uint32_t* to, CUdeviceptr from) {
  check(cuMemcpyDtoHAsync(to, from, kBytes, stream));
}

void Run::synchronize(CUstream stream) { check(cuStreamSynchronize(stream)); }

void Run::let_run(CUstream stream) {
  const superpipe::testing::HangGuard guard;
  for (int look = 0; cuStreamQuery(stream) == CUDA_ERROR_NOT_READY; ++look) {
    if (ordered_ ? look >= kLooks : guard.is_over()) return;
    std::this_thread::sleep_for(kPause);
  }
}

CUevent Run::mark(CUstream stream) {
  CUevent event = nullptr;
  check(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  check(cuEventRecord(event, stream));
  return event;
}

void Run::let_begin(CUevent mark) {
  check(cuEventSynchronize(mark));
  std::this_thread::sleep_for(kSoon);
}

void Run::must_still_run(CUstream stream) {
  const CUresult result = cuStreamQuery(stream);
  if (result == CUDA_SUCCESS) end("late");
  if (result != CUDA_ERROR_NOT_READY) check(result);
}

void Run::check(CUresult result) {
  if (result != CUDA_SUCCESS) end("error " + std::to_string(static_cast<int>(result)));
}

void Run::expect(const std::uint32_t* words, std::uint32_t value) {
  // Copied first, so that what is compared is what was there at one moment.
  const std::vector<std::uint32_t> seen(words, words + kWords);
  const bool right =
      std::all_of(seen.begin(), seen.end(), [&](auto word) { return word == value; });
  end(right ? "bytes right" : "bytes wrong");
}

void Run::expect(CUdeviceptr address, std::uint32_t value) {
  check(cuCtxSynchronize());
  std::vector<std::uint32_t> words(kWords);
  check(cuMemcpyDtoH(words.data(), address, kBytes));
  expect(words.data(), value);
}

void Run::answer(CUdeviceptr address) {
  check(cuCtxSynchronize());
  std::vector<std::uint32_t> words(kWords);
  check(cuMemcpyDtoH(words.data(), address, kBytes));
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const std::uint32_t word : words) hash = (hash ^ word) * 0x100000001b3U;
  end("bytes " + std::to_string(hash));
}

void Run::end(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
  // Without the handlers of exit(): a gate may be closed still, and a kernel running.
  _exit(0);
}

}  // namespace wrong_programs
