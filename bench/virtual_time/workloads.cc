#include "bench/virtual_time/workloads.h"

#include <algorithm>
#include <array>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bench/virtual_time/decoder.h"
#include "bench/virtual_time/prefill.h"

namespace superpipe::bench {
namespace {

/// A number in [0, below), the same on every machine (the standard's distributions are not).
std::uint32_t draw(std::mt19937_64& random, std::uint32_t below) {
  return static_cast<std::uint32_t>(random() % below);
}

/// LLaMA-2-7B, one token a pass.
class Decode : public Workload {
 public:
  Decode(Origin origin, std::unique_ptr<Attention> attention)
      : origin_(origin), attention_(std::move(attention)) {}

  void load(Program& program) override {
    decoder_.load(program, origin_);
    attention_->allocate(program, decoder_.shape);
  }
  void run_pass(Program& program, int /*number*/) override {
    decode(program, decoder_, *attention_);
  }

 private:
  const Origin origin_;
  Decoder decoder_{kLlama7B, {}, {}, {}};
  const std::unique_ptr<Attention> attention_;
};

/// Passes launches on, and has some of them name a weight that they do not use: a pointer that is
/// left over in their parameters.
class Strays : public Program {
 public:
  Strays(Program& program, std::uint32_t per_hundred, std::mt19937_64& random,
         std::vector<Handle>& seen)
      : program_(program), per_hundred_(per_hundred), random_(random), seen_(seen) {}

  void on_stream(std::uint32_t stream) override { program_.on_stream(stream); }
  Handle allocate(Bytes size) override { return program_.allocate(size); }
  void free(Handle buffer) override { program_.free(buffer); }
  void upload(Handle buffer) override {
    seen_.push_back(buffer);
    program_.upload(buffer);
  }
  void launch(KernelId kernel, std::span<const Named> buffers, Seconds compute) override {
    std::vector<Named> named(buffers.begin(), buffers.end());
    if (draw(random_, 100) < per_hundred_) {
      const Handle stray = seen_[draw(random_, static_cast<std::uint32_t>(seen_.size()))];
      const auto is_stray = [stray](const Named& one) { return one.buffer == stray; };
      if (std::none_of(named.begin(), named.end(), is_stray)) named.push_back(reads(stray));
    }
    program_.launch(kernel, named, compute);
  }
  void synchronize() override { program_.synchronize(); }
  void copy_in(Handle buffer, Bytes offset, Bytes size) override {
    program_.copy_in(buffer, offset, size);
  }
  void copy_out(Handle buffer, Bytes offset, Bytes size) override {
    program_.copy_out(buffer, offset, size);
  }
  void use(std::span<const Named> buffers, Seconds time) override { program_.use(buffers, time); }
  void work(Seconds time) override { program_.work(time); }

 private:
  Program& program_;
  const std::uint32_t per_hundred_;
  std::mt19937_64& random_;
  std::vector<Handle>& seen_;
};

class StrayDecode : public Workload {
 public:
  explicit StrayDecode(std::uint32_t per_hundred) : per_hundred_(per_hundred) {}

  void load(Program& program) override {
    Strays strays(program, 0, random_, weights_);
    decode_.load(strays);
  }
  void run_pass(Program& program, int number) override {
    Strays strays(program, per_hundred_, random_, weights_);
    decode_.run_pass(strays, number);
  }

 private:
  const std::uint32_t per_hundred_;
  std::mt19937_64 random_{1};
  std::vector<Handle> weights_;
  Decode decode_{Origin::kHost, std::make_unique<StaticCache>()};
};

/// Trains TinyLlama-1.1B in floats: four micro-batches of 2048 tokens, then Adam.
class Training : public Workload {
 public:
  void load(Program& program) override {
    const auto add = [&](std::uint64_t rows, std::uint64_t columns) {
      const Weight weight = load_weight(program, Bytes{rows * columns * kFloat});
      parameters_.push_back({weight, columns, {}, {}, {}});
    };
    const DecoderShape& shape = kTinyLlama;
    add(shape.vocabulary, shape.hidden);
    for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
      add(shape.hidden, shape.hidden);
      for (int i = 0; i < 2; ++i) add(shape.hidden, shape.key_value);
      add(shape.hidden, shape.hidden);
      for (int i = 0; i < 2; ++i) add(shape.hidden, shape.inner);
      add(shape.inner, shape.hidden);
    }
    add(shape.hidden, shape.vocabulary);
  }

  void run_pass(Program& program, int number) override {
    for (int micro_batch = 0; micro_batch < 4; ++micro_batch) {
      const bool makes_gradients = number == 0 && micro_batch == 0;
      const std::vector<Weight> outputs = forward(program);
      backward(program, outputs, makes_gradients);
    }
    for (Parameter& parameter : parameters_) step(program, parameter, number == 0);
  }

 private:
  static constexpr std::uint64_t kTokens = 2048;

  struct Parameter {
    Weight weight;
    std::uint64_t columns;
    Handle gradient, first_moment, second_moment;
  };

  [[nodiscard]] static Seconds compute_of(const Parameter& parameter) {
    const double elements = static_cast<double>(parameter.weight.size.count()) / kFloat;
    return multiplying(2.0 * elements * kTokens, kSpeed.operations_of_floats);
  }

  // Each matrix keeps its output for the backward pass. The matrices are taken to be in a chain,
  // which names as many bytes as the real graph and is in the same order.
  std::vector<Weight> forward(Program& program) {
    std::vector<Weight> outputs;
    for (const Parameter& parameter : parameters_) {
      const Bytes size{kTokens * parameter.columns * kFloat};
      const Handle output = program.allocate(size);
      if (outputs.empty()) {
        launch(program, Kernel::kGather, {reads(parameter.weight.buffer), writes(output)},
               reading(size));
      } else {
        launch(program, Kernel::kMatrixMatrix,
               {reads(parameter.weight.buffer), reads(outputs.back().buffer), writes(output)},
               compute_of(parameter));
      }
      outputs.push_back({output, size});
    }
    return outputs;
  }

  void backward(Program& program, std::vector<Weight> outputs, bool makes_gradients) {
    Handle incoming = program.allocate(outputs.back().size);  // the gradient of the loss
    launch(program, Kernel::kZero, {reads(outputs.back().buffer), writes(incoming)},
           reading(2 * outputs.back().size));
    for (std::size_t i = parameters_.size(); i-- > 0;) {
      Parameter& parameter = parameters_[i];
      if (makes_gradients) parameter.gradient = program.allocate(parameter.weight.size);
      program.free(outputs[i].buffer);
      if (i == 0) {
        launch(program, Kernel::kGradientOfWeight, {reads(incoming), writes(parameter.gradient)},
               reading(outputs[i].size));
        break;
      }
      const Handle outgoing = program.allocate(outputs[i - 1].size);
      launch(program, Kernel::kGradientOfWeight,
             {reads(outputs[i - 1].buffer), reads(incoming), writes(parameter.gradient)},
             compute_of(parameter));
      launch(program, Kernel::kGradientOfInput,
             {reads(parameter.weight.buffer), reads(incoming), writes(outgoing)},
             compute_of(parameter));
      program.free(incoming);
      incoming = outgoing;
    }
    program.free(incoming);
  }

  void step(Program& program, Parameter& parameter, bool is_first) {
    const Bytes size = parameter.weight.size;
    if (is_first) {
      for (Handle* const moment : {&parameter.first_moment, &parameter.second_moment}) {
        *moment = program.allocate(size);
        launch(program, Kernel::kZero, {writes(*moment)}, reading(size));
      }
    }
    launch(program, Kernel::kAdam,
           {writes(parameter.weight.buffer), reads(parameter.gradient),
            writes(parameter.first_moment), writes(parameter.second_moment)},
           reading(7 * size));
    launch(program, Kernel::kZero, {writes(parameter.gradient)}, reading(size));
  }

  std::vector<Parameter> parameters_;
};

/// Mixtral 8x7B in halves: two of eight experts in each layer, drawn at random for each token.
class MixtureOfExperts : public Workload {
 public:
  void load(Program& program) override {
    embedding_ = load_weight(program, Bytes{kMixtral.embedding() * kHalf});
    for (std::uint32_t i = 0; i < kMixtral.layers; ++i) {
      Layer& layer = layers_.emplace_back();
      const auto elements = kMixtral.layer();
      for (std::size_t matrix = 0; matrix < layer.attention.size(); ++matrix) {
        layer.attention[matrix] = load_weight(program, Bytes{elements[matrix] * kHalf});
      }
      for (auto& expert : layer.experts) {
        for (std::size_t matrix = 0; matrix < expert.size(); ++matrix) {
          expert[matrix] = load_weight(program, Bytes{elements[4 + matrix] * kHalf});
        }
      }
    }
    head_ = load_weight(program, Bytes{kMixtral.embedding() * kHalf});
    cache_.allocate(program, kMixtral);
  }

  void run_pass(Program& program, int /*number*/) override {
    launch(program, Kernel::kGather, {reads(embedding_.buffer)}, kSpeed.least);
    for (std::uint32_t i = 0; i < kMixtral.layers; ++i) {
      const Layer& layer = layers_[i];
      for (std::size_t matrix = 0; matrix < 3; ++matrix) multiply(program, layer.attention[matrix]);
      cache_.run(program, i);
      multiply(program, layer.attention[3]);
      const std::uint32_t first = draw(random_, kExperts);
      const std::uint32_t second = (first + 1 + draw(random_, kExperts - 1)) % kExperts;
      // The host has to know which experts were chosen before it can launch them.
      program.synchronize();
      for (const std::uint32_t chosen : {std::min(first, second), std::max(first, second)}) {
        for (const Weight& weight : layer.experts[chosen]) multiply(program, weight);
      }
    }
    multiply(program, head_);
    program.synchronize();
  }

 private:
  static constexpr std::uint32_t kExperts = 8;
  struct Layer {
    std::array<Weight, 4> attention;
    std::array<std::array<Weight, 3>, kExperts> experts;
  };

  std::mt19937_64 random_{2};
  Weight embedding_;
  Weight head_;
  std::vector<Layer> layers_;
  StaticCache cache_;
};

/// Speculative decoding: TinyLlama drafts 3 to 6 tokens, LLaMA-2-7B judges them in one pass.
class DraftAndTarget : public Workload {
 public:
  void load(Program& program) override {
    for (Model* const model : {&draft_, &target_}) {
      model->decoder.load(program, Origin::kHost);
      model->cache.allocate(program, model->decoder.shape);
    }
  }
  void run_pass(Program& program, int /*number*/) override {
    const std::uint32_t drafted = 3 + draw(random_, 4);
    for (std::uint32_t i = 0; i < drafted; ++i) decode(program, draft_.decoder, draft_.cache);
    decode(program, target_.decoder, target_.cache);
  }

 private:
  struct Model {
    Decoder decoder;
    StaticCache cache;
  };
  std::mt19937_64 random_{3};
  Model draft_{{kTinyLlama, {}, {}, {}}, {}};
  Model target_{{kLlama7B, {}, {}, {}}, {}};
};

/// LLaMA-2-7B and Mistral-7B answer in turn, ten tokens each.
class TwoModels : public Workload {
 public:
  void load(Program& program) override {
    for (std::size_t i = 0; i < decoders_.size(); ++i) {
      decoders_[i].load(program, Origin::kHost);
      caches_[i].allocate(program, decoders_[i].shape);
    }
  }
  void run_pass(Program& program, int /*number*/) override {
    for (std::size_t i = 0; i < decoders_.size(); ++i) {
      for (int token = 0; token < 10; ++token) decode(program, decoders_[i], caches_[i]);
    }
  }

 private:
  std::array<Decoder, 2> decoders_{{{kLlama7B, {}, {}, {}}, {kMistral7B, {}, {}, {}}}};
  std::array<StaticCache, 2> caches_;
};

/// The launches of what is run on it, which takes place nowhere.
class NotedLaunches : public Program {
 public:
  struct Launch {
    KernelId kernel{};
    std::vector<Named> buffers;
    Seconds compute{};
  };

  void on_stream(std::uint32_t /*stream*/) override {}
  Handle allocate(Bytes /*size*/) override { throw std::logic_error("launches alone are noted"); }
  void free(Handle /*buffer*/) override {}
  void upload(Handle /*buffer*/) override {}
  void launch(KernelId kernel, std::span<const Named> buffers, Seconds compute) override {
    launches_.push_back({kernel, {buffers.begin(), buffers.end()}, compute});
  }
  void synchronize() override {}
  void copy_in(Handle /*buffer*/, Bytes /*offset*/, Bytes /*size*/) override {}
  void copy_out(Handle /*buffer*/, Bytes /*offset*/, Bytes /*size*/) override {}
  void use(std::span<const Named> /*buffers*/, Seconds /*time*/) override {}
  void work(Seconds /*time*/) override {}

  [[nodiscard]] const std::vector<Launch>& launches() const { return launches_; }

 private:
  std::vector<Launch> launches_;
};

/// LLaMA-2-7B and TinyLlama answer at the same time, on a stream each. Whose launch comes next is
/// drawn, as if a thread for each submitted it: three of five are LLaMA's, so that its token takes
/// about as many launches as TinyLlama's.
class TwoStreams : public Workload {
 public:
  void load(Program& program) override {
    for (Model* const model : {&large_, &small_}) {
      model->decoder.load(program, Origin::kHost);
      model->cache.allocate(program, model->decoder.shape);
      decode(model->token, model->decoder, model->cache);
    }
  }
  void run_pass(Program& program, int /*number*/) override {
    for (std::size_t left = large_.token.launches().size(); left > 0;) {
      const bool is_large = draw(random_, 5) < 3;
      submit(program, is_large ? 0 : 1, is_large ? large_ : small_);
      if (is_large) --left;
    }
    program.synchronize();
  }

 private:
  struct Model {
    Decoder decoder;
    StaticCache cache;
    NotedLaunches token;
    std::size_t next = 0;  ///< of the launches of a token
  };

  static void submit(Program& program, std::uint32_t stream, Model& model) {
    const auto& launches = model.token.launches();
    const NotedLaunches::Launch& launch = launches[model.next];
    program.on_stream(stream);
    program.launch(launch.kernel, launch.buffers, launch.compute);
    model.next = (model.next + 1) % launches.size();
  }

  std::mt19937_64 random_{5};
  Model large_{{kLlama7B, {}, {}, {}}, {}, {}, 0};
  Model small_{{kTinyLlama, {}, {}, {}}, {}, {}, 0};
};

/// Stable Diffusion 3 medium in halves: T5-XXL reads the prompt once, then 28 steps of the
/// transformer, and the program waits for the image.
class Denoising : public Workload {
 public:
  void load(Program& program) override {
    constexpr std::uint64_t kEncoderHidden = 4096;
    constexpr std::uint64_t kEncoderInner = 10240;
    constexpr std::uint64_t kSquare = kEncoderHidden * kEncoderHidden;
    constexpr std::uint64_t kWide = kEncoderHidden * kEncoderInner;
    encoder_.push_back(load_weight(program, Bytes{32128 * kEncoderHidden * kHalf}));
    for (int block = 0; block < 24; ++block) {
      for (const std::uint64_t elements :
           {kSquare, kSquare, kSquare, kSquare, kWide, kWide, kWide}) {
        encoder_.push_back(load_weight(program, Bytes{elements * kHalf}));
      }
    }
    constexpr std::uint64_t kHidden = 1536;
    for (int block = 0; block < 24; ++block) {
      // The stream of the image, then that of the text: modulation, projections, output, MLP.
      for (int stream = 0; stream < 2; ++stream) {
        for (const std::uint64_t columns :
             {6 * kHidden, 3 * kHidden, kHidden, 4 * kHidden, 4 * kHidden}) {
          transformer_.push_back(load_weight(program, Bytes{kHidden * columns * kHalf}));
        }
      }
    }
  }

  void run_pass(Program& program, int /*number*/) override {
    launch(program, Kernel::kGather, {reads(encoder_[0].buffer)}, kSpeed.least);
    for (std::size_t i = 1; i < encoder_.size(); ++i) {
      matrix_matrix(program, encoder_[i], kTextTokens);
    }
    for (int step = 0; step < 28; ++step) {
      for (const Weight& weight : transformer_) matrix_matrix(program, weight, kImageTokens);
    }
    program.synchronize();
  }

 private:
  static constexpr std::uint64_t kTextTokens = 2 * 256;  // with and without the prompt
  // An image of 1024 x 1024 is 4096 tokens, and the guidance computes it twice. The text's stream
  // takes less and attention more: together about as much again.
  static constexpr std::uint64_t kImageTokens = 2 * 4096;

  static void matrix_matrix(Program& program, const Weight& weight, std::uint64_t tokens) {
    const double elements = static_cast<double>(weight.size.count()) / kHalf;
    launch(program, Kernel::kMatrixMatrix, {reads(weight.buffer)},
           multiplying(2.0 * elements * static_cast<double>(tokens), kSpeed.operations));
  }

  std::vector<Weight> encoder_;
  std::vector<Weight> transformer_;
};

/// No order at all: each launch names one of 128 equal matrices, drawn at random.
class Noise : public Workload {
 public:
  void load(Program& program) override {
    for (std::uint32_t i = 0; i < kMatrices; ++i) matrices_.push_back(load_weight(program, 64_MiB));
  }
  void run_pass(Program& program, int /*number*/) override {
    for (std::uint32_t i = 0; i < 2 * kMatrices; ++i) {
      multiply(program, matrices_[draw(random_, kMatrices)]);
    }
    program.synchronize();
  }

 private:
  static constexpr std::uint32_t kMatrices = 128;
  std::mt19937_64 random_{4};
  std::vector<Weight> matrices_;
};

/// What superpipe-layers does (examples): passes of equal layers, of which the host waits for none.
class Layers : public Workload {
 public:
  void load(Program& program) override {
    for (Handle& layer : layers_) {
      layer = program.allocate(256_MiB);
      program.upload(layer);
    }
    state_ = program.allocate(64_KiB);
  }
  void run_pass(Program& program, int /*number*/) override {
    for (const Handle layer : layers_) {
      const std::array named{reads(layer), writes(state_)};
      program.launch(KernelId{1}, named, Seconds{20e-3});
    }
  }

 private:
  std::array<Handle, 32> layers_{};
  Handle state_{};
};

template <typename Made>
std::unique_ptr<Workload> make() {
  return std::make_unique<Made>();
}

template <std::uint32_t PerHundred>
std::unique_ptr<Workload> make_strays() {
  return std::make_unique<StrayDecode>(PerHundred);
}

std::unique_ptr<Workload> make_decode() {
  return std::make_unique<Decode>(Origin::kHost, std::make_unique<StaticCache>());
}

std::unique_ptr<Workload> make_device_made() {
  return std::make_unique<Decode>(Origin::kDevice, std::make_unique<GrowingCache>());
}

}  // namespace

std::span<const WorkloadEntry> all_workloads() {
  static const std::vector<WorkloadEntry> kEntries{
      {"llama-decode",
       "LLaMA-2-7B in halves, weights copied from the host, caches of 2048 tokens allocated once; "
       "a "
       "pass is one token, which the host reads",
       make_decode},
      {"llama-cuda-half",
       "LLaMA-2-7B by model.cuda().half(), caches of 512 tokens and more made anew by cat; a pass "
       "is one token, which the host reads",
       make_device_made},
      {"training",
       "TinyLlama-1.1B in floats, four micro-batches of 2048 tokens and then Adam for each "
       "parameter; a pass is one step; gradients are set to zero in place",
       make<Training>},
      {"experts",
       "Mixtral 8x7B in halves, two of eight experts drawn for each layer and token; a pass is one "
       "token; the host reads the choice in each layer",
       make<MixtureOfExperts>},
      {"draft-target",
       "TinyLlama-1.1B drafts 3 to 6 tokens (drawn), then one pass of LLaMA-2-7B, both in halves; "
       "a pass is one such round",
       make<DraftAndTarget>},
      {"two-models",
       "LLaMA-2-7B and Mistral-7B in halves, ten tokens each in turn; a pass is 20 tokens",
       make<TwoModels>},
      {"two-streams",
       "LLaMA-2-7B and TinyLlama-1.1B in halves at the same time, on a stream each; whose launch "
       "comes next is drawn; kernels run one after the other; a pass is one token of LLaMA's",
       make<TwoStreams>},
      {"denoise",
       "Stable Diffusion 3 medium in halves: T5-XXL once, then 28 steps of the transformer; a pass "
       "is one image of 1024 x 1024",
       make<Denoising>},
      {"stray-5", "llama-decode; 5 % of the launches name a weight that they do not use",
       make_strays<5>},
      {"stray-10", "the same with 10 % of the launches", make_strays<10>},
      {"stray-20", "the same with 20 % of the launches", make_strays<20>},
      {"prefill",
       "TinyLlama-1.1B in halves reads 1024 tokens; each operation makes its result anew and frees "
       "its operands; a pass is one prompt",
       make_prefill},
      {"layers",
       "32 layers of 256 MiB, of which each is computed with for 20 ms; the host waits for no "
       "pass, "
       "so that it is as far ahead of the device as memory lets it",
       make<Layers>},
      {"noise",
       "each launch multiplies by one of 128 matrices of 64 MiB, drawn at random; a pass is 256",
       make<Noise>},
  };
  return kEntries;
}

const WorkloadEntry* find_workload(const std::string& name) {
  for (const WorkloadEntry& entry : all_workloads()) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

}  // namespace superpipe::bench
