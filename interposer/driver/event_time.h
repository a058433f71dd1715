// Time between two events of the driver.
#pragma once

#include <optional>

#include "interposer/driver/cuda_api.h"
#include "interposer/driver/loader.h"
#include "interposer/driver/table.h"

namespace superpipe {

/// Milliseconds from `begin` to `end`, both complete and made with timing; nullopt where the driver
/// does not tell. Drivers before CUDA 12.8 have the first version only. Does not wait.
[[nodiscard]] inline std::optional<float> milliseconds_between(CUevent begin,
                                                               CUevent end) noexcept {
  const OptionalCalls optional;
  float milliseconds = 0;
  if (driver().cuEventElapsedTime_v2(&milliseconds, begin, end) == CUDA_SUCCESS ||
      driver().cuEventElapsedTime(&milliseconds, begin, end) == CUDA_SUCCESS) {
    return milliseconds;
  }
  return std::nullopt;
}

}  // namespace superpipe
