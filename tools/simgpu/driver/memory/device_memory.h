// Device memory that calls and modules take and give back, each charged where it belongs.
#pragma once

#include <cstdint>

#include "tools/simgpu/driver/entry/api.h"

namespace simgpu {

class Context;

/// Allocates device memory in `context`, freed by free_device(). @return CUDA_ERROR_OUT_OF_MEMORY.
CUresult allocate_device(Context& context, std::uint64_t size, std::uint64_t* address);

/// The same for a module's variables, which share small blocks with each other only.
CUresult allocate_for_module(Context& context, std::uint64_t size, std::uint64_t* address);

/// Frees what these two gave. Does not synchronise. @return CUDA_ERROR_INVALID_VALUE if it is not
/// the base of an allocation.
CUresult free_device(std::uint64_t address);

/// Copies to device memory at once, outside the timeline (the initial values of a module's
/// variables). @return false if the range is not all accessible.
bool write_device(std::uint64_t address, const void* source, std::uint64_t size);

}  // namespace simgpu
