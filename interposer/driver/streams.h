// Streams as the program names them, as residency knows them, and as the driver takes them.
#pragma once

#include <cstdint>

#include "interposer/driver/capture_count.h"
#include "interposer/driver/cuda_api.h"
#include "interposer/driver/joining_streams.h"
#include "interposer/driver/table.h"
#include "residency/device_memory.h"

namespace superpipe {

/// What the null stream stands for at an entry point: the per-thread stream at the _ptds and _ptsz
/// variants, the legacy stream at all others.
inline constexpr bool kLegacyDefault = false;
inline constexpr bool kPerThreadDefault = true;

/// A stream as residency knows it. `per_thread`: kLegacyDefault or kPerThreadDefault.
[[nodiscard]] inline StreamHandle stream_handle(CUstream stream, bool per_thread) noexcept {
  if (stream == nullptr) {
    if (!per_thread) return kLegacyStream;
    JoiningStreams::note();
    return kPerThreadStream;
  }
  return StreamHandle{reinterpret_cast<std::uint64_t>(stream)};
}

/// The driver's handle of `stream`; the special streams come back as CU_STREAM_LEGACY and
/// CU_STREAM_PER_THREAD, which every entry point understands.
[[nodiscard]] inline CUstream driver_stream(StreamHandle stream) noexcept {
  return reinterpret_cast<CUstream>(static_cast<std::uint64_t>(stream));
}

/// Whether the program is capturing `stream`: an allocation there becomes a node of its graph. Any
/// thread; one load while nothing is captured.
[[nodiscard]] inline bool is_capturing(StreamHandle stream) noexcept {
  if (!CaptureCount::any()) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  // The driver refuses to answer for the legacy stream while that stream would break a capture. The
  // call then goes to the driver as well, which tells the program.
  return driver().cuStreamIsCapturing(driver_stream(stream), &status) != CUDA_SUCCESS ||
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/// Whether an operation that is submitted to `stream` now surely becomes a node of a graph. Any
/// thread; one load while nothing is captured.
[[nodiscard]] inline bool is_captured(StreamHandle stream) noexcept {
  if (!CaptureCount::any()) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return driver().cuStreamIsCapturing(driver_stream(stream), &status) == CUDA_SUCCESS &&
         status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

}  // namespace superpipe
