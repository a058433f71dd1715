// What the probes' kernels and their checks on the host have in common. kernels.cu has the kernels,
// kernel_plugin.cc the same ones for simgpu.
#pragma once

#if defined(__CUDACC__)
#define SUPERPIPE_HOST_DEVICE __host__ __device__
#else
#define SUPERPIPE_HOST_DEVICE
#endif

namespace superpipe::cli {

/// The word at `index` of the pattern number `seed`. Neighbours differ, and so do patterns.
SUPERPIPE_HOST_DEVICE inline unsigned pattern_word(unsigned seed, unsigned long long index) {
  const auto low = static_cast<unsigned>(index);
  const auto high = static_cast<unsigned>(index >> 32);
  unsigned word = (low ^ (high * 0x85ebca6bU)) * 0x9e3779b1U + seed * 0xc2b2ae35U;
  word ^= word >> 15;
  return word * 0x2c1b3c6dU;
}

/// One step of the sequence that `probe_advance` takes each word through.
SUPERPIPE_HOST_DEVICE inline unsigned advanced(unsigned word) {
  return word * 1664525U + 1013904223U;
}

/// A tile of a tensor map, in words: what one thread block brings at once.
inline constexpr unsigned kTileColumns = 32;
inline constexpr unsigned kTileRows = 64;

/// Words on which the atomic kernels' threads spread.
inline constexpr unsigned kAtomicWords = 64;
/// What `probe_cas128` adds to the upper half of a word while it adds 1 to the lower one.
inline constexpr unsigned kUpperStep = 3;

}  // namespace superpipe::cli
