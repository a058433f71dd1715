// The model on the device.
#pragma once

#include <vector>

#include "examples/cuda_objects.h"
#include "examples/minilm/model.h"

namespace minilm {

/// The token ids of one sentence, [CLS] and [SEP] included; 1 to kMaxTokens of them.
using Sentence = std::vector<int>;

/// Computes sentence embeddings on the current CUDA device, on a stream of its own.
///
/// Holds one allocation for each layer and a fixed set for the activations, all made by the
/// constructor. Not for use by several threads at once.
class Encoder {
 public:
  /// Copies the layers of `model`, which must outlive the encoder, to the device, and allocates
  /// activations for batches of up to `most_tokens` tokens and `most_sentences` sentences. Throws
  /// std::runtime_error where CUDA or the model's file refuses.
  Encoder(const Model& model, std::size_t most_tokens, std::size_t most_sentences);

  /// The embeddings of `batch`, kHidden floats of length 1 for each sentence, in order.
  ///
  /// Waits for the device. REQUIRES: the batch fits what the constructor was told. Throws
  /// std::runtime_error where CUDA refuses.
  [[nodiscard]] std::vector<float> encode(const std::vector<Sentence>& batch);

 private:
  /// Puts layer `index` on the stream: from hidden_ to hidden_, `tokens` rows.
  void run_layer(std::size_t index, int tokens);

  const Model& model_;
  examples::Stream stream_;
  std::vector<examples::DeviceBuffer> layers_;
  examples::DeviceBuffer embedding_norm_;
  examples::DeviceBuffer hidden_;     // [tokens][kHidden]
  examples::DeviceBuffer qkv_;        // [tokens][3 * kHidden]
  examples::DeviceBuffer context_;    // [tokens][kHidden]
  examples::DeviceBuffer projected_;  // [tokens][kHidden]
  examples::DeviceBuffer inner_;      // [tokens][kInner]
  examples::DeviceBuffer spans_;      // [tokens][2]
  examples::DeviceBuffer starts_;     // [sentences + 1]
  examples::DeviceBuffer pooled_;     // [sentences][kHidden]
};

}  // namespace minilm
