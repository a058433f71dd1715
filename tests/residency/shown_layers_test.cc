// Which layers a manager shows under policies that learn none, and under those that do.
#include "residency/shown_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <numeric>
#include <vector>

#include "residency/residency_manager.h"
#include "tests/residency/manager_fixture.h"

namespace superpipe::testing {
namespace {

class ShownLayersTest : public ManagerTest {
 protected:
  static constexpr std::uint64_t kModel = 12;

  std::vector<Address> load_model(std::uint64_t buffers = kModel, std::uint64_t pages = 1) {
    std::vector<Address> model;
    for (std::uint64_t i = 0; i < buffers; ++i) {
      model.push_back(load(pages, static_cast<int>(i) + 1));
    }
    return model;
  }
  void run(const std::vector<Address>& model, int passes, std::uint64_t kernel = 7) {
    for (int pass = 0; pass < passes; ++pass) {
      for (const Address buffer : model) ASSERT_EQ(launch({buffer}, stream_, kernel), Status::kOk);
    }
    settle();
  }
  /// Lets worker, device and clock go on for a while.
  void settle() {
    const auto end = device_->now() + std::chrono::milliseconds{50};
    while (device_->now() < end) {
      (void)manager_->run_worker_once();
      device_->drain();
    }
  }
  [[nodiscard]] std::size_t layers() const { return manager_->live_state().learned.layers; }
  /// The percentages of all layers added up.
  [[nodiscard]] int there() const {
    const auto percent = manager_->live_state().layer_percent;
    return std::accumulate(percent.begin(), percent.end(), 0);
  }
};

TEST_F(ShownLayersTest, AreThoseOfAPassThatWasSeen) {
  make(budget_of(6, PolicyKind::kAuto));
  const auto model = load_model();
  EXPECT_EQ(layers(), 0U);
  run(model, 6);
  const ResidencyManager::LiveState state = manager_->live_state();
  EXPECT_EQ(state.learned.layers, kModel);
  EXPECT_EQ(there(), static_cast<int>(100 * state.pages.count() / kPage));
}

TEST_F(ShownLayersTest, AreTheSameInTwoLooksWhilePassesGoOn) {
  make(budget_of(6, PolicyKind::kAuto));
  const auto model = load_model();
  run(model, 6);
  ASSERT_EQ(layers(), kModel);
  for (int look = 0; look < 20; ++look) {
    run(model, 1);
    EXPECT_EQ(layers(), kModel) << look;
  }
}

TEST_F(ShownLayersTest, AreThoseOfTheModelThatRunsNow) {
  make(budget_of(6, PolicyKind::kAuto));
  const auto first = load_model();
  run(first, 6);
  ASSERT_EQ(layers(), kModel);
  const auto second = load_model(9);
  run(second, 100, 8);
  EXPECT_EQ(layers(), 9U);
}

TEST_F(ShownLayersTest, StayWhereTheLaunchesBetweenPassesAreOthers) {
  make(budget_of(6, PolicyKind::kAuto));
  const auto model = load_model();
  run(model, 8);
  ASSERT_EQ(layers(), kModel);
  // Each time something else comes between, of buffers that there are.
  for (int round = 0; round < 12; ++round) {
    for (int at = 0; at < 3; ++at) {
      const std::size_t buffer = static_cast<std::size_t>(5 * round + 7 * at) % kModel;
      ASSERT_EQ(launch({model[buffer]}, stream_, 100 + static_cast<std::uint64_t>(round)),
                Status::kOk);
    }
    run(model, 9);
    EXPECT_EQ(layers(), kModel) << round;
  }
}

TEST_F(ShownLayersTest, AreNotShownOfBuffersThatAreGone) {
  make(budget_of(6, PolicyKind::kAuto));
  auto model = load_model();
  run(model, 6);
  ASSERT_EQ(layers(), kModel);
  ASSERT_EQ(manager_->free(model.back()), Status::kOk);
  model.pop_back();
  EXPECT_EQ(layers(), kModel) << "one is empty now";
  while (model.size() > kModel / 3) {
    ASSERT_EQ(manager_->free(model.back()), Status::kOk);
    model.pop_back();
  }
  EXPECT_EQ(layers(), 0U);
  // Others have their ids now.
  const auto other = load_model(kModel - 4);
  EXPECT_EQ(layers(), 0U);
  EXPECT_EQ(there(), 0);
  run(other, 40);
  EXPECT_EQ(layers(), kModel - 4);
}

TEST_F(ShownLayersTest, AreNoneWhereNothingRepeatsOrAllIsOne) {
  make(budget_of(6, PolicyKind::kAuto));
  for (int i = 0; i < 30; ++i) run(load_model(1), 1);
  EXPECT_EQ(layers(), 0U);
  manager_->shut_down();
  EXPECT_EQ(layers(), 0U);
}

TEST_F(ShownLayersTest, AreThoseThatPolicyLearnsWhereItDoes) {
  make(budget_of(6, PolicyKind::kSuperpipeline));
  const auto model = load_model();
  run(model, 6);
  EXPECT_EQ(manager_->stats().learned.layer_bytes.size(), kModel);
  EXPECT_EQ(layers(), kModel);
  EXPECT_GT(there(), 0);
}

TEST_F(ShownLayersTest, AreGroupedUnderLruToo) {
  make(budget_of(6, PolicyKind::kLru));
  const auto model = load_model();
  run(model, 6);
  EXPECT_FALSE(manager_->stats().learned.layers_known);
  EXPECT_EQ(layers(), kModel);
  EXPECT_GT(there(), 0);
}

}  // namespace
}  // namespace superpipe::testing
