#include "residency/host/host_ledger.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <exception>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include "profiler/process_identity.h"
#include "profiler/shared_folder.h"
#include "residency/tuning.h"

namespace superpipe {
namespace {

constexpr std::uint64_t kLedgerMagic = 0x74736F6865706970;  // "pipehost"
constexpr std::uint32_t kLedgerVersion = 1;

constexpr const char* kRemoveIt = "; remove it once no program uses it";

std::string ledger_error(int error) {
  return std::generic_category().message(error) + advice_on_shared_file(error);
}

}  // namespace

std::string why_not_alone(const struct stat& status, uid_t user) {
  if (!S_ISREG(status.st_mode)) return "it is no regular file";
  if (status.st_uid != user) return "it belongs to another user";
  if ((status.st_mode & 0077) != 0) return "other users may open it";
  if (status.st_nlink > 1) return "it has a second name";
  return "";
}

/// A process's entry; all zero: free.
struct HostLedger::Entry {
  std::uint64_t pid;
  std::uint64_t start_time;  ///< start_time_of(pid)
  std::uint64_t group;       ///< HostCaps::group
  std::uint64_t in_group;    ///< HostCaps::in_group of the first process of that group, or more
  std::uint64_t bytes;       ///< what its host store has reserved, or more

  [[nodiscard]] bool is_free() const { return pid == 0; }
  [[nodiscard]] bool is_of(int process, std::uint64_t start) const {
    return pid == static_cast<std::uint64_t>(process) && start_time == start;
  }
  [[nodiscard]] bool is_dead() const {
    return !is_free() && start_time_of(static_cast<int>(pid)) != start_time;
  }
};

/// Version 1 of the file, as native integers: it never leaves the machine. Where the entries stand,
/// and that each begins with the process, is the same in every version, so that any version can
/// tell whether any process is still there.
struct HostLedger::Table {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t slots;
  std::uint64_t cap;  ///< HostCaps::host of the first process, or more
  std::uint64_t unused[5];
  Entry entries[kSlots];

  [[nodiscard]] bool is_empty() const {
    return std::ranges::all_of(entries, [](const Entry& entry) { return entry.is_free(); });
  }
  void remove_dead() {
    for (Entry& entry : entries) {
      if (entry.is_dead()) entry = {};
    }
  }
  /// Takes out what no process can have written.
  void remove_impossible() {
    constexpr std::uint64_t kMost = HostCaps::kNone.count();
    static_assert(kMost < UINT64_MAX / (kSlots + 2), "no sum of possible entries overflows");
    for (Entry& entry : entries) {
      if (entry.pid > INT_MAX || entry.bytes > kMost) entry = {};
      entry.in_group = std::min(entry.in_group, kMost);
    }
    cap = std::min(cap, kMost);
  }
};

enum class HostLedger::Opened { kYes, kAbsent, kBusy, kUnusable };

/// The open file; unlocks and closes it.
class HostLedger::File {
  static_assert(std::is_trivially_copyable_v<Table> && std::is_standard_layout_v<Table>);
  static_assert(offsetof(Table, cap) == 16 && offsetof(Table, entries) == 64);
  static_assert(sizeof(Entry) == 40 && offsetof(Entry, bytes) == 32);
  static_assert(sizeof(Table) <= 4096, "one page, which the kernel writes at once");

 public:
  File() = default;
  ~File() { close(); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  [[nodiscard]] int descriptor() const { return descriptor_; }

  void close() {
    if (descriptor_ < 0) return;
    // A child that was forked meanwhile has the same open file, which closing would leave locked.
    if (is_locked_) (void)::flock(descriptor_, LOCK_UN);
    ::close(std::exchange(descriptor_, -1));
    is_locked_ = false;
  }

  /// Opens the file at `path` if it is this user's alone; `may_create`: or makes it.
  Opened open(const std::string& path, bool may_create, std::string& problem) {
    close();
    // A link could lead anywhere, and a pipe under that name would be waited for.
    constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    descriptor_ = ::open(path.c_str(), kFlags);
    if (descriptor_ < 0 && errno == ENOENT) {
      if (!may_create) return Opened::kAbsent;
      descriptor_ = ::open(path.c_str(), kFlags | O_CREAT | O_EXCL, 0600);
      if (descriptor_ < 0 && errno == EEXIST) return Opened::kBusy;  // another process was faster
      if (descriptor_ >= 0) (void)::fchmod(descriptor_, 0600);       // whatever the umask is
    }
    if (descriptor_ < 0) {
      problem = errno == ELOOP ? std::string("it is a link") + kRemoveIt : ledger_error(errno);
      return Opened::kUnusable;
    }
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) {
      problem = ledger_error(errno);
    } else {
      problem = why_not_alone(status, ::geteuid());
      if (problem.empty()) return Opened::kYes;
      problem += status.st_uid == ::geteuid() ? kRemoveIt : advice_on_shared_folder();
    }
    close();
    return Opened::kUnusable;
  }

  /// Locks the open file. @return false: not until `deadline`, or its name is gone.
  ///
  /// By flock(), not fcntl()'s locks, which Boost.Interprocess's file_lock takes: those belong to
  /// the process and go whenever any code in it closes any descriptor of the file. The kernel drops
  /// both when the holder dies.
  bool lock(const Now& now, Clock::time_point deadline) {
    for (int attempt = 0; ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0; ++attempt) {
      if (errno != EWOULDBLOCK && errno != EINTR) return false;
      if (now() >= deadline) return false;
      if (attempt < tuning::kLedgerQuickAttempts) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(tuning::kLedgerAttemptRest);
      }
    }
    is_locked_ = true;
    // A file that the last process to leave has removed is found by no other process.
    struct stat status {};
    return ::fstat(descriptor_, &status) == 0 && status.st_nlink > 0;
  }

  /// What stands in the file. @return why it is no table that this version can use; empty: it is.
  /// One that no process uses any more is as good as a new one.
  [[nodiscard]] std::string read(Table& table) const {
    table = {};
    const ssize_t size = ::pread(descriptor_, &table, sizeof table, 0);
    if (size < 0) return ledger_error(errno);
    if (size == 0) return "";
    if (size != sizeof table || table.magic != kLedgerMagic) {
      return std::string("it is no ledger of superpipe's") + kRemoveIt;
    }
    table.remove_impossible();
    if (table.version == kLedgerVersion && table.slots == HostLedger::kSlots) return "";
    table.remove_dead();
    if (!table.is_empty()) {
      return "processes of another version of superpipe use it; it is shared again once they have "
             "ended";
    }
    table = {};
    return "";
  }

  /// @return why it cannot be written; empty: it is. A table that was cut short cannot be used, so
  /// it is removed.
  [[nodiscard]] std::string write(const Table& table) const {
    const int too_large = problem_with_file_size(Bytes{sizeof table});
    if (too_large != 0) return ledger_error(too_large);
    const ssize_t size = ::pwrite(descriptor_, &table, sizeof table, 0);
    if (size == sizeof table) return "";
    std::string problem = ledger_error(size < 0 ? errno : ENOSPC);
    struct stat status {};
    const bool is_cut_short =
        ::fstat(descriptor_, &status) == 0 && status.st_size < static_cast<off_t>(sizeof table);
    if (is_cut_short) (void)!::ftruncate(descriptor_, 0);
    return problem;
  }
  /// Whether nothing stands in the file.
  [[nodiscard]] bool is_empty() const {
    struct stat status {};
    return ::fstat(descriptor_, &status) == 0 && status.st_size == 0;
  }

 private:
  int descriptor_ = -1;
  bool is_locked_ = false;
};

std::string host_ledger_path(uid_t user, const std::string& folder) {
  return folder + "/superpipe-host-" + std::to_string(user) + "-" + own_processes();
}

/// What others have, and what that leaves to this process.
struct HostLedger::Sums {
  Bytes others;
  Bytes others_in_group;
  Bytes cap;
  Bytes in_group;

  [[nodiscard]] Bytes left() const {
    return std::min(saturating_subtract(cap, others),
                    saturating_subtract(in_group, others_in_group));
  }
  /// The cap that leaves less.
  [[nodiscard]] Refusal refusal() const {
    const bool is_host =
        saturating_subtract(cap, others) <= saturating_subtract(in_group, others_in_group);
    return is_host ? Refusal{others, cap} : Refusal{others_in_group, in_group};
  }
};

/// The table, as long as this process has it to itself.
class HostLedger::Visit {
 public:
  /// `problem`: why it is kUnusable.
  Opened begin(const std::string& path, bool may_create, std::chrono::milliseconds patience,
               const Now& now, std::string& problem) {
    const auto deadline = now() + patience;
    do {
      const Opened opened = file_.open(path, may_create, problem);
      if (opened == Opened::kBusy) continue;
      if (opened != Opened::kYes) return opened;
      if (!file_.lock(now, deadline)) continue;
      problem = file_.read(table);
      return problem.empty() ? Opened::kYes : Opened::kUnusable;
    } while (now() < deadline);
    return Opened::kBusy;
  }
  /// As it stands without the lock, for a caller that only looks at it.
  bool look(const std::string& path) {
    std::string problem;
    return file_.open(path, false, problem) == Opened::kYes && file_.read(table).empty();
  }
  [[nodiscard]] std::string write() const { return file_.write(table); }
  [[nodiscard]] bool wrote_nothing() const { return file_.is_empty(); }
  [[nodiscard]] Entry& entry(std::size_t slot) { return table.entries[slot]; }

  Table table{};

 private:
  File file_;
};

HostLedger::HostLedger(const HostCaps& caps, std::string path, std::uint64_t start_time,
                       std::chrono::milliseconds patience, Now now)
    : caps_(caps),
      path_(std::move(path)),
      owner_(::getpid()),
      start_time_(start_time),
      patience_(patience),
      now_(std::move(now)) {}

std::unique_ptr<HostLedger> HostLedger::join(const HostCaps& caps, const std::string& folder,
                                             std::string& problem,
                                             std::chrono::milliseconds patience, Now now) {
  const auto start_time = start_time_of(::getpid());
  if (!start_time) {
    problem = "/proc is not mounted";
    return nullptr;
  }
  std::unique_ptr<HostLedger> ledger(new HostLedger(caps, host_ledger_path(::geteuid(), folder),
                                                    *start_time, patience, std::move(now)));
  Visit visit;
  std::string reason;
  const Opened opened = visit.begin(ledger->path_, true, patience, ledger->now_, reason);
  if (opened == Opened::kYes) reason = ledger->enter(visit);
  if (opened == Opened::kYes && reason.empty()) reason = visit.write();
  // Where the lock cannot be had, the entry comes with a later take().
  if (opened == Opened::kBusy) reason.clear();
  if (reason.empty()) return ledger;
  problem = ledger->path_ + ": " + reason;
  ledger->has_left_ = true;
  // As in leave().
  if (opened == Opened::kYes && visit.wrote_nothing()) ::unlink(ledger->path_.c_str());
  return nullptr;
}

void HostLedger::remove_former(const std::string& folder) {
  const auto is_ours = [own = static_cast<std::uint64_t>(::getpid())](const Entry& entry) {
    return entry.pid == own;
  };
  const std::string path = host_ledger_path(::geteuid(), folder);
  {
    Visit seen;
    if (!seen.look(path) || std::ranges::none_of(seen.table.entries, is_ours)) return;
  }
  Visit visit;
  std::string problem;
  if (visit.begin(path, false, kPatience, Clock::now, problem) != Opened::kYes) return;
  for (Entry& entry : visit.table.entries) {
    if (is_ours(entry)) entry = {};
  }
  (void)visit.write();
}

HostLedger::~HostLedger() { leave(); }

bool HostLedger::is_owner() const noexcept { return ::getpid() == owner_; }

bool HostLedger::may_try() const noexcept { return now_() >= retry_at_; }

// Finds this process's entry in the table, or makes it. @return why there can be none.
std::string HostLedger::enter(Visit& visit) {
  Table& table = visit.table;
  if (!slot_ || !table.entries[*slot_].is_of(owner_, start_time_)) {
    table.remove_dead();
    if (table.is_empty()) {
      table = {};
      table.magic = kLedgerMagic;
      table.version = kLedgerVersion;
      table.slots = kSlots;
      table.cap = std::min(caps_.host, HostCaps::kNone).count();
    }
    const auto* const peer = std::ranges::find_if(table.entries, [&](const Entry& entry) {
      return !entry.is_free() && entry.group == caps_.group;
    });
    const Bytes in_group = peer != std::end(table.entries) ? Bytes{peer->in_group} : caps_.in_group;
    auto* const free =
        std::ranges::find_if(table.entries, [](const Entry& entry) { return entry.is_free(); });
    if (free == std::end(table.entries)) {
      return std::to_string(kSlots) +
             " processes have entries in it, and there are no more; "
             "start it again once one of them has ended";
    }
    *free = {static_cast<std::uint64_t>(owner_), start_time_, caps_.group,
             std::min(in_group, HostCaps::kNone).count(), entered_.count()};
    slot_ = static_cast<std::size_t>(free - table.entries);
  }
  const Bytes cap = std::min(Bytes{table.cap}, Bytes{visit.entry(*slot_).in_group});
  step_ = std::clamp(Bytes{cap.count() / tuning::kLedgerStepsInCap}, tuning::kLedgerSmallestStep,
                     tuning::kLedgerLargestStep);
  return "";
}

HostLedger::Sums HostLedger::sums(const Visit& visit) const {
  const Table& table = visit.table;
  // A caller that only looks, room(), may find that its entry is gone.
  Sums sums{{}, {}, Bytes{table.cap}, caps_.in_group};
  for (std::size_t i = 0; i < kSlots; ++i) {
    const Entry& entry = table.entries[i];
    if (entry.is_free()) continue;
    if (entry.group == caps_.group) sums.in_group = Bytes{entry.in_group};
    if (i == slot_) continue;
    sums.others += Bytes{entry.bytes};
    if (entry.group == caps_.group) sums.others_in_group += Bytes{entry.bytes};
  }
  return sums;
}

bool HostLedger::take(Bytes bytes, const std::optional<HostCaps>& now) noexcept {
  if (!is_owner()) return false;
  const std::lock_guard lock(mutex_);
  if (has_left_ || bytes > HostCaps::kNone) return false;
  const Bytes total = used_ + bytes;
  if (total > entered_ && may_try()) {
    try {
      if (!grow(total, now)) return false;
    } catch (const std::exception&) {
      // Without memory for a path nothing is known, as below.
    }
  }
  used_ = total;
  return true;
}

// Has the entry say `total` bytes or, better, whole steps. @return false: the table refuses. What
// it does not answer is admitted: a process that was stopped, or a broken file, shall not make
// others fail that would have run without a ledger.
bool HostLedger::grow(Bytes total, const std::optional<HostCaps>& now) {
  Visit visit;
  std::string problem;
  const Opened opened = visit.begin(path_, true, patience_, now_, problem);
  if (opened != Opened::kYes || !enter(visit).empty()) {
    retry_at_ = now_() + kPause;
    return true;
  }
  const Bytes stepped = round_up(total, step_);
  Bytes left = sums(visit).left();
  if (stepped > left) {
    visit.table.remove_dead();
    left = sums(visit).left();
  }
  if (total > left && now) {
    raise_caps(visit, total, *now);
    left = sums(visit).left();
  }
  const bool is_admitted = total <= left;
  if (is_admitted) {
    entered_ = std::min(stepped, left);
  } else {
    refusal_ = sums(visit).refusal();
    // What was admitted while the table did not answer counts from now on.
    entered_ = std::max(entered_, used_);
  }
  visit.entry(*slot_).bytes = entered_.count();
  (void)visit.write();
  return is_admitted;
}

// What this process sees holds for all, with what all of them had reserved by then: so much memory
// there is. A cap that admits `total`, or where the other one does not, stays.
void HostLedger::raise_caps(Visit& visit, Bytes total, const HostCaps& now) const {
  const auto raised = [](Bytes cap, Bytes most, Bytes needed) {
    return needed <= cap || needed > most ? cap : std::min(most, HostCaps::kNone);
  };
  Sums sums = this->sums(visit);
  sums.cap = raised(sums.cap, now.host, sums.others + total);
  if (now.group == caps_.group) {
    sums.in_group = raised(sums.in_group, now.in_group, sums.others_in_group + total);
  }
  if (total > sums.left()) return;
  visit.table.cap = sums.cap.count();
  for (Entry& entry : visit.table.entries) {
    if (!entry.is_free() && entry.group == caps_.group) entry.in_group = sums.in_group.count();
  }
}

void HostLedger::give_back(Bytes bytes) noexcept {
  if (!is_owner()) return;
  const std::lock_guard lock(mutex_);
  used_ = saturating_subtract(used_, bytes);
  if (has_left_ || entered_ <= used_ + 2 * step_ || !may_try()) return;
  try {
    shrink();
  } catch (const std::exception&) {
    // Then more stays entered, until something is given back again.
  }
}

void HostLedger::shrink() {
  Visit visit;
  std::string problem;
  if (visit.begin(path_, true, patience_, now_, problem) != Opened::kYes || !enter(visit).empty()) {
    retry_at_ = now_() + kPause;
    return;
  }
  entered_ = round_up(used_, step_);
  visit.entry(*slot_).bytes = entered_.count();
  (void)visit.write();
}

std::optional<Bytes> HostLedger::room() noexcept {
  if (!is_owner()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  if (has_left_ || !slot_) return std::nullopt;
  try {
    Visit visit;
    if (!visit.look(path_)) return std::nullopt;
    visit.table.remove_dead();
    if (visit.table.is_empty()) return std::nullopt;
    return saturating_subtract(sums(visit).left(), used_);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::optional<HostLedger::Refusal> HostLedger::last_refusal() const noexcept {
  if (!is_owner()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return refusal_;
}

void HostLedger::leave() noexcept {
  if (!is_owner()) return;
  const std::lock_guard lock(mutex_);
  if (std::exchange(has_left_, true) || !slot_) return;
  try {
    Visit visit;
    std::string problem;
    if (visit.begin(path_, false, patience_, now_, problem) != Opened::kYes) return;
    Entry& entry = visit.entry(*slot_);
    if (entry.is_of(owner_, start_time_)) entry = {};
    visit.table.remove_dead();
    // No process joins meanwhile: one that has opened the file finds under the lock that its name
    // is gone.
    if (visit.table.is_empty()) {
      ::unlink(path_.c_str());
    } else {
      (void)visit.write();
    }
  } catch (const std::exception&) {
    // The entry stays until others find that this process has ended.
  }
}

}  // namespace superpipe
