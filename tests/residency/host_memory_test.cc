#include "residency/host/host_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tests/residency/host_files.h"

namespace superpipe {
namespace {

using ::testing::Optional;

class HostMemoryTest : public ::testing::Test {
 protected:
  HostMemoryTest() { files_.set_available(8_GiB); }

  HostFiles files_;
};

TEST_F(HostMemoryTest, ReadsWhatIsAvailable) {
  const HostMemory memory = read_host_memory(files_.root());
  EXPECT_THAT(memory.total, Optional(16_GiB));
  EXPECT_THAT(memory.available, Optional(8_GiB));
  EXPECT_FALSE(memory.cgroup.has_value());
  EXPECT_THAT(memory.usable(), Optional(8_GiB));
}

TEST_F(HostMemoryTest, TakesTheTightestGroupOfVersionTwo) {
  files_.write("proc/self/cgroup", "0::/job/step\n");
  files_.write("sys/fs/cgroup/job/step/memory.max", "max\n");
  files_.write("sys/fs/cgroup/job/memory.max", "4294967296\n");
  files_.write("sys/fs/cgroup/job/memory.current", "1073741824\n");
  const HostMemory memory = read_host_memory(files_.root());
  ASSERT_TRUE(memory.cgroup.has_value());
  EXPECT_EQ(memory.cgroup->limit, 4_GiB);
  EXPECT_THAT(memory.cgroup->used, Optional(1_GiB));
  EXPECT_EQ(memory.cgroup->version, 2);
  EXPECT_THAT(memory.usable(), Optional(3_GiB));
}

TEST_F(HostMemoryTest, ReadsVersionOneAndKnowsItsWordForNoLimit) {
  files_.write("proc/self/cgroup", "4:cpu,memory:/box\n3:pids:/\n");
  files_.write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "2147483648\n");
  files_.write("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "0\n");
  files_.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  const HostMemory memory = read_host_memory(files_.root());
  ASSERT_TRUE(memory.cgroup.has_value());
  EXPECT_EQ(memory.cgroup->limit, 2_GiB);
  EXPECT_THAT(memory.cgroup->used, Optional(Bytes{}));
  EXPECT_EQ(memory.cgroup->version, 1);
}

TEST_F(HostMemoryTest, CachesOfFilesAreNotUsed) {
  files_.write("proc/self/cgroup", "0::/job\n");
  files_.write("sys/fs/cgroup/job/memory.max", "4294967296\n");
  files_.write("sys/fs/cgroup/job/memory.current", "3221225472\n");
  files_.write("sys/fs/cgroup/job/memory.stat",
               "anon 1073741824\nfile 2147483648\ninactive_anon 7\ninactive_file 1610612736\n"
               "active_file 268435456\nunevictable 0\n");
  const HostMemory memory = read_host_memory(files_.root());
  ASSERT_TRUE(memory.cgroup.has_value());
  EXPECT_THAT(memory.cgroup->used, Optional(1_GiB + 256_MiB)) << "the rest is no cache that can go";
}

TEST_F(HostMemoryTest, CachesOfFilesOfGroupsBelowCountInVersionOne) {
  files_.write("proc/self/cgroup", "4:memory:/box\n");
  files_.write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "2147483648\n");
  files_.write("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "1073741824\n");
  files_.write("sys/fs/cgroup/memory/box/memory.stat",
               "inactive_file 1\nactive_file 1\ntotal_inactive_file 536870912\n"
               "total_active_file 268435456\n");
  EXPECT_THAT(read_host_memory(files_.root()).cgroup->used, Optional(256_MiB));
}

TEST_F(HostMemoryTest, ReadsNoLimitFromAGroupWithoutTheMemoryController) {
  files_.write("proc/self/cgroup", "5:cpuset:/box\n4:memoryless:/box\nno colons\n");
  files_.write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "2147483648\n");
  EXPECT_FALSE(read_host_memory(files_.root()).cgroup.has_value());
}

TEST_F(HostMemoryTest, KnowsNothingWhereThereIsNothingToRead) {
  const HostMemory memory = read_host_memory(files_.root() + "/no such folder");
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

TEST(HostStoreLimit, IsTheSameHoweverMuchOfItIsPinned) {
  EXPECT_EQ(host_store_limit({16_GiB, 8_GiB, std::nullopt}, std::nullopt, 8_GiB), 15_GiB);
  EXPECT_EQ(host_store_limit({16_GiB, 1_GiB, std::nullopt}, std::nullopt, 15_GiB), 15_GiB);
  EXPECT_EQ(host_store_limit({16_GiB, 8_GiB, std::nullopt}, SizeSpec::of_bytes(9_GiB), 8_GiB),
            9_GiB);
}

/// A watch with a clock that the test moves.
class HostMemoryWatchTest : public HostMemoryTest {
 protected:
  HostMemoryWatchTest() { files_.write("proc/self/cgroup", "0::/job\n"); }

  void set_used(const std::string& used) const {
    files_.write("sys/fs/cgroup/job/memory.max", "4294967296\n");
    files_.write("sys/fs/cgroup/job/memory.current", used);
  }

  HostMemoryWatch::Clock::time_point now_{std::chrono::hours{1}};
  HostMemoryWatch watch_{files_.root(), [this] { return now_; }};
};

TEST_F(HostMemoryWatchTest, SeesWhatThereIsNow) {
  files_.set_available(4_GiB);
  EXPECT_THAT(watch_.at_first().available, Optional(8_GiB));
  ASSERT_TRUE(watch_.look(1_MiB).has_value());
  EXPECT_THAT(watch_.look(1_MiB)->available, Optional(4_GiB));
}

TEST_F(HostMemoryWatchTest, NobodyLooksAgainAtOnceForWhatWasInVain) {
  EXPECT_TRUE(watch_.look(4_MiB).has_value());
  watch_.note_in_vain(4_MiB);
  EXPECT_FALSE(watch_.look(4_MiB).has_value());
  EXPECT_FALSE(watch_.look(5_MiB).has_value());
  EXPECT_TRUE(watch_.look(3_MiB).has_value()) << "less may be there";
  watch_.note_in_vain(3_MiB);
  EXPECT_FALSE(watch_.look(3_MiB).has_value());
  now_ += HostMemoryWatch::kLeastPause;
  EXPECT_TRUE(watch_.look(4_MiB).has_value());
  watch_.note_in_vain(4_MiB);
  EXPECT_TRUE(watch_.look(3_MiB).has_value()) << "that pause is over";
}

TEST_F(HostMemoryWatchTest, SeesNothingWhereLessIsKnownThanAtFirst) {
  files_.write("proc/meminfo", "MemTotal: 16777216 kB\n");
  EXPECT_FALSE(watch_.look(1_MiB).has_value());
  files_.set_available(4_GiB);
  EXPECT_FALSE(watch_.look(4_KiB).has_value()) << "nor does anybody look again at once";
  now_ += HostMemoryWatch::kLeastPause;
  EXPECT_TRUE(watch_.look(1_MiB).has_value());
}

TEST_F(HostMemoryWatchTest, SeesNothingInAnotherGroup) {
  set_used("1073741824\n");
  EXPECT_FALSE(watch_.look(1_MiB).has_value()) << "there was none at first";
}

TEST_F(HostMemoryWatchTest, SeesNothingWithoutWhatItsGroupUses) {
  set_used("1073741824\n");
  HostMemoryWatch watch(files_.root());
  ASSERT_TRUE(watch.look(1_MiB).has_value());
  EXPECT_THAT(watch.look(1_MiB)->usable(), Optional(3_GiB));
  set_used("");
  EXPECT_FALSE(watch.look(1_MiB).has_value());
}

TEST(HostCaps, FollowFromWhatTheHostAndTheGroupLeave) {
  EXPECT_EQ(host_caps({16_GiB, 8_GiB, CgroupLimit{3_GiB, 1_GiB, 2, 7}}),
            (HostCaps{7_GiB + 512_MiB, 7, 1_GiB + 896_MiB}));
}

TEST(HostCaps, CountWhatTheStoreHas) {
  EXPECT_EQ(host_caps({16_GiB, 8_GiB, CgroupLimit{9_GiB, 1_GiB, 2, 7}}, 8_GiB),
            (HostCaps{15_GiB, 7, 15_GiB}));
}

TEST(HostCaps, CapNothingThatIsNotKnown) {
  EXPECT_EQ(host_caps({}), HostCaps{});
  EXPECT_EQ(host_caps({{}, {}, CgroupLimit{3_GiB, 1_GiB}}), HostCaps{}) << "a group without a name";
}

}  // namespace
}  // namespace superpipe
