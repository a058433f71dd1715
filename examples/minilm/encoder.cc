#include "examples/minilm/encoder.h"

#include "examples/minilm/kernels.h"

namespace minilm {

using examples::check;
using examples::DeviceBuffer;

namespace {

DeviceBuffer floats(std::size_t rows, std::size_t columns) {
  return DeviceBuffer(rows * columns * sizeof(float));
}

template <typename T>
void upload(const DeviceBuffer& to, const std::vector<T>& from, cudaStream_t stream) {
  check(cudaMemcpyAsync(to.as<void>(), from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice,
                        stream),
        "cudaMemcpyAsync to the device");
}

}  // namespace

Encoder::Encoder(const Model& model, std::size_t most_tokens, std::size_t most_sentences)
    : model_(model),
      embedding_norm_(floats(2, kHidden)),
      hidden_(floats(most_tokens, kHidden)),
      qkv_(floats(most_tokens, 3UL * kHidden)),
      context_(floats(most_tokens, kHidden)),
      projected_(floats(most_tokens, kHidden)),
      inner_(floats(most_tokens, kInner)),
      spans_(most_tokens * 2 * sizeof(int)),
      starts_((most_sentences + 1) * sizeof(int)),
      pooled_(floats(most_sentences, kHidden)) {
  upload(embedding_norm_, model.embedding_norm(), stream_.get());
  for (int index = 0; index < kLayers; ++index) {
    const std::vector<float> weights = model.layer(index);
    layers_.emplace_back(weights.size() * sizeof(float));
    check(cudaMemcpy(layers_.back().as<void>(), weights.data(), weights.size() * sizeof(float),
                     cudaMemcpyHostToDevice),
          "cudaMemcpy of a layer");
  }
  stream_.synchronize();
}

void Encoder::run_layer(std::size_t index, int tokens) {
  const auto* const weights = layers_[index].as<const float>();
  auto* const hidden = hidden_.as<float>();
  auto* const qkv = qkv_.as<float>();
  auto* const context = context_.as<float>();
  auto* const projected = projected_.as<float>();
  auto* const inner = inner_.as<float>();
  cudaStream_t const stream = stream_.get();
  launch_linear(stream, hidden, weights + kQkvWeight, weights + kQkvBias, qkv, tokens, kHidden,
                3 * kHidden);
  launch_attention(stream, qkv, spans_.as<const int>(), context, tokens);
  launch_linear(stream, context, weights + kProjectionWeight, weights + kProjectionBias, projected,
                tokens, kHidden, kHidden);
  launch_add_layer_norm(stream, projected, hidden, weights + kAttentionNormScale,
                        weights + kAttentionNormShift, hidden, tokens);
  launch_linear(stream, hidden, weights + kUpWeight, weights + kUpBias, inner, tokens, kHidden,
                kInner);
  launch_gelu(stream, inner, tokens * kInner);
  launch_linear(stream, inner, weights + kDownWeight, weights + kDownBias, projected, tokens,
                kInner, kHidden);
  launch_add_layer_norm(stream, projected, hidden, weights + kOutputNormScale,
                        weights + kOutputNormShift, hidden, tokens);
}

std::vector<float> Encoder::encode(const std::vector<Sentence>& batch) {
  std::vector<float> rows;
  std::vector<int> spans;
  std::vector<int> starts{0};
  for (const Sentence& sentence : batch) {
    const int first = starts.back();
    const int last = first + static_cast<int>(sentence.size());
    for (std::size_t position = 0; position < sentence.size(); ++position) {
      rows.resize(rows.size() + kHidden);
      model_.gather(sentence[position], static_cast<int>(position),
                    rows.data() + rows.size() - kHidden);
      spans.push_back(first);
      spans.push_back(last);
    }
    starts.push_back(last);
  }
  const int tokens = starts.back();
  cudaStream_t const stream = stream_.get();
  upload(hidden_, rows, stream);
  upload(spans_, spans, stream);
  upload(starts_, starts, stream);
  launch_add_layer_norm(stream, hidden_.as<const float>(), nullptr,
                        embedding_norm_.as<const float>(),
                        embedding_norm_.as<const float>() + kHidden, hidden_.as<float>(), tokens);
  for (std::size_t index = 0; index < layers_.size(); ++index) run_layer(index, tokens);
  launch_mean_pool(stream, hidden_.as<const float>(), starts_.as<const int>(), pooled_.as<float>(),
                   static_cast<int>(batch.size()));
  std::vector<float> pooled(batch.size() * kHidden);
  check(cudaMemcpyAsync(pooled.data(), pooled_.as<void>(), pooled.size() * sizeof(float),
                        cudaMemcpyDeviceToHost, stream),
        "cudaMemcpyAsync from the device");
  stream_.synchronize();
  return pooled;
}

}  // namespace minilm
