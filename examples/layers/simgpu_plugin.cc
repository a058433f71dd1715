// The kernels of kernels.cu, computed on the host for simgpu at about the speed of its memory.
#include <cstring>
#include <iterator>

#include "examples/layers/arithmetic.h"
#include "tools/simgpu/kernel_plugin.h"

namespace layers {
namespace {

// A row of a tile. The compiler uses whatever vector registers the function's target has.
using Row [[gnu::vector_size(kLanes * sizeof(Word))]] = Word;

template <typename T>
T argument(const SimgpuLaunch* launch, std::size_t index) {
  T value;
  std::memcpy(&value, launch->arguments[index], sizeof value);
  return value;
}

[[gnu::always_inline]] inline void load(Row* row, const Word* from) {
  std::memcpy(row, from, sizeof *row);
}

/// The digest of a tile from its plain sum and its sum of running sums, whose weights are those of
/// coefficient(): only additions in the loop over the tile.
[[gnu::always_inline]] inline Word tile_digest(const Row& sum, const Row& running, Word tile) {
  Word digest = 0;
  for (Word lane = 0; lane < kLanes; ++lane) {
    digest += sum[lane] * lane_factor(lane) + running[lane] * row_factor(lane);
  }
  return digest * tile_factor(tile);
}

[[gnu::always_inline]] inline void read_layer_all(const SimgpuLaunch* launch) {
  const auto* const weights = argument<const Word*>(launch, 0);
  const Word words = argument<Word>(launch, 1);
  auto* const partials = argument<Word*>(launch, 3);
  std::memset(partials, 0, kBlocks * sizeof(Word));
  for (Word tile = 0; tile < words / kTileWords; ++tile) {
    Row sum = {};
    Row running = {};
    for (Word i = 0; i < kTileWords; i += kLanes) {
      Row row;
      load(&row, weights + tile * kTileWords + i);
      sum += row;
      running += sum;
    }
    partials[tile % kBlocks] += tile_digest(sum, running, tile);
  }
}

[[gnu::always_inline]] inline void activate_all(const SimgpuLaunch* launch) {
  const auto* const partials = argument<const Word*>(launch, 0);
  const auto* const input = argument<const Word*>(launch, 1);
  auto* const output = argument<Word*>(launch, 2);
  const Word words = argument<Word>(launch, 3);
  Word digest = 0;
  for (unsigned i = 0; i < kBlocks; ++i) digest += partials[i];
  for (Word i = 0; i < words; ++i) output[i] = next_activation(input[i], digest, i);
}

[[gnu::always_inline]] inline void layer_gradient_all(const SimgpuLaunch* launch) {
  const auto* const weights = argument<const Word*>(launch, 0);
  const auto* const activation = argument<const Word*>(launch, 1);
  const auto* const upstream = argument<const Word*>(launch, 2);
  auto* const gradient = argument<Word*>(launch, 3);
  auto* const partials = argument<Word*>(launch, 4);
  const Word words = argument<Word>(launch, 5);
  const Word activation_words = argument<Word>(launch, 6);
  std::memset(partials, 0, kBlocks * sizeof(Word));
  for (Word tile = 0; tile < words / kTileWords; ++tile) {
    const Word start = tile * kTileWords;
    const Word place = start % activation_words;
    Row sum = {};
    Row running = {};
    for (Word i = 0; i < kTileWords; i += kLanes) {
      Row weight;
      Row active;
      Row above;
      load(&weight, weights + start + i);
      load(&active, activation + place + i);
      load(&above, upstream + place + i);
      const Row value = (weight ^ active) + above;  // gradient_of()
      std::memcpy(gradient + start + i, &value, sizeof value);
      sum += value;
      running += sum;
    }
    partials[tile % kBlocks] += tile_digest(sum, running, tile);
  }
}

[[gnu::always_inline]] inline void update_layer_all(const SimgpuLaunch* launch) {
  auto* const weights = argument<Word*>(launch, 0);
  auto* const state = argument<Word*>(launch, 1);
  const auto* const gradient = argument<const Word*>(launch, 2);
  const Word words = argument<Word>(launch, 3);
  for (Word i = 0; i < words; i += kLanes) {
    Row weight;
    Row before;
    Row slope;
    load(&weight, weights + i);
    load(&before, state + i);
    load(&slope, gradient + i);
    const Row after = before - (before >> 3) + slope;  // next_state()
    weight += after >> 7;                              // next_weight()
    std::memcpy(state + i, &after, sizeof after);
    std::memcpy(weights + i, &weight, sizeof weight);
  }
}

// The same function for the vector registers that the machine has; results do not differ.
#if defined(__x86_64__)
#define LAYERS_KERNEL(name)                                                                    \
  [[gnu::target("avx2")]] void name##_avx2(const SimgpuLaunch* launch) { name##_all(launch); } \
  void name(const SimgpuLaunch* launch) {                                                      \
    return __builtin_cpu_supports("avx2") ? name##_avx2(launch) : name##_all(launch);          \
  }
#else
#define LAYERS_KERNEL(name) \
  void name(const SimgpuLaunch* launch) { name##_all(launch); }
#endif
LAYERS_KERNEL(read_layer)
LAYERS_KERNEL(activate)
LAYERS_KERNEL(layer_gradient)
LAYERS_KERNEL(update_layer)

// Where --compute-us does not say how long a kernel takes, it is this many bytes per microsecond:
// no GPU's speed, but one with which a core keeps up, so that measurements stay valid.
constexpr double kBytesPerUs = 4000;
constexpr double kLaunchUs = 5;

double moved_us(Word words, double touched) {
  return kLaunchUs + static_cast<double>(words * sizeof(Word)) * touched / kBytesPerUs;
}

double read_layer_us(const SimgpuLaunch* launch) {
  const auto asked = argument<unsigned>(launch, 2);
  return asked > 0 ? asked : moved_us(argument<Word>(launch, 1), 1);
}

double activate_us(const SimgpuLaunch* launch) { return moved_us(argument<Word>(launch, 3), 2); }

double layer_gradient_us(const SimgpuLaunch* launch) {
  const auto asked = argument<unsigned>(launch, 7);
  return asked > 0 ? asked : moved_us(argument<Word>(launch, 5), 2);
}

double update_layer_us(const SimgpuLaunch* launch) {
  return moved_us(argument<Word>(launch, 3), 3);
}

constexpr SimgpuKernel kKernels[] = {
    {"_ZN6layers10read_layerEPKmmjPm", read_layer, 0, read_layer_us},
    {"_ZN6layers8activateEPKmS1_Pmm", activate, 0, activate_us},
    {"_ZN6layers14layer_gradientEPKmS1_S1_PmS2_mmj", layer_gradient, 0, layer_gradient_us},
    {"_ZN6layers12update_layerEPmS0_PKmm", update_layer, 0, update_layer_us},
};

}  // namespace
}  // namespace layers

const SimgpuKernel* simgpu_kernels(size_t* count) {
  *count = std::size(layers::kKernels);
  return layers::kKernels;
}
