// libsimgpu_devices.so: the files of a GPU, /dev/nvidiactl and /dev/nvidia0, seem to exist.
//
// JAX asks whether one of them exists before it tries CUDA at all. The library is preloaded. A
// program that asks about one of them gets the answer for /dev/null. They cannot be opened.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tools/simgpu/export.h"

namespace simgpu::loader {
namespace {

constexpr char kStandIn[] = "/dev/null";

/// Whether `path` is /dev/nvidiactl or /dev/nvidia with a digit.
bool is_of_a_gpu(const char* path) {
  constexpr char kPrefix[] = "/dev/nvidia";
  constexpr std::size_t kSize = sizeof(kPrefix) - 1;
  if (path == nullptr || std::strncmp(path, kPrefix, kSize) != 0) return false;
  const char* const rest = path + kSize;
  return std::strcmp(rest, "ctl") == 0 || (rest[0] >= '0' && rest[0] <= '9' && rest[1] == '\0');
}

const char* instead_of(const char* path) { return is_of_a_gpu(path) ? kStandIn : path; }

/// The function of that name that this library stands before, or one that says that there is none.
/// Looked for when the library is loaded: later that could wait for the dynamic loader.
template <typename Function>
class Next {
 public:
  explicit Next(const char* name) : found_(reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name))) {}

  template <typename... Arguments>
  int operator()(Arguments... arguments) const {
    if (found_ != nullptr) return found_(arguments...);
    errno = ENOSYS;
    return -1;
  }

 private:
  Function* found_;
};

}  // namespace

// Each calls the function of its own name, with another path where it is one of a GPU's.
// NOLINTBEGIN(bugprone-macro-parentheses): names and lists of parameters
#define SIMGPU_ASKS_ABOUT_PATH(name, parameters, arguments) \
  namespace {                                               \
  const Next<int parameters> next_##name{#name};            \
  }                                                         \
  SIMGPU_EXPORT int name parameters { return next_##name arguments; }
SIMGPU_ASKS_ABOUT_PATH(stat, (const char* path, struct stat* found), (instead_of(path), found))
SIMGPU_ASKS_ABOUT_PATH(stat64, (const char* path, struct stat64* found), (instead_of(path), found))
SIMGPU_ASKS_ABOUT_PATH(lstat, (const char* path, struct stat* found), (instead_of(path), found))
SIMGPU_ASKS_ABOUT_PATH(lstat64, (const char* path, struct stat64* found), (instead_of(path), found))
SIMGPU_ASKS_ABOUT_PATH(fstatat, (int folder, const char* path, struct stat* found, int flags),
                       (folder, instead_of(path), found, flags))
SIMGPU_ASKS_ABOUT_PATH(fstatat64, (int folder, const char* path, struct stat64* found, int flags),
                       (folder, instead_of(path), found, flags))
SIMGPU_ASKS_ABOUT_PATH(statx,
                       (int folder, const char* path, int flags, unsigned mask,
                        struct statx* found),
                       (folder, instead_of(path), flags, mask, found))
SIMGPU_ASKS_ABOUT_PATH(access, (const char* path, int mode), (instead_of(path), mode))
SIMGPU_ASKS_ABOUT_PATH(faccessat, (int folder, const char* path, int mode, int flags),
                       (folder, instead_of(path), mode, flags))
// By these names programs ask that were built with glibc before 2.33.
SIMGPU_ASKS_ABOUT_PATH(__xstat, (int version, const char* path, struct stat* found),
                       (version, instead_of(path), found))
SIMGPU_ASKS_ABOUT_PATH(__xstat64, (int version, const char* path, struct stat64* found),
                       (version, instead_of(path), found))
SIMGPU_ASKS_ABOUT_PATH(__lxstat, (int version, const char* path, struct stat* found),
                       (version, instead_of(path), found))
SIMGPU_ASKS_ABOUT_PATH(__lxstat64, (int version, const char* path, struct stat64* found),
                       (version, instead_of(path), found))
SIMGPU_ASKS_ABOUT_PATH(__fxstatat,
                       (int version, int folder, const char* path, struct stat* found, int flags),
                       (version, folder, instead_of(path), found, flags))
SIMGPU_ASKS_ABOUT_PATH(__fxstatat64,
                       (int version, int folder, const char* path, struct stat64* found, int flags),
                       (version, folder, instead_of(path), found, flags))
#undef SIMGPU_ASKS_ABOUT_PATH
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace simgpu::loader
