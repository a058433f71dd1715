// The plans that a program has, by the numbers that it knows them by.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>

#include "tools/simgpu/cufft/layout.h"

namespace simgpu::cufft {

/// A plan. As with NVIDIA's library, one thread at a time uses it.
struct Plan {
  CUstream stream = nullptr;
  Transform transform;
  bool is_made = false;  ///< it has a transform
};
using PlanRef = std::shared_ptr<Plan>;

/// @name All plans of the process
/// Thread-safe. Throws std::bad_alloc.
/// @{
int add_plan();
/// Null for a number that is no plan's.
PlanRef find_plan(int number);
/// @return false for a number that is no plan's.
bool remove_plan(int number);
/// @}

}  // namespace simgpu::cufft
