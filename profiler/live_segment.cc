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

/// Version 2. The first six fields are the same in every version, so that any version can tell
/// whether a segment is stale. A change of another field counts the version up.
struct LiveLayout {
  std::uint64_t magic;  ///< written last
  std::uint32_t version;
  std::uint32_t size;
  std::uint64_t pid;
  std::uint64_t start_time;     ///< in clock ticks since the machine's start
  std::uint64_t pid_namespace;  ///< within which the id means something

  std::uint32_t policy;
  std::uint32_t refusal;
  std::uint64_t device_total;

  std::uint64_t budget;
  std::uint64_t limit;
  std::uint64_t pages;
  std::uint64_t live;

  /// A request. A command that asks for a budget holds the file's lock, and before all else writes
  /// this and counts `budget_asked` up. A command that asks for anything adds one to `asked`, and
  /// waits on `answered`; the process waits on `asked`.
  std::uint64_t requested_budget;
  std::uint32_t budget_asked;
  std::uint32_t budget_answered;  ///< the last `budget_asked` that is settled
  std::uint32_t answer;           ///< to that
  std::uint32_t asked;            ///< a futex
  std::uint32_t answered;         ///< a futex: the last `asked` that is settled

  std::uint32_t figures_version;  ///< odd while the figures are being written
  std::uint64_t taken_ns;
  std::uint64_t context, passthrough, pinned_host, host_limit;
  std::uint64_t launches, passes, h2d, d2h, demand_fetches, prefetches, clean_evictions,
      write_backs, stall_ns, budget_changes, errors;
  std::uint64_t pass_ns, pass_stall_ns, bound_ns, link_bytes_per_second, pass_bytes;
  std::uint32_t layers, k, k_prime;
  std::uint8_t layer_percent[kShownLayers];
};

namespace {

static_assert(std::is_standard_layout_v<LiveLayout> && std::is_trivially_copyable_v<LiveLayout>);
static_assert(offsetof(LiveLayout, version) == 8 && offsetof(LiveLayout, pid) == 16 &&
              offsetof(LiveLayout, pid_namespace) == 32 && offsetof(LiveLayout, policy) == 40);
static_assert(offsetof(LiveLayout, live) == 80 && offsetof(LiveLayout, requested_budget) == 88 &&
              offsetof(LiveLayout, asked) == 108 && offsetof(LiveLayout, taken_ns) == 120 &&
              offsetof(LiveLayout, layer_percent) == 300);
static_assert(sizeof(LiveLayout) <= kSize, "what is left of the page is for figures to come");

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
bool are_possible(const LiveLayout& image) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 56;
  for (const std::uint64_t bytes :
       {image.device_total, image.budget, image.pages, image.live, image.context, image.passthrough,
        image.pinned_host, image.pass_bytes}) {
    if (bytes > kMost) return false;
  }
  return std::ranges::all_of(image.layer_percent, [](std::uint8_t share) { return share <= 100; });
}

/// Whether a process can be described like that.
bool is_possible_description(const LiveLayout& image) {
  return image.policy <= static_cast<std::uint32_t>(PolicyKind::kAuto) &&
         image.refusal <= static_cast<std::uint32_t>(BudgetAnswer::kEnded) && are_possible(image);
}

/// What stands in the file behind `descriptor` now; nullopt if it is too short.
std::optional<LiveLayout> image_of(int descriptor) {
  LiveLayout image;
  const ssize_t read = ::pread(descriptor, &image, sizeof image, 0);
  if (read != static_cast<ssize_t>(sizeof image)) return std::nullopt;
  return image;
}

// The same for the one field; 1, as while figures are being written, if it is too short.
std::uint32_t figures_version_of(int descriptor) {
  std::uint32_t version = 0;
  const ssize_t read =
      ::pread(descriptor, &version, sizeof version, offsetof(LiveLayout, figures_version));
  return read == static_cast<ssize_t>(sizeof version) ? version : 1;
}

// Sleeps while `word` is `seen`, across processes. May return early. @return whether it can be
// waited on: not if its page is gone.
bool wait_on(std::uint32_t* word, std::uint32_t seen, std::chrono::milliseconds limit) noexcept {
  const std::timespec time{limit.count() / 1000, (limit.count() % 1000) * 1'000'000};
  return syscall(SYS_futex, word, FUTEX_WAIT, seen, &time, nullptr, 0) == 0 || errno == EAGAIN ||
         errno == EINTR || errno == ETIMEDOUT;
}

void wake_all(std::uint32_t* word) noexcept {
  (void)syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// The same word for the kernel.
std::uint32_t* word_of(std::atomic<std::uint32_t>& number) noexcept {
  return reinterpret_cast<std::uint32_t*>(&number);
}

// Adds one to `word` and wakes all threads that wait on it. The kernel does both, so that a word
// whose page is gone is an error and not a signal. @return whether it could.
bool count_up_and_wake(std::uint32_t* word) noexcept {
  return syscall(SYS_futex, word, FUTEX_WAKE_OP, INT_MAX, nullptr, word,
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

// Writes `size` bytes at `offset` of the file behind `descriptor`. @return 0, or why it cannot.
int write_live_bytes(int descriptor, const void* bytes, std::size_t size,
                     std::size_t offset) noexcept {
  const int too_large = problem_with_file_size(Bytes{kSize});
  if (too_large != 0) return too_large;
  ssize_t written = 0;
  do written = ::pwrite(descriptor, bytes, size, static_cast<off_t>(offset));
  while (written < 0 && errno == EINTR);
  if (written < 0) return errno;
  return written == static_cast<ssize_t>(size) ? 0 : ENOSPC;
}

// Writes the whole page, the magic number last. @return 0, or why it cannot.
int write_live_page(int descriptor, const LiveLayout& layout) noexcept {
  std::array<unsigned char, kSize> page{};
  std::memcpy(page.data(), &layout, sizeof layout);
  std::memset(page.data(), 0, sizeof layout.magic);
  const int error = write_live_bytes(descriptor, page.data(), page.size(), 0);
  return error != 0 ? error : write_live_bytes(descriptor, &layout.magic, sizeof layout.magic, 0);
}

// Whether the process that made the segment of `pid` is gone. What another namespace's processes
// made is none of ours to judge.
bool is_stale(const LiveLayout& image, int pid) {
  const bool is_segment = image.magic == kMagic;
  if (is_segment && image.pid_namespace != own_pid_namespace()) return false;
  const auto start = start_time_of(pid);
  return !start || (is_segment && image.start_time != *start);
}

// What keeps a segment of this user's living process from being looked at; nullopt: nothing.
std::optional<LiveProblem> problem_in(const LiveLayout& image, int pid) {
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
  close_descriptor();
}

LiveMapping::LiveMapping(LiveMapping&& other) noexcept
    : layout_(std::exchange(other.layout_, nullptr)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

void LiveMapping::close_descriptor() noexcept {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

/// The open file of this process's segment, with its page as it should be.
class LiveSegment::Visit {
 public:
  explicit Visit(const LiveSegment& segment) noexcept
      : descriptor_(::open(segment.path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {
    struct stat status {};
    const bool is_ours = descriptor_ >= 0 && ::fstat(descriptor_, &status) == 0 &&
                         status.st_dev == segment.device_ && status.st_ino == segment.file_;
    const bool is_usable = is_ours && (has_page_of(*segment.own_, status) ||
                                       write_live_page(descriptor_, *segment.own_) == 0);
    if (!is_usable) close();
  }
  ~Visit() { close(); }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  /// Whether what follows can work.
  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }

  /// @return what stands at `offset`; nullopt: the file cannot be read, or is too short.
  template <typename T>
  [[nodiscard]] std::optional<T> read(std::size_t offset) const noexcept {
    T value{};
    const ssize_t size = ::pread(descriptor_, &value, sizeof value, static_cast<off_t>(offset));
    return size == static_cast<ssize_t>(sizeof value) ? std::optional(value) : std::nullopt;
  }
  /// Writes that part of `layout`. What cannot be written is missed by readers until the next time.
  void write(const LiveLayout& layout, std::size_t offset, std::size_t size) const noexcept {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(&layout) + offset;
    if (is_open()) (void)write_live_bytes(descriptor_, bytes, size, offset);
  }

 private:
  // What never changes tells whether another program has written over the page or cut it short.
  [[nodiscard]] bool has_page_of(const LiveLayout& own, const struct stat& status) const noexcept {
    constexpr std::size_t kSame = offsetof(LiveLayout, budget);
    const auto found = read<std::array<unsigned char, kSame>>(0);
    return found && status.st_size >= static_cast<off_t>(kSize) &&
           std::memcmp(found->data(), &own, kSame) == 0;
  }
  void close() noexcept {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  }

  int descriptor_;
};

LiveSegment::LiveSegment(LiveMapping mapping, std::string path, std::unique_ptr<LiveLayout> own)
    : mapping_(std::move(mapping)),
      path_(std::move(path)),
      owner_(::getpid()),
      own_(std::move(own)) {
  struct stat status {};
  if (::fstat(mapping_.descriptor(), &status) == 0) {
    device_ = status.st_dev;
    file_ = status.st_ino;
  }
  mapping_.close_descriptor();
}

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
  // So that a file system that is full is an error now, and not with each write later on.
  int error = problem_with_file_size(Bytes{kSize});
  if (error == 0) {
    do error = ::posix_fallocate(descriptor, 0, kSize);
    while (error == EINTR);
  }
  auto own = std::make_unique<LiveLayout>();
  own->magic = kMagic;
  own->version = kVersion;
  own->size = kSize;
  own->pid = static_cast<std::uint64_t>(pid);
  own->start_time = *start;
  own->pid_namespace = own_pid_namespace();
  own->policy = static_cast<std::uint32_t>(description.policy);
  own->refusal = static_cast<std::uint32_t>(description.refusal);
  own->device_total = description.device_total.count();
  if (error == 0) error = write_live_page(descriptor, *own);
  auto mapping = error == 0 ? map_file(descriptor) : std::nullopt;
  if (!mapping) {
    problem = problem_at(path, error != 0 ? error : errno);
    if (error != 0) ::close(descriptor);
    ::unlink(path.c_str());
    return nullptr;
  }
  return std::unique_ptr<LiveSegment>(new LiveSegment(std::move(*mapping), path, std::move(own)));
}

void LiveSegment::remove_former(const std::string& folder) {
  ::unlink(live_segment_path(::geteuid(), ::getpid(), folder).c_str());
}

LiveSegment::~LiveSegment() { remove(); }

void LiveSegment::remove() noexcept {
  if (::getpid() != owner_) return;
  struct stat named {};
  const bool is_ours =
      ::lstat(path_.c_str(), &named) == 0 && named.st_dev == device_ && named.st_ino == file_;
  if (is_ours) ::unlink(path_.c_str());
}

void LiveSegment::publish(const LiveFigures& figures) noexcept {
  const Visit visit(*this);
  own_->figures_version |= 1U;
  constexpr std::size_t kVersionAt = offsetof(LiveLayout, figures_version);
  visit.write(*own_, kVersionAt, sizeof own_->figures_version);
  for_each_figure(*own_, figures,
                  [](auto& field, const auto& figure) { field = number_of(figure); });
  constexpr std::size_t kFirst = offsetof(LiveLayout, budget);
  constexpr std::size_t kSecond = offsetof(LiveLayout, taken_ns);
  visit.write(*own_, kFirst, offsetof(LiveLayout, requested_budget) - kFirst);
  visit.write(*own_, kSecond, sizeof *own_ - kSecond);
  ++own_->figures_version;
  visit.write(*own_, kVersionAt, sizeof own_->figures_version);
}

std::optional<LiveSegment::Request> LiveSegment::next_request() noexcept {
  const Visit visit(*this);
  if (!visit.is_open()) return std::nullopt;
  // Reads the fields one by one, in the reverse of the order in which ask_budget() writes them.
  const auto asked = visit.read<std::uint32_t>(offsetof(LiveLayout, asked));
  if (!asked || *asked == own_->answered) return std::nullopt;
  const auto budget_asked = visit.read<std::uint32_t>(offsetof(LiveLayout, budget_asked));
  const auto budget = visit.read<std::uint64_t>(offsetof(LiveLayout, requested_budget));
  if (!budget_asked || !budget) return std::nullopt;
  Request request{*asked, *budget_asked, std::nullopt};
  if (*budget_asked != own_->budget_answered) request.budget = Bytes{*budget};
  return request;
}

void LiveSegment::wait_for_request(std::chrono::milliseconds limit) noexcept {
  const std::chrono::milliseconds longest = std::min(limit, kLongestWait);
  const std::uint32_t interrupts = interrupts_.load(std::memory_order_acquire);
  if (interrupts == interrupts_seen_) {
    const bool can_be_asked = Visit(*this).is_open();
    if (!can_be_asked || !wait_on(&mapping_->asked, own_->answered, longest)) {
      (void)wait_on(word_of(interrupts_), interrupts, longest);
    }
  }
  interrupts_seen_ = interrupts_.load(std::memory_order_acquire);
}

void LiveSegment::answer(const Request& request, BudgetAnswer answer) noexcept {
  if (request.budget) {
    own_->answer = static_cast<std::uint32_t>(answer);
    own_->budget_asked = own_->budget_answered = request.budget_sequence;
  }
  own_->asked = own_->answered = request.sequence;
  const Visit visit(*this);
  const auto write = [&](std::size_t offset) { visit.write(*own_, offset, sizeof own_->answered); };
  if (request.budget) {
    write(offsetof(LiveLayout, answer));
    write(offsetof(LiveLayout, budget_answered));
  }
  write(offsetof(LiveLayout, answered));
  wake_all(&mapping_->answered);
}

void LiveSegment::interrupt() noexcept {
  interrupts_.fetch_add(1, std::memory_order_acq_rel);
  wake_all(word_of(interrupts_));
  (void)count_up_and_wake(&mapping_->asked);
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
  std::optional<LiveLayout> image;
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
  if (!image_of(mapping_.descriptor()) || !count_up_and_wake(&mapping_->asked)) return std::nullopt;
  // Another command may have asked at the same moment: an answer to that one is to this one, too.
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
    wait_on(&mapping_->answered, image->answered, limit);
  }
}

LiveProcess::Outcome LiveProcess::ask_budget(Bytes budget) {
  const int file = mapping_.descriptor();
  if (::flock(file, LOCK_EX | LOCK_NB) != 0) return Outcome::kBusy;
  const auto image = image_of(file);
  const std::uint64_t bytes = budget.count();
  const std::uint32_t sequence = image ? image->budget_asked + 1 : 0;
  const bool is_written =
      image && ::pwrite(file, &bytes, sizeof bytes, offsetof(LiveLayout, requested_budget)) > 0 &&
      ::pwrite(file, &sequence, sizeof sequence, offsetof(LiveLayout, budget_asked)) > 0;
  if (!is_written || !count_up_and_wake(&mapping_->asked)) {
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
    wait_on(&mapping_->answered, image->answered, kSlice);
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
