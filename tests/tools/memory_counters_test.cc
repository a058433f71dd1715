#include "tools/superpipe/probes/memory_counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace superpipe::cli {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

class ReadMemoryCounters : public ::testing::Test {
 protected:
  ReadMemoryCounters()
      : root_(std::filesystem::path(::testing::TempDir()) /
              ("counters-" + std::to_string(getpid()))) {}
  ~ReadMemoryCounters() override { std::filesystem::remove_all(root_); }

  void file(const std::string& name, const std::string& text) const {
    const auto path = root_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  [[nodiscard]] std::string root() const { return root_.string(); }

  std::filesystem::path root_;
};

TEST_F(ReadMemoryCounters, TellsBytesOfTheProcessAndTheMachine) {
  file("proc/self/status", "Name:\tx\nVmRSS:\t    12 kB\nVmPin:\t 3 kB\nThreads:\t1\n");
  file("proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 50 kB\n");
  const auto counters = read_memory_counters(root());
  EXPECT_THAT(counters, Contains(Pair("VmRSS", 12 << 10)));
  EXPECT_THAT(counters, Contains(Pair("VmPin", 3 << 10)));
  EXPECT_THAT(counters, Contains(Pair("MemAvailable", 50 << 10)));
  EXPECT_EQ(counters.size(), 3U);
}

TEST_F(ReadMemoryCounters, ReadsTheControlGroupOfVersion2) {
  file("proc/self/cgroup", "0::/a/b\n");
  file("sys/fs/cgroup/a/b/memory.current", "4096\n");
  file("sys/fs/cgroup/memory.current", "8192\n");
  EXPECT_THAT(read_memory_counters(root()), Contains(Pair("cgroup_current", 4096)));
}

TEST_F(ReadMemoryCounters, ReadsTheTopmostGroupThatAContainerSees) {
  file("proc/self/cgroup", "0::/of/the/host\n");
  file("sys/fs/cgroup/memory.current", "8192\n");
  EXPECT_THAT(read_memory_counters(root()), Contains(Pair("cgroup_current", 8192)));
}

TEST_F(ReadMemoryCounters, ReadsTheMemoryControllerOfVersion1) {
  file("proc/self/cgroup", "5:cpu,cpuacct:/c\n4:memory:/m\n");
  file("sys/fs/cgroup/memory/m/memory.usage_in_bytes", "123\n");
  EXPECT_THAT(read_memory_counters(root()), Contains(Pair("cgroup_current", 123)));
}

TEST_F(ReadMemoryCounters, LeavesOutWhatCannotBeRead) {
  EXPECT_THAT(read_memory_counters(root()), IsEmpty());
  file("proc/self/cgroup", "4:cpu:/m\nnothing\n");
  file("proc/self/status", "VmRSS: many\n");
  EXPECT_THAT(read_memory_counters(root()), Not(Contains(Key("VmRSS"))));
  EXPECT_THAT(read_memory_counters(root()), Not(Contains(Key("cgroup_current"))));
}

}  // namespace
}  // namespace superpipe::cli
