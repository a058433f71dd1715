// Faults by request: SIMGPU_FAULTS=cuMemCreate:oom@5,cuMemcpyHtoDAsync:fail@3+,...
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tools/simgpu/driver/entry/api.h"

namespace simgpu {

/// Parses the faults to inject: comma-separated NAME:KIND@N (the Nth call of function NAME, without
/// ABI suffix, once) or NAME:KIND@N+ (from then on). KIND is oom (CUDA_ERROR_OUT_OF_MEMORY), fail
/// (CUDA_ERROR_UNKNOWN), invalid (CUDA_ERROR_INVALID_VALUE), busy (CUDA_ERROR_NOT_READY),
/// unsupported (CUDA_ERROR_NOT_SUPPORTED), illegal (CUDA_ERROR_ILLEGAL_ADDRESS, which also breaks
/// the current context) or a decimal CUresult. Called once, by the configuration.
/// @return An empty string, or what is wrong.
std::string set_faults(std::string_view text);

/// Whether any fault is planned for the function `name`.
bool has_faults(std::string_view name);

/// The code that the `call`th call (from 1) of `name` shall return; CUDA_SUCCESS for no fault.
CUresult injected_fault(std::string_view name, std::uint64_t call);

}  // namespace simgpu
