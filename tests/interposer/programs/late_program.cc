// A CUDA program that makes small copies while everything fits the device, and then needs more
// memory than there is: what the copies brought are pointers, stored after the call.
//
//     late_program late KERNELS.fatbin kernel|host
//     late_program moved|persistent KERNELS.fatbin
#include <cuda.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/interposer/programs/program.h"

using programs::accumulate;
using programs::accumulate_listed;
using programs::allocate;
using programs::function;
using programs::kBytes;
using programs::load_layers;
using programs::print_buffer;

namespace {

constexpr std::size_t kListed = 4 * sizeof(CUdeviceptr);

CUstream make_stream() {
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

/// Page-locked words, all zero.
CUdeviceptr* make_pinned() {
  void* pinned = nullptr;
  CHECK(cuMemHostAlloc(&pinned, kListed, 0));
  std::memset(pinned, 0, kListed);
  return static_cast<CUdeviceptr*>(pinned);
}

/// A kernel on a stream that runs until the program opens it.
class Spin {
 public:
  explicit Spin(CUstream stream) {
    auto word = reinterpret_cast<CUdeviceptr>(word_);
    void* parameters[] = {&word};
    CHECK(cuLaunchKernel(function("await_word"), 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
  }
  void open() { *const_cast<volatile CUdeviceptr*>(word_) = 1; }

 private:
  CUdeviceptr* word_ = make_pinned();
};

/// Passes over all, and then what only device memory names.
void use(CUdeviceptr state, const std::vector<CUdeviceptr>& weights, CUdeviceptr lists) {
  for (int pass = 0; pass < 3; ++pass) {
    for (const CUdeviceptr weight : weights) accumulate(state, weight, 0.125f);
  }
  if (lists != 0) accumulate_listed(lists);
  print_buffer("state", state);
  for (const CUdeviceptr weight : weights) print_buffer("weight", weight);
}

/// More weights than the device has room for.
void add_layers(std::vector<CUdeviceptr>& weights) {
  for (const CUdeviceptr weight : load_layers(8)) weights.push_back(weight);
}

/// Has a stream wait for `open`.
void wait_for(std::atomic<bool>& open, CUstream stream) {
  const auto wait = [](void* flag) {
    while (!*static_cast<std::atomic<bool>*>(flag)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  CHECK(cuLaunchHostFunc(stream, wait, &open));
}

/// The program stores pointers in the source of a copy while the stream waits in front of it.
void late(bool behind_a_kernel) {
  const CUstream stream = make_stream();
  auto weights = load_layers(4);
  const CUdeviceptr state = allocate();
  CHECK(cuMemsetD8(state, 0, kBytes));
  const CUdeviceptr lists = allocate(kListed);
  CUdeviceptr* const pinned = make_pinned();
  std::atomic<bool> is_open = false;
  std::optional<Spin> spin;
  if (behind_a_kernel) {
    spin.emplace(stream);
  } else {
    wait_for(is_open, stream);
  }
  CHECK(cuMemcpyHtoDAsync(lists, pinned, kListed, stream));
  std::memcpy(pinned, weights.data(), kListed);
  if (spin) spin->open();
  is_open = true;
  CHECK(cuStreamSynchronize(stream));
  std::memset(pinned, 0, kListed);
  add_layers(weights);
  use(state, weights, lists);
}

/// The same behind a host function; then the pointers are moved, and are gone from where the copy
/// brought them.
void moved() {
  const CUstream stream = make_stream();
  auto weights = load_layers(4);
  const CUdeviceptr state = allocate();
  CHECK(cuMemsetD8(state, 0, kBytes));
  const CUdeviceptr staged = allocate(kListed);
  const CUdeviceptr lists = allocate(kListed);
  CUdeviceptr* const pinned = make_pinned();
  std::atomic<bool> is_open = false;
  wait_for(is_open, stream);
  CHECK(cuMemcpyHtoDAsync(staged, pinned, kListed, stream));
  CHECK(cuMemcpyDtoDAsync(lists, staged, kListed, stream));
  CHECK(cuMemsetD8Async(staged, 0, kListed, stream));
  std::memcpy(pinned, weights.data(), kListed);
  is_open = true;
  CHECK(cuStreamSynchronize(stream));
  add_layers(weights);
  use(state, weights, lists);
}

/// A kernel behind a small copy runs for as long as the program does.
void persistent() {
  const CUstream stream = make_stream();
  auto weights = load_layers(4);
  const CUdeviceptr state = allocate();
  CHECK(cuMemsetD8(state, 0, kBytes));
  const CUdeviceptr small = allocate(kListed);
  CHECK(cuMemcpyHtoDAsync(small, make_pinned(), kListed, stream));
  Spin spin(stream);
  add_layers(weights);
  const auto begun = std::chrono::steady_clock::now();
  for (const CUdeviceptr weight : weights) accumulate(state, weight, 0.125f);
  const auto taken = std::chrono::steady_clock::now() - begun;
  // A wait of superpipe's ends after 30 s, and a machine that takes so long for them runs no tests.
  if (taken > std::chrono::seconds(25)) std::printf("launches waited for the kernel\n");
  spin.open();
  CHECK(cuStreamSynchronize(stream));
  use(state, weights, 0);
}

}  // namespace

int main(int count, char** arguments) {
  return programs::run_scenario(
      count, arguments,
      {{"late", [](const programs::Words& words) { late(words.at(1) == "kernel"); }},
       {"moved", programs::without_words<moved>},
       {"persistent", programs::without_words<persistent>}});
}
