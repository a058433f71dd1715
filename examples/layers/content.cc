#include "examples/layers/content.h"

namespace layers {

Word content_digest(const std::vector<Word>& words) {
  Word digest = kGolden;
  for (const Word word : words) {
    digest = (digest ^ word) * 0xFF51AFD7ED558CCDULL;
    digest ^= digest >> 32;
  }
  return digest;
}

void fill_initial(Word seed, Word words, Word* to) {
  for (Word i = 0; i < words; ++i) to[i] = initial_word(seed, i);
}

}  // namespace layers
