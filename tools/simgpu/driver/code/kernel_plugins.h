// Host kernels from plugins (tools/simgpu/kernel_plugin.h), by name.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tools/simgpu/kernel_plugin.h"

namespace simgpu {

/// The host kernels of the plugins that SIMGPU_KERNELS names, and of those that lie beside
/// libraries.
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

  /// Loads NAME.simgpu.so for each NAME.so of `libraries`, paths of shared libraries, that has one
  /// in its folder. A kernel that is known already keeps its host kernel.
  ///
  /// @return As load() does.
  std::string load_beside(const std::vector<std::string>& libraries);

  /// The host kernel of mangled name `name`, which may be one of framework_kernels.h; or null.
  /// Constant time.
  [[nodiscard]] const SimgpuKernel* find(std::string_view name) const;

  /// True if load() was given a plugin at all.
  [[nodiscard]] bool any() const { return !paths_.empty(); }

  /// The paths of the plugins that load() was given, in order.
  [[nodiscard]] const std::vector<std::string>& paths() const { return paths_; }

 private:
  std::string load_one(const std::string& path);

  std::vector<std::string> paths_;
  std::unordered_map<std::string_view, const SimgpuKernel*> kernels_;
};

/// The paths of the shared libraries that the process has loaded, in their order.
[[nodiscard]] std::vector<std::string> loaded_libraries();

}  // namespace simgpu
