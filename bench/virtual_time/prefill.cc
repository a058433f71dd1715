#include "bench/virtual_time/prefill.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "bench/virtual_time/decoder.h"

namespace superpipe::bench {
namespace {

class Prefill : public Workload {
 public:
  void load(Program& program) override { decoder_.load(program, Origin::kHost); }

  void run_pass(Program& program, int /*number*/) override {
    Weight state = activation(program, kShape.hidden);
    launch(program, Kernel::kGather, {reads(decoder_.embedding.buffer), writes(state.buffer)},
           reading(2 * state.size));
    for (const auto& weights : decoder_.layers) {
      state = run_attention(program, weights, state);
      state = run_feed_forward(program, weights, state);
    }
    const Weight logits = project(program, state, decoder_.head, kShape.vocabulary);
    program.free(state.buffer);
    program.copy_out(logits.buffer, Bytes{}, logits.size);
    program.free(logits.buffer);
  }

 private:
  static constexpr DecoderShape kShape = kTinyLlama;
  static constexpr std::uint64_t kTokens = 1024;

  static Weight activation(Program& program, std::uint64_t columns) {
    const Bytes size{kTokens * columns * kHalf};
    return {program.allocate(size), size};
  }
  static Weight project(Program& program, const Weight& input, const Weight& weight,
                        std::uint64_t columns) {
    const Weight output = activation(program, columns);
    const double elements = static_cast<double>(weight.size.count()) / kHalf;
    launch(program, Kernel::kMatrixMatrix,
           {reads(weight.buffer), reads(input.buffer), writes(output.buffer)},
           multiplying(2.0 * elements * kTokens, kSpeed.operations));
    return output;
  }
  /// A new tensor from `inputs`, element by element; they are freed but for the first `kept`.
  static Weight combine(Program& program, std::initializer_list<Weight> inputs,
                        std::uint64_t columns, std::size_t kept = 0) {
    const Weight output = activation(program, columns);
    std::vector<Named> named;
    for (const Weight& input : inputs) named.push_back(reads(input.buffer));
    named.push_back(writes(output.buffer));
    program.launch(KernelId{static_cast<std::uint64_t>(Kernel::kAttention)}, named,
                   reading((inputs.size() + 1) * output.size));
    for (const Weight& input : inputs) {
      if (kept > 0) {
        --kept;
      } else {
        program.free(input.buffer);
      }
    }
    return output;
  }

  static Weight run_attention(Program& program, const std::array<Weight, 7>& weights,
                              const Weight& state) {
    const Weight normal = combine(program, {state}, kShape.hidden, 1);
    const Weight queries = project(program, normal, weights[0], kShape.hidden);
    const Weight keys = project(program, normal, weights[1], kShape.key_value);
    const Weight values = project(program, normal, weights[2], kShape.key_value);
    program.free(normal.buffer);
    const Weight turned = combine(program, {queries}, kShape.hidden);
    const Weight mixed = combine(program, {turned, keys, values}, kShape.hidden);
    const Weight output = project(program, mixed, weights[3], kShape.hidden);
    program.free(mixed.buffer);
    return combine(program, {state, output}, kShape.hidden);
  }
  static Weight run_feed_forward(Program& program, const std::array<Weight, 7>& weights,
                                 const Weight& state) {
    const Weight normal = combine(program, {state}, kShape.hidden, 1);
    const Weight gate = project(program, normal, weights[4], kShape.inner);
    const Weight opened = combine(program, {gate}, kShape.inner);
    const Weight up = project(program, normal, weights[5], kShape.inner);
    program.free(normal.buffer);
    const Weight inner = combine(program, {opened, up}, kShape.inner);
    const Weight down = project(program, inner, weights[6], kShape.hidden);
    program.free(inner.buffer);
    return combine(program, {state, down}, kShape.hidden);
  }

  Decoder decoder_{kShape, {}, {}, {}};
};

}  // namespace

std::unique_ptr<Workload> make_prefill() { return std::make_unique<Prefill>(); }

}  // namespace superpipe::bench
