// A host ledger in a folder of its own, and other processes that join it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "residency/host/host_ledger.h"
#include "tests/temporary_folder.h"

namespace superpipe {

/// Offsets in the file: its layout must stay what other processes read.
inline constexpr long kVersionAt = 8;
inline constexpr long kCapAt = 16;
inline constexpr long kEntriesAt = 64;
inline constexpr long kEntryBytes = 40;

/// Another process, which lives until it is told to end or is killed.
class OtherProcess {
 public:
  /// Runs `body` in a child, which then says so, and waits.
  explicit OtherProcess(const std::function<void()>& body) {
    int said[2];
    int told[2];
    if (::pipe(said) != 0 || ::pipe(told) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      body();
      const char has_failed = ::testing::Test::HasFailure() ? 1 : 0;
      (void)!::write(said[1], &has_failed, 1);
      ::close(told[1]);
      char byte = 0;
      (void)!::read(told[0], &byte, 1);
      ::_exit(0);
    }
    ::close(said[1]);
    ::close(told[0]);
    tell_ = told[1];
    char has_failed = 1;
    EXPECT_EQ(::read(said[0], &has_failed, 1), 1);
    EXPECT_EQ(has_failed, 0) << "in the other process";
    ::close(said[0]);
  }
  ~OtherProcess() { end(SIGKILL); }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  [[nodiscard]] int pid() const { return pid_; }
  void stop() const {
    ::kill(pid_, SIGSTOP);
    int status = 0;
    ::waitpid(pid_, &status, WUNTRACED);
  }
  void kill() { end(SIGKILL); }
  /// Kills it and does not wait for it, so that it is a zombie.
  void leave_a_zombie() const {
    ::kill(pid_, SIGKILL);
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  }

 private:
  void end(int signal) {
    if (pid_ <= 0) return;
    ::kill(pid_, signal);
    ::waitpid(pid_, nullptr, 0);
    ::close(tell_);
    pid_ = 0;
  }

  int pid_ = 0;
  int tell_ = -1;
};

class HostLedgerTest : public ::testing::Test {
 protected:
  HostLedgerTest() { folder_ = make_temporary_folder("host-ledger"); }
  ~HostLedgerTest() override { std::filesystem::remove_all(folder_); }

  static HostCaps cap(Bytes host) { return {.host = host}; }
  [[nodiscard]] std::string path() const { return host_ledger_path(::geteuid(), folder_); }
  std::unique_ptr<HostLedger> join(const HostCaps& caps) {
    problem_.clear();
    auto ledger = HostLedger::join(caps, folder_, problem_);
    EXPECT_EQ(ledger == nullptr, !problem_.empty()) << problem_;
    return ledger;
  }
  /// Another process that has joined and taken `bytes`.
  std::unique_ptr<OtherProcess> other(const HostCaps& caps, Bytes bytes) {
    return std::make_unique<OtherProcess>([&] {
      std::string problem;
      auto ledger = HostLedger::join(caps, folder_, problem);
      ASSERT_NE(ledger, nullptr) << problem;
      EXPECT_TRUE(ledger->take(bytes));
      (void)ledger.release();
    });
  }
  void write_at(long offset, std::uint64_t value) const {
    const int file = ::open(path().c_str(), O_RDWR);
    ASSERT_EQ(::pwrite(file, &value, sizeof value, offset), 8);
    ::close(file);
  }
  [[nodiscard]] std::uint64_t read_at(long offset) const {
    std::uint64_t value = 0;
    const int file = ::open(path().c_str(), O_RDONLY);
    (void)!::pread(file, &value, sizeof value, offset);
    ::close(file);
    return value;
  }
  [[nodiscard]] bool has_file() const { return ::access(path().c_str(), F_OK) == 0; }

  std::string folder_;
  std::string problem_;
};

}  // namespace superpipe
