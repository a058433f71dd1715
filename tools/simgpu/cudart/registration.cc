// What code compiled by nvcc calls before main and at each <<<>>>. Source: crt/host_runtime.h,
// crt/device_functions.h.

#include <vector>

#include "tools/simgpu/cudart/registry.h"

namespace simgpu::cudart {
namespace {

struct CallConfiguration {
  dim3 grid;
  dim3 block;
  size_t shared_bytes;
  cudaStream_t stream;
};

/// The configurations that <<<>>> pushed and no stub has popped yet. There can be several:
/// computing the arguments of a launch may itself launch.
thread_local std::vector<CallConfiguration> configurations;

/// The handle that registered code passes back is the FatBinary that registration returned.
FatBinary* from_handle(void** handle) { return reinterpret_cast<FatBinary*>(handle); }

}  // namespace

SIMGPU_EXPORT void** __cudaRegisterFatBinary(void* fat_cubin) {
  return reinterpret_cast<void**>(
      Registry::instance().add(static_cast<const __fatBinC_Wrapper_t*>(fat_cubin)));
}

/// Does nothing: kernels and variables are looked up at their first use.
SIMGPU_EXPORT void __cudaRegisterFatBinaryEnd(void**) {}

SIMGPU_EXPORT void __cudaUnregisterFatBinary(void** fat_cubin_handle) {
  if (fat_cubin_handle != nullptr) Registry::instance().remove(from_handle(fat_cubin_handle));
}

SIMGPU_EXPORT void __cudaRegisterFunction(void** fat_cubin_handle, const char* host_fun,
                                          char* /*device_fun*/, const char* device_name,
                                          int /*thread_limit*/, uint3* /*tid*/, uint3* /*bid*/,
                                          dim3* /*b_dim*/, dim3* /*g_dim*/, int* /*w_size*/) {
  Registry::instance().add_function(from_handle(fat_cubin_handle), host_fun, device_name);
}

SIMGPU_EXPORT void __cudaRegisterVar(void** fat_cubin_handle, char* host_var,
                                     char* /*device_address*/, const char* device_name, int /*ext*/,
                                     size_t size, int /*constant*/, int /*global*/) {
  Registry::instance().add_variable(from_handle(fat_cubin_handle), host_var, device_name, size);
}

SIMGPU_EXPORT void __cudaRegisterManagedVar(void** fat_cubin_handle, void** host_var_ptr_address,
                                            char* /*device_address*/, const char* device_name,
                                            int /*ext*/, size_t size, int /*constant*/,
                                            int /*global*/) {
  from_handle(fat_cubin_handle)->add_managed(host_var_ptr_address, device_name);
  Registry::instance().add_variable(from_handle(fat_cubin_handle), host_var_ptr_address,
                                    device_name, size);
}

/// Called by host code before it first touches a managed variable.
SIMGPU_EXPORT char __cudaInitModule(void** fat_cubin_handle) {
  CUlibrary library = nullptr;
  cudaError_t error = ensure_context();
  if (error == cudaSuccess) error = from_handle(fat_cubin_handle)->library(&library);
  return record(error) == cudaSuccess ? 1 : 0;
}

SIMGPU_EXPORT unsigned __cudaPushCallConfiguration(dim3 grid_dim, dim3 block_dim, size_t shared_mem,
                                                   struct CUstream_st* stream) {
  configurations.push_back({grid_dim, block_dim, shared_mem, stream});
  return 0;
}

SIMGPU_EXPORT cudaError_t __cudaPopCallConfiguration(dim3* grid_dim, dim3* block_dim,
                                                     size_t* shared_mem, void* stream) {
  if (configurations.empty()) return record(cudaErrorMissingConfiguration);
  const auto configuration = configurations.back();
  configurations.pop_back();
  *grid_dim = configuration.grid;
  *block_dim = configuration.block;
  *shared_mem = configuration.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = configuration.stream;
  return cudaSuccess;
}

}  // namespace simgpu::cudart
