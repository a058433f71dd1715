// The model's weights on the host.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "examples/minilm/safetensors.h"
#include "examples/minilm/shape.h"

namespace minilm {

/// The weights of all-MiniLM-L6-v2, in a mapped file. Immutable, so any thread may read it.
///
/// Not used: the pooler, which sentence embeddings replace by the mean.
class Model {
 public:
  /// Opens `folder`/model.safetensors. Throws std::runtime_error where the file is missing or
  /// damaged, or is another model's.
  explicit Model(const std::string& folder);

  /// Layer `index`'s weights in the layout of shape.h, kLayerFloats of them, copied out of the
  /// file. Throws std::runtime_error where a tensor is missing or has another shape.
  [[nodiscard]] std::vector<float> layer(int index) const;

  /// The embedding layer normalisation's scale, then its shift: 2 * kHidden floats.
  [[nodiscard]] std::vector<float> embedding_norm() const;

  /// Adds up what the token `id` at `position` of its sentence starts with: its row of the word
  /// table, the position's row, and the row of the first segment. Writes kHidden floats to `row`.
  /// REQUIRES: 0 <= id < kVocabulary, 0 <= position < kPositions.
  void gather(int id, int position, float* row) const;

 private:
  SafetensorsFile file_;
  std::span<const float> words_;
  std::span<const float> positions_;
  std::span<const float> segments_;
};

}  // namespace minilm
