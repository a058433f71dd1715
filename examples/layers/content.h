// The content of superpipe-layers' buffers: what it is at first, and how two are compared.
#pragma once

#include <vector>

#include "examples/layers/arithmetic.h"

namespace layers {

/// Seed of layer `index`'s weights.
constexpr Word weights_seed(Word index) { return 1 + index; }

/// Seed of the activations that stream `index` starts with.
constexpr Word activation_seed(Word index) { return 100'000 + index; }

/// Writes initial_word() 0 to `words` - 1 of `seed` to `to`.
void fill_initial(Word seed, Word words, Word* to);

/// A digest of `words`, in which their order counts.
Word content_digest(const std::vector<Word>& words);

}  // namespace layers
