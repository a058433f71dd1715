// Streams, host functions in streams, and stream capture as the driver offers it.

#include "tools/simgpu/cudart/runtime.h"

namespace simgpu::cudart {

namespace {

static_assert(sizeof(cudaLaunchAttributeValue) == sizeof(CUlaunchAttributeValue));
static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData));
static_assert(static_cast<int>(cudaStreamCaptureModeRelaxed) == CU_STREAM_CAPTURE_MODE_RELAXED);

}  // namespace

SIMGPU_EXPORT cudaError_t cudaStreamCreate(cudaStream_t* p_stream) {
  return with_context(
      [&](const DriverTable& d) { return d.cuStreamCreate(p_stream, CU_STREAM_DEFAULT); });
}

SIMGPU_EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t* p_stream, unsigned int flags) {
  return with_context([&](const DriverTable& d) { return d.cuStreamCreate(p_stream, flags); });
}

SIMGPU_EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t* p_stream, unsigned int flags,
                                                       int priority) {
  return with_context([&](const DriverTable& d) {
    return d.cuStreamCreateWithPriority(p_stream, flags, priority);
  });
}

SIMGPU_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return with_context([&](const DriverTable& d) { return d.cuStreamDestroy(stream); });
}

SIMGPU_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return with_context([&](const DriverTable& d) { return d.cuStreamSynchronize(stream); });
}

SIMGPU_EXPORT cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return with_context([&](const DriverTable& d) { return d.cuStreamQuery(stream); });
}

SIMGPU_EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                              unsigned int flags) {
  return with_context(
      [&](const DriverTable& d) { return d.cuStreamWaitEvent(stream, event, flags); });
}

SIMGPU_EXPORT cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback,
                                                void* user_data, unsigned int flags) {
  return with_context([&](const DriverTable& d) {
    // The two kinds of callback differ in the name of the error type only, and that has the same
    // values.
    return d.cuStreamAddCallback(stream, reinterpret_cast<CUstreamCallback>(callback), user_data,
                                 flags);
  });
}

SIMGPU_EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn,
                                             void* user_data) {
  return with_context(
      [&](const DriverTable& d) { return d.cuLaunchHostFunc(stream, fn, user_data); });
}

SIMGPU_EXPORT cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void* dev_ptr,
                                                   size_t length, unsigned int flags) {
  return with_context([&](const DriverTable& d) {
    return d.cuStreamAttachMemAsync(stream, to_device(dev_ptr), length, flags);
  });
}

SIMGPU_EXPORT cudaError_t cudaStreamGetPriority(cudaStream_t h_stream, int* priority) {
  return with_context(
      [&](const DriverTable& d) { return d.cuStreamGetPriority(h_stream, priority); });
}

SIMGPU_EXPORT cudaError_t cudaStreamGetFlags(cudaStream_t h_stream, unsigned int* flags) {
  return with_context([&](const DriverTable& d) { return d.cuStreamGetFlags(h_stream, flags); });
}

SIMGPU_EXPORT cudaError_t cudaStreamGetId(cudaStream_t h_stream, unsigned long long* stream_id) {
  return with_context([&](const DriverTable& d) { return d.cuStreamGetId(h_stream, stream_id); });
}

SIMGPU_EXPORT cudaError_t cudaStreamGetDevice(cudaStream_t h_stream, int* device) {
  return with_context([&](const DriverTable& d) { return d.cuStreamGetDevice(h_stream, device); });
}

SIMGPU_EXPORT cudaError_t cudaStreamCopyAttributes(cudaStream_t dst, cudaStream_t src) {
  return with_context([&](const DriverTable& d) { return d.cuStreamCopyAttributes(dst, src); });
}

SIMGPU_EXPORT cudaError_t cudaStreamGetAttribute(cudaStream_t h_stream, cudaLaunchAttributeID attr,
                                                 cudaLaunchAttributeValue* value_out) {
  return with_context([&](const DriverTable& d) {
    return d.cuStreamGetAttribute(h_stream, static_cast<CUstreamAttrID>(attr),
                                  reinterpret_cast<CUstreamAttrValue*>(value_out));
  });
}

SIMGPU_EXPORT cudaError_t cudaStreamSetAttribute(cudaStream_t h_stream, cudaLaunchAttributeID attr,
                                                 const cudaLaunchAttributeValue* value) {
  return with_context([&](const DriverTable& d) {
    return d.cuStreamSetAttribute(h_stream, static_cast<CUstreamAttrID>(attr),
                                  reinterpret_cast<const CUstreamAttrValue*>(value));
  });
}

SIMGPU_EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return with_context([&](const DriverTable& d) {
    return d.cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(mode));
  });
}

SIMGPU_EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* p_graph) {
  return with_context([&](const DriverTable& d) { return d.cuStreamEndCapture(stream, p_graph); });
}

SIMGPU_EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                                cudaStreamCaptureStatus* p_capture_status) {
  if (p_capture_status == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& d) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUresult result = d.cuStreamIsCapturing(stream, &status);
    if (result == CUDA_SUCCESS) *p_capture_status = static_cast<cudaStreamCaptureStatus>(status);
    return result;
  });
}

SIMGPU_EXPORT cudaError_t cudaStreamGetCaptureInfo(
    cudaStream_t stream, cudaStreamCaptureStatus* capture_status_out, unsigned long long* id_out,
    cudaGraph_t* graph_out, const cudaGraphNode_t** dependencies_out,
    const cudaGraphEdgeData** edge_data_out, size_t* num_dependencies_out) {
  if (capture_status_out == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& d) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    const CUresult result = d.cuStreamGetCaptureInfo(
        stream, &status, &id, graph_out, dependencies_out,
        reinterpret_cast<const CUgraphEdgeData**>(edge_data_out), num_dependencies_out);
    if (result == CUDA_SUCCESS) {
      *capture_status_out = static_cast<cudaStreamCaptureStatus>(status);
      if (id_out != nullptr && status == CU_STREAM_CAPTURE_STATUS_ACTIVE) *id_out = id;
    }
    return result;
  });
}

SIMGPU_EXPORT cudaError_t cudaStreamUpdateCaptureDependencies(
    cudaStream_t stream, cudaGraphNode_t* dependencies, const cudaGraphEdgeData* dependency_data,
    size_t num_dependencies, unsigned int flags) {
  return with_context([&](const DriverTable& d) {
    return d.cuStreamUpdateCaptureDependencies(
        stream, dependencies, reinterpret_cast<const CUgraphEdgeData*>(dependency_data),
        num_dependencies, flags);
  });
}

SIMGPU_EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  if (mode == nullptr) return record(cudaErrorInvalidValue);
  return with_driver([&](const DriverTable& d) {
    auto exchanged = static_cast<CUstreamCaptureMode>(*mode);
    const CUresult result = d.cuThreadExchangeStreamCaptureMode(&exchanged);
    if (result == CUDA_SUCCESS) *mode = static_cast<cudaStreamCaptureMode>(exchanged);
    return result;
  });
}

}  // namespace simgpu::cudart
