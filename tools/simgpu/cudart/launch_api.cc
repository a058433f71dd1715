// Launches, attributes of kernels, occupancy.

#include <cstdint>
#include <type_traits>

#include "tools/simgpu/cudart/registry.h"

namespace simgpu::cudart {
namespace {

static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(alignof(cudaLaunchAttribute) == alignof(CUlaunchAttribute));

/// The driver takes a kernel wherever it takes a function. Source: CUDA Driver API, cuLaunchKernel.
CUfunction as_function(CUkernel kernel) { return reinterpret_cast<CUfunction>(kernel); }

/// Calls `body(table, kernel)` for the kernel that `function` means.
template <typename Body>
cudaError_t with_kernel(const void* function, Body&& body) {
  return with_context([&](const DriverTable& d) {
    CUkernel kernel = nullptr;
    const cudaError_t error = Registry::instance().kernel(function, &kernel);
    return error != cudaSuccess ? error : to_error(body(d, kernel));
  });
}

/// True if the thread's device cannot run blocks or grids of these sizes.
bool is_invalid(const DriverTable& d, dim3 grid, dim3 block) {
  CUdevice device = 0;
  if (d.cuCtxGetDevice(&device) != CUDA_SUCCESS) return false;
  const auto above = [&](uint64_t size, CUdevice_attribute limit) {
    int most = 0;
    return size == 0 || (d.cuDeviceGetAttribute(&most, limit, device) == CUDA_SUCCESS &&
                         size > static_cast<uint64_t>(most));
  };
  return above(grid.x, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X) ||
         above(grid.y, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y) ||
         above(grid.z, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z) ||
         above(block.x, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X) ||
         above(block.y, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y) ||
         above(block.z, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z) ||
         above(uint64_t{block.x} * block.y * block.z, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
}

/// The runtime's error for a refused launch: it has a name of its own for impossible sizes.
cudaError_t launch_error(const DriverTable& d, CUresult result, dim3 grid, dim3 block) {
  return result == CUDA_ERROR_INVALID_VALUE && is_invalid(d, grid, block)
             ? cudaErrorInvalidConfiguration
             : to_error(result);
}

cudaError_t launch(const DriverTable& d, CUkernel kernel, dim3 grid, dim3 block, void** arguments,
                   size_t shared_bytes, cudaStream_t stream) {
  const CUresult result =
      d.cuLaunchKernel(as_function(kernel), grid.x, grid.y, grid.z, block.x, block.y, block.z,
                       static_cast<unsigned>(shared_bytes), stream, arguments, nullptr);
  return launch_error(d, result, grid, block);
}

CUlaunchConfig to_config(const cudaLaunchConfig_t& config) {
  CUlaunchConfig converted{};
  converted.gridDimX = config.gridDim.x;
  converted.gridDimY = config.gridDim.y;
  converted.gridDimZ = config.gridDim.z;
  converted.blockDimX = config.blockDim.x;
  converted.blockDimY = config.blockDim.y;
  converted.blockDimZ = config.blockDim.z;
  converted.sharedMemBytes = static_cast<unsigned>(config.dynamicSmemBytes);
  converted.hStream = config.stream;
  converted.attrs = reinterpret_cast<CUlaunchAttribute*>(config.attrs);
  converted.numAttrs = config.numAttrs;
  return converted;
}

CUresult read_attributes(const DriverTable& d, CUkernel kernel, CUdevice device,
                         cudaFuncAttributes* out) {
  cudaFuncAttributes found{};
  CUresult first_error = CUDA_SUCCESS;
  const auto read = [&](auto& field, CUfunction_attribute attribute) {
    int value = 0;
    const CUresult result = d.cuKernelGetAttribute(&value, attribute, kernel, device);
    if (result == CUDA_SUCCESS) {
      field = static_cast<std::remove_reference_t<decltype(field)>>(value);
    } else if (first_error == CUDA_SUCCESS) {
      first_error = result;
    }
  };
  read(found.sharedSizeBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  read(found.constSizeBytes, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
  read(found.localSizeBytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  read(found.maxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  read(found.numRegs, CU_FUNC_ATTRIBUTE_NUM_REGS);
  read(found.ptxVersion, CU_FUNC_ATTRIBUTE_PTX_VERSION);
  read(found.binaryVersion, CU_FUNC_ATTRIBUTE_BINARY_VERSION);
  read(found.cacheModeCA, CU_FUNC_ATTRIBUTE_CACHE_MODE_CA);
  read(found.maxDynamicSharedSizeBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  read(found.preferredShmemCarveout, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
  read(found.clusterDimMustBeSet, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET);
  read(found.requiredClusterWidth, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH);
  read(found.requiredClusterHeight, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT);
  read(found.requiredClusterDepth, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH);
  read(found.clusterSchedulingPolicyPreference,
       CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE);
  read(found.nonPortableClusterSizeAllowed, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
  if (first_error == CUDA_SUCCESS) *out = found;
  return first_error;
}

}  // namespace

SIMGPU_EXPORT cudaError_t __cudaGetKernel(cudaKernel_t* kernel_ptr, const void* entry_func_addr) {
  return cudaGetKernel(kernel_ptr, entry_func_addr);
}

SIMGPU_EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid_dim, dim3 block_dim,
                                             void** args, size_t shared_mem, cudaStream_t stream) {
  return with_context([&](const DriverTable& d) {
    // A launch stub asks for its kernel once; where that failed, it passes null in every launch.
    if (kernel == nullptr) return cudaErrorNoKernelImageForDevice;
    return launch(d, kernel, grid_dim, block_dim, args, shared_mem, stream);
  });
}

SIMGPU_EXPORT cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid_dim,
                                                  dim3 block_dim, void** args, size_t shared_mem,
                                                  cudaStream_t stream) {
  const PerThreadDefaultStream scope;
  return __cudaLaunchKernel(kernel, grid_dim, block_dim, args, shared_mem, stream);
}

SIMGPU_EXPORT cudaError_t cudaGetKernel(cudaKernel_t* kernel_ptr, const void* entry_func_addr) {
  if (kernel_ptr == nullptr) return record(cudaErrorInvalidValue);
  return with_kernel(entry_func_addr, [&](const DriverTable&, CUkernel kernel) {
    *kernel_ptr = kernel;
    return cudaSuccess;
  });
}

SIMGPU_EXPORT cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function_ptr,
                                              const void* symbol_ptr) {
  if (function_ptr == nullptr) return record(cudaErrorInvalidValue);
  return with_kernel(symbol_ptr, [&](const DriverTable& d, CUkernel kernel) {
    return d.cuKernelGetFunction(function_ptr, kernel);
  });
}

SIMGPU_EXPORT cudaError_t cudaLaunchKernel(const void* func, dim3 grid_dim, dim3 block_dim,
                                           void** args, size_t shared_mem, cudaStream_t stream) {
  return with_kernel(func, [&](const DriverTable& d, CUkernel kernel) {
    return launch(d, kernel, grid_dim, block_dim, args, shared_mem, stream);
  });
}

SIMGPU_EXPORT cudaError_t cudaLaunchCooperativeKernel(const void* func, dim3 grid_dim,
                                                      dim3 block_dim, void** args,
                                                      size_t shared_mem, cudaStream_t stream) {
  return with_kernel(func, [&](const DriverTable& d, CUkernel kernel) {
    const CUresult result = d.cuLaunchCooperativeKernel(
        as_function(kernel), grid_dim.x, grid_dim.y, grid_dim.z, block_dim.x, block_dim.y,
        block_dim.z, static_cast<unsigned>(shared_mem), stream, args);
    return launch_error(d, result, grid_dim, block_dim);
  });
}

SIMGPU_EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* func,
                                              void** args) {
  if (config == nullptr) return record(cudaErrorInvalidValue);
  return with_kernel(func, [&](const DriverTable& d, CUkernel kernel) {
    const CUlaunchConfig converted = to_config(*config);
    const CUresult result = d.cuLaunchKernelEx(&converted, as_function(kernel), args, nullptr);
    return launch_error(d, result, config->gridDim, config->blockDim);
  });
}

SIMGPU_EXPORT cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attr, const void* func) {
  if (attr == nullptr) return record(cudaErrorInvalidValue);
  return with_kernel(func, [&](const DriverTable& d, CUkernel kernel) {
    CUdevice device = 0;
    const CUresult result = d.cuCtxGetDevice(&device);
    return result != CUDA_SUCCESS ? result : read_attributes(d, kernel, device, attr);
  });
}

SIMGPU_EXPORT cudaError_t cudaFuncSetAttribute(const void* func, cudaFuncAttribute attr,
                                               int value) {
  return with_kernel(func, [&](const DriverTable& d, CUkernel kernel) {
    CUdevice device = 0;
    const CUresult result = d.cuCtxGetDevice(&device);
    if (result != CUDA_SUCCESS) return result;
    return d.cuKernelSetAttribute(static_cast<CUfunction_attribute>(attr), value, kernel, device);
  });
}

SIMGPU_EXPORT cudaError_t cudaFuncSetCacheConfig(const void* func, cudaFuncCache cache_config) {
  return with_kernel(func, [&](const DriverTable& d, CUkernel kernel) {
    CUdevice device = 0;
    const CUresult result = d.cuCtxGetDevice(&device);
    if (result != CUDA_SUCCESS) return result;
    return d.cuKernelSetCacheConfig(kernel, static_cast<CUfunc_cache>(cache_config), device);
  });
}

SIMGPU_EXPORT cudaError_t cudaFuncSetSharedMemConfig(const void* func, cudaSharedMemConfig) {
  return with_kernel(func, [](const DriverTable&, CUkernel) { return cudaSuccess; });
}

SIMGPU_EXPORT cudaError_t cudaFuncGetName(const char** name, const void* func) {
  return with_kernel(
      func, [&](const DriverTable& d, CUkernel kernel) { return d.cuKernelGetName(name, kernel); });
}

SIMGPU_EXPORT cudaError_t cudaFuncGetParamInfo(const void* func, size_t param_index,
                                               size_t* param_offset, size_t* param_size) {
  return with_kernel(func, [&](const DriverTable& d, CUkernel kernel) {
    return d.cuKernelGetParamInfo(kernel, param_index, param_offset, param_size);
  });
}

SIMGPU_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* num_blocks,
                                                                        const void* func,
                                                                        int block_size,
                                                                        size_t dynamic_smem_size) {
  return with_kernel(func, [&](const DriverTable& d, CUkernel kernel) {
    return d.cuOccupancyMaxActiveBlocksPerMultiprocessor(num_blocks, as_function(kernel),
                                                         block_size, dynamic_smem_size);
  });
}

SIMGPU_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* num_blocks, const void* func, int block_size, size_t dynamic_smem_size,
    unsigned int flags) {
  return with_kernel(func, [&](const DriverTable& d, CUkernel kernel) {
    return d.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        num_blocks, as_function(kernel), block_size, dynamic_smem_size, flags);
  });
}

SIMGPU_EXPORT cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* dynamic_smem_size,
                                                                    const void* func,
                                                                    int num_blocks,
                                                                    int block_size) {
  return with_kernel(func, [&](const DriverTable& d, CUkernel kernel) {
    return d.cuOccupancyAvailableDynamicSMemPerBlock(dynamic_smem_size, as_function(kernel),
                                                     num_blocks, block_size);
  });
}

SIMGPU_EXPORT cudaError_t cudaOccupancyMaxPotentialClusterSize(
    int* cluster_size, const void* func, const cudaLaunchConfig_t* launch_config) {
  if (launch_config == nullptr) return record(cudaErrorInvalidValue);
  return with_kernel(func, [&](const DriverTable& d, CUkernel kernel) {
    const CUlaunchConfig converted = to_config(*launch_config);
    return d.cuOccupancyMaxPotentialClusterSize(cluster_size, as_function(kernel), &converted);
  });
}

SIMGPU_EXPORT cudaError_t cudaOccupancyMaxActiveClusters(int* num_clusters, const void* func,
                                                         const cudaLaunchConfig_t* launch_config) {
  if (launch_config == nullptr) return record(cudaErrorInvalidValue);
  return with_kernel(func, [&](const DriverTable& d, CUkernel kernel) {
    const CUlaunchConfig converted = to_config(*launch_config);
    return d.cuOccupancyMaxActiveClusters(num_clusters, as_function(kernel), &converted);
  });
}

}  // namespace simgpu::cudart
