// Which of the handles that a program launches are kernels of libraries.
#pragma once

#include <mutex>
#include <unordered_map>

#include "interposer/driver/cuda_api.h"

namespace superpipe {

/// The kernels that the program has got from libraries. Where the driver takes a function it takes
/// a kernel as well, cast to one; what is asked about a function in other calls is not defined for
/// a kernel, and nothing tells by the handle which of both it is. Thread-safe.
class KernelHandles {
 public:
  /// Those of this process. Never destroyed: hooks may ask while it ends.
  static KernelHandles& of_process() noexcept;

  /// The driver has handed out `kernel` of `library`. Without host memory it stays unknown.
  void note(CUkernel kernel, CUlibrary library) noexcept;
  /// To be called before the library is unloaded: its handles may come again for others.
  /// O(kernels).
  void forget(CUlibrary library) noexcept;

  [[nodiscard]] bool contains(CUfunction function) const noexcept;
  /// The library of the kernel that `function` is; null if it is not known to be one.
  [[nodiscard]] CUlibrary library_of(CUfunction function) const noexcept;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<const void*, CUlibrary> libraries_;  ///< by kernel
};

}  // namespace superpipe
