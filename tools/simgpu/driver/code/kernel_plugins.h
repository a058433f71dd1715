// Host kernels out of plugins (tools/simgpu/kernel_plugin.h), by name.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tools/simgpu/driver/entry/api.h"
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
  /// cannot
  ///     be opened, does not export simgpu_kernels(), or lists a kernel without name or function.
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

/// Loads the process's plugins from SIMGPU_KERNELS the first time; later calls repeat the answer.
///
/// cuInit and the loading of modules call it. Any thread.
/// @return CUDA_ERROR_INVALID_VALUE if a plugin cannot be used; one line on stderr says why.
CUresult load_kernel_plugins();

/// True the first time that it is called for kernel `name`. Any thread.
bool first_miss(std::string_view name);

/// The process's plugins; empty before load_kernel_plugins() succeeded. Lives as long as the
/// process.
const KernelPlugins& kernel_plugins();

}  // namespace simgpu
