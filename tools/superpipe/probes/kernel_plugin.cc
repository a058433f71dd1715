// The probes' kernels on the host, for simgpu.

#include "tools/simgpu/kernel_plugin.h"

#include <chrono>
#include <cstring>
#include <thread>

#include "tools/superpipe/probes/kernels.h"

namespace {

using superpipe::cli::advanced;
using superpipe::cli::kAtomicWords;
using superpipe::cli::kTileColumns;
using superpipe::cli::kTileRows;
using superpipe::cli::kUpperStep;
using superpipe::cli::pattern_word;

template <typename Value>
Value argument(const SimgpuLaunch* launch, size_t index) {
  return *static_cast<const Value*>(launch->arguments[index]);
}

using Count = unsigned long long;

void busy(const SimgpuLaunch* launch) {
  auto* const data = argument<unsigned*>(launch, 0);
  const auto count = argument<Count>(launch, 1);
  const volatile unsigned* const stop = argument<const unsigned*>(launch, 2);
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::nanoseconds(argument<unsigned long long>(launch, 3));
  do {
    for (Count i = 0; i < count; ++i) data[i] = advanced(data[i]);
    // The machine that simulates has work to do besides.
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  } while (*stop == 0 && std::chrono::steady_clock::now() < end);
}

void advance(const SimgpuLaunch* launch) {
  auto* const data = argument<unsigned*>(launch, 0);
  const auto count = argument<Count>(launch, 1);
  const auto rounds = argument<unsigned>(launch, 2);
  for (unsigned round = 0; round < rounds; ++round) {
    for (Count i = 0; i < count; ++i) data[i] = advanced(data[i]);
  }
}

void fill(const SimgpuLaunch* launch) {
  auto* const data = argument<unsigned*>(launch, 0);
  const auto count = argument<Count>(launch, 1);
  const auto seed = argument<unsigned>(launch, 2);
  for (Count i = 0; i < count; ++i) data[i] = pattern_word(seed, i);
}

void check(const SimgpuLaunch* launch) {
  const auto* const data = argument<const unsigned*>(launch, 0);
  const auto count = argument<Count>(launch, 1);
  const auto seed = argument<unsigned>(launch, 2);
  unsigned long long wrong = 0;
  for (Count i = 0; i < count; ++i) wrong += data[i] != pattern_word(seed, i) ? 1 : 0;
  *argument<unsigned long long*>(launch, 3) += wrong;
}

void read(const SimgpuLaunch* launch) {
  const auto* const data = argument<const unsigned*>(launch, 0);
  const auto count = argument<Count>(launch, 1) * 4;
  unsigned total = 0;
  for (Count i = 0; i < count; ++i) total ^= data[i];
  if (total == 0x9e3779b9U) *argument<unsigned long long*>(launch, 2) += 1;
}

void write(const SimgpuLaunch* launch) {
  auto* const data = argument<unsigned*>(launch, 0);
  const auto count = argument<Count>(launch, 1) * 4;
  const auto value = argument<unsigned>(launch, 2);
  for (Count i = 0; i < count; ++i) data[i] = value;
}

void add(const SimgpuLaunch* launch) {
  auto* const counter = argument<unsigned*>(launch, 0);
  const auto times = argument<unsigned>(launch, 1);
  const unsigned long long threads =
      static_cast<unsigned long long>(launch->grid[0]) * launch->block[0];
  __atomic_fetch_add(counter, static_cast<unsigned>(threads * times), __ATOMIC_RELAXED);
}

void nothing(const SimgpuLaunch* /*launch*/) {}

template <Count kWords>
void move(const SimgpuLaunch* launch) {
  auto* const to = argument<unsigned*>(launch, 0);
  const auto* const from = argument<const unsigned*>(launch, 1);
  const auto count = argument<Count>(launch, 2);
  const auto step = argument<Count>(launch, 3) * kWords;
  for (Count i = 0; i < count; ++i) {
    std::memcpy(to + i * step, from + i * step, kWords * sizeof(unsigned));
  }
}

void check_moved(const SimgpuLaunch* launch) {
  const auto* const data = argument<const unsigned*>(launch, 0);
  const auto count = argument<Count>(launch, 1);
  const auto group = argument<Count>(launch, 2);
  const auto step = argument<Count>(launch, 3);
  const auto moved = argument<unsigned>(launch, 4);
  const auto rest = argument<unsigned>(launch, 5);
  unsigned long long wrong = 0;
  for (Count i = 0; i < count; ++i) {
    const unsigned seed = i / group % step == 0 ? moved : rest;
    wrong += data[i] != pattern_word(seed, i) ? 1 : 0;
  }
  *argument<unsigned long long*>(launch, 6) += wrong;
}

void check_value(const SimgpuLaunch* launch) {
  const auto* const data = argument<const unsigned*>(launch, 0);
  const auto count = argument<Count>(launch, 1);
  const auto value = argument<unsigned>(launch, 2);
  unsigned long long wrong = 0;
  for (Count i = 0; i < count; ++i) wrong += data[i] != value ? 1 : 0;
  *argument<unsigned long long*>(launch, 3) += wrong;
}

// What all threads together add to each word. REQUIRES: kAtomicWords divides their number.
unsigned long long added_to_each(const SimgpuLaunch* launch) {
  const Count threads = static_cast<Count>(launch->grid[0]) * launch->block[0];
  return threads / kAtomicWords * argument<unsigned>(launch, 1);
}

void add64(const SimgpuLaunch* launch) {
  auto* const words = argument<unsigned long long*>(launch, 0);
  for (unsigned i = 0; i < kAtomicWords; ++i) words[i] += added_to_each(launch);
}

void cas128(const SimgpuLaunch* launch) {
  auto* const halves = argument<unsigned long long*>(launch, 0);
  for (unsigned i = 0; i < kAtomicWords; ++i) {
    halves[2 * i] += added_to_each(launch);
    halves[2 * i + 1] += added_to_each(launch) * kUpperStep;
  }
}

// simgpu puts the tensor's address in front of a map that is a parameter.
void move_tiles(const SimgpuLaunch* launch) {
  const auto tiles = argument<unsigned>(launch, 3);
  std::memcpy(argument<unsigned*>(launch, 1), argument<const unsigned*>(launch, 0),
              sizeof(unsigned) * kTileRows * kTileColumns * tiles);
  *argument<unsigned long long*>(launch, 4) += tiles;
}

// Ends when it is told to, so that the model has nothing to say about its time.
double no_time(const SimgpuLaunch* /*launch*/) { return 0.0; }

// As fast as the host computes it: a model would only make the probes wait.
constexpr SimgpuKernel kKernels[] = {
    {"probe_busy", busy, 0, no_time},
    {"probe_advance", advance, 0, no_time},
    {"probe_fill", fill, 0, no_time},
    {"probe_check", check, 0, no_time},
    {"probe_read", read, 0, no_time},
    {"probe_write", write, 0, no_time},
    {"probe_add", add, 0, no_time},
    {"probe_nothing", nothing, 1, nullptr},
    {"probe_move4", move<1>, 0, no_time},
    {"probe_move16", move<4>, 0, no_time},
    {"probe_check_moved", check_moved, 0, no_time},
    {"probe_check_value", check_value, 0, no_time},
    {"probe_add64", add64, 0, no_time},
    {"probe_cas64", add64, 0, no_time},
    {"probe_cas128", cas128, 0, no_time},
    {"probe_move_tiles", move_tiles, 0, no_time},
};

}  // namespace

const SimgpuKernel* simgpu_kernels(size_t* count) {
  *count = sizeof(kKernels) / sizeof(kKernels[0]);
  return kKernels;
}
