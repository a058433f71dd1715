// The file of what a process copied out: what is written is read again, and nothing else is.
#include "profiler/copy_records.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include "tests/temporary_folder.h"

namespace superpipe {
namespace {

class CopyRecordsTest : public ::testing::Test {
 protected:
  CopyRecordsTest() { folder_ = make_temporary_folder("copy-records"); }
  ~CopyRecordsTest() override { std::filesystem::remove_all(folder_); }

  std::variant<ProcessCopies, std::string> read(const std::string& text) {
    std::ofstream(path()) << text;
    return read_copies(path());
  }
  ProcessCopies read_well(const std::string& text) {
    auto process = read(text);
    EXPECT_TRUE(std::holds_alternative<ProcessCopies>(process)) << std::get<std::string>(process);
    return std::get<ProcessCopies>(process);
  }
  [[nodiscard]] std::string path() const { return folder_ + "/copies.17"; }

  const std::string header_ = copies_header(17, 1'000'000'007, "python3 -m train");
  std::string folder_;
};

TEST_F(CopyRecordsTest, WhatIsWrittenIsRead) {
  CopyRecord whole{1, 2, 64_MiB, 2, CopyDigest{0x0123456789abcdef, 7}, CopySource{4_KiB, 65_MiB}};
  whole.source->launch = CopyLaunch{1, 99};
  const CopyRecord plain{1, 1, 3_KiB, 0, CopyDigest{~std::uint64_t{0}, 0}, std::nullopt};
  const CopyRecord unseen{2, 1, 1_KiB, 1, std::nullopt, std::nullopt};
  const ProcessCopies process =
      read_well(header_ + place_line("python3 -m\ntrain") + kernel_line(0, "first") +
                kernel_line(1, "a\nname (int, float*)") + site_line(2, "f+0x1 m+0x2\ng+0x3 n+0x4") +
                copy_line(whole) + copy_line(unseen) + copy_line(plain));
  EXPECT_EQ(process.pid, 17);
  EXPECT_EQ(process.started, 1'000'000'007U);
  EXPECT_EQ(process.place, "python3 -m train");
  EXPECT_EQ(process.program, "python3 -m train");
  EXPECT_EQ(process.kernels, (std::vector<std::string>{"first", "a name (int, float*)"}));
  ASSERT_EQ(process.copies.size(), 3U);  // by thread and number
  EXPECT_EQ(process.copies[0].bytes, 3_KiB);
  EXPECT_EQ(process.copies[0].digest, plain.digest);
  EXPECT_EQ(process.copies[0].source, std::nullopt);
  EXPECT_EQ(process.copies[1].digest, whole.digest);
  EXPECT_EQ(process.copies[1].source, whole.source);
  EXPECT_EQ(process.copies[2].thread, 2U);
  EXPECT_EQ(process.copies[2].digest, std::nullopt);
  EXPECT_EQ(process.frames_of(process.copies[1]),
            (std::vector<std::string>{"f+0x1 m+0x2", "g+0x3 n+0x4"}));
  EXPECT_TRUE(process.frames_of(process.copies[0]).empty());
  EXPECT_TRUE(process.frames_of(process.copies[2]).empty()) << "its line is lost";
}

TEST_F(CopyRecordsTest, ALineInWhichTheProcessDiedIsLeftOut) {
  const std::string line = copy_line({1, 1, 3_KiB, 1, CopyDigest{1, 2}, std::nullopt});
  for (std::size_t cut = 0; cut < line.size(); ++cut) {
    const auto process = read_well(header_ + line + line.substr(0, cut));
    EXPECT_EQ(process.copies.size(), 1U) << cut;
  }
}

TEST_F(CopyRecordsTest, OtherFilesAreRefusedInOneLineThatNamesThem) {
  const std::string digest(32, 'a');
  for (const std::string& text : std::vector<std::string>{
           "", "\n", "hello\n", "superpipe copies 2 17 5 python3\n", "superpipe copies 3 x 5 p\n",
           header_ + "move 1 1 4\n", header_ + "copy 1 1 4 0\n",
           header_ + "copy 1 1 4 x " + digest + "\n", header_ + "copy 1 1 4 0 abc\n",
           header_ + "copy 1 1 4 0 " + digest + " 5\n", header_ + "copy 1 1 4 0 " + digest + "x\n",
           header_ + "copy 1 1 4 0 " + digest + " 0 4 1 1 1\n",
           header_ + "copy 1 1 99999999999999999999 0 " + digest + "\n",
           header_ + "copy 1 -1 4 0 " + digest + "\n", header_ + "unseen 1 1 4 0 " + digest + "\n",
           header_ + "kernel 99999999999 name\n", header_ + "site 0 f\n",
           header_ + "site 99999999999 f\n"}) {
    const auto process = read(text);
    ASSERT_TRUE(std::holds_alternative<std::string>(process)) << text;
    const auto& problem = std::get<std::string>(process);
    EXPECT_NE(problem.find(path()), std::string::npos) << problem;
    EXPECT_EQ(problem.find('\n'), std::string::npos) << problem;
  }
  EXPECT_TRUE(std::holds_alternative<std::string>(read_copies(folder_ + "/none")));
}

}  // namespace
}  // namespace superpipe
