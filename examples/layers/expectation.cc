#include "examples/layers/content.h"
#include "examples/layers/workload.h"

namespace layers {
namespace {

using Words = std::vector<Word>;

Words initial(Word seed, Word words) {
  Words values(words);
  fill_initial(seed, words, values.data());
  return values;
}

Word digest_of(const Words& values) {
  Word digest = 0;
  for (Word i = 0; i < values.size(); ++i) digest += values[i] * coefficient(i);
  return digest;
}

Words activated(const Words& before, Word digest) {
  Words after(before.size());
  for (Word i = 0; i < before.size(); ++i) after[i] = next_activation(before[i], digest, i);
  return after;
}

std::vector<ContentDigest> expected_forward(const Settings& settings) {
  Words digests;
  std::vector<ContentDigest> weights;
  for (std::size_t i = 0; i < settings.layers; ++i) {
    const Words values = initial(weights_seed(i), settings.layer_words);
    digests.push_back(digest_of(values));
    weights.push_back({"weights " + std::to_string(i), content_digest(values)});
  }
  std::vector<ContentDigest> expected;
  for (std::size_t i = 0; i < settings.streams; ++i) {
    Words activation = initial(activation_seed(i), settings.activation_words);
    for (std::size_t pass = 0; pass < settings.passes; ++pass) {
      for (const Word digest : digests) activation = activated(activation, digest);
    }
    expected.push_back({"activation " + std::to_string(i), content_digest(activation)});
  }
  expected.insert(expected.end(), weights.begin(), weights.end());
  return expected;
}

std::vector<ContentDigest> expected_train(const Settings& settings) {
  std::vector<Words> weights;
  std::vector<Words> saved(1, initial(activation_seed(0), settings.activation_words));
  for (std::size_t i = 0; i < settings.layers; ++i) {
    weights.push_back(initial(weights_seed(i), settings.layer_words));
  }
  std::vector<Words> gradients(settings.layers, Words(settings.layer_words));
  std::vector<Words> states(settings.layers, Words(settings.layer_words));
  Words upstream;
  for (std::size_t pass = 0; pass < settings.passes; ++pass) {
    saved.resize(1);
    for (const Words& layer : weights) saved.push_back(activated(saved.back(), digest_of(layer)));
    upstream = saved.back();
    for (std::size_t l = settings.layers; l-- > 0;) {
      for (Word i = 0; i < settings.layer_words; ++i) {
        const Word place = i % settings.activation_words;
        gradients[l][i] = gradient_of(weights[l][i], saved[l][place], upstream[place]);
      }
      upstream = activated(upstream, digest_of(gradients[l]));
    }
    for (std::size_t l = 0; l < settings.layers; ++l) {
      for (Word i = 0; i < settings.layer_words; ++i) {
        states[l][i] = next_state(states[l][i], gradients[l][i]);
        weights[l][i] = next_weight(weights[l][i], states[l][i]);
      }
    }
  }
  std::vector<ContentDigest> expected;
  const auto add = [&expected](const char* kind, std::size_t index, const Words& values) {
    expected.push_back({kind + std::to_string(index), content_digest(values)});
  };
  for (std::size_t i = 0; i < saved.size(); ++i) add("activation ", i, saved[i]);
  add("upstream ", 0, upstream);
  for (std::size_t i = 0; i < settings.layers; ++i) {
    add("weights ", i, weights[i]);
    add("gradient ", i, gradients[i]);
    add("state ", i, states[i]);
  }
  return expected;
}

}  // namespace

std::vector<ContentDigest> expected_digests(const Settings& settings) {
  return settings.mode == Mode::kForward ? expected_forward(settings) : expected_train(settings);
}

}  // namespace layers
