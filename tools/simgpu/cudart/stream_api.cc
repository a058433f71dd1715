// Streams, host functions in streams, and stream capture as the driver offers it.

#include "tools/simgpu/cudart/runtime.h"

using simgpu::cudart::DriverTable;
using simgpu::cudart::record;
using simgpu::cudart::to_device;
using simgpu::cudart::to_error;
using simgpu::cudart::with_context;
using simgpu::cudart::with_driver;

namespace {

static_assert(sizeof(cudaLaunchAttributeValue) == sizeof(CUlaunchAttributeValue));
static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData));
static_assert(static_cast<int>(cudaStreamCaptureModeRelaxed) == CU_STREAM_CAPTURE_MODE_RELAXED);

}  // namespace

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* pStream) {
  return with_context(
      [&](const DriverTable& d) { return d.cuStreamCreate(pStream, CU_STREAM_DEFAULT); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* pStream, unsigned int flags) {
  return with_context([&](const DriverTable& d) { return d.cuStreamCreate(pStream, flags); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* pStream, unsigned int flags, int priority) {
  return with_context(
      [&](const DriverTable& d) { return d.cuStreamCreateWithPriority(pStream, flags, priority); });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return with_context([&](const DriverTable& d) { return d.cuStreamDestroy(stream); });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return with_context([&](const DriverTable& d) { return d.cuStreamSynchronize(stream); });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return with_context([&](const DriverTable& d) { return d.cuStreamQuery(stream); });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  return with_context(
      [&](const DriverTable& d) { return d.cuStreamWaitEvent(stream, event, flags); });
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback,
                                  void* userData, unsigned int flags) {
  return with_context([&](const DriverTable& d) {
    // The two kinds of callback differ in the name of the error type only, and that has the same
    // values.
    return d.cuStreamAddCallback(stream, reinterpret_cast<CUstreamCallback>(callback), userData,
                                 flags);
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void* userData) {
  return with_context(
      [&](const DriverTable& d) { return d.cuLaunchHostFunc(stream, fn, userData); });
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void* devPtr, size_t length,
                                     unsigned int flags) {
  return with_context([&](const DriverTable& d) {
    return d.cuStreamAttachMemAsync(stream, to_device(devPtr), length, flags);
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t hStream, int* priority) {
  return with_context(
      [&](const DriverTable& d) { return d.cuStreamGetPriority(hStream, priority); });
}

cudaError_t cudaStreamGetFlags(cudaStream_t hStream, unsigned int* flags) {
  return with_context([&](const DriverTable& d) { return d.cuStreamGetFlags(hStream, flags); });
}

cudaError_t cudaStreamGetId(cudaStream_t hStream, unsigned long long* streamId) {
  return with_context([&](const DriverTable& d) { return d.cuStreamGetId(hStream, streamId); });
}

cudaError_t cudaStreamGetDevice(cudaStream_t hStream, int* device) {
  return with_context([&](const DriverTable& d) { return d.cuStreamGetDevice(hStream, device); });
}

cudaError_t cudaStreamCopyAttributes(cudaStream_t dst, cudaStream_t src) {
  return with_context([&](const DriverTable& d) { return d.cuStreamCopyAttributes(dst, src); });
}

cudaError_t cudaStreamGetAttribute(cudaStream_t hStream, cudaLaunchAttributeID attr,
                                   cudaLaunchAttributeValue* value_out) {
  return with_context([&](const DriverTable& d) {
    return d.cuStreamGetAttribute(hStream, static_cast<CUstreamAttrID>(attr),
                                  reinterpret_cast<CUstreamAttrValue*>(value_out));
  });
}

cudaError_t cudaStreamSetAttribute(cudaStream_t hStream, cudaLaunchAttributeID attr,
                                   const cudaLaunchAttributeValue* value) {
  return with_context([&](const DriverTable& d) {
    return d.cuStreamSetAttribute(hStream, static_cast<CUstreamAttrID>(attr),
                                  reinterpret_cast<const CUstreamAttrValue*>(value));
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return with_context([&](const DriverTable& d) {
    return d.cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(mode));
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* pGraph) {
  return with_context([&](const DriverTable& d) { return d.cuStreamEndCapture(stream, pGraph); });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* pCaptureStatus) {
  if (pCaptureStatus == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& d) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUresult result = d.cuStreamIsCapturing(stream, &status);
    if (result == CUDA_SUCCESS) *pCaptureStatus = static_cast<cudaStreamCaptureStatus>(status);
    return result;
  });
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream,
                                     cudaStreamCaptureStatus* captureStatus_out,
                                     unsigned long long* id_out, cudaGraph_t* graph_out,
                                     const cudaGraphNode_t** dependencies_out,
                                     const cudaGraphEdgeData** edgeData_out,
                                     size_t* numDependencies_out) {
  if (captureStatus_out == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& d) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    const CUresult result = d.cuStreamGetCaptureInfo(
        stream, &status, &id, graph_out, dependencies_out,
        reinterpret_cast<const CUgraphEdgeData**>(edgeData_out), numDependencies_out);
    if (result == CUDA_SUCCESS) {
      *captureStatus_out = static_cast<cudaStreamCaptureStatus>(status);
      if (id_out != nullptr && status == CU_STREAM_CAPTURE_STATUS_ACTIVE) *id_out = id;
    }
    return result;
  });
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* dependencies,
                                                const cudaGraphEdgeData* dependencyData,
                                                size_t numDependencies, unsigned int flags) {
  return with_context([&](const DriverTable& d) {
    return d.cuStreamUpdateCaptureDependencies(
        stream, dependencies, reinterpret_cast<const CUgraphEdgeData*>(dependencyData),
        numDependencies, flags);
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  if (mode == nullptr) return record(cudaErrorInvalidValue);
  return with_driver([&](const DriverTable& d) {
    auto exchanged = static_cast<CUstreamCaptureMode>(*mode);
    const CUresult result = d.cuThreadExchangeStreamCaptureMode(&exchanged);
    if (result == CUDA_SUCCESS) *mode = static_cast<cudaStreamCaptureMode>(exchanged);
    return result;
  });
}

}  // extern "C"
