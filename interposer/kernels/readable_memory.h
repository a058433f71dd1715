// Memory of the process that may not be there.
#pragma once

#include <cstddef>
#include <optional>

namespace superpipe {

/// Copies `size` bytes, 4096 at most, from `from` to `to`, as far as they can be read.
///
/// Asks the kernel, by a pipe of its own, so that no signal is raised. Thread-safe. Some system
/// calls.
/// @return how many bytes were copied, from the first one on; nullopt: the kernel could not be
/// asked.
[[nodiscard]] std::optional<std::size_t> read_if_readable(const void* from, void* to,
                                                          std::size_t size) noexcept;

}  // namespace superpipe
