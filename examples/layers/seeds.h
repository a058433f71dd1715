// Which initial content each buffer of superpipe-layers has.
#pragma once

#include "examples/layers/arithmetic.h"

namespace layers {

/// Seed of layer `index`'s weights.
constexpr Word weights_seed(Word index) { return 1 + index; }

/// Seed of the activations that stream `index` starts with.
constexpr Word activation_seed(Word index) { return 100'000 + index; }

/// Writes initial_word() 0 to `words` - 1 of `seed` to `to`.
void fill_initial(Word seed, Word words, Word* to);

}  // namespace layers
