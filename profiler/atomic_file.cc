#include "profiler/atomic_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace superpipe {

std::optional<std::string> write_file_atomically(const std::string& path, const std::string& text) {
  struct stat status;
  // A device or a pipe (/dev/stderr) cannot be replaced, only written.
  const bool replace = ::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode);
  const std::string target = replace ? path + "." + std::to_string(::getpid()) + ".part" : path;
  const auto problem = [&](const char* what) {
    return std::string("cannot ") + what + " " + target + ": " + std::strerror(errno);
  };
  std::FILE* const file = std::fopen(target.c_str(), "w");
  if (file == nullptr) return problem("write");
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !written) {
    auto message = problem("write");
    if (replace) ::unlink(target.c_str());
    return message;
  }
  if (replace && std::rename(target.c_str(), path.c_str()) != 0) {
    auto message = problem("rename");
    ::unlink(target.c_str());
    return message;
  }
  return std::nullopt;
}

}  // namespace superpipe
