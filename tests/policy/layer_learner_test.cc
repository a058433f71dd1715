#include "policy/layer_learner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/policy/programs.h"

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

// A learner, and the history that it reads.
struct Lesson {
  explicit Lesson(const Program& program) {
    for (std::uint32_t id = 0; id < program.footprints.size(); ++id) {
      history.on_allocate(BufferId{id}, program.footprints[id]);
      if (program.host_written.count(id) != 0) history.on_host_write(BufferId{id});
    }
  }
  // Shows a launch to the learner.
  std::optional<LearnedPass> observe(const ScriptLaunch& launch) {
    (void)history.on_launch(launch.buffers);
    return learner.observe(launch.kernel, launch.buffers, history);
  }
  // Shows passes of `program` until one is found.
  std::optional<LearnedPass> observe(const Program& program, int passes) {
    for (int pass = 0; pass < passes; ++pass) {
      for (const ScriptLaunch& launch : program.pass) {
        if (auto found = observe(launch)) return found;
      }
    }
    return std::nullopt;
  }
  // Shows one pass of `program`, whose order is `known`.
  std::optional<PassOrder> refine(const Program& program, const PassOrder& known,
                                  std::size_t mispredictions = 0) {
    std::optional<PassOrder> better;
    const std::uint64_t began = history.launches() + 1;
    for (std::size_t at = 0; at < program.pass.size(); ++at) {
      const auto& [kernel, buffers] = program.pass[at];
      (void)history.on_launch(buffers);
      auto order = learner.refine(kernel, buffers, {at == 0, last_pass_began, mispredictions},
                                  known, history);
      if (order) better = std::move(order);
    }
    last_pass_began = began;
    return better;
  }

  BufferHistory history;
  LayerLearner learner;
  std::uint64_t last_pass_began = 0;
};

TEST(LayerLearner, FindsThePassAndWhatCameSince) {
  const Program program = llama_program(8);
  Lesson lesson(program);
  const auto pass = lesson.observe(program, 2);
  ASSERT_TRUE(pass.has_value());
  EXPECT_EQ(pass->first_launch, 1U);
  EXPECT_THAT(pass->order.layers, SizeIs(8 + 3));
  EXPECT_EQ(pass->since.size(), lesson.history.launches() - program.pass.size());
  const auto since = pass->since.launches(0, 1);
  EXPECT_EQ(since.front().kernel, program.pass.front().kernel);
  EXPECT_THAT(since.front().buffers, ElementsAre(BufferId{2}, BufferId{0}));
  ASSERT_NE(lesson.learner.launches(), nullptr);
  EXPECT_EQ(lesson.learner.launches()->size(), program.pass.size());
}

TEST(LayerLearner, BelievesNoPassThatUsesLittleOfTheModel) {
  Program program = forward_program(3, 1_MiB);
  for (int i = 0; i < 6; ++i) program.launch(9, {program.add(16_MiB)});
  Program cycle = program;
  cycle.pass.resize(3);
  Lesson lesson(program);
  EXPECT_FALSE(lesson.observe(program, 1).has_value());
  EXPECT_FALSE(lesson.observe(cycle, 20).has_value());
  EXPECT_EQ(lesson.learner.launches(), nullptr);
}

TEST(LayerLearner, LooksASecondTimeWhenAWholePassWasRecorded) {
  const Program program = training_program(4);
  Program without_moments = program;
  for (ScriptLaunch& launch : without_moments.pass) {
    std::erase_if(launch.buffers, [](BufferId id) { return index_of(id) > 8; });
  }
  Lesson lesson(program);
  const auto first = lesson.observe(without_moments, 4);
  ASSERT_TRUE(first.has_value());
  EXPECT_FALSE(lesson.learner.is_settled());
  EXPECT_FALSE(lesson.refine(program, first->order).has_value()) << "it is being recorded";
  EXPECT_TRUE(lesson.learner.is_recording());
  const auto second = lesson.refine(program, first->order);
  EXPECT_TRUE(lesson.learner.is_settled());
  ASSERT_TRUE(second.has_value());
  ASSERT_THAT(second->layers, SizeIs(4));
  EXPECT_THAT(first->order.layers[0], SizeIs(2));
  EXPECT_THAT(second->layers[0], SizeIs(4)) << "weight, gradient and two moments";
  EXPECT_EQ(lesson.learner.launches()->accesses(), 8U + 16U + 16U);
  EXPECT_FALSE(lesson.refine(without_moments, *second).has_value()) << "it looks only once more";
}

TEST(LayerLearner, KeepsNoPassThatWasNotLikeTheOthers) {
  const Program program = forward_program(6);
  Program longer = program;
  longer.launch(9, {BufferId{2}});
  Lesson lesson(program);
  const auto pass = lesson.observe(program, 4);
  ASSERT_TRUE(pass.has_value());
  (void)lesson.refine(longer, pass->order, 0);
  (void)lesson.refine(longer, pass->order, 1);
  EXPECT_TRUE(lesson.learner.is_settled());
  EXPECT_EQ(lesson.learner.launches()->size(), program.pass.size());
}

TEST(LayerLearner, NeedsALongerRecurrenceAfterAFailure) {
  const Program program = llama_program(8);
  Lesson once(program);
  ASSERT_TRUE(once.observe(program, 2).has_value());
  Lesson anew(program);
  ASSERT_TRUE(anew.observe(program, 2).has_value());
  anew.learner.start_over();
  EXPECT_EQ(anew.learner.launches(), nullptr);
  const std::uint64_t before = anew.history.launches();
  ASSERT_TRUE(anew.observe(program, 4).has_value());
  EXPECT_GT(anew.history.launches() - before, once.history.launches());
  EXPECT_NE(anew.learner.launches(), nullptr);
}

TEST(PersistentFootprints, TellsPersistentBuffersFromTransients) {
  BufferHistory history;
  const std::vector<BufferId> all = {BufferId{0}, BufferId{1}, BufferId{2}, BufferId{3}};
  history.on_allocate(BufferId{0}, 1_MiB);  // was there before the pass
  history.on_allocate(BufferId{3}, 8_MiB);  // was freed since
  (void)history.on_launch({});
  history.on_allocate(BufferId{1}, 2_MiB);  // came with the pass
  history.on_allocate(BufferId{2}, 4_MiB);  // the same, filled by the host
  history.on_host_write(BufferId{2});
  history.on_free(BufferId{3});
  const std::vector<LaunchRecord> pass = {{KernelId{1}, {}}, {KernelId{2}, all}};
  EXPECT_THAT(persistent_footprints(pass, 1, history), ElementsAre(1_MiB, Bytes{}, 4_MiB, Bytes{}));
}

}  // namespace
}  // namespace superpipe
