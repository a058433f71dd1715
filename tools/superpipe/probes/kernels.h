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

/// A digest of 128 bits as two sums, so that the order in which threads add to it does not matter.
struct Digest {
  unsigned long long first = 0, second = 0;
};

/// Adds 8 bytes, `low` and `high`, that lie at position `index` (in units of 8 bytes).
///
/// Each product's factors depend on the position, so that exchanged or repeated words show. Cheap
/// on purpose: two products of 32 by 32 bits for 8 bytes keep it bound by the memory, not by
/// arithmetic. Source: NH, of UMAC (Black, Halevi, Krawczyk, Krovetz, Rogaway; CRYPTO 1999).
SUPERPIPE_HOST_DEVICE inline void add_to_digest(Digest& digest, unsigned low, unsigned high,
                                                unsigned long long index) {
  const auto position = static_cast<unsigned>(index) ^ (static_cast<unsigned>(index >> 32) << 16);
  const unsigned key = position * 0x9e3779b1U + 0x7f4a7c15U;
  digest.first +=
      static_cast<unsigned long long>(low + key) * static_cast<unsigned long long>(high ^ ~key);
  digest.second += static_cast<unsigned long long>(low ^ (key * 5U + 1U)) *
                   static_cast<unsigned long long>(high + (key ^ 0x5bd1e995U));
}

}  // namespace superpipe::cli
