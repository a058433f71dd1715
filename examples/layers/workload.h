// A synthetic model whose layers, passes and timing can be chosen, and which notices any wrong
// byte.
#pragma once

#include <string>
#include <vector>

#include "examples/cuda_objects.h"
#include "examples/layers/arithmetic.h"

namespace layers {

/// What a pass does.
enum class Mode {
  kForward,  // read the layers in order
  kTrain,    // forward, backward in reverse order, then an optimizer step on every layer
};

/// What to run.
struct Settings {
  Mode mode = Mode::kForward;
  std::size_t layers = 8;
  Word layer_words = 0;       // of each of a layer's buffers; a multiple of kTileWords, > 0
  Word activation_words = 0;  // a multiple of kTileWords, > 0
  std::size_t passes = 1;     // >= 1
  std::string until;          // more passes, as long as there is no such file; empty: none
  std::size_t streams = 1;    // >= 1
  unsigned compute_us = 0;    // of a layer's forward; its backward takes twice that
  bool pinned_loading = false;
  examples::AllocationKind allocation = examples::AllocationKind::kDirect;
};

/// A digest of the content of one buffer.
struct ContentDigest {
  std::string buffer;  // "weights 3", "activation 0"
  Word digest;

  bool operator==(const ContentDigest&) const = default;
};

/// Runs the model on the current CUDA device.
///
/// Forward: each of the streams carries its own activations through all layers, pass after pass;
/// the layers are shared. Train: layer l works on stream l modulo streams, ordered by events; every
/// pass starts from the same activations with the weights of the pass before. Nothing waits for the
/// device between passes. Not for use by several threads at once.
class Workload {
 public:
  /// Allocates everything and loads the weights, layer by layer; waits until they have arrived.
  /// Throws std::runtime_error where CUDA refuses.
  explicit Workload(const Settings& settings);

  /// Runs all passes and waits for them; looks for the file before each. Returns each pass's
  /// milliseconds of device time. Throws std::runtime_error where CUDA refuses.
  [[nodiscard]] std::vector<float> run();

  /// Digests of the activations that a run left, and with `everything` of all other buffers too,
  /// which copies all of them to the host. Throws std::runtime_error where CUDA refuses.
  [[nodiscard]] std::vector<ContentDigest> digests(bool everything) const;

 private:
  struct Layer {
    examples::DeviceBuffer weights;
    examples::DeviceBuffer gradient;  // train only, as the next
    examples::DeviceBuffer state;
  };
  /// One stream, and what a forward pass on it needs.
  struct Lane {
    examples::Stream stream;
    examples::Event reached;
    examples::DeviceBuffer partials;
    examples::DeviceBuffer activations[2];
  };

  [[nodiscard]] examples::DeviceBuffer allocate(Word words) const;
  /// A stream-ordered buffer is freed on `stream`, which must outlive it: what a lane has is
  /// allocated on the lane's own, for lanes go one by one.
  [[nodiscard]] examples::DeviceBuffer allocate(Word words, const examples::Stream& stream) const;
  void load();
  void forward_pass();
  void train_pass();
  /// Makes the stream of layer `index` wait for the layer that was launched last, and returns it.
  Lane& next_lane(std::size_t index);
  [[nodiscard]] Word digest_buffer(const examples::DeviceBuffer& buffer, Word words) const;

  Settings settings_;
  std::vector<Lane> lanes_;
  std::vector<Layer> layers_;
  std::vector<examples::DeviceBuffer> saved_;  // train: layer l's input, and the last one's output
  examples::DeviceBuffer upstream_[2];  // train: what the backward passes from layer to layer
  Lane* last_lane_ = nullptr;           // train: where the last layer was launched
};

/// What Workload::digests(true) must answer after run(): the same computed on the host, word by
/// word from the definitions in arithmetic.h. Takes about as much host memory as the model on the
/// device.
std::vector<ContentDigest> expected_digests(const Settings& settings);

}  // namespace layers
