// Files of a run that a command is not about are named, and not all of many.
#include "tools/superpipe/trace_files.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "profiler/trace_file.h"
#include "profiler/trace_writer.h"
#include "tests/temporary_folder.h"

namespace superpipe::cli {
namespace {

class TraceFilesTest : public ::testing::Test {
 protected:
  TraceFilesTest() {
    folder_ = make_temporary_folder("trace_files_test");
    path_ = folder_ / "run.sptrace";
  }
  ~TraceFilesTest() override { std::filesystem::remove_all(folder_); }

  /// Writes one more file of a run. @return its path.
  std::string write() const {
    auto file = TraceFile::create(path_, "run");
    EXPECT_TRUE(file.ok()) << file.error().message;
    TraceWriter writer(**file);
    writer.add_property(kTraceRunKey, "run");
    writer.begin();
    return (*file)->path();
  }

  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(TraceFilesTest, OthersAreThoseThatAreNotNamed) {
  EXPECT_EQ(other_trace_files(path_, {}), "") << "there is none";
  EXPECT_EQ(write(), path_);
  EXPECT_EQ(other_trace_files(path_, {}), "");
  const std::string second = write();
  const std::string third = write();
  EXPECT_EQ(other_trace_files(path_, {}), second + ", " + third);
  const std::vector<std::string> named{path_, third};
  EXPECT_EQ(other_trace_files(path_, named), second);
}

TEST_F(TraceFilesTest, OfManyTheFirstAreNamed) {
  write();
  for (int i = 0; i < 11; ++i) write();
  const std::string others = other_trace_files(path_, {});
  EXPECT_TRUE(others.ends_with(" and 3 more")) << others;
  EXPECT_EQ(std::ranges::count(others, ','), 7);
}

TEST_F(TraceFilesTest, OneFileMayHaveSeveralNames) {
  std::ofstream(path_) << "something";
  const std::string link = folder_ / "link";
  std::filesystem::create_symlink(path_, link);
  const std::string copy = folder_ / "copy";
  std::filesystem::copy_file(path_, copy);
  EXPECT_TRUE(is_same_file(path_, link));
  EXPECT_FALSE(is_same_file(path_, copy));
  EXPECT_FALSE(is_same_file(path_, folder_ / "none"));
  EXPECT_FALSE(is_same_file(folder_, folder_)) << "a folder";
}

}  // namespace
}  // namespace superpipe::cli
