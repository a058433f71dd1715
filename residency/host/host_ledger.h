// How much host memory the processes of one user have reserved together, and what they share.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "policy/units.h"
#include "residency/host/host_memory.h"
#include "residency/tuning.h"

namespace superpipe {

/// The file of the ledger of `user`'s processes in this pid namespace: `folder` with
/// "superpipe-host-", the user's id, "-" and own_processes(). No live segment is named like that:
/// behind "superpipe-" those have a number.
[[nodiscard]] std::string host_ledger_path(uid_t user, const std::string& folder);

/// Why a file with that status is not `user`'s alone, in words that follow its path; empty: it is.
/// Pure.
[[nodiscard]] std::string why_not_alone(const struct stat& status, uid_t user);

/// This process's entry in a table in shared memory, in which all processes of the user write what
/// their host stores have reserved.
///
/// The first process to join sets the caps that hold as long as others are there; take() admits
/// what keeps the sum of all entries within them, and raises them for all where it is told that the
/// host has more memory by then. The entry counts until leave(), or until the process has died. Its
/// amount is this object's own, so an entry that is lost with the file is written anew.
///
/// The file is read and written by system calls, under a lock of the file that the kernel drops
/// when its holder dies. What stands there is believed only as far as it is possible. Nothing waits
/// for the lock longer than a tenth of a second: while it cannot be had, or the file cannot be used
/// any more, take() admits, and what it admitted is written when that is possible again.
///
/// Thread-safe. A forked child may only destroy it, which leaves the parent's entry as it is; its
/// take() refuses.
class HostLedger {
 public:
  using Clock = std::chrono::steady_clock;
  /// Tells the time by which operations try to get the lock, or leave the file alone.
  using Now = std::function<Clock::time_point()>;

  /// So long an operation tries to get the lock.
  static constexpr auto kPatience = tuning::kLedgerPatience;
  /// After that, the file is left alone for so long.
  static constexpr auto kPause = tuning::kLedgerPause;
  /// So many entries the table has: processes that manage a device at one time.
  static constexpr std::size_t kSlots = 100;

  /// Joins the ledger in `folder`, and makes it if there is none. `caps` hold if no other process
  /// is there: see HostCaps. Entries of dead processes go. `patience`: how long each operation
  /// tries to get the lock, by `now`.
  ///
  /// @return null if there is no ledger to be had: `problem` then says why, for the user. That is
  /// so where the file is not the user's alone, is none of ours, or is full.
  [[nodiscard]] static std::unique_ptr<HostLedger> join(
      const HostCaps& caps, const std::string& folder, std::string& problem,
      std::chrono::milliseconds patience = kPatience, Now now = Clock::now);
  /// Removes what this process entered when it was another program, before an exec. To be called
  /// before any join().
  static void remove_former(const std::string& folder);

  /// As leave().
  ~HostLedger();
  HostLedger(const HostLedger&) = delete;
  HostLedger& operator=(const HostLedger&) = delete;

  /// Enters `bytes` more. @return false: all entries together would exceed a cap, or this is a
  /// forked child, or leave() was called; nothing has changed.
  ///
  /// `now`: the caps that this process would set just now if it were alone, host_caps() with what
  /// its store has; where one admits what that in the table does not, this one rises so for all.
  /// What others have pinned is neither available then nor known here, so that all which they have
  /// reserved has to fit besides, and the caps rise less than they could.
  ///
  /// The table is asked for more than `bytes` where it has more, in steps of at most 64 MiB, so
  /// that nearly all calls touch no file (0.1 us). Else it takes microseconds, and where it
  /// refuses, 10 us for each process with an entry.
  [[nodiscard]] bool take(Bytes bytes, const std::optional<HostCaps>& now = std::nullopt) noexcept;
  /// Enters `bytes` less, of what was taken. Of what was asked for in advance, two steps at most
  /// stay entered.
  void give_back(Bytes bytes) noexcept;

  /// What take() would admit at most just now, nullopt where that cannot be known. 10 us for each
  /// process with an entry.
  [[nodiscard]] std::optional<Bytes> room() noexcept;

  /// What stood in the way when take() refused last.
  struct Refusal {
    Bytes others;  ///< what the user's other processes had reserved
    Bytes cap;     ///< what all may reserve together
  };
  /// nullopt: take() has not refused yet.
  [[nodiscard]] std::optional<Refusal> last_refusal() const noexcept;

  /// Removes the entry, and the file if no other process is there. Nothing is admitted any more. In
  /// a forked child it does nothing.
  void leave() noexcept;

 private:
  struct Entry;
  struct Table;
  enum class Opened;
  class File;
  class Visit;
  struct Sums;

  HostLedger(const HostCaps& caps, std::string path, std::uint64_t start_time,
             std::chrono::milliseconds patience, Now now);

  [[nodiscard]] bool is_owner() const noexcept;
  [[nodiscard]] bool may_try() const noexcept;
  std::string enter(Visit& visit);
  bool grow(Bytes total, const std::optional<HostCaps>& now);
  void raise_caps(Visit& visit, Bytes total, const HostCaps& now) const;
  void shrink();
  Sums sums(const Visit& visit) const;

  const HostCaps caps_;
  const std::string path_;
  const int owner_;  // the process that joined
  const std::uint64_t start_time_;
  const std::chrono::milliseconds patience_;
  const Now now_;

  mutable std::mutex mutex_;  // of what follows, and of the file within this process
  bool has_left_ = false;
  std::optional<std::size_t> slot_;  // where the entry was last
  Bytes used_;                       // what was taken
  Bytes entered_;                    // what the entry says, which is more where steps are
  Bytes step_;
  std::optional<Refusal> refusal_;
  Clock::time_point retry_at_;
};

}  // namespace superpipe
