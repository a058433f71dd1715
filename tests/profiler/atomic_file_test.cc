#include "profiler/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace superpipe {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

TEST(WriteFileAtomically, ReplacesTheFileAndLeavesNoPart) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / "write_atomically";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::string path = folder / "stats.json";
  EXPECT_EQ(write_file_atomically(path, "old"), std::nullopt);
  EXPECT_EQ(write_file_atomically(path, "new"), std::nullopt);
  std::ostringstream content;
  content << std::ifstream(path).rdbuf();
  EXPECT_EQ(content.str(), "new");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  std::filesystem::remove_all(folder);
}

TEST(WriteFileAtomically, NamesTheFileThatCannotBeWritten) {
  EXPECT_THAT(write_file_atomically("/nonexistent/stats.json", "x"),
              Optional(HasSubstr("/nonexistent/stats.json")));
}

}  // namespace
}  // namespace superpipe
