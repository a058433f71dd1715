#include "residency/host_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace superpipe {
namespace {

using ::testing::Optional;

/// A root folder with the files that the kernel would show.
class HostMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::path(::testing::TempDir()) /
            ("host_memory_" +
             std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(root_);
    write("proc/meminfo",
          "MemTotal:       16777216 kB\nMemFree: 1 kB\nMemAvailable:    8388608 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  std::filesystem::path root_;
};

TEST_F(HostMemoryTest, ReadsWhatIsAvailable) {
  const HostMemory memory = read_host_memory(root_);
  EXPECT_THAT(memory.total, Optional(16_GiB));
  EXPECT_THAT(memory.available, Optional(8_GiB));
  EXPECT_FALSE(memory.cgroup.has_value());
  EXPECT_THAT(memory.usable(), Optional(8_GiB));
}

TEST_F(HostMemoryTest, TakesTheTightestGroupOfVersionTwo) {
  write("proc/self/cgroup", "0::/job/step\n");
  write("sys/fs/cgroup/job/step/memory.max", "max\n");
  write("sys/fs/cgroup/job/memory.max", "4294967296\n");
  write("sys/fs/cgroup/job/memory.current", "1073741824\n");
  const HostMemory memory = read_host_memory(root_);
  ASSERT_TRUE(memory.cgroup.has_value());
  EXPECT_EQ(memory.cgroup->limit, 4_GiB);
  EXPECT_THAT(memory.cgroup->used, Optional(1_GiB));
  EXPECT_EQ(memory.cgroup->version, 2);
  EXPECT_THAT(memory.usable(), Optional(3_GiB));
}

TEST_F(HostMemoryTest, ReadsVersionOneAndKnowsItsWordForNoLimit) {
  write("proc/self/cgroup", "4:cpu,memory:/box\n3:pids:/\n");
  write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "2147483648\n");
  write("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "0\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  const HostMemory memory = read_host_memory(root_);
  ASSERT_TRUE(memory.cgroup.has_value());
  EXPECT_EQ(memory.cgroup->limit, 2_GiB);
  EXPECT_THAT(memory.cgroup->used, Optional(Bytes{}));
  EXPECT_EQ(memory.cgroup->version, 1);
}

TEST_F(HostMemoryTest, ReadsNoLimitFromAGroupWithoutTheMemoryController) {
  write("proc/self/cgroup", "5:cpuset:/box\n4:memoryless:/box\nno colons\n");
  write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "2147483648\n");
  EXPECT_FALSE(read_host_memory(root_).cgroup.has_value());
}

TEST_F(HostMemoryTest, KnowsNothingWhereThereIsNothingToRead) {
  const HostMemory memory = read_host_memory((root_ / "no such folder").string());
  EXPECT_EQ(memory.total, std::nullopt);
  EXPECT_EQ(memory.usable(), std::nullopt);
}

TEST(HostMemory, IsUsableUpToWhatTheGroupLeaves) {
  EXPECT_THAT((HostMemory{16_GiB, 8_GiB, CgroupLimit{2_GiB, 1_GiB}}.usable()), Optional(1_GiB));
  EXPECT_THAT((HostMemory{16_GiB, 1_GiB, CgroupLimit{4_GiB, 1_GiB}}.usable()), Optional(1_GiB));
  EXPECT_THAT((HostMemory{{}, {}, CgroupLimit{4_GiB, {}}}.usable()), Optional(4_GiB));
}

TEST(HostStoreLimit, LeavesHeadroomOfWhatIsAvailable) {
  EXPECT_EQ(host_store_limit({16_GiB, 8_GiB, std::nullopt}, std::nullopt),
            Bytes{(8_GiB).count() / 16 * 15});
}

TEST(HostStoreLimit, NeverExceedsTheGroup) {
  EXPECT_EQ(host_store_limit({16_GiB, 8_GiB, CgroupLimit{2_GiB, 1_GiB}}, std::nullopt),
            Bytes{(1_GiB).count() / 16 * 15});
}

TEST(HostStoreLimit, IsZeroWhenTheGroupIsOverItsLimit) {
  EXPECT_EQ(host_store_limit({16_GiB, 8_GiB, CgroupLimit{1_GiB, 2_GiB}}, std::nullopt), Bytes{});
}

TEST(HostStoreLimit, TakesTheUsersShareOfAllMemory) {
  EXPECT_EQ(host_store_limit({16_GiB, 8_GiB, std::nullopt}, SizeSpec::of_percent(25)), 4_GiB);
}

TEST(HostStoreLimit, TakesTheUsersWordWhereTheMachineSaysNothing) {
  EXPECT_EQ(host_store_limit({}, SizeSpec::of_bytes(4_GiB)), 4_GiB);
  EXPECT_EQ(host_store_limit({}, std::nullopt), Bytes{});
}

TEST(HostCaps, FollowFromWhatTheHostAndTheGroupLeave) {
  EXPECT_EQ(host_caps({16_GiB, 8_GiB, CgroupLimit{3_GiB, 1_GiB, 2, 7}}),
            (HostCaps{7_GiB + 512_MiB, 7, 1_GiB + 896_MiB}));
}

TEST(HostCaps, CapNothingThatIsNotKnown) {
  EXPECT_EQ(host_caps({}), HostCaps{});
  EXPECT_EQ(host_caps({{}, {}, CgroupLimit{3_GiB, 1_GiB}}), HostCaps{}) << "a group without a name";
}

}  // namespace
}  // namespace superpipe
