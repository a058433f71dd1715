#include "policy/windowed_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "policy/reference_traffic.h"
#include "tests/policy/exhaustive_schedule.h"
#include "tests/policy/properties.h"
#include "tests/policy/small_programs.h"

namespace superpipe {
namespace {

constexpr double kRounding = 1e-6;

double bound_of(const SmallProgram& program, int fit) {
  return windowed_bound(SmallSequence(program).get(), pieces_bytes(fit), kOnePiecePerSecond)
      .count();
}

double per_pass_bound_of(const SmallProgram& pass, int fit) {
  return windowed_bound_per_pass(SmallSequence(pass).get(), pieces_bytes(fit), kOnePiecePerSecond)
      .count();
}

PassCost cost_of(const LaunchSequence& pass, Bandwidth link) {
  PassCost cost;
  cost.host_to_device = link;
  std::set<BufferId> named;
  for (const TimedLaunch& launch : pass.launches) {
    cost.compute += launch.compute;
    named.insert(launch.buffers.begin(), launch.buffers.end());
  }
  for (const BufferId id : named) cost.persistent += pass.buffer_bytes[index_of(id)];
  return cost;
}

// `layers` buffers of a piece each, used in turns.
SmallProgram cycle(int layers, int compute = 0) {
  SmallProgram program;
  for (int at = 0; at < layers; ++at) {
    program.pieces.push_back(1);
    program.launches.push_back({compute, {BufferId{static_cast<std::uint32_t>(at)}}});
  }
  return program;
}

// The same forward and then backward.
SmallProgram forward_and_backward(int layers, int compute = 0) {
  SmallProgram program = cycle(layers, compute);
  for (auto at = static_cast<std::size_t>(layers); at-- > 0;) {
    program.launches.push_back(program.launches[at]);
  }
  return program;
}

SmallProgram repeated(const SmallProgram& pass, int times) {
  SmallProgram program{pass.pieces, {}};
  for (int at = 0; at < times; ++at) {
    program.launches.insert(program.launches.end(), pass.launches.begin(), pass.launches.end());
  }
  return program;
}

TEST(WindowedBound, IsZeroForNothing) {
  EXPECT_EQ(bound_of({{}, {}}, 0), 0.0);
  EXPECT_EQ(bound_of({{1}, {}}, 0), 0.0);
  EXPECT_EQ(per_pass_bound_of({{1}, {}}, 0), 0.0);
  EXPECT_EQ(per_pass_bound_of({{1}, {{0, {}}}}, 0), 0.0);
}

TEST(WindowedBound, IsComputeWhereAllFits) {
  EXPECT_DOUBLE_EQ(bound_of(cycle(8, 2), 8), 16.0);
  EXPECT_DOUBLE_EQ(per_pass_bound_of(cycle(8, 2), 8), 16.0);
}

TEST(WindowedBound, AddsWhatCannotHaveBeenThere) {
  // Three of eight are there when it begins; the last one computes when the others have crossed.
  EXPECT_DOUBLE_EQ(bound_of(cycle(8), 3), 5.0);
  SmallProgram program = cycle(8);
  program.launches[7].compute = 5;
  EXPECT_DOUBLE_EQ(bound_of(program, 3), 5.0 + 5.0);
}

TEST(WindowedBound, HidesCrossingsBehindComputeOnlyWhereThereIsRoom) {
  SmallProgram program = cycle(8);
  program.launches[0].compute = 5;
  EXPECT_DOUBLE_EQ(bound_of(program, 3), 5.0 + 5.0);
  // The place of launch 0 is free while launch 1 computes, so one of the five crosses meanwhile.
  program = cycle(8);
  program.launches[1].compute = 5;
  EXPECT_DOUBLE_EQ(bound_of(program, 3), 5.0 + 4.0);
}

TEST(WindowedBound, CountsTheBufferOfTheLaunchThatOpensAWindow) {
  // One of the three crosses before the third launch, and another one after it: the third buffer
  // takes one of the two places.
  SmallProgram program = repeated(cycle(3), 2);
  program.launches.pop_back();
  EXPECT_DOUBLE_EQ(bound_of(program, 2), 2.0);
}

TEST(WindowedBound, RaisesTheDeviceToTheLargestWorkingSet) {
  SmallProgram program = cycle(8);
  program.launches[3].buffers = {kThird, BufferId{3}, BufferId{4}};
  for (const int fit : {0, 1, 2}) {
    EXPECT_DOUBLE_EQ(bound_of(program, fit), bound_of(program, 3)) << fit;
    EXPECT_DOUBLE_EQ(per_pass_bound_of(program, fit), per_pass_bound_of(program, 3)) << fit;
  }
  EXPECT_GT(bound_of(program, 3), bound_of(program, 4));
}

TEST(WindowedBound, BringsNothingThatALaunchMakes) {
  // Four buffers are made and then read in the same order; two places.
  const std::array ids{BufferId{0}, BufferId{1}, BufferId{2}, BufferId{3}};
  const std::vector<Bytes> bytes(4, kPiece);
  std::vector<TimedLaunch> launches;
  for (const BufferId& id : ids) launches.push_back({Seconds{1}, {&id, 1}, {&id, 1}});
  const auto bound = [&] {
    return windowed_bound({launches, bytes}, pieces_bytes(2), kOnePiecePerSecond).count();
  };
  EXPECT_DOUBLE_EQ(bound(), 4.0);
  for (const BufferId& id : ids) launches.push_back({Seconds{0}, {&id, 1}});
  // When the fourth has been made, it and another one are there.
  EXPECT_DOUBLE_EQ(bound(), 4.0 + 2.0);
  EXPECT_EQ(windowed_bound({launches, bytes}, pieces_bytes(4), kOnePiecePerSecond).count(), 4.0);
}

TEST(WindowedBound, TakesAnyFit) {
  const SmallProgram program = cycle(3, 1);
  const SmallSequence sequence(program);
  const Bytes all{~std::uint64_t{0}};
  EXPECT_DOUBLE_EQ(windowed_bound(sequence.get(), all, kOnePiecePerSecond).count(), 3.0);
  EXPECT_DOUBLE_EQ(windowed_bound_per_pass(sequence.get(), all, kOnePiecePerSecond).count(), 3.0);
}

// The best sum of windows straight from its definition, with windows that open with the bytes of
// the launch that has just ended, or without them as in what physical_bound() generalises.
double by_definition(const LaunchSequence& sequence, Bytes fit, Bandwidth link, bool opening) {
  Bytes device = fit;
  const auto bytes_of = [&](const std::set<BufferId>& named) {
    Bytes sum;
    for (const BufferId id : named) sum += sequence.buffer_bytes[index_of(id)];
    return sum;
  };
  for (const TimedLaunch& launch : sequence.launches) {
    device = std::max(device, bytes_of({launch.buffers.begin(), launch.buffers.end()}));
  }
  const std::size_t count = sequence.launches.size();
  std::vector<double> until(count + 1, 0.0);
  for (std::size_t end = 1; end <= count; ++end) {
    std::set<BufferId> named;
    double compute = 0.0;
    const double last = sequence.launches[end - 1].compute.count();
    for (std::size_t open = end; open-- > 0;) {
      const auto& first = sequence.launches[open];
      named.insert(first.buffers.begin(), first.buffers.end());
      for (const BufferId id : first.makes) named.erase(id);
      compute += first.compute.count();
      std::set<BufferId> counted = named;
      if (opening && open > 0) {
        const auto& before = sequence.launches[open - 1].buffers;
        counted.insert(before.begin(), before.end());
      }
      const Bytes distinct = bytes_of(counted);
      double window = compute;
      if (distinct > device) {
        window = std::max(window, link.time_for(distinct - device).count() + last);
      }
      until[end] = std::max(until[end], until[open] + window);
    }
  }
  return until[count];
}

struct RandomSequence {
  std::vector<Bytes> bytes;
  std::vector<std::vector<BufferId>> named;
  std::vector<std::vector<BufferId>> made;
  std::vector<TimedLaunch> launches;
  Bytes total;
  LaunchSequence get() const { return {launches, bytes}; }
};

// Larger than what can be searched: unequal sizes, up to 60 launches.
// `may_make`: launches of some sequences make buffers.
RandomSequence any_sequence(bool may_make = false) {
  RandomSequence one;
  const auto buffers = any_of<std::uint32_t>(2, 15);
  for (std::uint32_t at = 0; at < buffers; ++at) {
    one.bytes.emplace_back(any_of<std::uint64_t>(1, 1000));
    one.total += one.bytes.back();
  }
  const auto launches = any_of<std::size_t>(1, 60);
  for (std::size_t at = 0; at < launches; ++at) {
    std::vector<BufferId>& named = one.named.emplace_back();
    for (int left = any_of(0, 3); left > 0; --left) {
      named.push_back(BufferId{any_of<std::uint32_t>(0, buffers - 1)});
    }
  }
  const bool makes = may_make && any_of(0, 1) == 1;
  for (const std::vector<BufferId>& named : one.named) {
    std::vector<BufferId>& made = one.made.emplace_back();
    if (makes && !named.empty() && any_of(0, 2) == 0) made.push_back(named.front());
  }
  for (std::size_t at = 0; at < launches; ++at) {
    one.launches.push_back({Seconds{any_of(0, 300)}, one.named[at], one.made[at]});
  }
  return one;
}

Bytes any_fit(const RandomSequence& one) {
  return Bytes{any_of<std::uint64_t>(0, one.total.count())};
}

RC_GTEST_PROP(WindowedBound, IsTheBestSumOfWindows, ()) {
  const RandomSequence one = any_sequence(/*may_make=*/true);
  const Bytes fit = any_fit(one);
  const Bandwidth link{any_of(1, 20) * 1.0};
  const double bound = windowed_bound(one.get(), fit, link).count();
  const double expected = by_definition(one.get(), fit, link, /*opening=*/true);
  RC_ASSERT(bound <= expected + kRounding);
  RC_ASSERT(bound >= expected - kRounding);
  RC_ASSERT(bound >= by_definition(one.get(), fit, link, /*opening=*/false) - kRounding);
}

RC_GTEST_PROP(WindowedBound, IsLowerTheMoreFits, ()) {
  const RandomSequence one = any_sequence();
  const Bytes fit = any_fit(one);
  const Bytes more = fit + any_fit(one);
  const Bandwidth link{1.0};
  RC_ASSERT(windowed_bound(one.get(), more, link) <= windowed_bound(one.get(), fit, link));
}

// Never above it, so that it is a bound. And never below it: the pieces here are single bytes as
// far as the bound is concerned, and a schedule of single bytes reaches it.
RC_GTEST_PROP(WindowedBound, IsTheTimeOfTheBestSchedule, ()) {
  const SmallProgram program = any_small_program(6, 0);
  const int fit = any_fit(program);
  const double best = least_time(program, fit);
  RC_ASSERT(bound_of(program, fit) <= best + kRounding);
  RC_ASSERT(bound_of(program, fit) >= best - kRounding);
}

RC_GTEST_PROP(WindowedBoundPerPass, IsTheMeanTimeOfTheBestSchedule, ()) {
  const SmallProgram pass = any_small_program(5, 1);
  const int fit = any_fit(pass);
  const double best = least_time_per_pass(pass, fit);
  RC_ASSERT(per_pass_bound_of(pass, fit) <= best + kRounding);
  RC_ASSERT(per_pass_bound_of(pass, fit) >= best - kRounding);
  const SmallSequence sequence(pass);
  const PassCost cost = cost_of(sequence.get(), kOnePiecePerSecond);
  RC_ASSERT(physical_bound(cost, pieces_bytes(device_pieces(pass, fit))).count() <=
            best + kRounding);
}

TEST(WindowedBoundPerPass, IsThePhysicalBoundOfACycleButForOnePlace) {
  for (int fit = 1; fit <= 8; ++fit) {
    const SmallProgram pass = cycle(8);
    const SmallSequence sequence(pass);
    const double physical =
        physical_bound(cost_of(sequence.get(), kOnePiecePerSecond), pieces_bytes(fit)).count();
    EXPECT_NEAR(per_pass_bound_of(pass, fit), physical * 8 / 7, kRounding) << fit;
  }
}

TEST(WindowedBoundPerPass, IsTwiceThePhysicalBoundOfForwardAndBackward) {
  for (int fit = 1; fit <= 9; ++fit) {
    const SmallProgram pass = forward_and_backward(9);
    const SmallSequence sequence(pass);
    const double physical =
        physical_bound(cost_of(sequence.get(), kOnePiecePerSecond), pieces_bytes(fit)).count();
    EXPECT_NEAR(per_pass_bound_of(pass, fit), 2 * physical, kRounding) << fit;
  }
}

TEST(WindowedBoundPerPass, DoesNotDependOnWhereAPassBegins) {
  SmallProgram pass = forward_and_backward(9, 1);
  for (std::size_t at = 0; at < pass.launches.size(); ++at) {
    EXPECT_NEAR(per_pass_bound_of(pass, 3), 2 * (9.0 - 3.0) + 6.0, kRounding) << at;
    std::rotate(pass.launches.begin(), pass.launches.begin() + 1, pass.launches.end());
  }
}

RC_GTEST_PROP(WindowedBoundPerPass, IsAtLeastThePhysicalBound, ()) {
  const RandomSequence one = any_sequence();
  const Bytes fit = any_fit(one);
  const Bandwidth link{1.0};
  const Bytes device = std::max(fit, WorkingSets(one.get()).largest());
  RC_ASSERT(windowed_bound_per_pass(one.get(), fit, link).count() >=
            physical_bound(cost_of(one.get(), link), device).count() - kRounding);
}

RC_GTEST_PROP(WindowedBoundPerPass, IsAtLeastTheMeanOfManyPasses, ()) {
  const SmallProgram pass = any_small_program(10, 1);
  const int fit = any_fit(pass);
  const int passes = any_of(1, 20);
  // Two windows over the 1024 passes that are tried.
  double window = 10.0;
  for (const SmallLaunch& launch : pass.launches) window += launch.compute;
  RC_ASSERT(per_pass_bound_of(pass, fit) >=
            bound_of(repeated(pass, passes), fit) / passes - 2 * window / 1024);
}

// Where only the link takes time, the least time is that of the fewest bytes.
RC_GTEST_PROP(WindowedBoundPerPass, IsTheTimeOfMinsBytesWithoutCompute, ()) {
  RandomSequence one = any_sequence();
  for (TimedLaunch& launch : one.launches) launch.compute = {};
  const Bytes fit = any_fit(one);
  const double bound = windowed_bound_per_pass(one.get(), fit, Bandwidth{1.0}).count();
  const auto fewest =
      static_cast<double>(fetched_bytes_per_pass(one.get(), fit, Replacement::kMin).count());
  // `fewest` is rounded down to whole bytes.
  RC_ASSERT(bound <= fewest + 1.0 + kRounding);
  // Two windows over the passes that are tried.
  RC_ASSERT(bound >= fewest - 2.0 * static_cast<double>(one.total.count()) / 1024 - kRounding);
}

// A search of all windows would take hours.
TEST(WindowedBound, TakesAHundredThousandLaunches) {
  constexpr std::uint32_t kLaunches = 100'000;
  const std::vector<Bytes> bytes(kLaunches, kPiece);
  std::vector<std::array<BufferId, 3>> named(kLaunches);
  std::vector<TimedLaunch> launches;
  for (std::uint32_t at = 0; at < kLaunches; ++at) {
    const std::uint32_t layer = at / 2 < kLaunches / 4 ? at / 2 : (kLaunches - 1 - at) / 2;
    named[at] = {BufferId{2 * layer}, BufferId{2 * layer + 1}, BufferId{2 * layer}};
    launches.push_back({Seconds{1e-3}, named[at]});
  }
  const LaunchSequence sequence{launches, bytes};
  // Of 50,000 pieces, forward and backward; each window ends with a launch of 1 ms.
  EXPECT_NEAR(windowed_bound_per_pass(sequence, pieces_bytes(10'000), kOnePiecePerSecond).count(),
              2 * 40'000.0, 20.0);
  EXPECT_NEAR(windowed_bound(sequence, pieces_bytes(10'000), kOnePiecePerSecond).count(),
              2 * 40'000.0, 20.0);
}

}  // namespace
}  // namespace superpipe
