// Processes that join, take and leave at the same time.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "residency/host/host_ledger.h"
#include "tests/hang_limit.h"
#include "tests/residency/host_ledger_fixture.h"

namespace superpipe {
namespace {

/// Several processes at the same time, none of which is impatient: on a busy machine a holder of
/// the lock may be interrupted for long.
class CrowdedHostLedgerTest : public HostLedgerTest {
 protected:
  std::unique_ptr<HostLedger> join_patiently() {
    return HostLedger::join(cap(16_MiB), folder_, problem_, testing::kHangLimit);
  }
  /// Runs `body` in four processes; each must return 0.
  static void run(const std::function<int(std::mt19937_64& random)>& body) {
    std::vector<int> children;
    for (unsigned i = 0; i < 4; ++i) {
      const int pid = ::fork();
      if (pid == 0) {
        std::mt19937_64 random(i);
        ::_exit(body(random));
      }
      children.push_back(pid);
    }
    for (const int pid : children) {
      int status = -1;
      ::waitpid(pid, &status, 0);
      EXPECT_EQ(WEXITSTATUS(status), 0);
    }
  }
  /// What all entries say together at one moment.
  [[nodiscard]] std::uint64_t sum() const {
    const int file = ::open(path().c_str(), O_RDONLY);
    char table[4096] = {};
    ::flock(file, LOCK_EX);
    (void)!::pread(file, table, sizeof table, 0);
    ::close(file);
    std::uint64_t sum = 0;
    for (std::size_t slot = 0; slot < HostLedger::kSlots; ++slot) {
      std::uint64_t bytes = 0;
      std::memcpy(&bytes, table + kEntriesAt + slot * kEntryBytes + 32, sizeof bytes);
      sum += bytes;
    }
    return sum;
  }
};

TEST_F(CrowdedHostLedgerTest, ProcessesSideBySideNeverExceedTheCap) {
  const auto keeper = other(cap(16_MiB), Bytes{});
  run([&](std::mt19937_64& random) {
    const auto ledger = join_patiently();
    Bytes mine;
    bool was_refused = false;
    for (int step = 0; step < 2000; ++step) {
      const Bytes size{(random() % 1024) << 10};
      if (ledger->take(size)) {
        mine += size;
      } else {
        was_refused = true;
        ledger->give_back(std::exchange(mine, Bytes{}));
      }
      if (sum() > (16_MiB).count()) return 1;
    }
    return was_refused ? 0 : 2;
  });
}

TEST_F(CrowdedHostLedgerTest, WhoWaitsForAFileThatIsRemovedMeanwhileJoinsTheNextOne) {
  const auto ledger = join(cap(16_MiB));
  const int file = ::open(path().c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(file, LOCK_EX), 0);
  const int pid = ::fork();
  if (pid == 0) {
    const auto joined = join_patiently();
    ::_exit(joined != nullptr && has_file() ? 0 : 1);
  }
  const auto has_opened_it = [&] {
    std::error_code gone;
    for (const auto& entry :
         std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", gone)) {
      const int descriptor = std::stoi(entry.path().filename().string());
      if (descriptor != file && std::filesystem::read_symlink(entry, gone) == path()) return true;
    }
    return false;
  };
  while (!has_opened_it()) std::this_thread::yield();
  std::filesystem::remove(path());
  ::flock(file, LOCK_UN);
  ::close(file);
  int status = -1;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(CrowdedHostLedgerTest, ProcessesThatComeAndGoNeverExceedTheCap) {
  void* const shared = ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto& holders = *new (shared) std::atomic<int>{0};
  run([&](std::mt19937_64& /*random*/) {
    for (int step = 0; step < 1000; ++step) {
      const auto ledger = join_patiently();
      if (ledger == nullptr) return 1;
      if (!ledger->take(10_MiB)) continue;
      if (holders.fetch_add(1) != 0) return 2;
      holders.fetch_sub(1);
    }
    return 0;
  });
  ::munmap(shared, sizeof(std::atomic<int>));
  EXPECT_FALSE(has_file());
}

}  // namespace
}  // namespace superpipe
