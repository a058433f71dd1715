#include "interposer/driver_of_run.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <exception>
#include <random>
#include <string>

#include "interposer/log.h"
#include "interposer/process_configuration.h"
#include "profiler/process_name.h"

namespace superpipe {
namespace {

constexpr char kPrefix[] = "superpipe-driver-";

std::string value_of(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr ? value : "";
}

bool is_root() { return value_of(kRunRootVariable) == std::to_string(::getpid()); }

/// Process ids are of a namespace, and the folder may be of several.
std::string prefix_of_namespace() {
  struct stat status {};
  const bool is_known = ::stat("/proc/self/ns/pid", &status) == 0;
  return kPrefix + std::to_string(::geteuid()) + "-" +
         std::to_string(is_known ? status.st_ino : 0) + "-";
}

std::string path_in(std::string folder, const std::string& name) {
  folder += '/';
  folder += name;
  return folder;
}

/// Empty where the run has none.
std::string path_of_mark() {
  const std::string name = value_of(kDriverMarkVariable);
  if (!name.starts_with(kPrefix) || name.find('/') != std::string::npos) return {};
  return path_in(process_configuration().shared_folder, name);
}

/// Removes what is left of runs whose first process was killed, or left by _exit().
void sweep() {
  const std::string& folder = process_configuration().shared_folder;
  DIR* const stream = ::opendir(folder.c_str());
  if (stream == nullptr) return;
  const std::string prefix = prefix_of_namespace();
  while (const dirent* const entry = ::readdir(stream)) {
    const std::string name = static_cast<const char*>(entry->d_name);
    if (!name.starts_with(prefix)) continue;
    const int process = std::atoi(name.c_str() + prefix.size());
    const bool is_gone = process == ::getpid() || (::kill(process, 0) != 0 && errno == ESRCH);
    if (process > 0 && is_gone) ::unlink(path_in(folder, name).c_str());
  }
  ::closedir(stream);
}

}  // namespace

void begin_watching_for_driver() noexcept try {
  // After exec() this is another program of the same process, in the same run.
  if (!process_configuration().summary || !is_root() || !value_of(kDriverMarkVariable).empty())
    return;
  sweep();
  const std::string name = prefix_of_namespace() + std::to_string(::getpid()) + "-" +
                           std::to_string(std::random_device{}());
  ::setenv(kDriverMarkVariable, name.c_str(), /*overwrite=*/1);
} catch (const std::exception&) {
  // Then the run has no mark, and its end says nothing.
}

void note_driver_of_run() noexcept try {
  const std::string path = path_of_mark();
  if (path.empty()) return;
  const int file =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file >= 0) ::close(file);
} catch (const std::exception&) {
  // As where it cannot be made.
}

bool end_watching_for_driver(int exit_code) noexcept try {
  const std::string path = path_of_mark();
  if (path.empty() || !is_root()) return false;
  const bool was_opened = ::unlink(path.c_str()) == 0 || errno != ENOENT;
  if (was_opened || exit_code != 0) return false;
  if (!process_configuration().trace_file.empty()) return true;
  log_line(LogLevel::kWarning,
           "the program never opened the CUDA driver, so nothing of it ran under superpipe. Most "
           "often its framework is built for the CPU alone, or found no GPU (its own warnings say "
           "why, and CUDA_VISIBLE_DEVICES hides them); with --strict this is exit code 125");
  return true;
} catch (const std::exception&) {
  return false;
}

}  // namespace superpipe
