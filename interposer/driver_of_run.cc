#include "interposer/driver_of_run.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <exception>
#include <string>

#include "interposer/driver/loader.h"
#include "interposer/log.h"
#include "interposer/process_configuration.h"
#include "profiler/process_name.h"

namespace superpipe {
namespace {

/// The process that began the run; empty where none did.
std::string root() {
  const char* const number = std::getenv(kRunRootVariable);
  return number != nullptr ? number : "";
}

bool is_root() { return root() == std::to_string(::getpid()); }

/// Process ids are of a namespace, and the folder may be of several.
std::string prefix_of_marks() {
  struct stat status {};
  const bool is_known = ::stat("/proc/self/ns/pid", &status) == 0;
  return "superpipe-driver-" + std::to_string(::geteuid()) + "-" +
         std::to_string(is_known ? status.st_ino : 0) + "-";
}

std::string mark() {
  return process_configuration().shared_folder + "/" + prefix_of_marks() + root();
}

/// Whether another process of this user has left the mark, which is gone then.
bool take_mark() {
  const std::string path = mark();
  struct stat status {};
  const bool is_there = ::lstat(path.c_str(), &status) == 0 && status.st_uid == ::geteuid();
  return is_there && ::unlink(path.c_str()) == 0;
}

/// Removes what is left of runs whose first process was killed, or left by _exit().
void sweep() {
  const std::string& folder = process_configuration().shared_folder;
  DIR* const stream = ::opendir(folder.c_str());
  if (stream == nullptr) return;
  const std::string prefix = prefix_of_marks();
  while (const dirent* const entry = ::readdir(stream)) {
    const std::string name = static_cast<const char*>(entry->d_name);
    if (!name.starts_with(prefix)) continue;
    const int process = std::atoi(name.c_str() + prefix.size());
    const bool is_gone = process == ::getpid() || (::kill(process, 0) != 0 && errno == ESRCH);
    if (process > 0 && is_gone) ::unlink((folder + "/" + name).c_str());
  }
  ::closedir(stream);
}

}  // namespace

void begin_watching_for_driver() noexcept try {
  if (is_root()) sweep();
} catch (const std::exception&) {
  // Out of memory before main.
}

void note_driver_of_run() noexcept try {
  if (root().empty() || is_root()) return;
  const int file =
      ::open(mark().c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file >= 0) ::close(file);
} catch (const std::exception&) {
  // As where it cannot be made.
}

bool say_if_driver_was_never_opened() noexcept try {
  if (!process_configuration().summary || !is_root()) return false;
  if (take_mark() || driver_was_looked_for()) return false;
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
