#include "interposer/framework_environment.h"

#include <cstdlib>
#include <string_view>

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

}  // namespace

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
