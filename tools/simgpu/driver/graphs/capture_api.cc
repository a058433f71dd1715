// The driver functions of stream capture.
#include <utility>

#include "tools/simgpu/driver/graphs/capture.h"

namespace simgpu {
namespace {

/// Runs `use(stream)` on the stream that `handle` names.
template <typename Use>
CUresult with_capture_stream(CUstream handle, NullStream null_stream, const Use& use) {
  SIMGPU_CONTEXT(context);
  StreamPtr stream;
  if (const CUresult result = resolve_stream(*context, handle, null_stream, &stream);
      result != CUDA_SUCCESS) {
    return result;
  }
  return use(stream);
}

CUresult begin_stream_capture(CUstream handle, CUstreamCaptureMode mode, NullStream null_stream) {
  SIMGPU_ENTER(cuStreamBeginCapture);
  return with_capture_stream(handle, null_stream,
                             [&](const StreamPtr& stream) { return begin_capture(stream, mode); });
}

CUresult begin_stream_capture_to(CUstream handle, CUgraph graph, const CUgraphNode* dependencies,
                                 const CUgraphEdgeData* data, std::size_t count,
                                 CUstreamCaptureMode mode, NullStream null_stream) {
  SIMGPU_ENTER(cuStreamBeginCaptureToGraph);
  return with_capture_stream(handle, null_stream, [&](const StreamPtr& stream) {
    return begin_capture_to(stream, graph, dependencies, data, count, mode);
  });
}

CUresult end_stream_capture(CUstream handle, CUgraph* graph, NullStream null_stream) {
  SIMGPU_ENTER(cuStreamEndCapture);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return with_capture_stream(handle, null_stream,
                             [&](const StreamPtr& stream) { return end_capture(stream, graph); });
}

CUresult is_stream_capturing(CUstream handle, CUstreamCaptureStatus* status,
                             NullStream null_stream) {
  SIMGPU_ENTER(cuStreamIsCapturing);
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return with_capture_stream(
      handle, null_stream, [&](const StreamPtr& stream) { return capture_status(stream, status); });
}

/// What all versions of cuStreamGetCaptureInfo do; each but `status` may be null.
CUresult stream_capture_info(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                             CUgraph* graph, const CUgraphNode** dependencies,
                             const CUgraphEdgeData** data, std::size_t* count,
                             NullStream null_stream) {
  SIMGPU_ENTER(cuStreamGetCaptureInfo);
  if (status == nullptr || (data != nullptr && dependencies == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return with_capture_stream(handle, null_stream, [&](const StreamPtr& stream) {
    CaptureInfo info;
    if (const CUresult result = capture_info(stream, &info); result != CUDA_SUCCESS) return result;
    *status = info.status;
    if (info.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
    if (dependencies != nullptr && data == nullptr && info.has_data) return CUDA_ERROR_LOSSY_QUERY;
    if (id != nullptr) *id = info.id;
    if (graph != nullptr) *graph = info.graph;
    if (dependencies != nullptr) *dependencies = info.dependencies;
    if (data != nullptr) *data = info.data;
    if (count != nullptr) *count = info.count;
    return CUDA_SUCCESS;
  });
}

CUresult update_stream_capture(CUstream handle, const CUgraphNode* dependencies,
                               const CUgraphEdgeData* data, std::size_t count, unsigned flags,
                               NullStream null_stream) {
  SIMGPU_ENTER(cuStreamUpdateCaptureDependencies);
  return with_capture_stream(handle, null_stream, [&](const StreamPtr& stream) {
    return update_capture_dependencies(stream, dependencies, data, count, flags);
  });
}

}  // namespace

SIMGPU_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  SIMGPU_ENTER(cuThreadExchangeStreamCaptureMode);
  if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL ||
      *mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *mode = exchange_capture_mode(*mode);
  return CUDA_SUCCESS;
}

/// The first ABI has no mode.
SIMGPU_STREAM_VARIANTS(cuStreamBeginCapture, _ptsz, (CUstream hStream), begin_stream_capture,
                       hStream, CU_STREAM_CAPTURE_MODE_GLOBAL);
SIMGPU_STREAM_VARIANTS(cuStreamBeginCapture_v2, _ptsz, (CUstream hStream, CUstreamCaptureMode mode),
                       begin_stream_capture, hStream, mode);
SIMGPU_STREAM_VARIANTS(cuStreamBeginCaptureToGraph, _ptsz,
                       (CUstream hStream, CUgraph hGraph, const CUgraphNode* dependencies,
                        const CUgraphEdgeData* dependencyData, size_t numDependencies,
                        CUstreamCaptureMode mode),
                       begin_stream_capture_to, hStream, hGraph, dependencies, dependencyData,
                       numDependencies, mode);
SIMGPU_STREAM_VARIANTS(cuStreamEndCapture, _ptsz, (CUstream hStream, CUgraph* phGraph),
                       end_stream_capture, hStream, phGraph);
SIMGPU_STREAM_VARIANTS(cuStreamIsCapturing, _ptsz,
                       (CUstream hStream, CUstreamCaptureStatus* captureStatus),
                       is_stream_capturing, hStream, captureStatus);
SIMGPU_STREAM_VARIANTS(cuStreamGetCaptureInfo, _ptsz,
                       (CUstream hStream, CUstreamCaptureStatus* status, cuuint64_t* id),
                       stream_capture_info, hStream, status, id, nullptr, nullptr, nullptr,
                       nullptr);
SIMGPU_STREAM_VARIANTS(cuStreamGetCaptureInfo_v2, _ptsz,
                       (CUstream hStream, CUstreamCaptureStatus* status, cuuint64_t* id,
                        CUgraph* graph, const CUgraphNode** dependencies, size_t* count),
                       stream_capture_info, hStream, status, id, graph, dependencies, nullptr,
                       count);
SIMGPU_STREAM_VARIANTS(cuStreamGetCaptureInfo_v3, _ptsz,
                       (CUstream hStream, CUstreamCaptureStatus* status, cuuint64_t* id,
                        CUgraph* graph, const CUgraphNode** dependencies,
                        const CUgraphEdgeData** data, size_t* count),
                       stream_capture_info, hStream, status, id, graph, dependencies, data, count);
SIMGPU_STREAM_VARIANTS(cuStreamUpdateCaptureDependencies, _ptsz,
                       (CUstream hStream, CUgraphNode* dependencies, size_t count,
                        unsigned int flags),
                       update_stream_capture, hStream, dependencies, nullptr, count, flags);
SIMGPU_STREAM_VARIANTS(cuStreamUpdateCaptureDependencies_v2, _ptsz,
                       (CUstream hStream, CUgraphNode* dependencies, const CUgraphEdgeData* data,
                        size_t count, unsigned int flags),
                       update_stream_capture, hStream, dependencies, data, count, flags);

}  // namespace simgpu
