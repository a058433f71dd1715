// What both libraries say of themselves: their version, and names and texts of status codes.
#pragma once

#include <cstddef>

namespace simgpu::cublas {

#ifndef SIMGPU_CUBLAS_VERSION
#define SIMGPU_CUBLAS_VERSION 130100
#define SIMGPU_CUBLAS_RUNTIME 13010
#endif

/// The version of cuBLAS that the libraries pass for: 10000 * major + 100 * minor + patch.
inline constexpr int kVersion = SIMGPU_CUBLAS_VERSION;

/// The version of the runtime library that cuBLAS was built with, as cudaRuntimeGetVersion() has
/// it.
inline constexpr std::size_t kRuntimeVersion = SIMGPU_CUBLAS_RUNTIME;

/// A part of kVersion. `property`: libraryPropertyType, 0 to 2. @return kInvalidValue for others.
int version_part(int property, int* value) noexcept;

/// "CUBLAS_STATUS_SUCCESS" and the like; "CUBLAS_STATUS_UNKNOWN" for a number that is none. A
/// static string.
const char* status_name(int status) noexcept;

/// A few words that say what the status means. A static string.
const char* status_text(int status) noexcept;

}  // namespace simgpu::cublas
