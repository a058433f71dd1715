// Host kernels from plugins (tools/simgpu/kernel_plugin.h), by name.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tools/simgpu/kernel_plugin.h"

namespace simgpu {

/// The host kernels of the plugins that SIMGPU_KERNELS names.
///
/// Loaded once and never unloaded, since a launch may still run one. Not thread safe while loading,
/// afterwards find() may be called by any thread.
class KernelPlugins {
 public:
  /// Loads the plugins of the colon-separated list `paths`; empty parts are skipped.
  ///
  /// @return An empty string, or one line that names the plugin and what is wrong with it: it
  /// cannot be opened, does not export simgpu_kernels(), or lists a kernel without name or
  /// function.
  std::string load(std::string_view paths);

  /// The host kernel of mangled name `name`, or null. Constant time.
  [[nodiscard]] const SimgpuKernel* find(std::string_view name) const;

  /// True if a plugin was given at all.
  [[nodiscard]] bool any() const { return !paths_.empty(); }

  /// The plugins' paths, in order.
  [[nodiscard]] const std::vector<std::string>& paths() const { return paths_; }

 private:
  std::vector<std::string> paths_;
  std::unordered_map<std::string_view, const SimgpuKernel*> kernels_;
};

}  // namespace simgpu
