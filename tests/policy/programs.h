// Programs as policy sees them, and a residency that obeys its decisions without a device.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "policy/policy_engine.h"
#include "policy/units.h"

namespace superpipe {

/// One launch of a program.
struct ScriptLaunch {
  KernelId kernel{};
  std::vector<BufferId> buffers;
};

/// A program: what it allocates, what it fills from the host, and the launches of one pass.
struct Program {
  std::vector<Bytes> footprints;  ///< by buffer id
  std::set<std::uint32_t> host_written;
  std::vector<ScriptLaunch> pass;

  /// A new buffer; `written`: the host fills it.
  BufferId add(Bytes footprint, bool written = true) {
    footprints.push_back(footprint);
    const auto id = static_cast<std::uint32_t>(footprints.size() - 1);
    if (written) host_written.insert(id);
    return BufferId{id};
  }
  /// A launch at the end of the pass.
  void launch(std::uint64_t kernel, std::vector<BufferId> buffers) {
    pass.push_back({KernelId{kernel}, std::move(buffers)});
  }
  /// All buffers' bytes.
  [[nodiscard]] Bytes total() const {
    Bytes sum;
    for (const Bytes bytes : footprints) sum += bytes;
    return sum;
  }
};

/// n layers of one weight each, two activations in turns: a forward pass.
inline Program forward_program(int layers, Bytes layer = 16_MiB, Bytes activation = 1_MiB) {
  Program program;
  const BufferId x = program.add(activation, false);
  const BufferId y = program.add(activation, false);
  for (int i = 0; i < layers; ++i) {
    program.launch(7, {program.add(layer), i % 2 == 0 ? x : y, i % 2 == 0 ? y : x});
  }
  return program;
}

/// LLaMA's shape: an embedding, `layers` of nine weights, a final norm, a head; two activations.
inline Program llama_program(int layers) {
  Program program;
  const BufferId x = program.add(1_MiB, false);
  const BufferId y = program.add(1_MiB, false);
  program.launch(1, {program.add(250_MiB), x});
  for (int i = 0; i < layers; ++i) {
    program.launch(2, {program.add(1_MiB), x, y});                               // norm
    for (int p = 0; p < 4; ++p) program.launch(3, {program.add(32_MiB), y, x});  // q k v o
    program.launch(2, {program.add(1_MiB), x, y});                               // norm
    for (int p = 0; p < 3; ++p) program.launch(4, {program.add(86_MiB), y, x});  // gate up down
  }
  program.launch(2, {program.add(1_MiB), x, y});
  program.launch(5, {program.add(251_MiB), y});
  return program;
}

/// Forward, backward and Adam's update of n layers: weight, gradient and two moments each.
inline Program training_program(int layers, Bytes layer = 8_MiB) {
  Program program;
  const BufferId x = program.add(1_MiB, false);
  std::vector<BufferId> weights;
  std::vector<BufferId> gradients;
  for (int i = 0; i < layers; ++i) weights.push_back(program.add(layer));
  for (int i = 0; i < layers; ++i) gradients.push_back(program.add(layer, false));
  for (int i = 0; i < layers; ++i) program.launch(1, {weights[i], x});
  for (int i = layers; i-- > 0;) {
    program.launch(2, {weights[i], x});
    program.launch(3, {gradients[i], x});
  }
  for (int i = 0; i < layers; ++i) {
    program.launch(
        4, {weights[i], gradients[i], program.add(layer, false), program.add(layer, false)});
  }
  return program;
}

/// Obeys an engine: keeps what it says, fetches on demand what it forgot, keeps to its limit.
class ObedientResidency {
 public:
  explicit ObedientResidency(PolicyEngine& engine) : engine_(engine) {}

  /// Allocates and fills what `program` has, ids shifted by `first_id`.
  void load(const Program& program, std::uint32_t first_id = 0) {
    for (std::uint32_t id = 0; id < program.footprints.size(); ++id) {
      allocate(BufferId{id + first_id}, program.footprints[id]);
      if (program.host_written.count(id) != 0) engine_.on_host_write(BufferId{id + first_id});
    }
  }
  void allocate(BufferId id, Bytes footprint) {
    footprints_[index_of(id)] = footprint;
    engine_.on_allocate(id, footprint);
  }
  void free(BufferId id) {
    engine_.on_free(id);
    footprints_.erase(index_of(id));
    resident_.erase(index_of(id));
  }
  /// One launch: decision, evictions, fetches, demand fetches under the limit. Records violations.
  Decision launch(KernelId kernel, const std::vector<BufferId>& buffers) {
    Decision decision = engine_.on_launch({kernel, buffers});
    std::set<std::uint32_t> named;
    for (const BufferId id : buffers) named.insert(index_of(id));
    for (const BufferId id : decision.evict) {
      if (named.count(index_of(id)) != 0) violations.push_back("evicts what the launch names");
      if (footprints_.count(index_of(id)) == 0) violations.push_back("evicts a freed buffer");
      evictions += resident_.erase(index_of(id));
    }
    for (const BufferId id : decision.fetch) {
      if (footprints_.count(index_of(id)) == 0) violations.push_back("fetches a freed buffer");
      if (resident_.count(index_of(id)) == 0) {
        make_room(footprints_[index_of(id)], named);
        resident_.insert(index_of(id));
        ++fetches;
        ++fetches_of[index_of(id)];
        fetched_bytes += footprints_[index_of(id)];
      }
    }
    for (const std::uint32_t id : named) {
      if (footprints_.count(id) == 0 || resident_.count(id) != 0) continue;
      ++demand_fetches;
      make_room(footprints_[id], named);
      resident_.insert(id);
    }
    peak = std::max(peak, resident_bytes());
    return decision;
  }
  void run(const Program& program, int passes = 1) {
    for (int pass = 0; pass < passes; ++pass) {
      for (const ScriptLaunch& one : program.pass) launch(one.kernel, one.buffers);
    }
  }
  [[nodiscard]] Bytes resident_bytes() const {
    Bytes sum;
    for (const std::uint32_t id : resident_) sum += footprints_.at(id);
    return sum;
  }
  [[nodiscard]] bool is_resident(BufferId id) const { return resident_.count(index_of(id)) != 0; }
  void reset_counters() {
    fetches = demand_fetches = evictions = 0;
    fetches_of.clear();
    fetched_bytes = peak = Bytes{};
    jumps_then_ = engine_.learned().mispredictions;
  }
  /// How often the engine has lost or moved its place since reset_counters().
  [[nodiscard]] std::size_t jumps() const { return engine_.learned().mispredictions - jumps_then_; }

  std::size_t fetches = 0;  ///< by decision
  std::size_t demand_fetches = 0;
  std::size_t evictions = 0;  ///< by decision
  std::map<std::uint32_t, std::size_t> fetches_of;
  Bytes fetched_bytes;
  Bytes peak;
  std::vector<std::string> violations;

 private:
  void make_room(Bytes bytes, const std::set<std::uint32_t>& named) {
    const Bytes limit = engine_.managed_limit();
    if (resident_bytes() + bytes <= limit) return;
    std::vector<BufferId> candidates;
    for (const std::uint32_t id : resident_) {
      if (named.count(id) == 0) candidates.push_back(BufferId{id});
    }
    const Bytes over = resident_bytes() + bytes - limit;
    Bytes freed;
    for (const BufferId id : engine_.choose_victims(candidates, over)) {
      if (resident_.erase(index_of(id)) == 0) violations.push_back("a victim is no candidate");
      freed += footprints_[index_of(id)];
    }
    Bytes all;
    for (const BufferId id : candidates) all += footprints_[index_of(id)];
    if (freed < over && freed < all) violations.push_back("victims free too little");
  }

  PolicyEngine& engine_;
  std::map<std::uint32_t, Bytes> footprints_;
  std::set<std::uint32_t> resident_;
  std::size_t jumps_then_ = 0;
};

/// The configuration of a policy with k, and k' unless 0.
inline PolicyConfig with_k(PolicyKind kind, int k, int k_prime = 0) {
  PolicyConfig config;
  config.kind = kind;
  config.k = k;
  if (k_prime > 0) config.k_prime = k_prime;
  return config;
}

/// The configuration of a policy with a budget.
inline PolicyConfig with_budget(PolicyKind kind, Bytes budget) {
  PolicyConfig config;
  config.kind = kind;
  config.budget = budget;
  return config;
}

}  // namespace superpipe
