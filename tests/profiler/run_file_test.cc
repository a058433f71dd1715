#include "profiler/run_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "tests/temporary_folder.h"

namespace superpipe {
namespace {

constexpr const char* kVariable = "SUPERPIPE_FORMER_TEST";

class RunFile : public ::testing::Test {
 protected:
  void SetUp() override { ::unsetenv(kVariable); }
  void TearDown() override {
    ::unsetenv(kVariable);
    std::filesystem::remove_all(folder_);
  }

  [[nodiscard]] std::string path() const { return (folder_ / "stats.json").string(); }
  [[nodiscard]] std::string path_of_this_process() const {
    return path() + '.' + std::to_string(::getpid());
  }
  void write(const std::string& text) const {
    EXPECT_EQ(write_run_file(kVariable, path(), text), std::nullopt);
  }
  static std::string content_of(const std::string& path) {
    std::ostringstream content;
    content << std::ifstream(path).rdbuf();
    return content.str();
  }
  [[nodiscard]] std::ptrdiff_t files() const {
    return std::distance(std::filesystem::directory_iterator(folder_), {});
  }

  const std::filesystem::path folder_ = make_temporary_folder("run_file");
};

TEST_F(RunFile, ReplacesWhatLayThereWhenTheRunBegan) {
  std::ofstream(path()) << "of a former run";
  note_former_file(kVariable, path());
  write("of this run");
  EXPECT_EQ(content_of(path()), "of this run");
  EXPECT_EQ(files(), 1);
}

TEST_F(RunFile, KeepsWhatAnotherProcessOfTheRunHasWritten) {
  std::ofstream(path()) << "of a former run";
  note_former_file(kVariable, path());
  write("of the first");
  write("of the second");
  EXPECT_EQ(content_of(path()), "of the first");
  EXPECT_EQ(content_of(path_of_this_process()), "of the second");
  EXPECT_EQ(files(), 2);
}

// Mostly it ends last: a program that starts helpers is meant by the name.
TEST_F(RunFile, TheProcessThatBeganTheRunHasTheName) {
  std::ofstream(path()) << "of a former run";
  note_former_file(kVariable, path());
  for (int run = 0; run < 2; ++run) {
    write("of a helper");
    EXPECT_EQ(write_run_file(kVariable, path(), "of the first", Claim::kAlways), std::nullopt);
    EXPECT_EQ(content_of(path()), "of the first");
    ::unsetenv(kVariable);
    note_former_file(kVariable, path());
  }
  EXPECT_EQ(content_of(path() + ".other"), "of a helper");
  EXPECT_EQ(content_of(path() + ".other.2"), "of a helper");
  EXPECT_EQ(files(), 3);
}

TEST_F(RunFile, KeepsItWhereThereWasNoFileBefore) {
  note_former_file(kVariable, path());
  write("of the first");
  // A process that another one starts does not note anew.
  note_former_file(kVariable, path());
  write("of the second");
  EXPECT_EQ(content_of(path()), "of the first");
  EXPECT_EQ(content_of(path_of_this_process()), "of the second");
}

TEST_F(RunFile, NotesAnewForAnotherPath) {
  note_former_file(kVariable, "/elsewhere/stats.json");
  std::ofstream(path()) << "of a former run";
  note_former_file(kVariable, path());
  write("of this run");
  EXPECT_EQ(content_of(path()), "of this run");
}

TEST_F(RunFile, WritesEachTimeToWhatIsNoRegularFile) {
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  note_former_file(kVariable, path());
  std::fstream reader(path(), std::ios::in | std::ios::out);
  write("first\n");
  write("second\n");
  std::string line;
  std::getline(reader, line);
  EXPECT_EQ(line, "first");
  std::getline(reader, line);
  EXPECT_EQ(line, "second");
  EXPECT_EQ(files(), 1);
}

TEST_F(RunFile, SaysWhatCannotBeWritten) {
  const std::string missing = (folder_ / "missing" / "stats.json").string();
  EXPECT_THAT(write_run_file(kVariable, missing, "text"),
              ::testing::Optional(::testing::HasSubstr("cannot write " + missing)));
}

}  // namespace
}  // namespace superpipe
