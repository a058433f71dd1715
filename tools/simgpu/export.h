// How a function that programs call leaves a library of simgpu's: everything else in it is hidden.
#pragma once

/// Begins the definition of an exported function: SIMGPU_EXPORT CUresult cuInit(unsigned flags) {
/// ... }.
#define SIMGPU_EXPORT extern "C" __attribute__((visibility("default")))

/// As SIMGPU_EXPORT, for a definition that gives way to any other that the library has.
#define SIMGPU_WEAK_EXPORT extern "C" __attribute__((weak, visibility("default")))
