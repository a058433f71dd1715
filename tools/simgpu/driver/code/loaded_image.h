// A decoded image as modules and libraries share it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tools/simgpu/driver/code/kernel_plugins.h"
#include "tools/simgpu/driver/code/kernel_words.h"
#include "tools/simgpu/driver/code/module_image.h"
#include "tools/simgpu/kernel_plugin.h"

namespace simgpu {

/// A kernel of a loaded image, with what launches of it need. Immutable but for what is computed at
/// the first use. Thread-safe.
class KernelCode {
 public:
  /// `host` computes the kernel, or is null; both are kept by reference.
  KernelCode(const KernelImage& image, const SimgpuKernel* host);

  [[nodiscard]] const KernelImage& image() const { return image_; }
  [[nodiscard]] const SimgpuKernel* host_kernel() const { return host_; }

  /// Bytes of the launch's parameter buffer.
  [[nodiscard]] std::size_t parameter_bytes() const { return parameter_bytes_; }

  /// Which words of its parameters the kernel uses; demangles its name the first time.
  [[nodiscard]] const KernelWords& words() const;

  /// True the first time it is called.
  [[nodiscard]] bool first_launch() const { return !launched_.exchange(true); }

 private:
  const KernelImage& image_;
  const SimgpuKernel* const host_;
  std::size_t parameter_bytes_ = 0;
  mutable std::once_flag demangled_;
  mutable std::optional<KernelWords> words_;
  mutable std::atomic<bool> launched_{false};
};

/// A decoded image and its lookup tables. Immutable. Shared by the module or library that loaded it
/// and by the launches in flight.
class LoadedImage {
 public:
  /// `plugins` are asked for each kernel; their answers are kept by reference.
  LoadedImage(ModuleImage image, const KernelPlugins& plugins);
  LoadedImage(const LoadedImage&) = delete;
  LoadedImage& operator=(const LoadedImage&) = delete;

  [[nodiscard]] const ModuleImage& image() const { return image_; }

  /// In the image's order; indexes name kernels.
  [[nodiscard]] const std::vector<std::unique_ptr<KernelCode>>& kernels() const { return kernels_; }

  /// The index of kernel `name`, or -1.
  [[nodiscard]] int find_kernel(std::string_view name) const;

  /// The variable `name`, or null.
  [[nodiscard]] const GlobalImage* find_global(std::string_view name) const;

 private:
  const ModuleImage image_;
  std::vector<std::unique_ptr<KernelCode>> kernels_;
  std::unordered_map<std::string_view, int> kernel_index_;
  std::unordered_map<std::string_view, const GlobalImage*> globals_;
};

using LoadedImagePtr = std::shared_ptr<const LoadedImage>;

}  // namespace simgpu
