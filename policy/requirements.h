// What superpipe requires of a machine, wherever it is asked for: the command refuses what the
// library could not manage.
#pragma once

#include <string>

namespace superpipe {

/// The oldest driver that superpipe works with, as cuDriverGetVersion says it: CUDA 12.4.
///
/// It is the first with cuFuncGetParamInfo, which tells the layout of a kernel's parameters;
/// without that it is not known which buffers a launch uses.
inline constexpr int kOldestDriver = 12040;

/// The first driver package from NVIDIA that has kOldestDriver, for messages.
inline constexpr const char* kOldestDriverPackage = "550";

/// The version of CUDA that cuDriverGetVersion means by `version`: "12.4" for 12040.
[[nodiscard]] inline std::string cuda_version(int version) {
  return std::to_string(version / 1000) + '.' + std::to_string(version % 1000 / 10);
}

}  // namespace superpipe
