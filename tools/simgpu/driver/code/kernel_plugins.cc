#include "tools/simgpu/driver/code/kernel_plugins.h"

#include <dlfcn.h>

namespace simgpu {

std::string KernelPlugins::load(std::string_view paths) {
  using Entry = const SimgpuKernel* (*)(std::size_t*);
  while (!paths.empty()) {
    const std::size_t colon = paths.find(':');
    const std::string path(paths.substr(0, colon));
    paths.remove_prefix(colon == std::string_view::npos ? paths.size() : colon + 1);
    if (path.empty()) continue;
    void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* const reason = dlerror();
      return "kernel plugin " + path +
             " cannot be opened: " + (reason ? reason : "unknown reason") +
             "; correct SIMGPU_KERNELS";
    }
    const auto entry = reinterpret_cast<Entry>(dlsym(handle, "simgpu_kernels"));
    if (entry == nullptr) {
      return "kernel plugin " + path +
             " does not export simgpu_kernels(); build it from tools/simgpu/kernel_plugin.h";
    }
    std::size_t count = 0;
    const SimgpuKernel* const kernels = entry(&count);
    if (kernels == nullptr && count != 0) {
      return "kernel plugin " + path + " gives no kernels: simgpu_kernels() returned null";
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (kernels[i].name == nullptr || kernels[i].function == nullptr) {
        return "kernel plugin " + path + ": kernel " + std::to_string(i) +
               " has no name or no function";
      }
      kernels_.emplace(kernels[i].name, &kernels[i]);
    }
    paths_.push_back(path);
  }
  return {};
}

const SimgpuKernel* KernelPlugins::find(std::string_view name) const {
  const auto found = kernels_.find(name);
  return found == kernels_.end() ? nullptr : found->second;
}

}  // namespace simgpu
