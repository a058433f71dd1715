#include "policy/live_pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "policy/launch_replay.h"

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A program of buffers with ids of their own, and the replay that watches it.
class LivePassTest : public ::testing::Test {
 protected:
  BufferId allocate(std::uint64_t mebibytes = 4) {
    const BufferId id{next_id_++};
    replay_.on_allocate(id, Bytes{mebibytes << 20});
    return id;
  }
  void launch(std::uint64_t kernel, const std::vector<BufferId>& buffers) {
    replay_.on_launch(KernelId{kernel}, buffers);
    ++launches_;
  }
  /// Layers of two buffers, which two launches name one by one.
  void run_model(const std::vector<BufferId>& buffers, int passes) {
    for (int pass = 0; pass < passes; ++pass) {
      for (std::size_t at = 0; at < buffers.size(); ++at) launch(1 + at % 2, {buffers[at]});
    }
  }
  /// The ids of each layer that the live pass [begin, end) has.
  std::vector<std::vector<std::uint32_t>> layers(std::uint64_t begin, std::uint64_t end) {
    std::vector<std::vector<std::uint32_t>> ids;
    const auto pass = replay_.live_pass(begin, end);
    if (!pass) return ids;
    for (const std::vector<BufferId>& layer : order_of(*pass).layers) {
      ids.emplace_back();
      for (const BufferId id : layer) ids.back().push_back(index_of(id));
    }
    return ids;
  }

  LaunchReplay replay_;
  std::uint64_t launches_ = 0;

 private:
  std::uint32_t next_id_ = 0;
};

TEST_F(LivePassTest, GroupsBuffersThatAreNamedInTheSameWay) {
  std::vector<BufferId> model;
  for (int i = 0; i < 6; ++i) model.push_back(allocate(i % 2 == 0 ? 4 : 8));
  run_model(model, 3);
  EXPECT_THAT(layers(6, 12),
              ElementsAre(ElementsAre(0U, 1U), ElementsAre(2U, 3U), ElementsAre(4U, 5U)));
}

TEST_F(LivePassTest, LeavesOutWhatIsTransientAndWhatIsGone) {
  std::vector<BufferId> model;
  for (int i = 0; i < 8; ++i) model.push_back(allocate());
  for (int pass = 0; pass < 3; ++pass) {
    for (const BufferId buffer : model) {
      const BufferId made = allocate(1);
      launch(1, {buffer, made});
      replay_.on_free(made);
    }
  }
  replay_.on_free(model[2]);
  const auto pass = replay_.live_pass(8, 16);
  ASSERT_TRUE(pass.has_value());
  EXPECT_THAT(pass->launches, SizeIs(8));
  EXPECT_THAT(pass->buffers, SizeIs(7));
  EXPECT_EQ(pass->buffers[2].id, model[3]);
  EXPECT_EQ(pass->buffers[2].bytes, Bytes{4 << 20});
  EXPECT_THAT(order_of(*pass).layers, SizeIs(7));
}

TEST_F(LivePassTest, IsNoneWhereAPassIsNotKnown) {
  run_model({allocate(), allocate()}, 3);
  EXPECT_FALSE(replay_.live_pass(0, 2).has_value()) << "what there was before it is not known";
  EXPECT_FALSE(replay_.live_pass(4, 4).has_value());
  EXPECT_FALSE(replay_.live_pass(5, 7).has_value()) << "not announced yet";
  EXPECT_TRUE(replay_.live_pass(4, 6).has_value());
  EXPECT_THAT(order_of(LivePass{}).layers, IsEmpty());
}

TEST_F(LivePassTest, IsNoneOfAPassThatIsTooLongToCopy) {
  const std::vector<BufferId> model{allocate(), allocate()};
  const std::uint64_t longest = LivePass::kMostLaunches;
  run_model(model, static_cast<int>(longest + 1));
  EXPECT_TRUE(replay_.live_pass(longest, 2 * longest).has_value());
  EXPECT_FALSE(replay_.live_pass(longest, 2 * longest + 1).has_value());

  LaunchReplay many;
  std::vector<BufferId> named;
  for (std::uint32_t i = 0; i <= LivePass::kMostBuffers; ++i) {
    named.push_back(BufferId{i});
    many.on_allocate(named.back(), Bytes{1 << 20});
  }
  for (int pass = 0; pass < 3; ++pass) many.on_launch(KernelId{1}, named);
  EXPECT_FALSE(many.live_pass(1, 2).has_value());
  many.on_free(named.front());
  ASSERT_TRUE(many.live_pass(1, 2).has_value());
  EXPECT_THAT(many.live_pass(1, 2)->buffers, SizeIs(LivePass::kMostBuffers));
}

TEST_F(LivePassTest, IsNoneOfAPassWithTooManyAccesses) {
  const std::vector<BufferId> model{allocate(), allocate(), allocate()};
  const std::uint64_t launches = LivePass::kMostAccesses / 3 + 1;
  for (std::uint64_t at = 0; at < 2 * launches; ++at) launch(1, model);
  EXPECT_TRUE(replay_.live_pass(launches, 2 * launches - 1).has_value());
  EXPECT_FALSE(replay_.live_pass(launches, 2 * launches).has_value());
}

}  // namespace
}  // namespace superpipe
