#include "interposer/kernels/readable_memory.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace superpipe {
namespace {

constexpr std::size_t kPage = 4096;  // the least of any machine; also what a pipe takes at once

/// One page's bytes, or none of them. Not by write(): sanitizers have one of their own, which ends
/// the program where the bytes are more than the object has that `from` points to.
bool read_within_page(const int (&pipe)[2], const void* from, void* to, std::size_t size) noexcept {
  return ::syscall(SYS_write, pipe[1], from, size) == static_cast<long>(size) &&
         ::read(pipe[0], to, size) == static_cast<ssize_t>(size);
}

}  // namespace

std::optional<std::size_t> read_if_readable(const void* from, void* to, std::size_t size) noexcept {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return std::nullopt;
  size = std::min(size, kPage);
  const std::size_t to_page_end = kPage - reinterpret_cast<std::uintptr_t>(from) % kPage;
  const std::size_t first = std::min(size, to_page_end);
  std::size_t done = read_within_page(ends, from, to, first) ? first : 0;
  if (done == first && size > first &&
      read_within_page(ends, static_cast<const char*>(from) + first, static_cast<char*>(to) + first,
                       size - first)) {
    done = size;
  }
  ::close(ends[0]);
  ::close(ends[1]);
  return done;
}

}  // namespace superpipe
