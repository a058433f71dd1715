// What code compiled by nvcc calls before main and at each <<<>>>. Source: crt/host_runtime.h,
// crt/device_functions.h.

#include <vector>

#include "tools/simgpu/cudart/registry.h"

using simgpu::cudart::FatBinary;
using simgpu::cudart::record;
using simgpu::cudart::Registry;

namespace simgpu::cudart {
namespace {

struct CallConfiguration {
  dim3 grid;
  dim3 block;
  size_t shared_bytes;
  cudaStream_t stream;
};

// What <<<>>> pushed and the stub has not popped yet; arguments of a launch may launch themselves.
thread_local std::vector<CallConfiguration> configurations;

// The handle that registered code passes around is ours.
FatBinary* from_handle(void** handle) { return reinterpret_cast<FatBinary*>(handle); }

}  // namespace
}  // namespace simgpu::cudart

using simgpu::cudart::configurations;
using simgpu::cudart::from_handle;

#pragma GCC visibility push(default)
extern "C" {

void** __cudaRegisterFatBinary(void* fatCubin) {
  return reinterpret_cast<void**>(
      Registry::instance().add(static_cast<const __fatBinC_Wrapper_t*>(fatCubin)));
}

// Everything is looked up at first use, so the end of a registration means nothing here.
void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void** fatCubinHandle) {
  if (fatCubinHandle != nullptr) Registry::instance().remove(from_handle(fatCubinHandle));
}

void __cudaRegisterFunction(void** fatCubinHandle, const char* hostFun, char* /*deviceFun*/,
                            const char* deviceName, int /*thread_limit*/, uint3* /*tid*/,
                            uint3* /*bid*/, dim3* /*bDim*/, dim3* /*gDim*/, int* /*wSize*/) {
  Registry::instance().add_function(from_handle(fatCubinHandle), hostFun, deviceName);
}

void __cudaRegisterVar(void** fatCubinHandle, char* hostVar, char* /*deviceAddress*/,
                       const char* deviceName, int /*ext*/, size_t size, int /*constant*/,
                       int /*global*/) {
  Registry::instance().add_variable(from_handle(fatCubinHandle), hostVar, deviceName, size);
}

void __cudaRegisterManagedVar(void** fatCubinHandle, void** hostVarPtrAddress,
                              char* /*deviceAddress*/, const char* deviceName, int /*ext*/,
                              size_t size, int /*constant*/, int /*global*/) {
  from_handle(fatCubinHandle)->add_managed(hostVarPtrAddress, deviceName);
  Registry::instance().add_variable(from_handle(fatCubinHandle), hostVarPtrAddress, deviceName,
                                    size);
}

// Called by host code before it first touches a managed variable.
char __cudaInitModule(void** fatCubinHandle) {
  CUlibrary library = nullptr;
  cudaError_t error = simgpu::cudart::ensure_context();
  if (error == cudaSuccess) error = from_handle(fatCubinHandle)->library(&library);
  return record(error) == cudaSuccess ? 1 : 0;
}

unsigned __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem,
                                     struct CUstream_st* stream) {
  configurations.push_back({gridDim, blockDim, sharedMem, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* gridDim, dim3* blockDim, size_t* sharedMem,
                                       void* stream) {
  if (configurations.empty()) return record(cudaErrorMissingConfiguration);
  const auto configuration = configurations.back();
  configurations.pop_back();
  *gridDim = configuration.grid;
  *blockDim = configuration.block;
  *sharedMem = configuration.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = configuration.stream;
  return cudaSuccess;
}

}  // extern "C"
#pragma GCC visibility pop
