// Launches: what a launch is checked for, and how it runs on a stream.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "tools/simgpu/driver/code/module_registry.h"
#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/entry/api.h"
#include "tools/simgpu/driver/streams/stream_table.h"

namespace simgpu {

/// The extents of a launch.
struct LaunchShape {
  std::array<unsigned, 3> grid{1, 1, 1};     ///< blocks
  std::array<unsigned, 3> block{1, 1, 1};    ///< threads of a block
  std::array<unsigned, 3> cluster{1, 1, 1};  ///< blocks of a cluster
  unsigned shared_bytes = 0;                 ///< dynamic shared memory of a block
  bool cooperative = false;                  ///< all blocks have to be resident at once
};

/// The shape that `config` asks for, its attributes included. REQUIRES: check_attributes().
[[nodiscard]] LaunchShape shape_of(const CUlaunchConfig& config);

/// @return CUDA_ERROR_INVALID_VALUE for an attribute that does not exist or is not for launches.
CUresult check_attributes(const CUlaunchConfig& config);

/// Whether `function` can be launched so on its device.
/// @return CUDA_ERROR_INVALID_VALUE for extents that no device has or for more dynamic shared
/// memory
///     than the function allows; CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES if a block does not fit because
///     of the kernel's own needs or launch bound; CUDA_ERROR_INVALID_CLUSTER_SIZE;
///     CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE. Source: CUDA Driver API, cuLaunchKernelEx.
CUresult check_shape(const Function& function, const LaunchShape& shape);

/// Multiprocessors of the device of `context`.
[[nodiscard]] int multiprocessors(const Context& context);

/// Blocks of the largest cluster that `function` allows.
[[nodiscard]] int largest_cluster(const Function& function);

/// The function that `handle` names: a CUfunction, or a CUkernel cast to one, which is loaded into
/// `context` at its first use. @return CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_OUT_OF_MEMORY.
CUresult find_launchable(CUfunction handle, Context& context, FunctionPtr* function);

/// Gathers a launch's parameters into one buffer as the device would see it, from `values` (one
/// pointer per parameter) or `extra` (a CU_LAUNCH_PARAM_* list); each of which may be null.
/// @return CUDA_ERROR_INVALID_VALUE if both or neither are given (for a kernel with parameters), a
///     pointer is null, or the buffer in `extra` is too small.
CUresult gather_parameters(const KernelCode& code, void* const* values, void* const* extra,
                           std::vector<std::byte>* buffer);

/// What a launch needs besides its shape.
struct LaunchRequest {
  CUfunction function = nullptr;
  LaunchShape shape;
  CUstream stream = nullptr;
  NullStream null_stream = NullStream::kLegacy;
  void* const* parameters = nullptr;
  void* const* extra = nullptr;
};

/// One launch that prepare() accepted: what a launch function submits, and what a node of a graph
/// does at each launch of the graph.
struct PreparedLaunch {
  CUfunction handle = nullptr;  ///< as the program gave it
  FunctionPtr function;
  LaunchShape shape;
  std::vector<std::byte> parameters;
};

/// Checks a launch of `request.function` in `context`, and copies its parameters.
/// @return a code that cuLaunchKernel documents.
CUresult prepare(Context& context, const LaunchRequest& request, PreparedLaunch* work);

/// The operation that does `work` on a stream of its function's context. Which of its parameters
/// name memory is settled now: once per launch of a graph.
Operation operation_of(PreparedLaunch work);

/// Checks a launch and enqueues it, or makes it a node if the stream captures. The parameters are
/// copied before it returns. Waits while the stream's queue is full, and, with implicit
/// synchronisation, for the context at a kernel's first launch.
///
/// A kernel that a plugin knows is computed by it, on the stream's thread; any other runs as a
/// mixer (mixer.h), for as long as kernel_cost.h says. REQUIRES: `context` is current and healthy.
/// Any thread.
/// @return a code that cuLaunchKernel documents.
CUresult launch(Context& context, const LaunchRequest& request);

}  // namespace simgpu
