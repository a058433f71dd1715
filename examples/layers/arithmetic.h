// The exact arithmetic of superpipe-layers, shared by the device, simgpu's kernels and the check.
//
// All of it is on 64-bit words modulo 2^64, so that results do not depend on the order of
// additions, and every bit of every word counts: a stale byte anywhere changes what comes out.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define LAYERS_BOTH __host__ __device__
#else
#define LAYERS_BOTH
#endif

namespace layers {

using Word = std::uint64_t;

// A tile is kRows rows of kLanes words; tile t is read by block t modulo kBlocks.
constexpr Word kLanes = 8;
constexpr Word kRows = 64;
constexpr Word kTileWords = kLanes * kRows;
constexpr unsigned kBlocks = 256;

constexpr Word kGolden = 0x9E3779B97F4A7C15ULL;  // 2^64 divided by the golden ratio, odd

/// Factors of a lane in the digest: of the plain sum (odd), and of the sum weighted by rows (even).
LAYERS_BOTH constexpr Word lane_factor(Word lane) { return (kGolden * (2 * lane + 3)) | 1; }
LAYERS_BOTH constexpr Word row_factor(Word lane) {
  return (kGolden ^ (lane * 0x0101010101010101ULL)) & ~Word{1};
}

/// Factor of a tile in the digest; odd.
LAYERS_BOTH constexpr Word tile_factor(Word tile) { return 2 * tile + 1; }

/// What word `index` of a buffer is multiplied with in the digest of the buffer. Odd, so that a
/// change of any one word changes the digest; different from place to place, so that swapped ones
/// do too.
LAYERS_BOTH constexpr Word coefficient(Word index) {
  const Word lane = index % kLanes;
  const Word row = index / kLanes % kRows;
  return (lane_factor(lane) + (kRows - row) * row_factor(lane)) * tile_factor(index / kTileWords);
}

/// Activation `index` behind a layer, from the one before it and the layer's digest. One to one.
LAYERS_BOTH constexpr Word next_activation(Word before, Word digest, Word index) {
  Word x = before + digest + index * kGolden;
  x ^= x >> 31;
  return x + (x << 9);
}

/// The gradient of a weight, from it, an activation and what comes from the layer above.
LAYERS_BOTH constexpr Word gradient_of(Word weight, Word activation, Word upstream) {
  return (weight ^ activation) + upstream;
}

/// The optimizer's state behind a step.
LAYERS_BOTH constexpr Word next_state(Word state, Word gradient) {
  return state - (state >> 3) + gradient;
}

/// A weight behind a step with the new state.
LAYERS_BOTH constexpr Word next_weight(Word weight, Word state) { return weight + (state >> 7); }

/// Word `index` of what a run starts with; `seed` tells the buffers apart.
constexpr Word initial_word(Word seed, Word index) {
  Word x = (seed << 40) + index * kGolden;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  return x ^ (x >> 27);
}

}  // namespace layers
