// What policy adds to a launch: when nothing has to move, when windows move, and while it learns.
#include <benchmark/benchmark.h>

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "policy/pass_order.h"
#include "policy/policy_engine.h"

namespace superpipe {
namespace {

struct Launch {
  KernelId kernel{};
  std::vector<BufferId> buffers;
};

// A model of `layers` layers. Each has 9 launches, and each launch names 8 buffers: 3 weights of
// the layer and 5 of the 16 activations. `idle` further buffers exist that no launch names.
struct Workload {
  Workload(std::uint32_t layers, std::uint32_t idle) {
    constexpr std::uint32_t kActivations = 16;
    constexpr std::uint32_t kLaunches = 9;
    const std::uint32_t weights = layers * kLaunches * 3;
    buffers = kActivations + weights + idle;
    // Ids are dealt out with a stride, so that a launch's buffers do not lie side by side.
    const auto id = [&](std::uint32_t index) {
      return BufferId{static_cast<std::uint32_t>(std::uint64_t{index} * 7919 % buffers)};
    };
    std::uint32_t weight = kActivations;
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      for (std::uint32_t at = 0; at < kLaunches; ++at) {
        Launch& launch = pass.emplace_back();
        launch.kernel = KernelId{at};
        for (int n = 0; n < 3; ++n) launch.buffers.push_back(id(weight++));
        for (std::uint32_t n = 0; n < 5; ++n) {
          launch.buffers.push_back(id((layer + at + 3 * n) % kActivations));
        }
      }
    }
    for (std::uint32_t index = 0; index < buffers; ++index) {
      const bool is_weight = index >= kActivations && index < kActivations + weights;
      (is_weight ? weight_ids : other_ids).push_back(id(index));
    }
  }

  PolicyEngine start(const PolicyConfig& config) const {
    PolicyEngine engine(config);
    for (const BufferId one : weight_ids) {
      engine.on_allocate(one, 4_MiB);
      engine.on_host_write(one);
    }
    for (const BufferId one : other_ids) engine.on_allocate(one, 2_MiB);
    for (int time = 0; time < 4; ++time) {
      for (const Launch& launch : pass) {
        benchmark::DoNotOptimize(engine.on_launch({launch.kernel, launch.buffers}));
      }
    }
    return engine;
  }

  std::uint32_t buffers = 0;
  std::vector<Launch> pass;
  std::vector<BufferId> weight_ids;
  std::vector<BufferId> other_ids;
};

// Announces the launches of one pass after the other; `announce` does it.
template <typename Announce>
void run_passes(benchmark::State& state, const Workload& workload, const Announce& announce) {
  std::size_t at = 0;
  for (auto _ : state) {
    announce(workload.pass[at]);
    if (++at == workload.pass.size()) at = 0;
  }
  state.SetItemsProcessed(state.iterations());
}

void run_passes(benchmark::State& state, const Workload& workload, PolicyEngine& engine) {
  run_passes(state, workload, [&engine](const Launch& launch) {
    benchmark::DoNotOptimize(engine.on_launch({launch.kernel, launch.buffers}));
  });
}

void run(benchmark::State& state, const PolicyConfig& config) {
  const Workload workload(32, static_cast<std::uint32_t>(state.range(0)));
  PolicyEngine engine = workload.start(config);
  if (!engine.learned().layers_known) {
    state.SkipWithError("the order was not learned");
    return;
  }
  run_passes(state, workload, engine);
}

// Everything fits, so nothing is ever moved. A launch should take well below 100 ns.
void BM_OnLaunchWhenAllFits(benchmark::State& state) {
  PolicyConfig config;
  config.kind = PolicyKind::kSuperpipelinePaper;
  config.k = 32;
  run(state, config);
}
BENCHMARK(BM_OnLaunchWhenAllFits)->Arg(0)->Arg(9100);

// A window moves at every second visit; the mean time of a launch includes those decisions.
void BM_OnLaunchWhenStreaming(benchmark::State& state) {
  PolicyConfig config;
  config.kind = PolicyKind::kSuperpipelinePaper;
  config.k = 4;
  config.k_prime = 2;
  run(state, config);
}
BENCHMARK(BM_OnLaunchWhenStreaming)->Arg(0)->Arg(9100);

const PolicyConfig kAutoConfig = [] {
  PolicyConfig config;
  config.kind = PolicyKind::kAuto;
  config.budget = 64_GiB;
  return config;
}();

// `auto` with everything on the device: it follows the launches, and nothing is moved.
void BM_OnLaunchOfAutoWhenAllFits(benchmark::State& state) {
  const Workload workload(32, static_cast<std::uint32_t>(state.range(0)));
  PolicyEngine engine = workload.start(kAutoConfig);
  run_passes(state, workload, engine);
}
BENCHMARK(BM_OnLaunchOfAutoWhenAllFits)->Arg(0)->Arg(9100);

/// What residency does for `auto`, as if every transfer took no time: there is room for `room`
/// buffers.
class InstantResidency {
 public:
  InstantResidency(PolicyEngine& engine, std::size_t buffers, std::size_t room)
      : engine_(engine), is_in_(buffers), room_(room) {}

  void launch(const Launch& launch) {
    benchmark::DoNotOptimize(engine_.on_launch({launch.kernel, launch.buffers}));
    AutoPolicy& policy = *engine_.puller();
    for (const BufferId id : launch.buffers) {
      if (!is_in_[index_of(id)]) bring(policy, id, policy.present());
    }
    // One that fits nowhere would be asked for again and again.
    if (const auto target = policy.next_target()) bring(policy, target->id, target->next_use);
  }

  [[nodiscard]] std::size_t moved() const { return moved_; }

 private:
  void bring(AutoPolicy& policy, BufferId id, std::uint64_t next_use) {
    if (is_in_[index_of(id)]) return;
    if (room_ == 0) {
      const auto victim = policy.next_victim(next_use, [](BufferId) { return true; });
      if (!victim) return;
      is_in_[index_of(*victim)] = false;
      policy.on_left(*victim);
      ++room_;
    }
    --room_;
    is_in_[index_of(id)] = true;
    policy.on_brought(id);
    ++moved_;
  }

  PolicyEngine& engine_;
  std::vector<bool> is_in_;
  std::size_t room_;
  std::size_t moved_ = 0;
};

// `auto` with room for half of the buffers, moves and all: the mean time of a launch.
void BM_OnLaunchOfAutoAtHalf(benchmark::State& state) {
  const Workload workload(static_cast<std::uint32_t>(state.range(0)), 0);
  PolicyEngine engine = workload.start(kAutoConfig);
  InstantResidency residency(engine, workload.buffers, workload.buffers / 2);
  run_passes(state, workload, [&residency](const Launch& launch) { residency.launch(launch); });
  state.counters["moved"] = benchmark::Counter(static_cast<double>(residency.moved()),
                                               benchmark::Counter::kAvgIterations);
}
// 900 and 10,000 buffers.
BENCHMARK(BM_OnLaunchOfAutoAtHalf)->Arg(32)->Arg(370);

// `auto` when each half of the model is on a stream of its own. 0: a launch of one and a launch of
// the other, in turn, which the one log of all launches describes. 1: drawn, so that the streams
// are replayed apart. 2: drawn as well, but told to be of one stream.
void BM_OnLaunchOfAutoOnTwoStreams(benchmark::State& state) {
  const Workload workload(32, 0);
  PolicyEngine engine = workload.start(kAutoConfig);
  const std::size_t half = workload.pass.size() / 2;
  std::array<std::size_t, 2> next{};
  std::uint64_t random = 1;
  const auto launch = [&] {
    random = random * 6364136223846793005U + 1442695040888963407U;
    const std::uint64_t drawn = state.range(0) == 0 ? (next[0] > next[1] ? 1 : 0) : random >> 63;
    const auto stream = static_cast<std::uint8_t>(drawn);
    const Launch& one = workload.pass[stream * half + next[stream] % half];
    ++next[stream];
    const std::uint8_t told = state.range(0) == 2 ? 0 : stream;
    benchmark::DoNotOptimize(engine.on_launch({one.kernel, one.buffers, told}));
  };
  for (std::size_t i = 0; i < 8 * half; ++i) launch();
  if (engine.puller()->replay().are_apart() != (state.range(0) == 1)) {
    state.SkipWithError("the streams are not replayed as they should be");
    return;
  }
  for (auto _ : state) launch();
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_OnLaunchOfAutoOnTwoStreams)->Arg(0)->Arg(1)->Arg(2);

// Before anything repeats: each launch is remembered, and nothing is like it.
void BM_OnLaunchWhileLearning(benchmark::State& state) {
  PolicyConfig config;
  config.kind = PolicyKind::kSuperpipelinePaper;
  config.k = 4;
  PolicyEngine engine(config);
  for (std::uint32_t id = 0; id < 10000; ++id) {
    engine.on_allocate(BufferId{id}, 4_MiB);
    engine.on_host_write(BufferId{id});
  }
  std::uint64_t random = 1;
  std::vector<BufferId> buffers(8);
  for (auto _ : state) {
    for (BufferId& id : buffers) {
      random = random * 6364136223846793005U + 1442695040888963407U;
      id = BufferId{static_cast<std::uint32_t>((random >> 33) % 10000)};
    }
    benchmark::DoNotOptimize(engine.on_launch({KernelId{random >> 60}, buffers}));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_OnLaunchWhileLearning);

// One launch over and over, as a kernel benchmark does: there is no order to learn.
void BM_OnLaunchOfOneKernel(benchmark::State& state) {
  PolicyConfig config;
  config.kind = PolicyKind::kSuperpipelinePaper;
  config.k = 4;
  PolicyEngine engine(config);
  std::vector<BufferId> buffers;
  for (std::uint32_t id = 0; id < 10000; ++id) {
    engine.on_allocate(BufferId{id}, 4_MiB);
    engine.on_host_write(BufferId{id});
    if (id % 1250 == 0) buffers.push_back(BufferId{id});
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(engine.on_launch({KernelId{1}, buffers}));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_OnLaunchOfOneKernel);

// A forward pass of a layer for each buffer, and then one launch that names all of them, as a fused
// optimizer does.
Workload fused_workload(std::uint32_t layers) {
  Workload workload(0, 0);
  workload.pass.clear();
  Launch all;
  all.kernel = KernelId{1};
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    const BufferId id{layer};
    workload.pass.push_back({KernelId{0}, {id}});
    workload.weight_ids.push_back(id);
    all.buffers.push_back(id);
  }
  workload.pass.push_back(std::move(all));
  workload.buffers = layers;
  workload.other_ids.clear();
  return workload;
}

// What that pass takes to learn; items are buffers.
void BM_LearnPassWithALaunchOfAllLayers(benchmark::State& state) {
  const Workload workload = fused_workload(static_cast<std::uint32_t>(state.range(0)));
  std::vector<LaunchRecord> pass;
  for (const Launch& launch : workload.pass) pass.push_back({launch.kernel, launch.buffers});
  const std::vector<Bytes> footprints(workload.buffers, 4_MiB);
  for (auto _ : state) benchmark::DoNotOptimize(learn_pass(pass, footprints));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_LearnPassWithALaunchOfAllLayers)->Arg(100)->Arg(1000)->Arg(10000);

// The launches of that pass once it is known, all of whose layers may stay; items are buffers.
void BM_OnLaunchOfAllLayers(benchmark::State& state) {
  const Workload workload = fused_workload(static_cast<std::uint32_t>(state.range(0)));
  PolicyConfig config;
  config.kind = PolicyKind::kSuperpipelinePaper;
  config.k = static_cast<int>(state.range(0));
  PolicyEngine engine = workload.start(config);
  if (!engine.learned().layers_known) {
    state.SkipWithError("the order was not learned");
    return;
  }
  for (auto _ : state) {
    for (const Launch& launch : workload.pass) {
      benchmark::DoNotOptimize(engine.on_launch({launch.kernel, launch.buffers}));
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_OnLaunchOfAllLayers)->Arg(100)->Arg(1000)->Arg(10000);

}  // namespace
}  // namespace superpipe

BENCHMARK_MAIN();
