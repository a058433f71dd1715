#include "interposer/framework_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace superpipe {
namespace {

using ::testing::Optional;

TEST(WithoutExpandableSegments, KeepsAllOtherOptionsAsTheyAre) {
  EXPECT_THAT(without_expandable_segments(
                  "max_split_size_mb:64,expandable_segments:True,a:[b:1,c:2]", false),
              Optional(std::string("max_split_size_mb:64,expandable_segments:False,a:[b:1,c:2]")));
  EXPECT_THAT(without_expandable_segments(" expandable_segments : True ", false),
              Optional(std::string("expandable_segments:False")));
}

TEST(WithoutExpandableSegments, ChangesNothingWhereThereAreNone) {
  for (const char* const options :
       {"", ",", "expandable_segments:False", "max_split_size_mb:64", "expandable_segments",
        "not_expandable_segments:True", "backend:cudaMallocAsync"}) {
    EXPECT_EQ(without_expandable_segments(options, true), std::nullopt) << options;
  }
}

TEST(WithoutExpandableSegments, HasEachTensorAllocatedUnlessABackendIsNamed) {
  EXPECT_THAT(without_expandable_segments("expandable_segments:True", true),
              Optional(std::string("backend:cudaMallocAsync")));
  EXPECT_THAT(
      without_expandable_segments("expandable_segments:True,expandable_segments:True", true),
      Optional(std::string("backend:cudaMallocAsync,expandable_segments:False")));
  EXPECT_THAT(without_expandable_segments("backend:native,expandable_segments:True", true),
              Optional(std::string("backend:native,expandable_segments:False")));
}

TEST(WithoutCommandBuffers, KeepsTheUsersFlags) {
  EXPECT_THAT(without_command_buffers(""),
              Optional(std::string("--xla_gpu_enable_command_buffer=")));
  EXPECT_THAT(without_command_buffers(" --xla_dump_to=/tmp/x "),
              Optional(std::string("--xla_dump_to=/tmp/x --xla_gpu_enable_command_buffer=")));
}

TEST(WithoutCommandBuffers, LeavesWhatTheUserChose) {
  EXPECT_EQ(without_command_buffers("--xla_gpu_enable_command_buffer=FUSION"), std::nullopt);
  EXPECT_EQ(without_command_buffers("/etc/xla.flags"), std::nullopt) << "a file of flags";
}

}  // namespace
}  // namespace superpipe
