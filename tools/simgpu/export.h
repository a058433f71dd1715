// How the libraries of simgpu export the functions that programs call: everything else is hidden.
#pragma once

#include <atomic>

/// Begins the definition of an exported function, as in SIMGPU_EXPORT CUresult cuInit(unsigned).
#define SIMGPU_EXPORT extern "C" __attribute__((visibility("default")))

/// Defines the exported function `name` as one that simgpu does not have. The definition is weak:
/// where the library has another, the linker takes that one. To be used inside the library's
/// namespace, whose unsupported() gives the answer. `parameters`: their types, in parentheses.
#define SIMGPU_UNSUPPORTED(result, name, parameters)                               \
  extern "C" __attribute__((weak, visibility("default"))) result name parameters { \
    static std::atomic<bool> said{false};                                          \
    return unsupported(#name, said);                                               \
  }
