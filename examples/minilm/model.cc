#include "examples/minilm/model.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace minilm {
namespace {

std::span<const float> vector_of(const SafetensorsFile& file, const std::string& name,
                                 std::uint64_t size) {
  return file.floats(name, std::array{size});
}

std::span<const float> matrix_of(const SafetensorsFile& file, const std::string& name,
                                 std::uint64_t rows, std::uint64_t columns) {
  return file.floats(name, std::array{rows, columns});
}

}  // namespace

Model::Model(const std::string& folder)
    : file_(folder + "/model.safetensors"),
      words_(matrix_of(file_, "embeddings.word_embeddings.weight", kVocabulary, kHidden)),
      positions_(matrix_of(file_, "embeddings.position_embeddings.weight", kPositions, kHidden)),
      segments_(matrix_of(file_, "embeddings.token_type_embeddings.weight", 2, kHidden)) {}

std::vector<float> Model::layer(int index) const {
  const std::string prefix = "encoder.layer." + std::to_string(index) + ".";
  std::vector<float> packed(kLayerFloats);
  const auto place = [&packed](std::size_t offset, std::span<const float> values) {
    std::copy(values.begin(), values.end(), packed.begin() + static_cast<std::ptrdiff_t>(offset));
  };
  const auto linear = [&](const std::string& name, std::size_t weight, std::size_t bias,
                          std::uint64_t outputs, std::uint64_t inputs) {
    place(weight, matrix_of(file_, prefix + name + ".weight", outputs, inputs));
    place(bias, vector_of(file_, prefix + name + ".bias", outputs));
  };
  const auto norm = [&](const std::string& name, std::size_t scale, std::size_t shift) {
    place(scale, vector_of(file_, prefix + name + ".weight", kHidden));
    place(shift, vector_of(file_, prefix + name + ".bias", kHidden));
  };
  std::size_t part = 0;
  for (const char* const name : {"query", "key", "value"}) {
    linear(std::string("attention.self.") + name, kQkvWeight + part * kHidden * kHidden,
           kQkvBias + part * kHidden, kHidden, kHidden);
    ++part;
  }
  linear("attention.output.dense", kProjectionWeight, kProjectionBias, kHidden, kHidden);
  norm("attention.output.LayerNorm", kAttentionNormScale, kAttentionNormShift);
  linear("intermediate.dense", kUpWeight, kUpBias, kInner, kHidden);
  linear("output.dense", kDownWeight, kDownBias, kHidden, kInner);
  norm("output.LayerNorm", kOutputNormScale, kOutputNormShift);
  return packed;
}

std::vector<float> Model::embedding_norm() const {
  const auto scale = vector_of(file_, "embeddings.LayerNorm.weight", kHidden);
  const auto shift = vector_of(file_, "embeddings.LayerNorm.bias", kHidden);
  std::vector<float> both(scale.begin(), scale.end());
  both.insert(both.end(), shift.begin(), shift.end());
  return both;
}

void Model::gather(int id, int position, float* row) const {
  const float* const word = words_.data() + static_cast<std::size_t>(id) * kHidden;
  const float* const place = positions_.data() + static_cast<std::size_t>(position) * kHidden;
  for (std::size_t i = 0; i < kHidden; ++i) row[i] = word[i] + segments_[i] + place[i];
}

}  // namespace minilm
