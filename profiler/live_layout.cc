#include "profiler/live_layout.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "profiler/process_identity.h"
#include "profiler/shared_folder.h"

namespace superpipe {

namespace {

constexpr const char* kPrefix = "superpipe-";

// What the names of the segments of `user`'s processes in this namespace begin with.
std::string prefix_of(uid_t user) {
  return kPrefix + std::to_string(user) + "-" + own_processes() + "-";
}

// Whether a process can be described like that.
bool is_possible_description(const LiveLayout& image) {
  return image.policy <= static_cast<std::uint32_t>(PolicyKind::kAuto) &&
         image.refusal <= static_cast<std::uint32_t>(BudgetAnswer::kEnded) &&
         has_possible_figures(image);
}

// Whether the process that made the segment of `pid` is gone. What another namespace's processes
// made is none of ours to judge.
bool is_stale(const LiveLayout& image, int pid) {
  const bool is_segment = image.magic == kLiveMagic;
  if (is_segment && image.pid_namespace != own_pid_namespace()) return false;
  const auto start = start_time_of(pid);
  return !start || (is_segment && image.start_time != *start);
}

}  // namespace

std::string live_segment_path(uid_t user, int pid, const std::string& folder) {
  return folder + "/" + prefix_of(user) + std::to_string(pid);
}

LiveMapping::~LiveMapping() {
  if (layout_ == nullptr) return;
  ::munmap(layout_, kLiveSize);
  close_descriptor();
}

LiveMapping::LiveMapping(LiveMapping&& other) noexcept
    : layout_(std::exchange(other.layout_, nullptr)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

void LiveMapping::close_descriptor() noexcept {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

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
  if (!is_sound || status.st_size < static_cast<off_t>(kLiveSize)) {
    ::close(descriptor);
    // Of one that is being made there is nothing yet.
    return is_sound && status.st_size == 0 ? LiveProblem::kNotManaged : LiveProblem::kDamaged;
  }
  auto mapping = map_segment(descriptor);
  if (!mapping) return LiveProblem::kUnreadable;
  return std::move(*mapping);
}

std::optional<LiveMapping> map_segment(int descriptor) {
  void* const mapped =
      ::mmap(nullptr, kLiveSize, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) {
    ::close(descriptor);
    return std::nullopt;
  }
  return LiveMapping(static_cast<LiveLayout*>(mapped), descriptor);
}

std::optional<LiveLayout> image_of(int descriptor) {
  LiveLayout image;
  const ssize_t read = ::pread(descriptor, &image, sizeof image, 0);
  if (read != static_cast<ssize_t>(sizeof image)) return std::nullopt;
  return image;
}

std::uint32_t figures_version_of(int descriptor) {
  std::uint32_t version = 0;
  const ssize_t read =
      ::pread(descriptor, &version, sizeof version, offsetof(LiveLayout, figures_version));
  return read == static_cast<ssize_t>(sizeof version) ? version : 1;
}

// The limit of one that moves nothing is the largest number that there is, and so may be that of
// host memory.
bool has_possible_figures(const LiveLayout& image) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 56;
  for (const std::uint64_t bytes :
       {image.device_total, image.budget, image.pages, image.live, image.context, image.passthrough,
        image.pinned_host, image.pass_bytes}) {
    if (bytes > kMost) return false;
  }
  return std::ranges::all_of(image.layer_percent, [](std::uint8_t share) { return share <= 100; });
}

std::optional<LiveProblem> problem_in(const LiveLayout& image, int pid) {
  if (image.magic == 0) return LiveProblem::kNotManaged;  // it is being made
  if (image.magic != kLiveMagic) return LiveProblem::kDamaged;
  if (image.pid_namespace != own_pid_namespace()) return LiveProblem::kOtherNamespace;
  if (is_stale(image, pid)) return LiveProblem::kNotManaged;
  if (image.version != kLiveVersion) return LiveProblem::kOtherVersion;
  const bool is_sound = image.size == kLiveSize && image.pid == static_cast<std::uint64_t>(pid);
  return is_sound && is_possible_description(image) ? std::nullopt
                                                    : std::optional(LiveProblem::kDamaged);
}

int write_live_bytes(int descriptor, const void* bytes, std::size_t size,
                     std::size_t offset) noexcept {
  const int too_large = problem_with_file_size(Bytes{kLiveSize});
  if (too_large != 0) return too_large;
  ssize_t written = 0;
  do written = ::pwrite(descriptor, bytes, size, static_cast<off_t>(offset));
  while (written < 0 && errno == EINTR);
  if (written < 0) return errno;
  return written == static_cast<ssize_t>(size) ? 0 : ENOSPC;
}

int write_live_page(int descriptor, const LiveLayout& layout) noexcept {
  std::array<unsigned char, kLiveSize> page{};
  std::memcpy(page.data(), &layout, sizeof layout);
  std::memset(page.data(), 0, sizeof layout.magic);
  const int error = write_live_bytes(descriptor, page.data(), page.size(), 0);
  return error != 0 ? error : write_live_bytes(descriptor, &layout.magic, sizeof layout.magic, 0);
}

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

bool sweep_segment(const std::string& folder, uid_t user, int pid) {
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

bool wait_on(std::uint32_t* word, std::uint32_t seen, std::chrono::milliseconds limit) noexcept {
  const std::timespec time{limit.count() / 1000, (limit.count() % 1000) * 1'000'000};
  return syscall(SYS_futex, word, FUTEX_WAIT, seen, &time, nullptr, 0) == 0 || errno == EAGAIN ||
         errno == EINTR || errno == ETIMEDOUT;
}

void wake_all(std::uint32_t* word) noexcept {
  (void)syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool count_up_and_wake(std::uint32_t* word) noexcept {
  return syscall(SYS_futex, word, FUTEX_WAKE_OP, INT_MAX, nullptr, word,
                 FUTEX_OP(FUTEX_OP_ADD, 1, FUTEX_OP_CMP_LT, 0)) >= 0;
}

}  // namespace superpipe
