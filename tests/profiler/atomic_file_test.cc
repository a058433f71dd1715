#include "profiler/atomic_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace superpipe {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

/// A folder of the test's own, removed at its end.
class WriteFileAtomically : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::ptrdiff_t files() const {
    return std::distance(std::filesystem::directory_iterator(folder_), {});
  }
  static std::string content_of(const std::string& path) {
    std::ostringstream content;
    content << std::ifstream(path).rdbuf();
    return content.str();
  }

  const std::filesystem::path folder_ = std::filesystem::path(::testing::TempDir()) /
                                        ("write_file_atomically." + std::to_string(::getpid()));
};

TEST_F(WriteFileAtomically, ReplacesTheFileAndLeavesNoPart) {
  const std::string path = folder_ / "stats.json";
  EXPECT_EQ(write_file_atomically(path, "old"), std::nullopt);
  EXPECT_EQ(write_file_atomically(path, "new"), std::nullopt);
  EXPECT_EQ(content_of(path), "new");
  EXPECT_EQ(files(), 1);
}

TEST_F(WriteFileAtomically, LeavesAReaderTheFileThatItOpened) {
  const std::string path = folder_ / "stats.json";
  ASSERT_EQ(write_file_atomically(path, "old"), std::nullopt);
  std::ifstream reader(path);
  ASSERT_EQ(write_file_atomically(path, "new"), std::nullopt);
  std::string read;
  reader >> read;
  EXPECT_EQ(read, "old");
}

TEST_F(WriteFileAtomically, NamesTheFileThatCannotBeWritten) {
  const std::string path = folder_ / "missing" / "stats.json";
  EXPECT_THAT(write_file_atomically(path, "x"), Optional(HasSubstr("cannot write " + path)));
  EXPECT_EQ(files(), 0);
}

TEST_F(WriteFileAtomically, WritesToAPipeAndLeavesItAPipe) {
  const std::string path = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  EXPECT_EQ(write_file_atomically(path, "text"), std::nullopt);
  std::array<char, 16> buffer{};
  const ssize_t read = ::read(reader, buffer.data(), buffer.size());
  ::close(reader);
  EXPECT_EQ(std::string(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(read, 0))),
            "text");
  EXPECT_TRUE(std::filesystem::is_fifo(path));
  EXPECT_EQ(files(), 1);
}

TEST_F(WriteFileAtomically, SaysWhenADeviceIsFull) {
  ASSERT_TRUE(std::filesystem::exists("/dev/full"));
  EXPECT_THAT(write_file_atomically("/dev/full", "x"), Optional(HasSubstr("/dev/full")));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

}  // namespace
}  // namespace superpipe
