// Looks at what driver calls answer for errors of memory that was not there.
#pragma once

#include "interposer/driver/cuda_api.h"

namespace superpipe {

/// Whether `result` can be what a driver answers after work of the program used memory that is not
/// mapped. Other things have these codes as well, superpipe's own failures among them.
[[nodiscard]] constexpr bool may_be_access_fault(CUresult result) {
  return result == CUDA_ERROR_ILLEGAL_ADDRESS || result == CUDA_ERROR_INVALID_ADDRESS_SPACE ||
         result == CUDA_ERROR_LAUNCH_FAILED;
}

/// Has the managed context say what it knows of the fault, if there was one, once. Asks the driver.
/// REQUIRES: the calling thread holds no lock of superpipe's.
void report_access_fault() noexcept;

/// Gives `result`, what a call of the program is answered, back. One compare for a call that
/// succeeds.
inline CUresult watched(CUresult result) noexcept {
  if (result != CUDA_SUCCESS && may_be_access_fault(result)) [[unlikely]]
    report_access_fault();
  return result;
}

}  // namespace superpipe
