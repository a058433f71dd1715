// What the stand-ins say to routines that they lack.
#pragma once

#include <atomic>
#include <cstdio>

#include "tools/simgpu/cublas/status.h"
#include "tools/simgpu/export.h"

/// Defines `name` weakly: a real definition elsewhere in the library takes its place. One line on
/// standard error at the first call; nothing is read, so no prototype is needed.
#define SIMGPU_CUBLAS_UNSUPPORTED(name)                                                \
  SIMGPU_WEAK_EXPORT int name() {                                                      \
    static std::atomic<bool> said{false};                                              \
    if (!said.exchange(true, std::memory_order_relaxed)) {                             \
      std::fprintf(stderr, "simgpu: %s is not supported by simgpu's cuBLAS\n", #name); \
    }                                                                                  \
    return simgpu::cublas::kNotSupported;                                              \
  }
