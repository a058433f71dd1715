#include "interposer/allocators/framework_environment.h"

#include <link.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <utility>

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

/// Calls `visit` with each of the options, which are separated by commas. Lists in brackets have
/// commas of their own, and no option that is looked for here.
template <typename Visit>
void for_each_option(std::string_view options, const Visit& visit) {
  for (std::size_t begin = 0; begin <= options.size();) {
    const std::size_t end = std::min(options.find(',', begin), options.size());
    visit(options.substr(begin, end - begin));
    begin = end + 1;
  }
}

bool expands(std::string_view option) { return is_option(option, "expandable_segments", "True"); }

bool names_backend(std::string_view options) {
  return options.find("backend") != std::string_view::npos;
}

// PyTorch reads both, under its new name and its old one.
constexpr const char* kPyTorchVariables[] = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"};
// What superpipe set the old one to, so that processes which find it set know whose choice it is.
constexpr char kChosenVariable[] = "SUPERPIPE_PYTORCH_ALLOC_CONF";

bool has_expandable(std::string_view options) {
  bool found = false;
  for_each_option(options, [&](std::string_view option) { found = found || expands(option); });
  return found;
}

// The user's choice under either name holds. Older versions of PyTorch read the old name alone.
void set_pytorch_allocator() {
  const char* const new_value = std::getenv(kPyTorchVariables[0]);
  const char* const old_value = std::getenv(kPyTorchVariables[1]);
  std::optional<std::string> under_new = with_async_backend(new_value != nullptr ? new_value : "");
  std::optional<std::string> under_old = under_new;
  if (old_value != nullptr) under_old = with_async_backend(old_value);
  if (!under_new || !under_old) return;
  if (new_value != nullptr || old_value == nullptr) {
    ::setenv(kPyTorchVariables[0], under_new->c_str(), /*overwrite=*/1);
  }
  ::setenv(kPyTorchVariables[1], under_old->c_str(), /*overwrite=*/1);
  ::setenv(kChosenVariable, under_old->c_str(), /*overwrite=*/1);
}

void set_other_allocators() noexcept {
  if (std::getenv("TF_GPU_ALLOCATOR") == nullptr) {
    set_unless_set("TF_GPU_ALLOCATOR", "cuda_malloc_async");
    set_unless_set("TF_FORCE_GPU_ALLOW_GROWTH", "true");
  }
  if (std::getenv("XLA_PYTHON_CLIENT_ALLOCATOR") == nullptr) {
    set_unless_set("XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_async");
    set_unless_set("XLA_PYTHON_CLIENT_PREALLOCATE", "false");
  }
}

int is_library_of_pytorch(struct dl_phdr_info* info, std::size_t /*size*/, void* /*data*/) {
  const std::string_view path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  return path.substr(path.rfind('/') + 1).rfind("libtorch", 0) == 0 ? 1 : 0;
}

// Such as site-packages/vllm/_C.abi3.so.
int is_library_of_vllm(struct dl_phdr_info* info, std::size_t /*size*/, void* /*data*/) {
  const std::string_view path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  return path.substr(0, path.rfind('/')).ends_with("/vllm") &&
                 path.substr(path.rfind('/') + 1).starts_with("_C")
             ? 1
             : 0;
}

std::atomic<bool> chosen_at_start{false};

}  // namespace

std::optional<std::string> without_expandable_segments(std::string_view options) {
  std::string kept;
  bool changed = false;
  bool is_first = true;
  for_each_option(options, [&](std::string_view option) {
    if (!std::exchange(is_first, false)) kept += ',';
    kept += expands(option) ? "expandable_segments:False" : option;
    changed = changed || expands(option);
  });
  if (!changed) return std::nullopt;
  return kept;
}

std::vector<std::string> override_expandable_segments() {
  std::vector<std::string> lines;
  for (const char* const name : kPyTorchVariables) {
    const char* const value = std::getenv(name);
    const auto kept = value != nullptr ? without_expandable_segments(value) : std::nullopt;
    if (!kept) continue;
    ::setenv(name, kept->c_str(), /*overwrite=*/1);
    lines.push_back("expandable_segments:True of " + std::string(name) +
                    " is False now: tensors would be virtual memory of the program's own, which "
                    "cannot be moved");
  }
  return lines;
}

// PyTorch takes a comma at the end of the options, and none before another one.
std::optional<std::string> with_async_backend(std::string_view options) {
  if (has_expandable(options) || names_backend(options)) return std::nullopt;
  const std::size_t last = options.find_last_not_of(", \t\n");
  const std::string_view kept = options.substr(0, last == std::string_view::npos ? 0 : last + 1);
  return std::string(kept) + (kept.empty() ? "" : ",") + "backend:cudaMallocAsync";
}

std::string without_async_backend(std::string_view options) {
  std::string kept;
  for_each_option(options, [&](std::string_view option) {
    if (!is_option(option, "backend", "cudaMallocAsync")) {
      kept.append(kept.empty() ? "" : ",").append(option);
    }
  });
  return kept;
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
  try {
    set_pytorch_allocator();
  } catch (const std::bad_alloc&) {
    // PyTorch allocates as it would without superpipe.
  }
  const bool agreed = agrees("PYTORCH_ALLOC_CONF", "cudaMallocAsync") &&
                      agrees("PYTORCH_CUDA_ALLOC_CONF", "cudaMallocAsync") &&
                      agrees("TF_GPU_ALLOCATOR", "cuda_malloc_async") &&
                      agrees("XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_async");
  set_other_allocators();
  chosen_at_start.store(chose_pytorch_allocator());
  return agreed;
}

bool keep_pytorch_allocator() noexcept try {
  if (chose_pytorch_allocator()) {
    for (const char* const name : kPyTorchVariables) {
      const char* const value = std::getenv(name);
      if (value == nullptr) continue;
      const std::string kept = without_async_backend(value);
      kept.empty() ? ::unsetenv(name) : ::setenv(name, kept.c_str(), /*overwrite=*/1);
    }
    ::unsetenv(kChosenVariable);
  }
  for (const char* const name : kPyTorchVariables) {
    const char* const value = std::getenv(name);
    if (value != nullptr && names_backend(value)) return false;
  }
  set_other_allocators();
  ::setenv("SUPERPIPE_ALLOCATOR", "native", /*overwrite=*/1);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

// PyTorch prefers what stands under its new name.
bool chose_pytorch_allocator() noexcept {
  const char* const chosen = std::getenv(kChosenVariable);
  const char* const under_old = std::getenv(kPyTorchVariables[1]);
  return chosen != nullptr && under_old != nullptr && std::string_view(chosen) == under_old &&
         agrees(kPyTorchVariables[0], "cudaMallocAsync");
}

bool chose_pytorch_allocator_at_start() noexcept { return chosen_at_start.load(); }

bool is_vllm_loaded() noexcept { return ::dl_iterate_phdr(is_library_of_vllm, nullptr) != 0; }

bool is_pytorch_loaded() noexcept { return ::dl_iterate_phdr(is_library_of_pytorch, nullptr) != 0; }

std::string pytorch_version() {
  std::filesystem::path library;
  const auto find = [](dl_phdr_info* info, std::size_t /*size*/, void* found) {
    const std::filesystem::path path = info->dlpi_name;
    if (path.filename() != "libtorch_cuda.so") return 0;
    *static_cast<std::filesystem::path*>(found) = path;
    return 1;
  };
  if (::dl_iterate_phdr(find, &library) == 0) return {};
  std::ifstream file(library.parent_path().parent_path() / "version.py");
  constexpr std::string_view kKey = "__version__ = '";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kKey)) {
      return line.substr(kKey.size(), line.find('\'', kKey.size()) - kKey.size());
    }
  }
  return {};
}

}  // namespace superpipe
