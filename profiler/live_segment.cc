#include "profiler/live_segment.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <system_error>
#include <utility>

#include "profiler/process_identity.h"
#include "profiler/shared_folder.h"

namespace superpipe {

namespace {

std::uint64_t number_of(Bytes bytes) { return bytes.count(); }
template <typename T>
T number_of(T number) {
  return number;
}

// The same word for the kernel.
std::uint32_t* word_of(std::atomic<std::uint32_t>& number) noexcept {
  return reinterpret_cast<std::uint32_t*>(&number);
}

std::string problem_at(const std::string& path, int error) {
  return path + ": " + std::generic_category().message(error) + advice_on_shared_file(error);
}

}  // namespace

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
    return found && status.st_size >= static_cast<off_t>(kLiveSize) &&
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
    if (other != pid) sweep_segment(folder, user, other);
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
  int error = problem_with_file_size(Bytes{kLiveSize});
  if (error == 0) {
    do error = ::posix_fallocate(descriptor, 0, kLiveSize);
    while (error == EINTR);
  }
  auto own = std::make_unique<LiveLayout>();
  own->magic = kLiveMagic;
  own->version = kLiveVersion;
  own->size = kLiveSize;
  own->pid = static_cast<std::uint64_t>(pid);
  own->start_time = *start;
  own->pid_namespace = own_pid_namespace();
  own->policy = static_cast<std::uint32_t>(description.policy);
  own->refusal = static_cast<std::uint32_t>(description.refusal);
  own->device_total = description.device_total.count();
  if (error == 0) error = write_live_page(descriptor, *own);
  auto mapping = error == 0 ? map_segment(descriptor) : std::nullopt;
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
  // Reads the fields one by one, in the reverse of the order in which LiveProcess::ask_budget()
  // writes them.
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

}  // namespace superpipe
