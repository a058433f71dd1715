#include "policy/order_learner.h"

#include <gtest/gtest.h>

#include "tests/policy/programs.h"

namespace superpipe {
namespace {

// Feeds passes of `program` and returns the first pass found.
std::optional<OrderLearner::Pass> feed(OrderLearner& learner, const Program& program, int passes) {
  for (int pass = 0; pass < passes; ++pass) {
    for (const ScriptLaunch& launch : program.pass) {
      std::vector<BufferId> written;
      for (const BufferId id : launch.buffers) {
        if (program.host_written.count(index_of(id)) != 0) written.push_back(id);
      }
      if (const auto found = learner.observe(launch.kernel, launch.buffers, written)) return found;
    }
  }
  return std::nullopt;
}

TEST(OrderLearner, FindsThePassOfWrittenBuffersInItsSecondRound) {
  OrderLearner learner;
  const Program program = llama_program(8);
  EXPECT_FALSE(feed(learner, program, 1).has_value());
  const auto pass = feed(learner, program, 1);
  ASSERT_TRUE(pass.has_value());
  EXPECT_EQ(pass->begin, 0U);
  EXPECT_EQ(pass->end, program.pass.size());
  EXPECT_EQ(learner.history().size(), program.pass.size() + 16);
}

TEST(OrderLearner, FindsThePassOfUnwrittenBuffersLater) {
  OrderLearner learner;
  Program program = llama_program(8);
  program.host_written.clear();
  EXPECT_FALSE(feed(learner, program, 1).has_value());
  const auto pass = feed(learner, program, 2);
  ASSERT_TRUE(pass.has_value());
  EXPECT_EQ(pass->end - pass->begin, program.pass.size());
  EXPECT_GE(learner.history().size(), program.pass.size() + 64);
}

TEST(OrderLearner, SeesThroughActivationsThatMove) {
  OrderLearner learner;
  Program program = llama_program(8);
  std::optional<OrderLearner::Pass> found;
  for (std::uint32_t pass = 0; pass < 2; ++pass) {
    for (ScriptLaunch& launch : program.pass) launch.buffers.back() = BufferId{1000 + pass};
    found = feed(learner, program, 1);
  }
  EXPECT_TRUE(found.has_value());
}

TEST(OrderLearner, WaitsAsLongAsItIsTold) {
  OrderLearner learner;
  const Program program = llama_program(8);
  ASSERT_TRUE(feed(learner, program, 2).has_value());
  const std::size_t seen = learner.history().size();
  learner.postpone(50);
  ASSERT_TRUE(feed(learner, program, 2).has_value());
  EXPECT_EQ(learner.history().size(), seen + 50);
}

TEST(OrderLearner, StaysWithinItsBounds) {
  OrderLearner learner(/*max_launches=*/64);
  for (std::uint64_t at = 0; at < 10000; ++at) {
    const std::vector<BufferId> one = {BufferId{static_cast<std::uint32_t>(at)}};
    EXPECT_FALSE(learner.observe(KernelId{at}, one, one).has_value());
    EXPECT_LE(learner.history().size(), 64U);
  }
}

TEST(OrderLearner, NeedsALongerRecurrenceAfterAFailure) {
  OrderLearner learner;
  const Program program = llama_program(8);
  ASSERT_TRUE(feed(learner, program, 2).has_value());
  learner.reset_after_failure();
  ASSERT_TRUE(feed(learner, program, 2).has_value());
  EXPECT_EQ(learner.history().size(), program.pass.size() + 32);
}

}  // namespace
}  // namespace superpipe
