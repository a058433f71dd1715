#include "interposer/kernels/kernel_handles.h"

#include <new>

namespace superpipe {

KernelHandles& KernelHandles::of_process() noexcept {
  static auto* const handles = new KernelHandles;
  return *handles;
}

void KernelHandles::note(CUkernel kernel, CUlibrary library) noexcept try {
  const std::lock_guard lock(mutex_);
  libraries_[kernel] = library;
} catch (const std::bad_alloc&) {
  // It is asked about like any other handle.
}

void KernelHandles::forget(CUlibrary library) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(libraries_, [library](const auto& known) { return known.second == library; });
}

bool KernelHandles::contains(CUfunction function) const noexcept {
  const std::lock_guard lock(mutex_);
  return libraries_.contains(function);
}

CUlibrary KernelHandles::library_of(CUfunction function) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto known = libraries_.find(function);
  return known == libraries_.end() ? nullptr : known->second;
}

}  // namespace superpipe
