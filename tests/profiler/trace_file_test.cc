// Each process of a run has its own file, and they are found together.
#include "profiler/trace_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "profiler/trace_reader.h"
#include "tests/temporary_folder.h"

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TraceFileTest : public ::testing::Test {
 protected:
  TraceFileTest() {
    folder_ = make_temporary_folder("trace_file_test");
    path_ = folder_ / "run.sptrace";
  }
  ~TraceFileTest() override { std::filesystem::remove_all(folder_); }

  // Creates a file of the run, and writes a trace without events; keeps it open.
  std::unique_ptr<TraceFile> begin(const std::string& run) const {
    auto file = TraceFile::create(path_, run);
    EXPECT_TRUE(file.ok()) << file.error().message;
    TraceWriter writer(**file);
    writer.add_property(kTraceRunKey, run);
    writer.begin();
    EXPECT_EQ(writer.problem(), std::nullopt);
    return std::move(*file);
  }
  [[nodiscard]] std::string suffixed(const std::string& suffix) const {
    return path_ + "." + std::to_string(::getpid()) + suffix;
  }

  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(TraceFileTest, FirstOfARunTakesTheNameAndOthersAppend) {
  EXPECT_EQ(begin("a")->path(), path_);
  EXPECT_EQ(begin("a")->path(), suffixed(""));
  EXPECT_EQ(begin("a")->path(), suffixed(".2"));
  EXPECT_THAT(find_trace_files(path_), ElementsAre(path_, suffixed(""), suffixed(".2")));
}

TEST_F(TraceFileTest, AnyOfARunFindsTheOthers) {
  begin("a");
  begin("a");
  begin("a");
  EXPECT_THAT(find_trace_files(suffixed("")), ElementsAre(suffixed(""), path_, suffixed(".2")));
  EXPECT_THAT(find_trace_files(suffixed(".2")), ElementsAre(suffixed(".2"), path_, suffixed("")));
}

TEST_F(TraceFileTest, ANameThatEndsInANumberIsNoOtherRuns) {
  begin("a");
  path_ += ".7";
  begin("b");
  begin("b");
  EXPECT_THAT(find_trace_files(path_), ElementsAre(path_, suffixed("")));
  EXPECT_THAT(find_trace_files(suffixed("")), ElementsAre(suffixed(""), path_));
}

TEST_F(TraceFileTest, NoFileHasTwoNames) {
  begin("a");
  begin("a");
  const std::string name = folder_.string() + "//run.sptrace";
  const std::string other = name + "." + std::to_string(::getpid());
  EXPECT_THAT(find_trace_files(other), ElementsAre(other, name));
  EXPECT_THAT(find_trace_files(name), ElementsAre(name, other));
}

TEST_F(TraceFileTest, AFileIsFoundByItsNameInTheWorkingFolder) {
  begin("a");
  begin("a");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  const auto found = find_trace_files("run.sptrace." + std::to_string(::getpid()));
  std::filesystem::current_path(before);
  EXPECT_THAT(found, ElementsAre("run.sptrace." + std::to_string(::getpid()), "run.sptrace"));
}

TEST_F(TraceFileTest, AnotherRunOverwritesAndIgnoresWhatIsLeft) {
  begin("a");
  begin("a");
  std::ofstream(path_ + ".notes") << "no trace";
  std::ofstream(path_ + ".12x") << "no trace";
  EXPECT_EQ(begin("b")->path(), path_);
  EXPECT_THAT(find_trace_files(path_), ElementsAre(path_));
}

TEST_F(TraceFileTest, OverwritesWhatIsNoTrace) {
  std::ofstream(path_) << std::string(10'000, 'x');
  EXPECT_EQ(begin("a")->path(), path_);
  EXPECT_LT(std::filesystem::file_size(path_), 10'000u);
  EXPECT_TRUE(TraceReader::open(path_).ok());
}

TEST_F(TraceFileTest, LeavesAFileAloneThatAnotherIsWriting) {
  const auto first = begin("a");
  // Not even a run that would overwrite it does.
  EXPECT_EQ(begin("b")->path(), suffixed(""));
  EXPECT_TRUE(TraceReader::open(path_).ok());
}

TEST_F(TraceFileTest, RemovesTheTraceOfAFormerRun) {
  begin("a");
  std::filesystem::create_symlink(path_, folder_ / "link");
  remove_former_trace(folder_ / "link");
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "link"));
  remove_former_trace(path_);
}

TEST_F(TraceFileTest, RemovesNeitherWhatIsNoTraceNorWhatIsBeingWritten) {
  const auto writing = begin("a");
  remove_former_trace(path_);
  EXPECT_TRUE(std::filesystem::exists(path_));
  for (const char* const text : {"", "notes", "notes that are longer than the header of a trace"}) {
    std::ofstream(folder_ / "notes") << text;
    remove_former_trace(folder_ / "notes");
    EXPECT_TRUE(std::filesystem::exists(folder_ / "notes")) << text;
  }
  remove_former_trace(folder_);
  EXPECT_TRUE(std::filesystem::exists(folder_));
}

TEST_F(TraceFileTest, KnowsWhetherARunHasAFile) {
  EXPECT_FALSE(has_trace_file_of(path_, "a"));
  const auto other = begin("b");
  EXPECT_FALSE(has_trace_file_of(path_, "a"));
  begin("a");
  EXPECT_TRUE(has_trace_file_of(path_, "a")) << "beside the other's";
  EXPECT_TRUE(has_trace_file_of(path_, "b"));
}

TEST_F(TraceFileTest, ChildOfAForkGivesTheFileBack) {
  auto first = begin("a");
  int left[2];  // the child has left the file alone
  int done[2];  // the child may end
  ASSERT_EQ(::pipe(left), 0);
  ASSERT_EQ(::pipe(done), 0);
  char ignored = 0;
  const pid_t child = ::fork();
  if (child == 0) {
    first->close();
    (void)!::write(left[1], &ignored, 1);
    ::close(done[1]);
    (void)!::read(done[0], &ignored, 1);
    ::_exit(0);
  }
  EXPECT_EQ(::read(left[0], &ignored, 1), 1);
  first.reset();
  EXPECT_EQ(begin("b")->path(), path_);
  for (const int end : {left[0], left[1], done[0], done[1]}) ::close(end);
  ::waitpid(child, nullptr, 0);
}

TEST_F(TraceFileTest, NamesWhatItCannotWrite) {
  const auto missing = TraceFile::create("/no/such/folder/run.sptrace", "a");
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().message,
              HasSubstr("cannot write /no/such/folder/run.sptrace: No such"));
  auto full = TraceFile::create("/dev/full", "a");
  ASSERT_TRUE(full.ok());
  const std::byte bytes[8]{};
  const auto problem = (*full)->write(bytes);
  ASSERT_TRUE(problem.has_value());
  EXPECT_THAT(*problem, HasSubstr("cannot write /dev/full: No space left"));
}

TEST_F(TraceFileTest, DoesNotWaitForWhoReadsAPipe) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const auto unread = TraceFile::create(path_, "a");
  ASSERT_FALSE(unread.ok());
  EXPECT_THAT(unread.error().message, HasSubstr("no program reads it"));
  const int reader = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  auto read = TraceFile::create(path_, "a");
  ASSERT_TRUE(read.ok()) << read.error().message;
  const std::byte bytes[8]{};
  EXPECT_EQ((*read)->write(bytes), std::nullopt);
  std::byte arrived[16];
  EXPECT_EQ(::read(reader, arrived, sizeof arrived), 8);
  ::close(reader);
}

TEST_F(TraceFileTest, FindsOnlyTheFileItselfWhereItCannotBeRead) {
  EXPECT_THAT(find_trace_files(path_), ElementsAre(path_));
}

TEST(MakeTraceRun, DiffersEachTime) { EXPECT_NE(make_trace_run(), make_trace_run()); }

}  // namespace
}  // namespace superpipe
