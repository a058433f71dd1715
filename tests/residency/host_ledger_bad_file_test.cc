// What stands where the ledger should be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <string>

#include "profiler/shared_folder.h"
#include "residency/host/host_ledger.h"
#include "tests/residency/host_ledger_fixture.h"

namespace superpipe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// What stands where the ledger should be, before anybody joins.
class BadHostLedgerTest : public HostLedgerTest {
 protected:
  void write_file(const std::string& content) const {
    std::ofstream(path(), std::ios::binary) << content;
    ::chmod(path().c_str(), 0600);
  }
  void expect_refused(const std::string& why) {
    EXPECT_EQ(join(cap(16_MiB)), nullptr);
    EXPECT_THAT(problem_, HasSubstr(path() + ": " + why));
    EXPECT_THAT(problem_, Not(HasSubstr(advice_on_shared_folder()))) << "that does not help";
  }
};

TEST_F(BadHostLedgerTest, IsRefusedWhereOthersMayOpenIt) {
  write_file("");
  ::chmod(path().c_str(), 0644);
  expect_refused("other users may open it");
}

TEST_F(BadHostLedgerTest, IsRefusedWhereItIsAnotherUsers) {
  write_file("");
  struct stat status {};
  ASSERT_EQ(::stat(path().c_str(), &status), 0);
  EXPECT_EQ(why_not_alone(status, ::geteuid()), "");
  EXPECT_EQ(why_not_alone(status, ::geteuid() + 1), "it belongs to another user");
}

TEST_F(BadHostLedgerTest, IsRefusedWhereItIsALink) {
  const std::string target = folder_ + "/target";
  std::ofstream(target) << "";
  ::chmod(target.c_str(), 0600);
  std::filesystem::create_symlink(target, path());
  expect_refused("it is a link");
  EXPECT_EQ(std::filesystem::file_size(target), 0U);
  std::filesystem::remove(path());
  std::filesystem::create_hard_link(target, path());
  expect_refused("it has a second name");
}

TEST_F(BadHostLedgerTest, IsRefusedWhereItIsNoFile) {
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  expect_refused("it is no regular file");
  std::filesystem::remove(path());
  std::filesystem::create_directory(path());
  expect_refused("");
}

TEST_F(BadHostLedgerTest, IsRefusedWhereItIsNoLedger) {
  write_file("short");
  expect_refused("it is no ledger");
  write_file(std::string(4096, 'x'));
  expect_refused("it is no ledger");
}

TEST_F(BadHostLedgerTest, IsRefusedWhereThereIsNoFolder) {
  std::filesystem::remove_all(folder_);
  EXPECT_EQ(join(cap(16_MiB)), nullptr);
  EXPECT_EQ(problem_, path() + ": No such file or directory" + advice_on_shared_folder());
}

TEST_F(BadHostLedgerTest, AnEmptyOneIsAsGoodAsNone) {
  write_file("");
  EXPECT_TRUE(join(cap(16_MiB))->take(16_MiB));
}

TEST_F(BadHostLedgerTest, AnotherVersionsIsUsedOnlyWhenNobodyElseDoes) {
  auto process = other(cap(16_MiB), 1_MiB);
  write_at(kVersionAt, read_at(kVersionAt) + 1);
  expect_refused("processes of another version");
  process->kill();
  EXPECT_TRUE(join(cap(32_MiB))->take(32_MiB));
}

TEST_F(BadHostLedgerTest, AnEntryOfMoreBytesThanThereAreIsNone) {
  const auto process = other(cap(16_MiB), 10_MiB);
  write_at(kEntriesAt + 32, ~std::uint64_t{0});
  EXPECT_TRUE(join(cap(16_MiB))->take(16_MiB));
}

TEST_F(BadHostLedgerTest, ACapOfMoreBytesThanThereAreIsNone) {
  const auto process = other(cap(16_MiB), 10_MiB);
  write_at(kCapAt, ~std::uint64_t{0});
  write_at(kEntriesAt + 24, ~std::uint64_t{0});
  const auto ledger = join(cap(16_MiB));
  EXPECT_TRUE(ledger->take(1_GiB));
  EXPECT_FALSE(ledger->take(HostCaps::kNone));
}

TEST_F(BadHostLedgerTest, AFileThatIsBrokenLaterIsDoneWithout) {
  const auto ledger = join(cap(16_MiB));
  write_file("short");
  EXPECT_TRUE(ledger->take(32_MiB));
  EXPECT_EQ(ledger->room(), std::nullopt);
  ledger->give_back(32_MiB);
}

// An access to a page beyond the end of a file would be a signal that ends the program.
TEST_F(BadHostLedgerTest, AFileThatIsCutShortIsWrittenAnew) {
  const auto ledger = join(cap(16_MiB));
  ASSERT_TRUE(ledger->take(10_MiB));
  write_file("");
  EXPECT_TRUE(ledger->take(6_MiB));
  EXPECT_FALSE(ledger->take(1_MiB)) << "its entry and its cap are there again";
  write_file("");
  ledger->give_back(16_MiB);
  EXPECT_TRUE(ledger->take(16_MiB));
  EXPECT_FALSE(ledger->take(1_MiB));
}

TEST_F(BadHostLedgerTest, NoBytesCrashIt) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 300; ++i) {
    const auto process = join(cap(16_MiB));
    for (int j = 0; j < 20; ++j) {
      write_at(static_cast<long>(random() % 511) * 8, random() >> (random() % 64));
    }
    const auto ledger = join(cap(16_MiB));
    for (HostLedger* const one : {process.get(), ledger.get()}) {
      if (one == nullptr) continue;
      (void)one->take(Bytes{random() >> (random() % 64)});
      (void)one->room();
      one->give_back(Bytes{random() >> (random() % 64)});
      (void)one->last_refusal();
    }
    std::filesystem::remove(path());
  }
}

}  // namespace
}  // namespace superpipe
