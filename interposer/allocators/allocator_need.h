// Programs that need PyTorch's own allocator, known by their text before they start.
//
// backend:cudaMallocAsync, by which each tensor is an allocation of its own, lacks some of what the
// allocator of PyTorch has. A program that uses that fails with errors of PyTorch's. What a
// captured graph allocates by that backend is memory of the graph, which cannot be moved; the other
// allocator has blocks for it, which can.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace superpipe {

/// What needs the allocator, in words for a message, such as "vLLM" or "torch.cuda.MemPool". Looks
/// at lines of Python that are no comments: at names, not at what the program does with them. Pure.
/// @return nullopt: no such need is known.
[[nodiscard]] std::optional<std::string_view> allocator_need_in(std::string_view text) noexcept;

/// A program and what of it needs the allocator.
struct AllocatorNeed {
  std::string what;
  std::string program;  ///< its file or module
};

/// The same of a process with the command line `words`, if that is a Python interpreter's: of its
/// script, module or command, and of the words behind that. `read` returns the text of a file,
/// empty where there is none. What the script imports is not looked at. Throws what `read` throws.
[[nodiscard]] std::optional<AllocatorNeed> allocator_need_of(
    std::span<const std::string> words,
    const std::function<std::string(const std::string& file)>& read);

/// The same of this process. Reads at most 1 MiB of its script. Throws std::bad_alloc.
[[nodiscard]] std::optional<AllocatorNeed> allocator_need_of_process();

}  // namespace superpipe
