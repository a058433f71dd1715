// Driver functions of launches: cuLaunchKernel, cuLaunchKernelEx, cuLaunchCooperativeKernel.
#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/entry/api.h"
#include "tools/simgpu/driver/launch/launch.h"

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
  // An event that may fire before the kernel ends is recorded behind it: late is always allowed.
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    CUevent event = nullptr;
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT) {
      event = attribute.value.programmaticEvent.event;
    } else if (attribute.id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT) {
      event = attribute.value.launchCompletionEvent.event;
    }
    if (event != nullptr) {
      const CUresult result = null_stream == NullStream::kPerThread
                                  ? ::cuEventRecord_ptsz(event, config->hStream)
                                  : ::cuEventRecord(event, config->hStream);
      if (result != CUDA_SUCCESS) return result;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

/// The parameters that all launch functions with a plain list share, and the request they make.
#define SIMGPU_LAUNCH_PARAMETERS                                                                   \
  CUfunction f, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,                     \
      unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, \
      CUstream stream, void **parameters
#define SIMGPU_LAUNCH_REQUEST(null, cooperative_flag, extra_list)                            \
  LaunchRequest {                                                                            \
    .function = f,                                                                           \
    .shape = {.grid = {grid_x, grid_y, grid_z},                                              \
              .block = {block_x, block_y, block_z},                                          \
              .cluster = {1, 1, 1},                                                          \
              .shared_bytes = shared_bytes,                                                  \
              .cooperative = (cooperative_flag)},                                            \
    .stream = stream, .null_stream = (null), .parameters = parameters, .extra = (extra_list) \
  }

namespace {

CUresult launch_kernel(const LaunchRequest& request) {
  SIMGPU_ENTER(cuLaunchKernel);
  SIMGPU_CONTEXT(context);
  return launch(*context, request);
}

CUresult launch_cooperative(const LaunchRequest& request) {
  SIMGPU_ENTER(cuLaunchCooperativeKernel);
  SIMGPU_CONTEXT(context);
  return launch(*context, request);
}

}  // namespace

SIMGPU_EXPORT CUresult cuLaunchKernel(SIMGPU_LAUNCH_PARAMETERS, void** extra) {
  return launch_kernel(SIMGPU_LAUNCH_REQUEST(NullStream::kLegacy, false, extra));
}

SIMGPU_EXPORT CUresult cuLaunchKernel_ptsz(SIMGPU_LAUNCH_PARAMETERS, void** extra) {
  return launch_kernel(SIMGPU_LAUNCH_REQUEST(NullStream::kPerThread, false, extra));
}

SIMGPU_EXPORT CUresult cuLaunchCooperativeKernel(SIMGPU_LAUNCH_PARAMETERS) {
  return launch_cooperative(SIMGPU_LAUNCH_REQUEST(NullStream::kLegacy, true, nullptr));
}

SIMGPU_EXPORT CUresult cuLaunchCooperativeKernel_ptsz(SIMGPU_LAUNCH_PARAMETERS) {
  return launch_cooperative(SIMGPU_LAUNCH_REQUEST(NullStream::kPerThread, true, nullptr));
}

SIMGPU_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f,
                                        void** parameters, void** extra) {
  return launch_ex(config, f, parameters, extra, NullStream::kLegacy);
}

SIMGPU_EXPORT CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction f,
                                             void** parameters, void** extra) {
  return launch_ex(config, f, parameters, extra, NullStream::kPerThread);
}

}  // namespace simgpu
