// Driver functions of launches: cuLaunchKernel, cuLaunchKernelEx, cuLaunchCooperativeKernel.
#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/entry/api.h"
#include "tools/simgpu/driver/launch/launch.h"
#include "tools/simgpu/driver/streams/event.h"

namespace simgpu {
namespace {

CUresult launch_ex(const CUlaunchConfig* config, CUfunction function, void** parameters,
                   void** extra, NullStream null_stream) {
  SIMGPU_ENTER(cuLaunchKernelEx);
  SIMGPU_CONTEXT(context);
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = check_attributes(*config); result != CUDA_SUCCESS) return result;
  if (const CUresult result = launch(*context, {.function = function,
                                                .shape = shape_of(*config),
                                                .stream = config->hStream,
                                                .null_stream = null_stream,
                                                .parameters = parameters,
                                                .extra = extra});
      result != CUDA_SUCCESS) {
    return result;
  }
  // These events may be recorded before the kernel ends, and at the latest when it has: simgpu does
  // the latter.
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    CUevent event = nullptr;
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT) {
      event = attribute.value.programmaticEvent.event;
    } else if (attribute.id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT) {
      event = attribute.value.launchCompletionEvent.event;
    }
    if (event != nullptr) {
      const CUresult result = record(event, config->hStream, null_stream);
      if (result != CUDA_SUCCESS) return result;
    }
  }
  return CUDA_SUCCESS;
}

/// The parameters that all launch functions with a plain list share.
#define SIMGPU_LAUNCH_PARAMETERS                                                                   \
  CUfunction f, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,                     \
      unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, \
      CUstream stream, void **parameters
#define SIMGPU_LAUNCH_ARGUMENTS \
  f, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters

LaunchRequest request_of(SIMGPU_LAUNCH_PARAMETERS, void** extra, NullStream null_stream) {
  return {.function = f,
          .shape = {.grid = {grid_x, grid_y, grid_z},
                    .block = {block_x, block_y, block_z},
                    .cluster = {1, 1, 1},
                    .shared_bytes = shared_bytes,
                    .cooperative = false},
          .stream = stream,
          .null_stream = null_stream,
          .parameters = parameters,
          .extra = extra};
}

CUresult launch_kernel(SIMGPU_LAUNCH_PARAMETERS, void** extra, NullStream null_stream) {
  SIMGPU_ENTER(cuLaunchKernel);
  SIMGPU_CONTEXT(context);
  return launch(*context, request_of(SIMGPU_LAUNCH_ARGUMENTS, extra, null_stream));
}

CUresult launch_cooperative(SIMGPU_LAUNCH_PARAMETERS, NullStream null_stream) {
  SIMGPU_ENTER(cuLaunchCooperativeKernel);
  SIMGPU_CONTEXT(context);
  LaunchRequest request = request_of(SIMGPU_LAUNCH_ARGUMENTS, nullptr, null_stream);
  request.shape.cooperative = true;
  return launch(*context, request);
}

}  // namespace

SIMGPU_STREAM_VARIANTS(cuLaunchKernel, _ptsz, (SIMGPU_LAUNCH_PARAMETERS, void** extra),
                       launch_kernel, SIMGPU_LAUNCH_ARGUMENTS, extra);
SIMGPU_STREAM_VARIANTS(cuLaunchCooperativeKernel, _ptsz, (SIMGPU_LAUNCH_PARAMETERS),
                       launch_cooperative, SIMGPU_LAUNCH_ARGUMENTS);
SIMGPU_STREAM_VARIANTS(cuLaunchKernelEx, _ptsz,
                       (const CUlaunchConfig* config, CUfunction f, void** parameters,
                        void** extra),
                       launch_ex, config, f, parameters, extra);

}  // namespace simgpu
