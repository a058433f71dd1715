#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "policy/policy_engine.h"
#include "tests/policy/programs.h"
#include "tests/policy/properties.h"

namespace superpipe {
namespace {

struct Case {
  Program program;
  std::size_t layers = 0;
  PolicyConfig config;
  int prefix = 0;  // one-off launches before the loop
};

Case any_case(bool palindromic) {
  Case one;
  one.layers = *rc::gen::inRange<std::size_t>(3, 20);
  one.program = palindromic ? training_program(static_cast<int>(one.layers))
                            : forward_program(static_cast<int>(one.layers));
  const auto kind = *rc::gen::element(PolicyKind::kNaive, PolicyKind::kSuperpipelinePaper);
  const int k = *rc::gen::inRange(1, static_cast<int>(one.layers) + 3);
  const int k_prime = k > 1 ? *rc::gen::inRange(0, k) : 0;
  one.config = with_k(kind, k, k_prime);
  one.prefix = *rc::gen::inRange(0, 20);
  return one;
}

void warm_up(const Case& one, ObedientResidency& residency) {
  residency.load(one.program);
  for (int at = 0; at < one.prefix; ++at) {
    const auto id = *rc::gen::inRange<std::uint32_t>(
        0, static_cast<std::uint32_t>(one.program.footprints.size()));
    residency.launch(KernelId{1000 + static_cast<std::uint64_t>(at)}, {BufferId{id}});
  }
  residency.run(one.program, 5);
}

void check_steady_state(const Case& one) {
  PolicyEngine engine(one.config);
  ObedientResidency residency(engine);
  warm_up(one, residency);
  RC_ASSERT(engine.learned().layers_known);
  RC_ASSERT(engine.learned().layer_bytes.size() == one.layers);
  const Bytes layer = engine.learned().largest_piece;
  residency.reset_counters();
  residency.run(one.program, 4);
  const auto k = static_cast<std::size_t>(one.config.k.value());
  if (k >= one.layers) {
    RC_ASSERT(residency.fetches == 0U);
    RC_ASSERT(residency.evictions == 0U);
  } else {
    RC_ASSERT(residency.demand_fetches == 0U);
    RC_ASSERT(residency.peak <= k * layer + 2_MiB);
    RC_ASSERT(residency.peak <= engine.managed_limit());
  }
  RC_ASSERT(residency.jumps() == 0U);
  RC_ASSERT(residency.violations.empty());
}

RC_GTEST_PROP(PolicyEngine, HasLayersThereInTimeAndNeverMoreThanKWhenForward, ()) {
  check_steady_state(any_case(false));
}

RC_GTEST_PROP(PolicyEngine, HasLayersThereInTimeAndNeverMoreThanKWhenTraining, ()) {
  check_steady_state(any_case(true));
}

RC_GTEST_PROP(PolicyEngine, FetchesEachLayerOncePerPassWhenForward, ()) {
  Case one = any_case(false);
  one.config.kind = PolicyKind::kSuperpipelinePaper;
  one.config.k = *rc::gen::inRange(1, static_cast<int>(one.layers));
  one.config.k_prime.reset();
  PolicyEngine engine(one.config);
  ObedientResidency residency(engine);
  warm_up(one, residency);
  residency.reset_counters();
  residency.run(one.program);
  // Where the last window of a pass and the first of the next share no layer, each comes once.
  const bool all_leave = 2 * static_cast<std::size_t>(*one.config.k) <= one.layers;
  for (std::uint32_t id = 2; id < 2 + one.layers; ++id) {
    const std::uint64_t fetches = residency.fetches_of[id];
    RC_ASSERT(fetches == 1U || (fetches == 0U && !all_leave));
  }
}

RC_GTEST_PROP(PolicyEngine, StaysWithinABudgetThatHoldsALaunch, ()) {
  const bool training = *rc::gen::arbitrary<bool>();
  const int layers = *rc::gen::inRange(3, 16);
  const Program program = training ? training_program(layers) : forward_program(layers);
  // The update names four buffers of 8 MiB; a forward launch 18 MiB.
  const Bytes budget{*rc::gen::inRange<std::uint64_t>((33_MiB).count(), (400_MiB).count())};
  PolicyEngine engine(with_budget(PolicyKind::kSuperpipelinePaper, budget));
  ObedientResidency residency(engine);
  residency.load(program);
  residency.run(program, 10);
  RC_ASSERT(residency.peak <= budget);
  RC_ASSERT(residency.violations.empty());
}

}  // namespace
}  // namespace superpipe
