#include "bench/virtual_time/decoder.h"

namespace superpipe::bench {
namespace {

// Calls `visit` with each weight and its number of elements, in order of use.
template <typename Visit>
void for_each_weight(Decoder& decoder, Visit visit) {
  visit(decoder.embedding, decoder.shape.embedding());
  decoder.layers.resize(decoder.shape.layers);
  for (auto& layer : decoder.layers) {
    const auto elements = decoder.shape.layer();
    for (std::size_t i = 0; i < layer.size(); ++i) visit(layer[i], elements[i]);
  }
  visit(decoder.head, decoder.shape.embedding());
}

}  // namespace

void Decoder::load(Program& program, Origin origin) {
  if (origin == Origin::kHost) {
    for_each_weight(*this, [&](Weight& weight, std::uint64_t elements) {
      weight = load_weight(program, Bytes{elements * kHalf});
    });
    return;
  }
  for_each_weight(*this, [&](Weight& weight, std::uint64_t elements) {
    weight = load_weight(program, Bytes{elements * kFloat});
  });
  for_each_weight(*this, [&](Weight& weight, std::uint64_t elements) {
    const Weight floats = weight;
    weight = {program.allocate(Bytes{elements * kHalf}), Bytes{elements * kHalf}};
    launch(program, Kernel::kConvert, {reads(floats.buffer), writes(weight.buffer)},
           reading(floats.size + weight.size));
    program.free(floats.buffer);
  });
}

void StaticCache::allocate(Program& program, const DecoderShape& shape) {
  const Bytes size{2048 * shape.key_value * kHalf};
  for (std::uint32_t i = 0; i < 2 * shape.layers; ++i) {
    caches_.push_back({program.allocate(size), size});
  }
}

void StaticCache::run(Program& program, std::uint32_t layer) {
  const Weight& keys = caches_[2 * layer];
  const Weight& values = caches_[2 * layer + 1];
  launch(program, Kernel::kAttention, {writes(keys.buffer), writes(values.buffer)},
         reading(keys.size + values.size));
}

void GrowingCache::allocate(Program& program, const DecoderShape& shape) {
  token_ = Bytes{shape.key_value * kHalf};
  for (std::uint32_t i = 0; i < 2 * shape.layers; ++i) {
    caches_.push_back({program.allocate(512 * token_), 512 * token_});
  }
}

void GrowingCache::run(Program& program, std::uint32_t layer) {
  for (Weight* const cache : {&caches_[2 * layer], &caches_[2 * layer + 1]}) {
    const Weight old = *cache;
    *cache = {program.allocate(old.size + token_), old.size + token_};
    launch(program, Kernel::kConcatenate, {reads(old.buffer), writes(cache->buffer)},
           reading(old.size + cache->size));
    program.free(old.buffer);
  }
  const Weight& keys = caches_[2 * layer];
  const Weight& values = caches_[2 * layer + 1];
  launch(program, Kernel::kAttention, {reads(keys.buffer), reads(values.buffer)},
         reading(keys.size + values.size));
}

void decode(Program& program, const Decoder& decoder, Attention& attention) {
  launch(program, Kernel::kGather, {reads(decoder.embedding.buffer)}, kSpeed.least);
  for (std::uint32_t layer = 0; layer < decoder.shape.layers; ++layer) {
    const auto& weights = decoder.layers[layer];
    for (std::size_t i = 0; i < 3; ++i) multiply(program, weights[i]);
    attention.run(program, layer);
    for (std::size_t i = 3; i < weights.size(); ++i) multiply(program, weights[i]);
  }
  multiply(program, decoder.head);
  program.synchronize();
}

}  // namespace superpipe::bench
