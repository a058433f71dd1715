// How a probing child process tells its parent what it finds.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string_view>

namespace superpipe::cli {

/// Writes all of `text` to `fd`, in as many pieces as that takes. Waits while `fd` is a full pipe.
/// Drops the rest where writing fails: the reader is gone then, and there is nobody to tell.
inline void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace superpipe::cli
