// Events.

#include <cstring>

#include "tools/simgpu/cudart/runtime.h"

namespace simgpu::cudart {

SIMGPU_EXPORT cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return with_context(
      [&](const DriverTable& d) { return d.cuEventCreate(event, CU_EVENT_DEFAULT); });
}

SIMGPU_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return with_context([&](const DriverTable& d) { return d.cuEventCreate(event, flags); });
}

SIMGPU_EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return with_context([&](const DriverTable& d) { return d.cuEventRecord(event, stream); });
}

SIMGPU_EXPORT cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream,
                                                   unsigned int flags) {
  return with_context(
      [&](const DriverTable& d) { return d.cuEventRecordWithFlags(event, stream, flags); });
}

SIMGPU_EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) {
  return with_context([&](const DriverTable& d) { return d.cuEventQuery(event); });
}

SIMGPU_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return with_context([&](const DriverTable& d) { return d.cuEventSynchronize(event); });
}

SIMGPU_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return with_context([&](const DriverTable& d) { return d.cuEventDestroy(event); });
}

SIMGPU_EXPORT cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return with_context([&](const DriverTable& d) { return d.cuEventElapsedTime(ms, start, end); });
}

SIMGPU_EXPORT cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  static_assert(sizeof(cudaIpcEventHandle_t) == sizeof(CUipcEventHandle));
  return with_context([&](const DriverTable& d) {
    return d.cuIpcGetEventHandle(reinterpret_cast<CUipcEventHandle*>(handle), event);
  });
}

SIMGPU_EXPORT cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  return with_context([&](const DriverTable& d) {
    CUipcEventHandle converted{};
    std::memcpy(&converted, &handle, sizeof(converted));
    return d.cuIpcOpenEventHandle(event, converted);
  });
}

}  // namespace simgpu::cudart
