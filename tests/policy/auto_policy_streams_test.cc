// AutoPolicy on programs of several streams.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "policy/auto_policy.h"
#include "policy/timing_model.h"
#include "tests/policy/piece_simulation.h"

namespace superpipe {
namespace {

using testing::PieceSimulation;

constexpr Bandwidth kStreamsLink{25e9};
constexpr Seconds kShortKernel{1e-5};

bool may_always_go(BufferId) { return true; }

/// Two streams that go round cycles of their own; nothing says whose launch comes next.
class AutoPolicyOnStreams : public ::testing::Test {
 protected:
  struct Cycle {
    std::uint8_t stream;
    std::vector<BufferId> layers;
    std::size_t next = 0;
    [[nodiscard]] BufferId ahead(std::size_t launches) const {
      return layers[(next + launches) % layers.size()];
    }
  };

  void SetUp() override {
    for (Cycle* const cycle : {&one_, &other_}) {
      for (int i = 0; i < 10; ++i) {
        cycle->layers.push_back(BufferId{next_id_++});
        policy_.on_allocate(cycle->layers.back(), 2_MiB, 1);
        policy_.on_brought(cycle->layers.back());
      }
    }
    for (int i = 0; i < 400; ++i) step(random_() % 2 == 0 ? one_ : other_);
    ASSERT_TRUE(policy_.replay().are_apart());
  }
  void step(Cycle& cycle) {
    policy_.on_launch(KernelId{1}, std::vector{cycle.ahead(0)}, cycle.stream);
    cycle.next = (cycle.next + 1) % cycle.layers.size();
  }

  AutoPolicy policy_;
  Cycle one_{0, {}};
  Cycle other_{1, {}};

 private:
  std::uint32_t next_id_ = 0;
  std::minstd_rand random_{1};
};

TEST_F(AutoPolicyOnStreams, BringsWhatIsMissingOfEachStreamInTheOrderOfItsUse) {
  EXPECT_FALSE(policy_.next_target());
  policy_.on_left(one_.ahead(5));
  policy_.on_left(other_.ahead(2));
  EXPECT_TRUE(policy_.is_looking());
  const auto first = policy_.next_target();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->id, other_.ahead(2));
  EXPECT_GT(first->next_use, policy_.present());
  policy_.on_brought(first->id);
  const auto second = policy_.next_target();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->id, one_.ahead(5));
  EXPECT_GT(second->next_use, first->next_use);
  policy_.on_brought(second->id);
  EXPECT_FALSE(policy_.next_target());
  EXPECT_FALSE(policy_.is_looking());
}

TEST_F(AutoPolicyOnStreams, LetsGoWhatItsStreamUsesLast) {
  const auto victim = policy_.next_victim(policy_.present(), may_always_go);
  ASSERT_TRUE(victim);
  EXPECT_TRUE(victim == one_.ahead(9) || victim == other_.ahead(9));
}

TEST_F(AutoPolicyOnStreams, LetsBuffersGoOfAStreamThatHasStopped) {
  for (int i = 0; i < 100; ++i) step(one_);
  const auto victim = policy_.next_victim(policy_.present(), may_always_go);
  EXPECT_EQ(victim, other_.ahead(9));
  // Nor does it bring its buffers before those of the stream that goes on.
  policy_.on_left(other_.ahead(0));
  policy_.on_left(one_.ahead(8));
  const auto target = policy_.next_target();
  ASSERT_TRUE(target);
  EXPECT_EQ(target->id, one_.ahead(8));
}

class StreamBudgets : public ::testing::TestWithParam<std::uint64_t> {};

// Two models of different sizes, of which launches are drawn. The bound takes them for one cycle.
TEST_P(StreamBudgets, AreUsedToTheBound) {
  constexpr Bytes kLayer = 64_MiB;
  constexpr std::size_t kLarge = 96;
  constexpr std::size_t kSmall = 32;
  constexpr int kPasses = 12;
  const Bytes fit{(kLarge + kSmall) * kLayer.count() * GetParam() / 100};
  PieceSimulation simulation(fit + 4 * PieceSimulation::kPiece, kStreamsLink);
  std::vector<BufferId> large;
  std::vector<BufferId> small;
  for (std::size_t i = 0; i < kLarge; ++i) large.push_back(simulation.allocate(kLayer));
  for (std::size_t i = 0; i < kSmall; ++i) small.push_back(simulation.allocate(kLayer));
  std::minstd_rand random{1};
  std::size_t of_small = 0;
  const auto pass = [&] {
    for (const BufferId layer : large) {
      simulation.launch(1, {layer}, kShortKernel, 0);
      while (random() % 4 == 0) simulation.launch(2, {small[of_small++ % kSmall]}, kShortKernel, 1);
    }
  };
  for (int i = 0; i < 3; ++i) pass();
  const Seconds begin = simulation.end();
  for (int i = 0; i < kPasses; ++i) pass();
  EXPECT_TRUE(simulation.policy().replay().are_apart());
  EXPECT_FALSE(simulation.exceeded());
  const PassCost cost{Seconds{}, (kLarge + kSmall) * kLayer, kStreamsLink};
  EXPECT_LE((simulation.end() - begin) / kPasses / physical_bound(cost, fit), 1.1);
}

INSTANTIATE_TEST_SUITE_P(Percent, StreamBudgets, ::testing::Values(10, 30, 50, 70),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace superpipe
