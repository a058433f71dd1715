#include "policy/layer_grouping.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace superpipe {
namespace {

constexpr std::size_t kMaxPeriod = 512;
// After the first repeat, another one counts if it covers at least one in this many of all buffers:
// so a second stack of layers is found, a few buffers that are alike by chance are not, and the
// search stays short.
constexpr std::size_t kFurtherRepeatShare = 16;
// A buffer may be shared if more launches than this name it while they access another buffer for
// the first time.
constexpr int kSharedSuspicion = 2;
constexpr std::size_t kMaxSharedHomes = 2;
// Where nothing is repeated, the buffers are cut into about this many runs.
constexpr std::uint64_t kRuns = 32;

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9E3779B97F4A7C15U + b + 0x7F4A7C15U;
  x ^= x >> 32;
  x *= 0xD6E8FEB86659FD93U;
  x ^= x >> 32;
  return x;
}

// A persistent buffer where the pass first names it.
struct FirstAccess {
  BufferId id;
  std::size_t launch;
  std::uint64_t token;
};

// The layer of the buffers that a launch names.
struct LaunchHome {
  std::uint32_t layer = kNoLayer;
  bool single = false;  // all of them are in `layer`
};

// Up to two layers, and whether there were more.
struct LayerSet {
  std::array<std::uint32_t, kMaxSharedHomes> layers{};
  std::size_t count = 0;
  bool many = false;

  bool contains(std::uint32_t layer) const {
    for (std::size_t at = 0; at < count; ++at) {
      if (layers[at] == layer) return true;
    }
    return false;
  }
  void add(std::uint32_t layer) {
    if (contains(layer)) return;
    if (count == kMaxSharedHomes) {
      many = true;
    } else {
      layers[count++] = layer;
    }
  }
};

// The layers of a launch's buffers: how many buffers it names of each of the first two.
struct LaunchLayers {
  std::array<std::uint32_t, 2> layers{kNoLayer, kNoLayer};
  std::array<std::size_t, 2> buffers{};
  bool more = false;  // than two layers

  void add(std::uint32_t layer) {
    for (std::size_t at = 0; at < layers.size(); ++at) {
      if (buffers[at] > 0 && layers[at] != layer) continue;
      layers[at] = layer;
      ++buffers[at];
      return;
    }
    more = true;
  }
  // The one layer of all buffers but one, which is in `left_out`; kNoLayer if there are several, or
  // none.
  std::uint32_t single_without(std::uint32_t left_out) const {
    if (more) return kNoLayer;
    std::uint32_t single = kNoLayer;
    for (std::size_t at = 0; at < layers.size(); ++at) {
      const std::size_t left = buffers[at] > 0 && layers[at] == left_out ? 1 : 0;
      if (buffers[at] == left) continue;
      if (single != kNoLayer) return kNoLayer;
      single = layers[at];
    }
    return single;
  }
};

class Grouping {
 public:
  Grouping(std::span<const LaunchRecord> pass, std::span<const Bytes> footprints)
      : pass_(pass),
        footprints_(footprints),
        layer_of_(footprints.size(), kNoLayer),
        repeated_(footprints.size(), false),
        suspect_(footprints.size(), false) {}

  LayerGroups run() {
    find_first_accesses();
    group_repeats();
    if (bytes_in_repeats() * 2 < total_bytes()) {
      group_runs();
      place_suspects();
    } else {
      repeat_layers_ = layers_;
      group_rest();
      place_suspects();
      share_interludes();
      merge_rest();
    }
    return finish();
  }

 private:
  bool is_persistent(BufferId id) const {
    return index_of(id) < footprints_.size() && footprints_[index_of(id)] > Bytes{};
  }
  std::uint64_t bytes_of(BufferId id) const { return footprints_[index_of(id)].count(); }

  // Finds where the pass first names each buffer. Buffers that may be shared are set apart: with a
  // workspace's first access in it, the first layer's sequence would differ from the others'.
  void find_first_accesses() {
    std::vector<bool> seen(footprints_.size(), false);
    std::vector<int> other_firsts(footprints_.size(), 0);
    std::vector<FirstAccess> all;
    for (std::size_t launch = 0; launch < pass_.size(); ++launch) {
      bool opens = false;
      for (const BufferId id : pass_[launch].buffers) {
        opens = opens || (is_persistent(id) && !seen[index_of(id)]);
      }
      if (!opens) continue;
      // In the token, so that two buffers of one launch (Adam's moments) are not a repetition.
      std::uint64_t ordinal = 0;
      for (const BufferId id : pass_[launch].buffers) {
        if (!is_persistent(id)) continue;
        if (seen[index_of(id)]) {
          ++other_firsts[index_of(id)];
          continue;
        }
        seen[index_of(id)] = true;
        const auto kernel = static_cast<std::uint64_t>(pass_[launch].kernel);
        all.push_back({id, launch, mix(mix(kernel, bytes_of(id)), ordinal++)});
      }
    }
    for (const FirstAccess& access : all) {
      const bool suspect = other_firsts[index_of(access.id)] > kSharedSuspicion;
      (suspect ? suspects_ : firsts_).push_back(access);
      suspect_[index_of(access.id)] = suspect;
    }
  }

  std::uint64_t total_bytes() const {
    std::uint64_t total = 0;
    for (const FirstAccess& access : firsts_) total += bytes_of(access.id);
    return total;
  }
  std::uint64_t bytes_in_repeats() const {
    std::uint64_t total = 0;
    for (const FirstAccess& access : firsts_) {
      if (layer_of_[index_of(access.id)] != kNoLayer) total += bytes_of(access.id);
    }
    return total;
  }

  // Searches each contiguous stretch of buffers without a layer.
  // @return the repeat that covers the most of any stretch.
  std::optional<TandemRepeat> best_repeat() {
    std::optional<TandemRepeat> best;
    std::vector<std::uint64_t> tokens;
    for (std::size_t at = 0; at < firsts_.size();) {
      if (layer_of_[index_of(firsts_[at].id)] != kNoLayer) {
        ++at;
        continue;
      }
      const std::size_t begin = at;
      tokens.clear();
      while (at < firsts_.size() && layer_of_[index_of(firsts_[at].id)] == kNoLayer) {
        tokens.push_back(firsts_[at++].token);
      }
      // Most stretches were searched by the last call already.
      const auto [known, is_new] = searched_.try_emplace({begin, at});
      if (is_new) known->second = find_tandem_repeat(tokens);
      auto repeat = known->second;
      if (!repeat) continue;
      repeat->begin += begin;
      if (!best || repeat->coverage() > best->coverage()) best = repeat;
    }
    return best;
  }

  void group_repeats() {
    while (const auto repeat = best_repeat()) {
      if (layers_ > 0 && repeat->coverage() * kFurtherRepeatShare < firsts_.size()) return;
      for (std::size_t copy = 0; copy < repeat->count; ++copy) {
        for (std::size_t at = 0; at < repeat->period; ++at) {
          const BufferId id = firsts_[repeat->begin + copy * repeat->period + at].id;
          layer_of_[index_of(id)] = layers_;
          repeated_[index_of(id)] = true;
        }
        ++layers_;
      }
      join_rest();
    }
  }

  // The layer of those buffers of a launch for which `counts` holds.
  template <typename Predicate>
  LaunchHome home_of(std::size_t launch, Predicate counts) const {
    LaunchHome home;
    for (const BufferId id : pass_[launch].buffers) {
      if (!is_persistent(id) || layer_of_[index_of(id)] == kNoLayer || !counts(id)) continue;
      if (home.layer == kNoLayer) {
        home = {layer_of_[index_of(id)], true};
      } else if (layer_of_[index_of(id)] != home.layer) {
        home.single = false;
      }
    }
    return home;
  }

  // Buffers without a layer join a layer that a launch names together with them, if it names no
  // other. Only buffers of the repetition itself count as the layer's: if those that joined counted
  // too, each would bring its neighbours along, and whole chains of activations would join.
  void join_rest() {
    for (std::size_t launch = 0; launch < pass_.size(); ++launch) {
      const LaunchHome home = home_of(launch, [&](BufferId id) { return repeated_[index_of(id)]; });
      if (!home.single) continue;
      for (const BufferId id : pass_[launch].buffers) {
        if (!is_persistent(id) || layer_of_[index_of(id)] != kNoLayer) continue;
        if (!suspect_[index_of(id)]) layer_of_[index_of(id)] = home.layer;
      }
    }
  }

  void group_rest() {
    std::size_t open_launch = pass_.size();
    for (const FirstAccess& access : firsts_) {
      if (layer_of_[index_of(access.id)] != kNoLayer) continue;
      if (access.launch != open_launch) {
        ++layers_;
        open_launch = access.launch;
      }
      layer_of_[index_of(access.id)] = layers_ - 1;
    }
  }

  void group_runs() {
    std::uint64_t largest = 0;
    for (const FirstAccess& access : firsts_) largest = std::max(largest, bytes_of(access.id));
    const std::uint64_t target = std::max(largest, total_bytes() / kRuns);
    layers_ = 0;
    std::uint64_t filled = 0;
    for (const FirstAccess& access : firsts_) {
      if (layers_ == 0 || filled + bytes_of(access.id) > target) {
        ++layers_;
        filled = 0;
      }
      filled += bytes_of(access.id);
      layer_of_[index_of(access.id)] = layers_ - 1;
    }
  }

  // Counts from which layers' launches each buffer is named. A buffer that is named from more than
  // two is shared, even if it had a layer; a suspect that is not shared goes to the first of them.
  void place_suspects() {
    std::vector<LayerSet> homes(footprints_.size());
    for (const LaunchRecord& launch : pass_) {
      LaunchLayers named;
      for (const BufferId id : launch.buffers) {
        if (!is_persistent(id) || layer_of_[index_of(id)] == kNoLayer) continue;
        named.add(layer_of_[index_of(id)]);
      }
      for (const BufferId id : launch.buffers) {
        if (!is_persistent(id)) continue;
        // Of the buffers that are named with it.
        const std::uint32_t home = named.single_without(layer_of_[index_of(id)]);
        if (home != kNoLayer) homes[index_of(id)].add(home);
      }
    }
    for (const std::vector<FirstAccess>* group : {&firsts_, &suspects_}) {
      for (const FirstAccess& access : *group) {
        const std::uint32_t index = index_of(access.id);
        const LayerSet& known = homes[index];
        // Its own layer counts as the third, if two other layers' launches name it.
        const bool elsewhere = layer_of_[index] != kNoLayer && known.count == kMaxSharedHomes &&
                               !known.contains(layer_of_[index]);
        if (known.many || elsewhere) {
          layer_of_[index] = kNoLayer;
        } else if (layer_of_[index] == kNoLayer) {
          layer_of_[index] = known.count > 0 ? known.layers[0] : layers_++;
        }
      }
    }
  }

  // A layer outside the repetitions that is visited after more than two of their layers (a table
  // that its launches name alone) is shared: otherwise it would come between all the others.
  void share_interludes() {
    std::vector<LayerSet> before(layers_);
    std::uint32_t last = kNoLayer;
    for (std::size_t launch = 0; launch < pass_.size(); ++launch) {
      const LaunchHome home = home_of(launch, [](BufferId) { return true; });
      if (!home.single) continue;
      if (home.layer < repeat_layers_) {
        last = home.layer;
      } else if (last != kNoLayer) {
        before[home.layer].add(last);
      }
    }
    for (std::uint32_t& layer : layer_of_) {
      if (layer != kNoLayer && before[layer].many) layer = kNoLayer;
    }
  }

  // What lies between repetitions, before them or behind them is a part of the layer before it, or
  // at first behind it, if it has fewer buffers than that repeats (an embedding, a head, a norm).
  // Else it is layers of its own, as large as repetitions at most.
  void merge_rest() {
    std::vector<std::size_t> repeated(repeat_layers_, 0);
    std::vector<std::uint64_t> bytes(repeat_layers_, 0);
    for (const FirstAccess& access : firsts_) {
      const std::uint32_t layer = layer_of_[index_of(access.id)];
      if (layer >= repeat_layers_) continue;
      bytes[layer] += bytes_of(access.id);
      if (repeated_[index_of(access.id)]) ++repeated[layer];
    }
    std::uint32_t before = kNoLayer;
    std::vector<FirstAccess> rest;
    const auto merge = [&](std::uint32_t behind) {
      const std::uint32_t neighbour = before != kNoLayer ? before : behind;
      if (neighbour == kNoLayer) return;
      if (rest.size() < repeated[neighbour]) {
        for (const FirstAccess& access : rest) layer_of_[index_of(access.id)] = neighbour;
      } else {
        cut(rest, *std::ranges::max_element(bytes));
      }
    };
    for (const FirstAccess& access : firsts_) {
      const std::uint32_t layer = layer_of_[index_of(access.id)];
      if (layer == kNoLayer) continue;
      if (layer >= repeat_layers_) {
        rest.push_back(access);
        continue;
      }
      merge(layer);
      rest.clear();
      before = layer;
    }
    merge(kNoLayer);
  }

  // Makes layers of consecutive buffers, of at most `most` bytes or those of one launch.
  void cut(std::span<const FirstAccess> accesses, std::uint64_t most) {
    std::size_t at = 0;
    for (std::uint64_t filled = 0; at < accesses.size();) {
      std::size_t end = at;
      std::uint64_t bytes = 0;
      for (; end < accesses.size() && accesses[end].launch == accesses[at].launch; ++end) {
        bytes += bytes_of(accesses[end].id);
      }
      if (at == 0 || filled + bytes > most) {
        ++layers_;
        filled = 0;
      }
      filled += bytes;
      for (; at < end; ++at) layer_of_[index_of(accesses[at].id)] = layers_ - 1;
    }
  }

  // Numbers the layers by first access and leaves empty ones out.
  LayerGroups finish() {
    LayerGroups groups;
    std::vector<FirstAccess> order = firsts_;
    order.insert(order.end(), suspects_.begin(), suspects_.end());
    std::stable_sort(order.begin(), order.end(), [](const FirstAccess& a, const FirstAccess& b) {
      return a.launch < b.launch;
    });
    std::vector<std::uint32_t> place(layers_, kNoLayer);
    for (const FirstAccess& access : order) {
      const std::uint32_t layer = layer_of_[index_of(access.id)];
      if (layer == kNoLayer) {
        groups.shared.push_back(access.id);
        continue;
      }
      if (place[layer] == kNoLayer) {
        place[layer] = static_cast<std::uint32_t>(groups.layers.size());
        groups.layers.emplace_back();
      }
      groups.layers[place[layer]].push_back(access.id);
    }
    return groups;
  }

  std::span<const LaunchRecord> pass_;
  std::span<const Bytes> footprints_;
  std::vector<std::uint32_t> layer_of_;
  std::vector<FirstAccess> firsts_;    // in order, without the suspects
  std::vector<FirstAccess> suspects_;  // buffers that may be shared, in order
  std::vector<bool> repeated_;         // by buffer: it is part of a repetition
  std::vector<bool> suspect_;          // by buffer: it is one of suspects_
  std::map<std::pair<std::size_t, std::size_t>, std::optional<TandemRepeat>> searched_;
  std::uint32_t layers_ = 0;
  std::uint32_t repeat_layers_ = 0;  // layers below this number are repetitions
};

}  // namespace

std::optional<TandemRepeat> find_tandem_repeat(std::span<const std::uint64_t> tokens) {
  TandemRepeat best;
  const std::size_t n = tokens.size();
  for (std::size_t period = 1; period <= std::min(n / 2, kMaxPeriod); ++period) {
    std::size_t equal = 0;  // tokens[at - equal .. at) are those `period` later
    for (std::size_t at = 0; at + period <= n; ++at) {
      if (at + period < n && tokens[at] == tokens[at + period]) {
        ++equal;
        continue;
      }
      const std::size_t count = (equal + period) / period;
      if (count >= 2 && count * period > best.coverage()) best = {at - equal, period, count};
      equal = 0;
    }
  }
  if (best.count == 0) return std::nullopt;
  return best;
}

LayerGroups group_layers(std::span<const LaunchRecord> pass, std::span<const Bytes> footprints) {
  return Grouping(pass, footprints).run();
}

void LayerShares::add(std::uint32_t layer, Bytes bytes) {
  if (layer >= bytes_.size()) bytes_.resize(layer + std::size_t{1});
  if (bytes_[layer] == Bytes{}) named_.push_back(layer);
  bytes_[layer] += bytes;
}

std::uint32_t LayerShares::take_home() {
  std::uint32_t home = kNoLayer;
  for (const std::uint32_t layer : named_) {
    const bool is_larger = home == kNoLayer || bytes_[layer] > bytes_[home];
    if (is_larger || (bytes_[layer] == bytes_[home] && layer < home)) home = layer;
  }
  for (const std::uint32_t layer : named_) bytes_[layer] = Bytes{};
  named_.clear();
  return home;
}

}  // namespace superpipe
