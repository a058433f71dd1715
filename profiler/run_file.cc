#include "profiler/run_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "profiler/atomic_file.h"

namespace superpipe {
namespace {

/// What tells the file at `path` from all others, without spaces; "none": there is no regular file.
std::string identity_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return "none";
  std::string identity = std::to_string(status.st_dev) + ':' + std::to_string(status.st_ino);
  for (const struct timespec& time : {status.st_mtim, status.st_ctim}) {
    identity += ':' + std::to_string(time.tv_sec) + '.' + std::to_string(time.tv_nsec);
  }
  return identity;
}

/// The identity that `variable` has of `path`; nullopt: nothing was noted of it.
std::optional<std::string> noted_identity(const char* variable, const std::string& path) {
  const char* const value = std::getenv(variable);
  if (value == nullptr) return std::nullopt;
  const std::string_view text = value;
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos || text.substr(space + 1) != path) return std::nullopt;
  return std::string(text.substr(0, space));
}

/// Holds the folder of a path against other processes that write there by this class.
class FolderLock {
 public:
  explicit FolderLock(const std::string& path) {
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    file_ = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    constexpr int kAttempts = 1000;
    constexpr useconds_t kPause = 1000;
    for (int i = 0; file_ >= 0 && i < kAttempts; ++i) {
      if (::flock(file_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) break;
      ::usleep(kPause);
    }
  }
  ~FolderLock() {
    if (file_ >= 0) ::close(file_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int file_;
};

/// Gives the file at `path` another name, with a number where that is taken too. @return whether it
/// has one.
bool move_aside(const std::string& path) {
  constexpr int kMost = 1000;
  std::string name = path + ".other";
  for (int number = 2; number <= kMost; ++number) {
    // Unlike rename(), it replaces nothing.
    if (::link(path.c_str(), name.c_str()) == 0) return ::unlink(path.c_str()) == 0;
    if (errno != EEXIST) return false;
    name = path + ".other." + std::to_string(number);
  }
  return false;
}

}  // namespace

void note_former_file(const char* variable, const std::string& path) {
  if (noted_identity(variable, path)) return;
  constexpr int kReplace = 1;
  ::setenv(variable, (identity_of(path) + ' ' + path).c_str(), kReplace);
}

std::optional<std::string> write_run_file(const char* variable, const std::string& path,
                                          const std::string& text, Claim claim) {
  const FolderLock lock(path);
  const auto former = noted_identity(variable, path);
  const std::string present = identity_of(path);
  const bool is_taken = former && present != "none" && present != *former;
  const bool has_name = !is_taken || (claim == Claim::kAlways && move_aside(path));
  return write_file_atomically(has_name ? path : path + '.' + std::to_string(::getpid()), text);
}

}  // namespace superpipe
