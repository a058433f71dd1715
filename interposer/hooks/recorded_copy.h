// Copies out of the device under a CopyRecorder.
#pragma once

#include "interposer/driver/cuda_api.h"
#include "interposer/recording/copy_recorder.h"
#include "residency/device_memory.h"

namespace superpipe {

/// What a copy of `size` bytes to the host at `to` writes.
CopyTarget copy_target(void* to, CUdeviceptr from, std::size_t size) noexcept;
/// What a copy whose direction the addresses tell writes of the host's memory.
CopyTarget copy_target(CUdeviceptr to, CUdeviceptr from, std::size_t size) noexcept;
/// What the others write of it; null pointers write nothing.
CopyTarget copy_target(const CUDA_MEMCPY2D* copy) noexcept;
CopyTarget copy_target(const CUDA_MEMCPY3D* copy) noexcept;
CopyTarget copy_target(const CUDA_MEMCPY3D_PEER* copy) noexcept;

/// Copies through `call`, and writes down what `copy` (the arguments of copy_target) wrote of the
/// host's memory if this process has a recorder. @return what `call` returned.
template <typename Call, typename... Copy>
CUresult recorded_copy(StreamHandle stream, CopyMode mode, const Call& call,
                       Copy... copy) noexcept {
  const CUresult result = call();
  CopyRecorder* const recorder = CopyRecorder::of_process();
  if (recorder != nullptr && result == CUDA_SUCCESS) {
    recorder->note_copy(copy_target(copy...), stream, mode);
  }
  return result;
}

/// The same for copies from `from[i]` to `to[i]`, `count` of them.
template <typename Call>
CUresult recorded_copies(StreamHandle stream, const Call& call, const CUdeviceptr* to,
                         const CUdeviceptr* from, const std::size_t* sizes,
                         std::size_t count) noexcept {
  const CUresult result = call();
  CopyRecorder* const recorder = CopyRecorder::of_process();
  if (recorder == nullptr || result != CUDA_SUCCESS) return result;
  for (std::size_t i = 0; i < count; ++i) {
    recorder->note_copy(copy_target(to[i], from[i], sizes[i]), stream, CopyMode::kAsynchronous);
  }
  return result;
}

}  // namespace superpipe
