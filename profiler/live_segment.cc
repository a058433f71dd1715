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
#include <new>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include "profiler/process_identity.h"
#include "profiler/shared_folder.h"

namespace superpipe {

namespace {

constexpr std::uint64_t kMagic = 0x6576696C65706970;  // "pipelive"
constexpr std::uint32_t kVersion = 2;
constexpr std::size_t kSize = 4096;
constexpr const char* kPrefix = "superpipe-";

}  // namespace

/// Version 2, as its owner has it (std::atomic) and as others read it (Plain). The first six fields
/// are the same in every version, so that any version can tell whether a segment is stale. Whoever
/// changes another field counts the version up.
template <template <typename> class Field>
struct LiveFields {
  Field<std::uint64_t> magic;  ///< written last
  Field<std::uint32_t> version;
  Field<std::uint32_t> size;
  Field<std::uint64_t> pid;
  Field<std::uint64_t> start_time;     ///< in clock ticks since the machine's start
  Field<std::uint64_t> pid_namespace;  ///< within which the id means something

  Field<std::uint32_t> policy;
  Field<std::uint32_t> refusal;
  Field<std::uint64_t> device_total;

  Field<std::uint64_t> budget;
  Field<std::uint64_t> limit;
  Field<std::uint64_t> pages;
  Field<std::uint64_t> live;

  /// A request. Who asks for a budget holds the file's lock, and before all else writes this and
  /// counts `budget_asked` up. Who asks for anything adds one to `asked`, and waits on `answered`;
  /// the process waits on `asked`.
  Field<std::uint64_t> requested_budget;
  Field<std::uint32_t> budget_asked;
  Field<std::uint32_t> budget_answered;  ///< the last `budget_asked` that is settled
  Field<std::uint32_t> answer;           ///< to that
  Field<std::uint32_t> asked;            ///< a futex
  Field<std::uint32_t> answered;         ///< a futex: the last `asked` that is settled

  Field<std::uint32_t> figures_version;  ///< odd while the figures are being written
  Field<std::uint64_t> taken_ns;
  Field<std::uint64_t> context, passthrough, pinned_host, host_limit;
  Field<std::uint64_t> launches, passes, h2d, d2h, demand_fetches, prefetches, clean_evictions,
      write_backs, stall_ns, budget_changes, errors;
  Field<std::uint64_t> pass_ns, pass_stall_ns, bound_ns, link_bytes_per_second, pass_bytes;
  Field<std::uint32_t> layers, k, k_prime;
  Field<std::uint8_t> layer_percent[kShownLayers];
};

struct LiveLayout : LiveFields<std::atomic> {};

namespace {

template <typename T>
using Plain = T;

/// A copy of a segment, of whatever bytes stand there.
using LiveImage = LiveFields<Plain>;

static_assert(std::is_standard_layout_v<LiveLayout> && std::is_trivially_copyable_v<LiveImage>);
static_assert(sizeof(LiveLayout) == sizeof(LiveImage) && alignof(LiveLayout) == alignof(LiveImage));
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(offsetof(LiveImage, version) == 8 && offsetof(LiveImage, pid) == 16 &&
              offsetof(LiveImage, pid_namespace) == 32 && offsetof(LiveImage, policy) == 40);
static_assert(offsetof(LiveImage, live) == 80 && offsetof(LiveImage, requested_budget) == 88 &&
              offsetof(LiveImage, asked) == 108 && offsetof(LiveImage, taken_ns) == 120 &&
              offsetof(LiveImage, layer_percent) == 300);
static_assert(sizeof(LiveImage) <= kSize, "what is left of the page is for figures to come");

/// Applies `move` to each figure, as it stands in `fields` and in `figures`.
template <typename Fields, typename Figures, typename Move>
void for_each_figure(Fields& fields, Figures& figures, Move move) {
  move(fields.budget, figures.budget);
  move(fields.limit, figures.limit);
  move(fields.pages, figures.pages);
  move(fields.live, figures.live);
  move(fields.taken_ns, figures.taken_ns);
  move(fields.context, figures.context);
  move(fields.passthrough, figures.passthrough);
  move(fields.pinned_host, figures.pinned_host);
  move(fields.host_limit, figures.host_limit);
  move(fields.launches, figures.launches);
  move(fields.passes, figures.passes);
  move(fields.h2d, figures.h2d);
  move(fields.d2h, figures.d2h);
  move(fields.demand_fetches, figures.demand_fetches);
  move(fields.prefetches, figures.prefetches);
  move(fields.clean_evictions, figures.clean_evictions);
  move(fields.write_backs, figures.write_backs);
  move(fields.stall_ns, figures.stall_ns);
  move(fields.budget_changes, figures.budget_changes);
  move(fields.errors, figures.errors);
  move(fields.pass_ns, figures.pass_ns);
  move(fields.pass_stall_ns, figures.pass_stall_ns);
  move(fields.bound_ns, figures.bound_ns);
  move(fields.link_bytes_per_second, figures.link_bytes_per_second);
  move(fields.pass_bytes, figures.pass_bytes);
  move(fields.layers, figures.layers);
  move(fields.k, figures.k);
  move(fields.k_prime, figures.k_prime);
  for (std::size_t i = 0; i < kShownLayers; ++i) {
    move(fields.layer_percent[i], figures.layer_percent[i]);
  }
}

std::uint64_t number_of(Bytes bytes) { return bytes.count(); }
template <typename T>
T number_of(T number) {
  return number;
}

/// Whether a process can have such figures. The limit of one that moves nothing is the largest
/// number that there is, and so may be that of host memory.
bool are_possible(const LiveImage& image) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 56;
  for (const std::uint64_t bytes :
       {image.device_total, image.budget, image.pages, image.live, image.context, image.passthrough,
        image.pinned_host, image.pass_bytes}) {
    if (bytes > kMost) return false;
  }
  return std::ranges::all_of(image.layer_percent, [](std::uint8_t share) { return share <= 100; });
}

/// Whether a process can be described like that.
bool is_possible_description(const LiveImage& image) {
  return image.policy <= static_cast<std::uint32_t>(PolicyKind::kAuto) &&
         image.refusal <= static_cast<std::uint32_t>(BudgetAnswer::kEnded) && are_possible(image);
}

/// What stands in the file behind `descriptor` now; nullopt if it is too short.
std::optional<LiveImage> image_of(int descriptor) {
  LiveImage image;
  const ssize_t read = ::pread(descriptor, &image, sizeof image, 0);
  if (read != static_cast<ssize_t>(sizeof image)) return std::nullopt;
  return image;
}

// The same for the one field; 1, as while figures are being written, if it is too short.
std::uint32_t figures_version_of(int descriptor) {
  std::uint32_t version = 0;
  const ssize_t read =
      ::pread(descriptor, &version, sizeof version, offsetof(LiveImage, figures_version));
  return read == static_cast<ssize_t>(sizeof version) ? version : 1;
}

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

// Adds one to `word` and wakes all who wait on it. The kernel does both, so that a word whose page
// is gone is an error and not a signal. @return whether it could.
bool count_up_and_wake(std::atomic<std::uint32_t>& word) noexcept {
  auto* const address = reinterpret_cast<std::uint32_t*>(&word);
  return syscall(SYS_futex, address, FUTEX_WAKE_OP, INT_MAX, nullptr, address,
                 FUTEX_OP(FUTEX_OP_ADD, 1, FUTEX_OP_CMP_LT, 0)) >= 0;
}

// Whether what has the number `sequence` is among the first `settled`; numbers wrap around.
bool is_settled(std::uint32_t settled, std::uint32_t sequence) {
  return static_cast<std::int32_t>(settled - sequence) >= 0;
}

/// What the names of the segments of `user`'s processes in this namespace begin with.
std::string prefix_of(uid_t user) {
  return kPrefix + std::to_string(user) + "-" + own_processes() + "-";
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
  // A pipe under that name would be waited for, a link could lead anywhere.
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) {
    if (errno == ENOENT) return LiveProblem::kNotManaged;
    if (errno == ELOOP || errno == EISDIR || errno == ENXIO) return LiveProblem::kDamaged;
    return errno == EACCES ? LiveProblem::kOtherUser : LiveProblem::kUnreadable;
  }
  struct stat status {};
  const bool is_known = ::fstat(descriptor, &status) == 0;
  const bool is_sound = is_known && S_ISREG(status.st_mode) && status.st_uid == user;
  if (!is_sound || status.st_size < static_cast<off_t>(kSize)) {
    ::close(descriptor);
    // Of one that is being made there is nothing yet.
    return is_sound && status.st_size == 0 ? LiveProblem::kNotManaged : LiveProblem::kDamaged;
  }
  auto mapping = map_file(descriptor);
  if (!mapping) return LiveProblem::kUnreadable;
  return std::move(*mapping);
}

// Whether the process that made the segment of `pid` is gone. What another namespace's processes
// made is none of ours to judge.
bool is_stale(const LiveImage& image, int pid) {
  const bool is_segment = image.magic == kMagic;
  if (is_segment && image.pid_namespace != own_pid_namespace()) return false;
  const auto start = start_time_of(pid);
  return !start || (is_segment && image.start_time != *start);
}

// What keeps a segment of this user's living process from being looked at; nullopt: nothing.
std::optional<LiveProblem> problem_in(const LiveImage& image, int pid) {
  if (image.magic == 0) return LiveProblem::kNotManaged;  // it is being made
  if (image.magic != kMagic) return LiveProblem::kDamaged;
  if (image.pid_namespace != own_pid_namespace()) return LiveProblem::kOtherNamespace;
  if (is_stale(image, pid)) return LiveProblem::kNotManaged;
  if (image.version != kVersion) return LiveProblem::kOtherVersion;
  const bool is_sound = image.size == kSize && image.pid == static_cast<std::uint64_t>(pid);
  return is_sound && is_possible_description(image) ? std::nullopt
                                                    : std::optional(LiveProblem::kDamaged);
}

// The ids in the names of `user`'s segments, in order.
std::vector<int> pids_in(const std::string& folder, uid_t user) {
  std::vector<int> pids;
  DIR* const stream = ::opendir(folder.c_str());
  if (stream == nullptr) return pids;
  const std::string prefix = prefix_of(user);
  while (const dirent* const entry = ::readdir(stream)) {
    const std::string name = static_cast<const char*>(entry->d_name);
    if (name.rfind(prefix, 0) != 0) continue;
    const int pid = std::atoi(name.c_str() + prefix.size());
    if (pid > 0 && prefix + std::to_string(pid) == name) pids.push_back(pid);
  }
  ::closedir(stream);
  std::sort(pids.begin(), pids.end());
  return pids;
}

// Removes the segment of `pid` if that process is gone. @return whether it was removed.
bool sweep(const std::string& folder, uid_t user, int pid) {
  const std::string path = live_segment_path(user, pid, folder);
  const auto segment = open_segment(path, user);
  const auto* const mapping = std::get_if<LiveMapping>(&segment);
  bool is_gone = false;
  if (mapping != nullptr) {
    const auto image = image_of(mapping->descriptor());
    is_gone = image && is_stale(*image, pid);
  } else {
    // A process that died before it had made its segment leaves an empty file.
    const LiveProblem problem = std::get<LiveProblem>(segment);
    const bool is_leftover =
        problem == LiveProblem::kNotManaged || problem == LiveProblem::kDamaged;
    is_gone = is_leftover && !start_time_of(pid);
  }
  return is_gone && ::unlink(path.c_str()) == 0;
}

std::string problem_at(const std::string& path, int error) {
  return path + ": " + std::generic_category().message(error) + advice_on_shared_file(error);
}

}  // namespace

std::string live_segment_path(uid_t user, int pid, const std::string& folder) {
  return folder + "/" + prefix_of(user) + std::to_string(pid);
}

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
  const std::string path = live_segment_path(user, pid, folder);
  ::unlink(path.c_str());  // of this process before an exec, or of a dead one
  const int descriptor =
      ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) {
    problem = problem_at(path, errno);
    return nullptr;
  }
  // Where the file system is full, a process that touches a page without room gets SIGBUS.
  int error = problem_with_file_size(Bytes{kSize});
  if (error == 0) {
    do error = ::posix_fallocate(descriptor, 0, kSize);
    while (error == EINTR);
  }
  auto mapping = error == 0 ? map_file(descriptor) : std::nullopt;
  if (!mapping) {
    problem = problem_at(path, error != 0 ? error : errno);
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

void LiveSegment::remove_former(const std::string& folder) {
  ::unlink(live_segment_path(::geteuid(), ::getpid(), folder).c_str());
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
  // Even again at the end, whatever somebody may have written there.
  const std::uint32_t version = mapping_->figures_version.load(std::memory_order_relaxed) | 1U;
  mapping_->figures_version.store(version, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  for_each_figure(*mapping_, figures, [](auto& field, const auto& figure) {
    field.store(number_of(figure), std::memory_order_relaxed);
  });
  mapping_->figures_version.store(version + 1, std::memory_order_release);
}

std::optional<LiveSegment::Request> LiveSegment::next_request() const noexcept {
  const std::uint32_t asked = mapping_->asked.load(std::memory_order_acquire);
  if (asked == mapping_->answered.load(std::memory_order_relaxed)) return std::nullopt;
  Request request{asked, mapping_->budget_asked.load(std::memory_order_acquire), std::nullopt};
  const Bytes budget{mapping_->requested_budget.load(std::memory_order_relaxed)};
  if (request.budget_sequence != mapping_->budget_answered.load(std::memory_order_relaxed)) {
    request.budget = budget;
  }
  return request;
}

void LiveSegment::wait_for_request(std::chrono::milliseconds limit) noexcept {
  const std::uint32_t answered = mapping_->answered.load(std::memory_order_relaxed);
  wait_on(mapping_->asked, answered, limit);
}

void LiveSegment::answer(const Request& request, BudgetAnswer answer) noexcept {
  if (request.budget) {
    mapping_->answer.store(static_cast<std::uint32_t>(answer), std::memory_order_relaxed);
    mapping_->budget_answered.store(request.budget_sequence, std::memory_order_release);
  }
  mapping_->answered.store(request.sequence, std::memory_order_release);
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
  const bool is_own = ::stat(live_segment_path(self, pid, folder).c_str(), &own) == 0;
  const uid_t user = is_own ? self : process.st_uid;
  if (user != self && self != 0) return LiveProblem::kOtherUser;
  auto opened = open_segment(live_segment_path(user, pid, folder), user);
  if (const auto* const problem = std::get_if<LiveProblem>(&opened)) return *problem;
  auto& mapping = std::get<LiveMapping>(opened);
  const auto image = image_of(mapping.descriptor());
  if (!image) return LiveProblem::kDamaged;
  if (const auto problem = problem_in(*image, pid)) return *problem;
  const LiveDescription description{static_cast<PolicyKind>(image->policy),
                                    Bytes{image->device_total},
                                    static_cast<BudgetAnswer>(image->refusal)};
  return LiveProcess(std::move(mapping), pid, image->start_time, description);
}

std::optional<LiveFigures> LiveProcess::figures() const {
  // A process writes them within a microsecond, unless it is interrupted. One that died while it
  // did, or lies, leaves them odd for ever: after 10 ms they are taken as they stand.
  constexpr int kQuickAttempts = 100;
  constexpr int kMostAttempts = 200;
  std::optional<LiveImage> image;
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    if (attempt >= kQuickAttempts) std::this_thread::sleep_for(std::chrono::microseconds{100});
    const auto before = figures_version_of(mapping_.descriptor());
    image = image_of(mapping_.descriptor());
    if (!image || (before % 2 == 0 && before == figures_version_of(mapping_.descriptor()))) break;
  }
  if (!image || !are_possible(*image)) return std::nullopt;
  LiveFigures figures;
  for_each_figure(*image, figures, [](const auto& field, auto& figure) {
    figure = static_cast<std::remove_reference_t<decltype(figure)>>(field);
  });
  return figures;
}

bool LiveProcess::is_running() const { return start_time_of(pid_) == std::optional(start_time_); }

std::optional<std::uint32_t> LiveProcess::ask() {
  if (!image_of(mapping_.descriptor()) || !count_up_and_wake(mapping_->asked)) return std::nullopt;
  // Somebody may have asked at the same moment: whoever answers them has seen this, too.
  const auto image = image_of(mapping_.descriptor());
  return image ? std::optional(image->asked) : std::nullopt;
}

bool LiveProcess::has_answered(std::uint32_t asked) const {
  const auto image = image_of(mapping_.descriptor());
  return image && is_settled(image->answered, asked);
}

void LiveProcess::wait_for_answer(std::uint32_t asked, std::chrono::milliseconds limit) const {
  const auto image = image_of(mapping_.descriptor());
  if (image && !is_settled(image->answered, asked)) {
    wait_on(mapping_->answered, image->answered, limit);
  }
}

LiveProcess::Outcome LiveProcess::ask_budget(Bytes budget) {
  const int file = mapping_.descriptor();
  if (::flock(file, LOCK_EX | LOCK_NB) != 0) return Outcome::kBusy;
  const auto image = image_of(file);
  const std::uint64_t bytes = budget.count();
  const std::uint32_t sequence = image ? image->budget_asked + 1 : 0;
  const bool is_written =
      image && ::pwrite(file, &bytes, sizeof bytes, offsetof(LiveImage, requested_budget)) > 0 &&
      ::pwrite(file, &sequence, sizeof sequence, offsetof(LiveImage, budget_asked)) > 0;
  if (!is_written || !count_up_and_wake(mapping_->asked)) {
    (void)::flock(file, LOCK_UN);
    return Outcome::kEnded;
  }
  budget_asked_ = sequence;
  return Outcome::kAnswered;
}

std::optional<BudgetAnswer> LiveProcess::budget_answer() {
  if (!budget_asked_) return std::nullopt;
  const auto image = image_of(mapping_.descriptor());
  if (!image || !is_settled(image->budget_answered, *budget_asked_)) return std::nullopt;
  forget_budget();
  return static_cast<BudgetAnswer>(image->answer);
}

void LiveProcess::forget_budget() {
  if (budget_asked_) (void)::flock(mapping_.descriptor(), LOCK_UN);
  budget_asked_.reset();
}

LiveProcess::Outcome LiveProcess::request(std::optional<Bytes> budget,
                                          std::chrono::milliseconds limit, BudgetAnswer& answer) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + limit;
  constexpr std::chrono::milliseconds kSlice{100};  // after which a dead process is noticed
  std::optional<std::uint32_t> figures_asked;
  if (budget) {
    Outcome asked{};
    while ((asked = ask_budget(*budget)) == Outcome::kBusy) {
      if (Clock::now() >= deadline) return Outcome::kBusy;
      ::usleep(1000);
    }
    if (asked != Outcome::kAnswered) return asked;
  } else if (!(figures_asked = ask())) {
    return Outcome::kEnded;
  }
  for (;;) {
    const auto image = image_of(mapping_.descriptor());
    if (!image) break;
    if (figures_asked && is_settled(image->answered, *figures_asked)) return Outcome::kAnswered;
    if (const auto given = budget_answer()) {
      answer = *given;
      return Outcome::kAnswered;
    }
    if (Clock::now() >= deadline || !is_running()) break;
    wait_on(mapping_->answered, image->answered, kSlice);
  }
  forget_budget();
  return is_running() ? Outcome::kTimedOut : Outcome::kEnded;
}

std::vector<LiveEntry> list_live_processes(const std::string& folder) {
  const uid_t user = ::geteuid();
  std::vector<LiveEntry> entries;
  for (const int pid : pids_in(folder, user)) {
    if (sweep(folder, user, pid)) continue;
    auto process = LiveProcess::open(pid, folder);
    const auto* const problem = std::get_if<LiveProblem>(&process);
    const bool has_no_segment =  // it has just ended, or is just beginning
        problem != nullptr &&
        (*problem == LiveProblem::kNotManaged || *problem == LiveProblem::kNoSuchProcess);
    if (has_no_segment) continue;
    entries.push_back({pid, std::move(process)});
  }
  return entries;
}

}  // namespace superpipe
