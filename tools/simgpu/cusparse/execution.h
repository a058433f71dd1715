// How a routine of cuSPARSE reaches the device: as launches that write its result.
#pragma once

#include <cstddef>

#include "tools/simgpu/cublas/launch.h"
#include "tools/simgpu/cusparse/descriptor.h"
#include "tools/simgpu/cusparse/status.h"

namespace simgpu::cusparse {

/// Launches on the handle's stream what writes `output` from all of `inputs`; null addresses are
/// left out. Any thread; waits on nothing. @return kSuccess, kNotInitialized without a handle, or
/// kExecutionFailed.
inline Status execute(const Handle* handle, const cublas::Inputs& inputs,
                      const ProductOperand& output, const Product& work) {
  if (handle == nullptr) return kNotInitialized;
  const cublas::Status status =
      cublas::execute(cublas::Routine::kSparse, handle->stream, inputs, {&output, 1}, work);
  return status == cublas::kSuccess ? kSuccess : kExecutionFailed;
}

/// Answers a question for the size of a work area: routines have no intermediate results.
inline Status answer(const Handle* handle, std::size_t* bytes) {
  constexpr std::size_t kLeast = 256;
  if (handle == nullptr) return kNotInitialized;
  if (bytes == nullptr) return kInvalidValue;
  *bytes = kLeast;
  return kSuccess;
}

}  // namespace simgpu::cusparse
