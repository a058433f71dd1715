// The kernel plugins of this process: those that SIMGPU_KERNELS names, and those of its libraries.
#pragma once

#include <string_view>

#include "tools/simgpu/driver/code/kernel_plugins.h"
#include "tools/simgpu/driver/entry/api.h"

namespace simgpu {

/// Loads the plugins that SIMGPU_KERNELS names, and those beside the libraries that are loaded, the
/// first time; later calls repeat the answer.
///
/// cuInit and the loading of modules call it. Any thread.
/// @return CUDA_ERROR_INVALID_VALUE if a plugin cannot be used; one line on standard error says
/// why.
CUresult load_process_plugins();

/// The process's plugins; empty before load_process_plugins() succeeded. Never destroyed.
const KernelPlugins& process_plugins();

/// Notes that no plugin has kernel `name`. @return true the first time for this name. Any thread.
bool note_missing_kernel(std::string_view name);

}  // namespace simgpu
