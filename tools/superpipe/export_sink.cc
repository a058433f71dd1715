#include "tools/superpipe/export_sink.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace superpipe::cli {

std::unique_ptr<ExportFile> ExportFile::open(const std::string& path, std::string& problem) {
  if (path == "-") return std::unique_ptr<ExportFile>(new ExportFile(path, "", STDOUT_FILENO));
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
  const int file =
      is_protected
          ? -1
          : ::open(target.c_str(), O_WRONLY | O_CLOEXEC | (replace ? O_CREAT | O_TRUNC : 0), 0666);
  if (file < 0) {
    problem = "cannot write " + path + ": " + std::strerror(errno);
    return nullptr;
  }
  return std::unique_ptr<ExportFile>(new ExportFile(path, target, file));
}

ExportFile::ExportFile(std::string path, std::string target, int file)
    : path_(std::move(path)), target_(std::move(target)), file_(file) {
  buffer_.reserve(kBufferBytes);
}

ExportFile::~ExportFile() {
  if (file_ < 0 || target_.empty()) return;
  ::close(file_);
  if (target_ != path_) ::unlink(target_.c_str());
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
  if (target_ == path_) return problem_;
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
