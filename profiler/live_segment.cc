#include "profiler/live_segment.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <new>
#include <system_error>
#include <type_traits>
#include <utility>

namespace superpipe {

namespace {

constexpr std::uint64_t kMagic = 0x6576696C65706970;  // "pipelive"
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kSize = 4096;
constexpr const char* kPrefix = "superpipe-";

}  // namespace

/// Version 1. The first six fields are the same in every version, so that any version can tell
/// whether a segment is stale. Whoever changes another field counts the version up.
struct LiveLayout {
  std::atomic<std::uint64_t> magic;  ///< written last
  std::atomic<std::uint32_t> version;
  std::atomic<std::uint32_t> size;
  std::atomic<std::uint64_t> pid;
  std::atomic<std::uint64_t> start_time;     ///< in clock ticks since the machine's start
  std::atomic<std::uint64_t> pid_namespace;  ///< within which the id means something

  std::atomic<std::uint32_t> policy;
  std::atomic<std::uint32_t> refusal;
  std::atomic<std::uint64_t> device_total;

  std::atomic<std::uint64_t> budget;
  std::atomic<std::uint64_t> limit;
  std::atomic<std::uint64_t> pages;
  std::atomic<std::uint64_t> live;

  /// A request: 0 asks for figures only. Who asks holds the file's lock, writes this, adds one to
  /// `asked`, and waits on `answered`; the process waits on `asked`.
  std::atomic<std::uint64_t> requested_budget;
  std::atomic<std::uint32_t> asked;     ///< a futex
  std::atomic<std::uint32_t> answered;  ///< a futex: the last `asked` that is settled
  std::atomic<std::uint32_t> answer;    ///< to that
};

static_assert(std::is_standard_layout_v<LiveLayout>);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(offsetof(LiveLayout, version) == 8 && offsetof(LiveLayout, pid) == 16 &&
              offsetof(LiveLayout, pid_namespace) == 32 && offsetof(LiveLayout, policy) == 40);
static_assert(offsetof(LiveLayout, requested_budget) == 88 && offsetof(LiveLayout, answer) == 104);
static_assert(sizeof(LiveLayout) <= kSize, "what is left of the page is for counters to come");

namespace {

// Sleeps while `word` is `seen`, across processes. May return early.
void wait_on(std::atomic<std::uint32_t>& word, std::uint32_t seen,
             std::chrono::milliseconds limit) noexcept {
  const std::timespec time{limit.count() / 1000, (limit.count() % 1000) * 1'000'000};
  (void)syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, seen, &time,
                nullptr, 0);
}

void wake_all(std::atomic<std::uint32_t>& word) noexcept {
  (void)syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr,
                nullptr, 0);
}

// Field 22 of /proc/PID/stat; the name before it may hold anything, a parenthesis included. A
// process that has ended and that nobody has waited for has none.
std::optional<std::uint64_t> start_time_of(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  const char* at = text.c_str() + end + 1;
  if (at[0] != ' ' || at[1] == 'Z' || at[1] == 'X') return std::nullopt;
  for (int field = 3; field < 22; ++field) {
    at = std::strchr(at + 1, ' ');
    if (at == nullptr) return std::nullopt;
  }
  return std::strtoull(at, nullptr, 10);
}

std::uint64_t own_pid_namespace() {
  struct stat status {};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

std::string path_of(const std::string& folder, uid_t user, int pid) {
  return folder + "/" + kPrefix + std::to_string(user) + "-" + std::to_string(pid);
}

// Maps the file behind `descriptor`, which it takes over.
std::optional<LiveMapping> map_file(int descriptor) {
  void* const mapped = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) {
    ::close(descriptor);
    return std::nullopt;
  }
  return LiveMapping(static_cast<LiveLayout*>(mapped), descriptor);
}

// The segment at `path` that belongs to `user`, whatever its version. @return why there is none.
std::variant<LiveMapping, LiveProblem> open_segment(const std::string& path, uid_t user) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0) {
    if (errno == ENOENT) return LiveProblem::kNotManaged;
    return errno == EACCES ? LiveProblem::kOtherUser : LiveProblem::kUnreadable;
  }
  struct stat status {};
  // Pages beyond the end of a file cannot be touched.
  const bool is_sound = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
                        status.st_uid == user && status.st_size >= static_cast<off_t>(kSize);
  if (!is_sound) {
    ::close(descriptor);
    return LiveProblem::kNotManaged;
  }
  auto mapping = map_file(descriptor);
  if (!mapping) return LiveProblem::kUnreadable;
  return std::move(*mapping);
}

// Whether the process that made the segment of `pid` is gone. What another namespace's processes
// made is none of ours to judge.
bool is_stale(const LiveMapping& segment, int pid) {
  if (segment->magic.load(std::memory_order_acquire) == kMagic &&
      segment->pid_namespace != own_pid_namespace()) {
    return false;
  }
  const auto start = start_time_of(pid);
  if (!start) return true;
  return segment->magic.load() == kMagic && segment->start_time != *start;
}

// The ids in the names of `user`'s segments, in order.
std::vector<int> pids_in(const std::string& folder, uid_t user) {
  std::vector<int> pids;
  DIR* const stream = ::opendir(folder.c_str());
  if (stream == nullptr) return pids;
  const std::string prefix = kPrefix + std::to_string(user) + "-";
  while (const dirent* const entry = ::readdir(stream)) {
    const std::string name = static_cast<const char*>(entry->d_name);
    if (name.rfind(prefix, 0) != 0) continue;
    const int pid = std::atoi(name.c_str() + prefix.size());
    if (pid > 0 && path_of("", user, pid) == "/" + name) pids.push_back(pid);
  }
  ::closedir(stream);
  std::sort(pids.begin(), pids.end());
  return pids;
}

// Removes the segment of `pid` if that process is gone. @return whether it was removed.
bool sweep(const std::string& folder, uid_t user, int pid) {
  const std::string path = path_of(folder, user, pid);
  const auto segment = open_segment(path, user);
  const auto* const mapping = std::get_if<LiveMapping>(&segment);
  return mapping != nullptr && is_stale(*mapping, pid) && ::unlink(path.c_str()) == 0;
}

std::string system_problem(const std::string& path) {
  return path + ": " + std::generic_category().message(errno);
}

}  // namespace

LiveMapping::~LiveMapping() {
  if (layout_ == nullptr) return;
  ::munmap(layout_, kSize);
  if (descriptor_ >= 0) ::close(descriptor_);
}

LiveMapping::LiveMapping(LiveMapping&& other) noexcept
    : layout_(std::exchange(other.layout_, nullptr)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

LiveSegment::LiveSegment(LiveMapping mapping, std::string path)
    : mapping_(std::move(mapping)), path_(std::move(path)), owner_(::getpid()) {}

std::unique_ptr<LiveSegment> LiveSegment::create(const LiveDescription& description,
                                                 std::string& problem, const std::string& folder) {
  const uid_t user = ::geteuid();
  const int pid = ::getpid();
  const auto start = start_time_of(pid);
  if (!start) {
    problem = "/proc is not mounted";
    return nullptr;
  }
  for (const int other : pids_in(folder, user)) {
    if (other != pid) sweep(folder, user, other);
  }
  const std::string path = path_of(folder, user, pid);
  ::unlink(path.c_str());  // of this process before an exec, or of a dead one
  const int descriptor =
      ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) {
    problem = system_problem(path);
    return nullptr;
  }
  // A full file system would kill who touches the page, so it is reserved here.
  const int error = ::posix_fallocate(descriptor, 0, kSize);
  errno = error;
  auto mapping = error == 0 ? map_file(descriptor) : std::nullopt;
  if (!mapping) {
    problem = system_problem(path);
    if (error != 0) ::close(descriptor);
    ::unlink(path.c_str());
    return nullptr;
  }
  auto* const layout = new (mapping->operator->()) LiveLayout{};
  layout->version = kVersion;
  layout->size = kSize;
  layout->pid = static_cast<std::uint64_t>(pid);
  layout->start_time = *start;
  layout->pid_namespace = own_pid_namespace();
  layout->policy = static_cast<std::uint32_t>(description.policy);
  layout->refusal = static_cast<std::uint32_t>(description.refusal);
  layout->device_total = description.device_total.count();
  layout->magic.store(kMagic, std::memory_order_release);
  return std::unique_ptr<LiveSegment>(new LiveSegment(std::move(*mapping), path));
}

LiveSegment::~LiveSegment() { remove(); }

void LiveSegment::remove() noexcept {
  if (::getpid() != owner_) return;
  struct stat ours {};
  struct stat named {};
  const bool is_ours = ::fstat(mapping_.descriptor(), &ours) == 0 &&
                       ::stat(path_.c_str(), &named) == 0 && ours.st_ino == named.st_ino &&
                       ours.st_dev == named.st_dev;
  if (is_ours) ::unlink(path_.c_str());
}

void LiveSegment::publish(const LiveFigures& figures) noexcept {
  mapping_->budget.store(figures.budget.count(), std::memory_order_relaxed);
  mapping_->limit.store(figures.limit.count(), std::memory_order_relaxed);
  mapping_->pages.store(figures.pages.count(), std::memory_order_relaxed);
  mapping_->live.store(figures.live.count(), std::memory_order_relaxed);
}

std::optional<LiveSegment::Request> LiveSegment::next_request() const noexcept {
  const std::uint32_t asked = mapping_->asked.load(std::memory_order_acquire);
  if (asked == mapping_->answered.load(std::memory_order_relaxed)) return std::nullopt;
  const std::uint64_t budget = mapping_->requested_budget.load(std::memory_order_relaxed);
  return Request{asked, budget == 0 ? std::nullopt : std::optional(Bytes{budget})};
}

void LiveSegment::wait_for_request(std::chrono::milliseconds limit) noexcept {
  const std::uint32_t answered = mapping_->answered.load(std::memory_order_relaxed);
  wait_on(mapping_->asked, answered, limit);
}

void LiveSegment::answer(std::uint32_t sequence, BudgetAnswer answer) noexcept {
  mapping_->answer.store(static_cast<std::uint32_t>(answer), std::memory_order_relaxed);
  mapping_->answered.store(sequence, std::memory_order_release);
  wake_all(mapping_->answered);
}

void LiveSegment::interrupt() noexcept {
  mapping_->asked.fetch_add(1, std::memory_order_acq_rel);
  wake_all(mapping_->asked);
}

std::variant<LiveProcess, LiveProblem> LiveProcess::open(int pid, const std::string& folder) {
  struct stat process {};
  if (pid <= 0 || ::stat(("/proc/" + std::to_string(pid)).c_str(), &process) != 0) {
    return LiveProblem::kNoSuchProcess;
  }
  const uid_t self = ::geteuid();
  // The files of a process that may not be traced seem to be root's.
  struct stat own {};
  const bool is_own = ::stat(path_of(folder, self, pid).c_str(), &own) == 0;
  const uid_t user = is_own ? self : process.st_uid;
  if (user != self && self != 0) return LiveProblem::kOtherUser;
  auto opened = open_segment(path_of(folder, user, pid), user);
  if (const auto* const problem = std::get_if<LiveProblem>(&opened)) return *problem;
  auto& mapping = std::get<LiveMapping>(opened);
  // It is being made, or was made by a process that is gone.
  if (mapping->magic.load(std::memory_order_acquire) != kMagic || is_stale(mapping, pid)) {
    return LiveProblem::kNotManaged;
  }
  if (mapping->version != kVersion || mapping->size != kSize) return LiveProblem::kOtherVersion;
  return LiveProcess(std::move(mapping));
}

int LiveProcess::pid() const { return static_cast<int>(mapping_->pid.load()); }

LiveDescription LiveProcess::description() const {
  return {static_cast<PolicyKind>(mapping_->policy.load()), Bytes{mapping_->device_total.load()},
          static_cast<BudgetAnswer>(mapping_->refusal.load())};
}

LiveFigures LiveProcess::figures() const {
  return {Bytes{mapping_->budget.load()}, Bytes{mapping_->limit.load()},
          Bytes{mapping_->pages.load()}, Bytes{mapping_->live.load()}};
}

bool LiveProcess::is_running() const {
  return start_time_of(pid()) == std::optional(mapping_->start_time.load());
}

LiveProcess::Outcome LiveProcess::request(std::optional<Bytes> budget,
                                          std::chrono::milliseconds limit, BudgetAnswer& answer) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + limit;
  constexpr std::chrono::milliseconds kSlice{100};  // after which a dead process is noticed
  while (::flock(mapping_.descriptor(), LOCK_EX | LOCK_NB) != 0) {
    if (Clock::now() >= deadline) return Outcome::kBusy;
    ::usleep(1000);
  }
  mapping_->requested_budget.store(budget.value_or(Bytes{}).count(), std::memory_order_relaxed);
  const std::uint32_t sequence = mapping_->asked.fetch_add(1, std::memory_order_acq_rel) + 1;
  wake_all(mapping_->asked);
  Outcome outcome = Outcome::kAnswered;
  for (;;) {
    const std::uint32_t answered = mapping_->answered.load(std::memory_order_acquire);
    if (static_cast<std::int32_t>(answered - sequence) >= 0) break;
    if (Clock::now() >= deadline || !is_running()) {
      outcome = is_running() ? Outcome::kTimedOut : Outcome::kEnded;
      break;
    }
    wait_on(mapping_->answered, answered, kSlice);
  }
  answer = static_cast<BudgetAnswer>(mapping_->answer.load(std::memory_order_relaxed));
  (void)::flock(mapping_.descriptor(), LOCK_UN);
  return outcome;
}

std::vector<LiveEntry> list_live_processes(const std::string& folder) {
  const uid_t user = ::geteuid();
  std::vector<LiveEntry> entries;
  for (const int pid : pids_in(folder, user)) {
    if (sweep(folder, user, pid)) continue;
    entries.push_back({pid, LiveProcess::open(pid, folder)});
  }
  return entries;
}

}  // namespace superpipe
