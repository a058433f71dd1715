#include "interposer/framework_environment.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace superpipe {
namespace {

void set_unless_set(const char* name, const char* value) noexcept {
  ::setenv(name, value, /*overwrite=*/0);
}

/// Whether the variable is unset, or holds that word.
bool agrees(const char* name, std::string_view word) noexcept {
  const char* const value = std::getenv(name);
  return value == nullptr || std::string_view(value).find(word) != std::string_view::npos;
}

// PyTorch ignores blanks.
std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

/// Whether `option` is NAME:VALUE, with any blanks.
bool is_option(std::string_view option, std::string_view name, std::string_view value) {
  const std::size_t colon = option.find(':');
  return colon != std::string_view::npos && trimmed(option.substr(0, colon)) == name &&
         trimmed(option.substr(colon + 1)) == value;
}

}  // namespace

// Lists in brackets have commas of their own, and no option that is looked for here.
std::optional<std::string> without_expandable_segments(std::string_view options, bool async) {
  const bool has_backend = options.find("backend") != std::string_view::npos;
  std::string kept;
  bool changed = false;
  bool is_first = true;
  for (std::size_t begin = 0; begin <= options.size();) {
    const std::size_t end = std::min(options.find(',', begin), options.size());
    const std::string_view option = options.substr(begin, end - begin);
    const bool expands = is_option(option, "expandable_segments", "True");
    const char* const instead =
        async && !has_backend && !changed ? "backend:cudaMallocAsync" : "expandable_segments:False";
    if (!is_first) kept += ',';
    kept += expands ? instead : option;
    changed = changed || expands;
    is_first = false;
    begin = end + 1;
  }
  if (!changed) return std::nullopt;
  return kept;
}

std::vector<std::string> override_expandable_segments(bool async) {
  std::vector<std::string> lines;
  for (const char* const name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
    const char* const value = std::getenv(name);
    const auto kept = value != nullptr ? without_expandable_segments(value, async) : std::nullopt;
    if (!kept) continue;
    ::setenv(name, kept->c_str(), /*overwrite=*/1);
    lines.push_back(std::string(name) + " is " + *kept +
                    " now: with expandable_segments:True tensors would be virtual memory of the "
                    "program's own, which cannot be moved");
  }
  return lines;
}

// XLA's own word for the graphs.
std::optional<std::string> without_command_buffers(std::string_view flags) {
  constexpr std::string_view kFlag = "--xla_gpu_enable_command_buffer";
  const std::string_view set = trimmed(flags);
  if (!set.empty() && !set.starts_with("-")) return std::nullopt;
  if (set.find(kFlag) != std::string_view::npos) return std::nullopt;
  return std::string(set) + (set.empty() ? "" : " ") + std::string(kFlag) + "=";
}

void launch_kernels_one_by_one() noexcept try {
  const char* const flags = std::getenv("XLA_FLAGS");
  const auto changed = without_command_buffers(flags != nullptr ? flags : "");
  if (changed) ::setenv("XLA_FLAGS", changed->c_str(), /*overwrite=*/1);
} catch (const std::bad_alloc&) {
  // Graphs that exceed the budget are refused, and a line says what to set.
}

bool set_framework_allocators() noexcept {
  const bool agreed = agrees("PYTORCH_ALLOC_CONF", "cudaMallocAsync") &&
                      agrees("PYTORCH_CUDA_ALLOC_CONF", "cudaMallocAsync") &&
                      agrees("TF_GPU_ALLOCATOR", "cuda_malloc_async") &&
                      agrees("XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_async");
  // PyTorch reads both names; the user's choice under either holds.
  if (std::getenv("PYTORCH_ALLOC_CONF") == nullptr &&
      std::getenv("PYTORCH_CUDA_ALLOC_CONF") == nullptr) {
    set_unless_set("PYTORCH_ALLOC_CONF", "backend:cudaMallocAsync");
    set_unless_set("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync");
  }
  if (std::getenv("TF_GPU_ALLOCATOR") == nullptr) {
    set_unless_set("TF_GPU_ALLOCATOR", "cuda_malloc_async");
    set_unless_set("TF_FORCE_GPU_ALLOW_GROWTH", "true");
  }
  if (std::getenv("XLA_PYTHON_CLIENT_ALLOCATOR") == nullptr) {
    set_unless_set("XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_async");
    set_unless_set("XLA_PYTHON_CLIENT_PREALLOCATE", "false");
  }
  return agreed;
}

}  // namespace superpipe
