// Streams: captures are counted, blocking streams noted, and a stream's end is marked before it
// goes.
#include "interposer/contexts/context_registry.h"
#include "interposer/driver/capture_count.h"
#include "interposer/driver/joining_streams.h"
#include "interposer/driver/streams.h"
#include "interposer/driver/table.h"
#include "interposer/generated/hooks.h"

namespace superpipe {
namespace {

/// A capture also ends when it turns out to be broken; other answers leave it under way. Counting
/// one too many is safe: streams are then asked for.
CUresult counted_end(CUresult result) noexcept {
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
      result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED) {
    CaptureCount::end();
  }
  return result;
}

template <typename Call>
CUresult destroy(CUstream stream, const Call& call) noexcept {
  ManagedContext* const managed = ContextRegistry::managed();
  if (managed != nullptr && stream != nullptr) {
    managed->residency().on_stream_destroy(stream_handle(stream, kLegacyDefault));
  }
  return call();
}

void note_if_blocking(unsigned int flags) noexcept {
  if ((flags & CU_STREAM_NON_BLOCKING) == 0) JoiningStreams::note();
}

}  // namespace

CUresult hook::cuStreamCreate(CUstream* phStream, unsigned int Flags) noexcept {
  note_if_blocking(Flags);
  return driver().cuStreamCreate(phStream, Flags);
}
CUresult hook::cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags,
                                          int priority) noexcept {
  note_if_blocking(flags);
  return driver().cuStreamCreateWithPriority(phStream, flags, priority);
}

CUresult hook::cuStreamBeginCapture(CUstream hStream) noexcept {
  return CaptureCount::begin([&] { return driver().cuStreamBeginCapture(hStream); });
}
CUresult hook::cuStreamBeginCapture_ptsz(CUstream hStream) noexcept {
  return CaptureCount::begin([&] { return driver().cuStreamBeginCapture_ptsz(hStream); });
}
CUresult hook::cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) noexcept {
  return CaptureCount::begin([&] { return driver().cuStreamBeginCapture_v2(hStream, mode); });
}
CUresult hook::cuStreamBeginCapture_v2_ptsz(CUstream hStream, CUstreamCaptureMode mode) noexcept {
  return CaptureCount::begin([&] { return driver().cuStreamBeginCapture_v2_ptsz(hStream, mode); });
}
CUresult hook::cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
                                           const CUgraphNode* dependencies,
                                           const CUgraphEdgeData* dependencyData,
                                           size_t numDependencies,
                                           CUstreamCaptureMode mode) noexcept {
  return CaptureCount::begin([&] {
    return driver().cuStreamBeginCaptureToGraph(hStream, hGraph, dependencies, dependencyData,
                                                numDependencies, mode);
  });
}
CUresult hook::cuStreamBeginCaptureToGraph_ptsz(CUstream hStream, CUgraph hGraph,
                                                const CUgraphNode* dependencies,
                                                const CUgraphEdgeData* dependencyData,
                                                size_t numDependencies,
                                                CUstreamCaptureMode mode) noexcept {
  return CaptureCount::begin([&] {
    return driver().cuStreamBeginCaptureToGraph_ptsz(hStream, hGraph, dependencies, dependencyData,
                                                     numDependencies, mode);
  });
}

CUresult hook::cuStreamEndCapture(CUstream hStream, CUgraph* phGraph) noexcept {
  return counted_end(driver().cuStreamEndCapture(hStream, phGraph));
}
CUresult hook::cuStreamEndCapture_ptsz(CUstream hStream, CUgraph* phGraph) noexcept {
  return counted_end(driver().cuStreamEndCapture_ptsz(hStream, phGraph));
}

CUresult hook::cuStreamDestroy(CUstream hStream) noexcept {
  return destroy(hStream, [&] { return driver().cuStreamDestroy(hStream); });
}
CUresult hook::cuStreamDestroy_v2(CUstream hStream) noexcept {
  return destroy(hStream, [&] { return driver().cuStreamDestroy_v2(hStream); });
}

}  // namespace superpipe
