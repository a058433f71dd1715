#include "tools/simgpu/driver/device/shared_devices.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/device/link_timeline.h"

namespace simgpu {
namespace {

class SharedDevicesTest : public ::testing::Test {
 protected:
  SharedDevicesTest() {
    std::string name = (std::filesystem::temp_directory_path() / "simgpu-shared-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~SharedDevicesTest() override { std::filesystem::remove_all(folder_); }

  SharedDevice* map() {
    SharedDevice* const devices = map_shared_devices((folder_ / "devices").c_str(), 2);
    EXPECT_NE(devices, nullptr);
    return devices;
  }

  /// Runs `work` in a process of its own, which ends there. @return what it answered.
  static bool in_child(const std::function<bool()>& work) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(work() ? 0 : 1);
    int status = -1;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  std::filesystem::path folder_;
};

TEST_F(SharedDevicesTest, TheFileIsTheUsersAlone) {
  (void)map();
  struct stat status {};
  ASSERT_EQ(::stat((folder_ / "devices").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  EXPECT_EQ(map_shared_devices((folder_ / "no" / "devices").c_str(), 2), nullptr);
}

TEST_F(SharedDevicesTest, MemoryOfAllProcessesCountsUntilTheyEnd) {
  SharedDevice* const device = map();
  ASSERT_TRUE(device->take(100));
  EXPECT_EQ(device->used_by_others(), 0U);
  EXPECT_TRUE(in_child([&] { return device->used_by_others() == 100; }));
  EXPECT_TRUE(in_child([&] { return map()->take(30) && device->used_by_others() == 100; }));
  EXPECT_EQ(device->used_by_others(), 0U) << "the child has ended";
  EXPECT_TRUE(in_child([&] {
    device->give_back(60);  // as the child of a fork, which has none of it
    return !device->take(1) && device->used_by_others() == 100;
  }));
  device->give_back(60);
  EXPECT_TRUE(in_child([&] { return device->used_by_others() == 40; }));
  EXPECT_TRUE(in_child([&] { return device[1].used_by_others() == 0; }));
}

TEST_F(SharedDevicesTest, MoreProcessesThanAreKnownAtATimeMayComeOneAfterTheOther) {
  SharedDevice* const device = map();
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(in_child([&] { return map()->take(1) && device->used_by_others() == 0; })) << i;
  }
}

TEST_F(SharedDevicesTest, CopiesFollowThoseOfOtherProcesses) {
  constexpr auto down = LinkTimeline::Direction::kHostToDevice;
  constexpr auto up = LinkTimeline::Direction::kDeviceToHost;
  SharedDevice* const devices = map();
  LinkTimeline mine(1, devices);
  LinkTimeline others(1, devices);
  EXPECT_EQ(mine.reserve(down, 100, 50).end, 150);
  EXPECT_EQ(others.reserve(down, 120, 50).start, 150);
  EXPECT_EQ(others.reserve(up, 120, 50).start, 120);
  EXPECT_EQ(mine.reserve(down, 0, 10).start, 200);
  others.push_back(down, 500);
  EXPECT_EQ(mine.reserve(down, 0, 10).start, 500);
}

TEST_F(SharedDevicesTest, ADeviceRefusesWhatOthersHaveTaken) {
  Card card = kPlainCard;
  card.memory_bytes = 100;
  Device device(0, card, 10, 1, map());
  EXPECT_TRUE(device.take(50));
  EXPECT_TRUE(in_child([&] {
    Device other(0, card, 10, 1, map());
    return !other.take(41) && other.take(40) && other.used_by_others() == 60;
  }));
  EXPECT_TRUE(device.take(40));
  EXPECT_FALSE(device.take(1));
  device.give_back(90);
  EXPECT_TRUE(in_child([&] { return Device(0, card, 10, 1, map()).take(90); }));
}

}  // namespace
}  // namespace simgpu
