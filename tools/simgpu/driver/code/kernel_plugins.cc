#include "tools/simgpu/driver/code/kernel_plugins.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include "tools/simgpu/driver/code/framework_kernels.h"
#include "tools/simgpu/driver/code/library_kernels.h"
#include "tools/simgpu/driver/code/torch_kernels.h"

namespace simgpu {

std::string KernelPlugins::load(std::string_view paths) {
  while (!paths.empty()) {
    const std::size_t colon = paths.find(':');
    const std::string path(paths.substr(0, colon));
    paths.remove_prefix(colon == std::string_view::npos ? paths.size() : colon + 1);
    if (path.empty()) continue;
    if (std::string problem = load_one(path); !problem.empty()) {
      return problem + "; correct SIMGPU_KERNELS";
    }
    paths_.push_back(path);
  }
  return {};
}

std::string KernelPlugins::load_beside(const std::vector<std::string>& libraries) {
  constexpr std::string_view kSuffix = ".so";
  for (const std::string& library : libraries) {
    if (library.size() <= kSuffix.size()) continue;
    const std::string name = library.substr(0, library.size() - kSuffix.size());
    if (name + std::string(kSuffix) != library) continue;
    const std::string path = name + ".simgpu.so";
    if (access(path.c_str(), F_OK) != 0) continue;
    if (std::string problem = load_one(path); !problem.empty()) return problem;
  }
  return {};
}

std::string KernelPlugins::load_one(const std::string& path) {
  using Entry = const SimgpuKernel* (*)(std::size_t*);
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const reason = dlerror();
    return "kernel plugin " + path + " cannot be opened: " + (reason ? reason : "unknown reason");
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
  return {};
}

const SimgpuKernel* KernelPlugins::find(std::string_view name) const {
  const auto found = kernels_.find(name);
  if (found != kernels_.end()) return found->second;
  for (const auto find_built_in : {&library_kernel, &framework_kernel, &torch_kernel}) {
    if (const SimgpuKernel* const kernel = find_built_in(name); kernel != nullptr) return kernel;
  }
  return nullptr;
}

std::vector<std::string> loaded_libraries() {
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t /*size*/, void* found) {
        // The program itself has no name here.
        if (info->dlpi_name != nullptr && *info->dlpi_name != '\0') {
          static_cast<std::vector<std::string>*>(found)->emplace_back(info->dlpi_name);
        }
        return 0;
      },
      &paths);
  return paths;
}

}  // namespace simgpu
