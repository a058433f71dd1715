// Decoders of the LLaMA family, token by token.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "bench/virtual_time/kernels.h"

namespace superpipe::bench {

/// Elements of the matrices of a decoder of the LLaMA family.
struct DecoderShape {
  std::uint32_t layers;
  std::uint64_t hidden;
  std::uint64_t key_value;  ///< columns of the projections to keys and values
  std::uint64_t inner;      ///< of the feed-forward part
  std::uint64_t vocabulary;

  [[nodiscard]] std::array<std::uint64_t, 7> layer() const {
    const std::uint64_t square = hidden * hidden;
    return {square,         hidden * key_value, hidden * key_value, square,
            hidden * inner, hidden * inner,     inner * hidden};
  }
  [[nodiscard]] std::uint64_t embedding() const { return vocabulary * hidden; }
};

// Sources: the models' configurations on Hugging Face.
inline constexpr DecoderShape kLlama7B{32, 4096, 4096, 11008, 32000};
inline constexpr DecoderShape kMistral7B{32, 4096, 1024, 14336, 32000};
inline constexpr DecoderShape kTinyLlama{22, 2048, 256, 5632, 32000};
inline constexpr DecoderShape kMixtral{32, 4096, 1024, 14336, 32000};

/// Where weights come from.
enum class Origin {
  kHost,    ///< halves are copied from the host
  kDevice,  ///< model.cuda().half(): all floats are copied, then each is converted on the device
};

/// The weights of a decoder in halves.
struct Decoder {
  DecoderShape shape;
  Weight embedding;
  Weight head;
  std::vector<std::array<Weight, 7>> layers;

  void load(Program& program, Origin origin);
};

/// What is done between the projections to keys and values and the rest of a layer.
class Attention {
 public:
  virtual ~Attention() = default;
  virtual void allocate(Program& program, const DecoderShape& shape) = 0;
  virtual void run(Program& program, std::uint32_t layer) = 0;
};

/// A cache of keys and values that is allocated once, for 2048 tokens of one sequence.
class StaticCache : public Attention {
 public:
  void allocate(Program& program, const DecoderShape& shape) override;
  void run(Program& program, std::uint32_t layer) override;

 private:
  std::vector<Weight> caches_;
};

/// A cache that torch.cat makes anew for each token, after a prompt of 512 tokens.
class GrowingCache : public Attention {
 public:
  void allocate(Program& program, const DecoderShape& shape) override;
  void run(Program& program, std::uint32_t layer) override;

 private:
  Bytes token_;
  std::vector<Weight> caches_;
};

/// Decodes one token: a gather, the layers, the head. The program reads the token, as a loop that
/// looks for the end of the text does.
void decode(Program& program, const Decoder& decoder, Attention& attention);

}  // namespace superpipe::bench
