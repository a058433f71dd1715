// Driver functions of occupancy: cuOccupancy*.
#include <algorithm>

#include "tools/simgpu/driver/code/module_registry.h"
#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/entry/api.h"
#include "tools/simgpu/driver/launch/launch.h"
#include "tools/simgpu/driver/launch/occupancy.h"

namespace simgpu {
namespace {

constexpr unsigned kKnownFlags = CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE;

/// The function that `handle` names, a CUkernel included, in the current context.
CUresult find(CUfunction handle, FunctionPtr* function) {
  SIMGPU_CONTEXT(context);
  return find_launchable(handle, *context, function);
}

std::size_t static_shared(const Function& function) {
  return function.code->image().static_shared_bytes;
}

CUresult max_active_blocks(int* blocks, CUfunction handle, int block_size, size_t dynamic,
                           unsigned flags) {
  if (blocks == nullptr || block_size < 1 || (flags & ~kKnownFlags) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  FunctionPtr function;
  if (const CUresult result = find(handle, &function); result != CUDA_SUCCESS) return result;
  *blocks = resident_blocks({.threads = block_size,
                             .registers = function->code->image().registers,
                             .shared_bytes = static_shared(*function) + dynamic});
  return CUDA_SUCCESS;
}

CUresult max_potential_block_size(int* min_grid, int* best_block, CUfunction handle,
                                  CUoccupancyB2DSize dynamic_of, size_t dynamic, int limit,
                                  unsigned flags) {
  if (min_grid == nullptr || best_block == nullptr || (flags & ~kKnownFlags) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  FunctionPtr function;
  if (const CUresult result = find(handle, &function); result != CUDA_SUCCESS) return result;
  int most = function->attributes->value(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  most = limit > 0 ? std::min(most, limit) : most;
  constexpr int kWarp = 32;
  int best = 0;
  int best_threads = 0;
  int best_blocks = 0;
  for (int threads = most; threads > 0; threads = (threads - 1) / kWarp * kWarp) {
    const std::size_t shared = dynamic_of != nullptr ? dynamic_of(threads) : dynamic;
    const int blocks = resident_blocks({.threads = threads,
                                        .registers = function->code->image().registers,
                                        .shared_bytes = static_shared(*function) + shared});
    if (blocks * threads > best) {
      best = blocks * threads;
      best_threads = threads;
      best_blocks = blocks;
    }
  }
  *min_grid = best_blocks * multiprocessors(*function->context);
  *best_block = best_threads;
  return CUDA_SUCCESS;
}

}  // namespace

SIMGPU_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* num_blocks, CUfunction func,
                                                                   int block_size,
                                                                   size_t dynamic_bytes) {
  SIMGPU_ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessor);
  return max_active_blocks(num_blocks, func, block_size, dynamic_bytes, 0);
}

SIMGPU_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* num_blocks, CUfunction func, int block_size, size_t dynamic_bytes, unsigned int flags) {
  SIMGPU_ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags);
  return max_active_blocks(num_blocks, func, block_size, dynamic_bytes, flags);
}

SIMGPU_EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int* min_grid_size, int* block_size,
                                                        CUfunction func,
                                                        CUoccupancyB2DSize dynamic_bytes_of,
                                                        size_t dynamic_bytes,
                                                        int block_size_limit) {
  SIMGPU_ENTER(cuOccupancyMaxPotentialBlockSize);
  return max_potential_block_size(min_grid_size, block_size, func, dynamic_bytes_of, dynamic_bytes,
                                  block_size_limit, 0);
}

SIMGPU_EXPORT CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(
    int* min_grid_size, int* block_size, CUfunction func, CUoccupancyB2DSize dynamic_bytes_of,
    size_t dynamic_bytes, int block_size_limit, unsigned int flags) {
  SIMGPU_ENTER(cuOccupancyMaxPotentialBlockSizeWithFlags);
  return max_potential_block_size(min_grid_size, block_size, func, dynamic_bytes_of, dynamic_bytes,
                                  block_size_limit, flags);
}

SIMGPU_EXPORT CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* dynamic_bytes,
                                                               CUfunction func, int num_blocks,
                                                               int block_size) {
  SIMGPU_ENTER(cuOccupancyAvailableDynamicSMemPerBlock);
  if (dynamic_bytes == nullptr || num_blocks < 1 || block_size < 1) return CUDA_ERROR_INVALID_VALUE;
  FunctionPtr function;
  if (const CUresult result = find(func, &function); result != CUDA_SUCCESS) return result;
  const std::size_t all = shared_bytes_for(
      num_blocks,
      {.threads = block_size, .registers = function->code->image().registers, .shared_bytes = 0});
  const std::size_t own = static_shared(*function);
  const auto allowed = static_cast<std::size_t>(
      function->attributes->value(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
  *dynamic_bytes = all > own ? std::min(all - own, allowed) : 0;
  return CUDA_SUCCESS;
}

/// Clusters hold at most 8 blocks unless the kernel allows sizes that not all devices have.
SIMGPU_EXPORT CUresult cuOccupancyMaxPotentialClusterSize(int* cluster_size, CUfunction func,
                                                          const CUlaunchConfig* config) {
  SIMGPU_ENTER(cuOccupancyMaxPotentialClusterSize);
  if (cluster_size == nullptr || config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  FunctionPtr function;
  if (const CUresult result = find(func, &function); result != CUDA_SUCCESS) return result;
  *cluster_size = largest_cluster(*function);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuOccupancyMaxActiveClusters(int* num_clusters, CUfunction func,
                                                    const CUlaunchConfig* config) {
  SIMGPU_ENTER(cuOccupancyMaxActiveClusters);
  if (num_clusters == nullptr || config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  FunctionPtr function;
  if (const CUresult result = find(func, &function); result != CUDA_SUCCESS) return result;
  LaunchShape shape = shape_of(*config);
  if (const CUresult result = check_shape(*function, shape); result != CUDA_SUCCESS) return result;
  const unsigned cluster = shape.cluster[0] * shape.cluster[1] * shape.cluster[2];
  const int blocks = resident_blocks(
      {.threads = static_cast<int>(shape.block[0] * shape.block[1] * shape.block[2]),
       .registers = function->code->image().registers,
       .shared_bytes = static_shared(*function) + shape.shared_bytes});
  *num_clusters = blocks * multiprocessors(*function->context) / static_cast<int>(cluster);
  return CUDA_SUCCESS;
}

}  // namespace simgpu
