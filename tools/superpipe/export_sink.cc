#include "tools/superpipe/export_sink.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>

namespace superpipe::cli {
namespace {

constexpr std::array kEndingSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

// What a signal that ends this program removes first.
std::array<char, PATH_MAX> unfinished_path;
std::atomic<bool> is_unfinished{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal's handler reads it");
std::array<struct sigaction, kEndingSignals.size()> actions_before{};

// Calls nothing but what POSIX lets handlers call. Whoever waits for this program sees the signal.
void remove_unfinished(int signal) {
  if (is_unfinished.load()) ::unlink(unfinished_path.data());
  (void)::signal(signal, SIG_DFL);
  (void)::raise(signal);
}

// From now on signals that end programs remove the file at `path`; those that are ignored stay so.
// @return false: they remove another one, or the path is too long.
bool remove_on_signals(const std::string& path) {
  if (is_unfinished.load() || path.size() >= unfinished_path.size()) return false;
  unfinished_path[path.copy(unfinished_path.data(), path.size())] = '\0';
  is_unfinished.store(true);
  for (std::size_t i = 0; i < kEndingSignals.size(); ++i) {
    struct sigaction removing {};
    removing.sa_handler = remove_unfinished;
    (void)::sigaction(kEndingSignals[i], nullptr, &actions_before[i]);
    if (actions_before[i].sa_handler == SIG_IGN) continue;
    (void)::sigaction(kEndingSignals[i], &removing, nullptr);
  }
  return true;
}

void keep_on_signals() {
  for (std::size_t i = 0; i < kEndingSignals.size(); ++i) {
    (void)::sigaction(kEndingSignals[i], &actions_before[i], nullptr);
  }
  is_unfinished.store(false);
}

}  // namespace

std::unique_ptr<ExportFile> ExportFile::open(const std::string& path, std::string& problem) {
  if (path == "-") {
    return std::unique_ptr<ExportFile>(new ExportFile(path, "", STDOUT_FILENO, false));
  }
  struct stat status;
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) {
    problem = "cannot write " + path + ": it is a folder; name a file in it";
    return nullptr;
  }
  // The rename would replace even a file that its user may not write to.
  const bool is_protected = exists && ::access(path.c_str(), W_OK) != 0;
  const bool replace = !exists || S_ISREG(status.st_mode);
  const std::string target = replace ? path + "." + std::to_string(::getpid()) + ".part" : path;
  // Before the file is there.
  const bool is_watched = replace && !is_protected && remove_on_signals(target);
  const int file =
      is_protected
          ? -1
          : ::open(target.c_str(), O_WRONLY | O_CLOEXEC | (replace ? O_CREAT | O_TRUNC : 0), 0666);
  if (file < 0) {
    problem = "cannot write " + path + ": " + std::strerror(errno);
    if (is_watched) keep_on_signals();
    return nullptr;
  }
  return std::unique_ptr<ExportFile>(new ExportFile(path, target, file, is_watched));
}

ExportFile::ExportFile(std::string path, std::string target, int file, bool is_watched)
    : path_(std::move(path)), target_(std::move(target)), file_(file), is_watched_(is_watched) {
  buffer_.reserve(kBufferBytes);
}

ExportFile::~ExportFile() {
  if (file_ >= 0 && !target_.empty()) {
    ::close(file_);
    if (is_part()) ::unlink(target_.c_str());
  }
  if (is_watched_) keep_on_signals();
}

void ExportFile::write(std::string_view bytes) {
  if (problem_) return;
  buffer_.append(bytes);
  if (buffer_.size() >= kBufferBytes) flush();
}

std::optional<std::string> ExportFile::finish() {
  flush();
  if (problem_ || target_.empty()) return problem_;
  // Some file systems say only now that there is no room.
  if (::close(std::exchange(file_, -1)) != 0) fail("write", errno);
  if (!is_part()) return problem_;
  if (!problem_ && std::rename(target_.c_str(), path_.c_str()) != 0) fail("rename to", errno);
  if (problem_) ::unlink(target_.c_str());
  return problem_;
}

void ExportFile::flush() {
  std::string_view left = buffer_;
  while (!left.empty() && !problem_) {
    const ssize_t written = ::write(file_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      fail("write", errno);
      break;
    }
    left.remove_prefix(static_cast<std::size_t>(written));
  }
  buffer_.clear();
}

void ExportFile::fail(const char* what, int error) {
  problem_ = std::string("cannot ") + what + " " + (target_.empty() ? "standard output" : path_) +
             ": " + std::strerror(error);
}

}  // namespace superpipe::cli
