// The answers of cuGetProcAddress.
#pragma once

#include <cstdint>
#include <string_view>

#include "tools/simgpu/driver/entry/api.h"

namespace simgpu {

/// Finds the function that answers for base name `symbol`: the newest ABI that CUDA `version`
/// (1000 * major + 10 * minor) already had, of the per-thread variants if `flags` asks for them and
/// there is one, else of the ordinary ones.
///
/// `*function` is null unless `*status` is CU_GET_PROC_ADDRESS_SUCCESS. Any thread; waits on
/// nothing; O(log n).
/// @return CUDA_ERROR_INVALID_VALUE for flags that do not exist or a version newer than the driver;
///     nothing is then written. Source: CUDA Driver API, cuGetProcAddress.
CUresult find_function(std::string_view symbol, int version, cuuint64_t flags, void** function,
                       CUdriverProcAddressQueryResult* status);

}  // namespace simgpu
