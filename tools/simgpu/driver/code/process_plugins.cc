#include "tools/simgpu/driver/code/process_plugins.h"

#include <mutex>
#include <set>
#include <string>

#include "tools/simgpu/driver/process/configuration.h"
#include "tools/simgpu/driver/process/log.h"

namespace simgpu {
namespace {

/// Never destroyed: launches run until the process ends.
KernelPlugins& plugins() {
  static auto* const instance = new KernelPlugins;
  return *instance;
}

}  // namespace

CUresult load_process_plugins() {
  static const CUresult kResult = [] {
    std::string problem = plugins().load(configuration().kernel_plugins);
    if (problem.empty()) problem = plugins().load_beside(loaded_libraries());
    if (problem.empty()) return CUDA_SUCCESS;
    log_line(LogLevel::kError, "%s", problem.c_str());
    return CUDA_ERROR_INVALID_VALUE;
  }();
  return kResult;
}

bool note_missing_kernel(std::string_view name) {
  static std::mutex& mutex = *new std::mutex;
  static std::set<std::string, std::less<>>& names = *new std::set<std::string, std::less<>>;
  const std::lock_guard lock{mutex};
  return names.emplace(name).second;
}

const KernelPlugins& process_plugins() { return plugins(); }

}  // namespace simgpu
