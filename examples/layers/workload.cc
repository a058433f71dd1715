#include "examples/layers/workload.h"

#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <filesystem>

#include "examples/layers/content.h"
#include "examples/layers/kernels.h"

namespace layers {

using examples::check;
using examples::DeviceBuffer;
using examples::Event;

Workload::Workload(const Settings& settings) : settings_(settings), lanes_(settings.streams) {
  const bool training = settings.mode == Mode::kTrain;
  for (std::size_t i = 0; i < settings.layers; ++i) {
    Layer layer;
    layer.weights = allocate(settings.layer_words);
    if (training) {
      layer.gradient = allocate(settings.layer_words);
      layer.state = allocate(settings.layer_words);
    }
    layers_.push_back(std::move(layer));
  }
  for (Lane& lane : lanes_) {
    lane.partials = allocate(kBlocks, lane.stream);
    if (training) continue;
    for (DeviceBuffer& activation : lane.activations) {
      activation = allocate(settings.activation_words, lane.stream);
    }
  }
  if (training) {
    for (std::size_t i = 0; i <= settings.layers; ++i) {
      saved_.push_back(allocate(settings.activation_words));
    }
    for (DeviceBuffer& buffer : upstream_) buffer = allocate(settings.activation_words);
  }
  load();
}

DeviceBuffer Workload::allocate(Word words) const { return allocate(words, lanes_.front().stream); }

DeviceBuffer Workload::allocate(Word words, const examples::Stream& stream) const {
  return DeviceBuffer(words * sizeof(Word), settings_.allocation, stream.get());
}

void Workload::load() {
  // Two staging buffers in turn, so that the next layer is made while one is copied.
  struct Staging {
    std::vector<Word> pageable;
    examples::PinnedBuffer pinned;
    Event copied;
  };
  const Word most_words = std::max(settings_.layer_words, settings_.activation_words);
  std::vector<Staging> stagings(settings_.pinned_loading ? 2 : 1);
  for (Staging& staging : stagings) {
    if (settings_.pinned_loading) {
      staging.pinned = examples::PinnedBuffer(most_words * sizeof(Word));
    } else {
      staging.pageable.resize(most_words);
    }
  }
  const examples::Stream& stream = lanes_.front().stream;
  std::size_t turn = 0;
  const auto upload = [&](const DeviceBuffer& to, Word seed, Word words) {
    Staging& staging = stagings[turn++ % stagings.size()];
    const Word bytes = words * sizeof(Word);
    if (settings_.pinned_loading) {
      if (turn > stagings.size()) {
        check(cudaEventSynchronize(staging.copied.get()), "cudaEventSynchronize");
      }
      fill_initial(seed, words, staging.pinned.as<Word>());
      check(cudaMemcpyAsync(to.as<void>(), staging.pinned.as<void>(), bytes, cudaMemcpyHostToDevice,
                            stream.get()),
            "cudaMemcpyAsync to the device");
      staging.copied.record(stream);
    } else {
      fill_initial(seed, words, staging.pageable.data());
      check(cudaMemcpy(to.as<void>(), staging.pageable.data(), bytes, cudaMemcpyHostToDevice),
            "cudaMemcpy to the device");
    }
  };
  // Stream-ordered allocations exist before copies on another stream.
  for (const Lane& lane : lanes_) lane.stream.synchronize();
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    upload(layers_[i].weights, weights_seed(i), settings_.layer_words);
    if (settings_.mode == Mode::kTrain) {
      check(cudaMemsetAsync(layers_[i].state.as<void>(), 0, settings_.layer_words * sizeof(Word),
                            stream.get()),
            "cudaMemsetAsync");
    }
  }
  if (settings_.mode == Mode::kTrain) {
    upload(saved_.front(), activation_seed(0), settings_.activation_words);
  } else {
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      upload(lanes_[i].activations[0], activation_seed(i), settings_.activation_words);
    }
  }
  stream.synchronize();
}

void Workload::forward_pass() {
  for (const Layer& layer : layers_) {
    for (Lane& lane : lanes_) {
      cudaStream_t const stream = lane.stream.get();
      launch_read_layer(stream, layer.weights.as<const Word>(), settings_.layer_words,
                        settings_.compute_us, lane.partials.as<Word>());
      launch_activate(stream, lane.partials.as<const Word>(), lane.activations[0].as<const Word>(),
                      lane.activations[1].as<Word>(), settings_.activation_words);
      std::swap(lane.activations[0], lane.activations[1]);
    }
  }
}

Workload::Lane& Workload::next_lane(std::size_t index) {
  Lane& lane = lanes_[index % lanes_.size()];
  if (last_lane_ != nullptr && last_lane_ != &lane) {
    last_lane_->reached.record(last_lane_->stream);
    last_lane_->reached.block(lane.stream);
  }
  last_lane_ = &lane;
  return lane;
}

void Workload::train_pass() {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    Lane& lane = next_lane(i);
    launch_read_layer(lane.stream.get(), layers_[i].weights.as<const Word>(), settings_.layer_words,
                      settings_.compute_us, lane.partials.as<Word>());
    launch_activate(lane.stream.get(), lane.partials.as<const Word>(), saved_[i].as<const Word>(),
                    saved_[i + 1].as<Word>(), settings_.activation_words);
  }
  const Word* above = saved_.back().as<const Word>();
  for (std::size_t i = layers_.size(); i-- > 0;) {
    Lane& lane = next_lane(i);
    const GradientArrays arrays = {layers_[i].weights.as<const Word>(), saved_[i].as<const Word>(),
                                   above, layers_[i].gradient.as<Word>(), lane.partials.as<Word>()};
    launch_layer_gradient(lane.stream.get(), arrays, settings_.layer_words,
                          settings_.activation_words, 2 * settings_.compute_us);
    launch_activate(lane.stream.get(), lane.partials.as<const Word>(), above,
                    upstream_[i % 2].as<Word>(), settings_.activation_words);
    above = upstream_[i % 2].as<const Word>();
  }
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    launch_update_layer(next_lane(i).stream.get(), layers_[i].weights.as<Word>(),
                        layers_[i].state.as<Word>(), layers_[i].gradient.as<const Word>(),
                        settings_.layer_words);
  }
}

std::vector<float> Workload::run() {
  // A pass ends when all streams have done their part of it; the first stream keeps the time.
  const examples::Stream& clock = lanes_.front().stream;
  const auto has_more = [this](std::size_t done) {
    return done < settings_.passes ||
           (!settings_.until.empty() && !std::filesystem::exists(settings_.until));
  };
  std::vector<Event> marks(settings_.passes + 1);
  marks.front().record(clock);
  std::size_t passes = 0;
  for (; has_more(passes); ++passes) {
    nvtxRangePushA("pass");
    if (settings_.mode == Mode::kTrain) {
      train_pass();
      next_lane(0);
    } else {
      forward_pass();
      for (std::size_t i = 1; i < lanes_.size(); ++i) {
        lanes_[i].reached.record(lanes_[i].stream);
        lanes_[i].reached.block(clock);
      }
    }
    if (marks.size() == passes + 1) marks.emplace_back();
    marks[passes + 1].record(clock);
    nvtxRangePop();
  }
  for (const Lane& lane : lanes_) lane.stream.synchronize();
  std::vector<float> milliseconds;
  for (std::size_t pass = 0; pass < passes; ++pass) {
    milliseconds.push_back(marks[pass + 1].milliseconds_since(marks[pass]));
  }
  return milliseconds;
}

Word Workload::digest_buffer(const DeviceBuffer& buffer, Word words) const {
  std::vector<Word> content(words);
  const examples::Stream& stream = lanes_.front().stream;
  check(cudaMemcpyAsync(content.data(), buffer.as<void>(), words * sizeof(Word),
                        cudaMemcpyDeviceToHost, stream.get()),
        "cudaMemcpyAsync from the device");
  stream.synchronize();
  return content_digest(content);
}

std::vector<ContentDigest> Workload::digests(bool everything) const {
  std::vector<ContentDigest> found;
  const auto add = [&](const char* kind, std::size_t index, const DeviceBuffer& buffer,
                       Word words) {
    found.push_back({kind + std::to_string(index), digest_buffer(buffer, words)});
  };
  if (settings_.mode == Mode::kForward) {
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      add("activation ", i, lanes_[i].activations[0], settings_.activation_words);
    }
  } else {
    for (std::size_t i = 0; i < saved_.size(); ++i) {
      add("activation ", i, saved_[i], settings_.activation_words);
    }
    add("upstream ", 0, upstream_[0], settings_.activation_words);
  }
  for (std::size_t i = 0; everything && i < layers_.size(); ++i) {
    add("weights ", i, layers_[i].weights, settings_.layer_words);
    if (settings_.mode == Mode::kForward) continue;
    add("gradient ", i, layers_[i].gradient, settings_.layer_words);
    add("state ", i, layers_[i].state, settings_.layer_words);
  }
  return found;
}

}  // namespace layers
