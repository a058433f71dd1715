// Driver functions of functions: cuFunc*.
#include "tools/simgpu/driver/code/module_registry.h"
#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/entry/api.h"

namespace simgpu {
namespace {

FunctionPtr find(CUfunction handle) { return ModuleRegistry::instance().find(handle); }

}  // namespace

/// The name lives as long as the module.
SIMGPU_EXPORT CUresult cuFuncGetName(const char** name, CUfunction hfunc) {
  SIMGPU_ENTER(cuFuncGetName);
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const FunctionPtr function = find(hfunc);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *name = function->code->image().name.c_str();
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuFuncGetModule(CUmodule* hmod, CUfunction hfunc) {
  SIMGPU_ENTER(cuFuncGetModule);
  if (hmod == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const FunctionPtr function = find(hfunc);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *hmod = function->module;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuFuncGetAttribute(int* pi, CUfunction_attribute attrib, CUfunction hfunc) {
  SIMGPU_ENTER(cuFuncGetAttribute);
  const FunctionPtr function = find(hfunc);
  return function == nullptr ? CUDA_ERROR_INVALID_HANDLE : function->attributes->get(attrib, pi);
}

SIMGPU_EXPORT CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib,
                                          int value) {
  SIMGPU_ENTER(cuFuncSetAttribute);
  const FunctionPtr function = find(hfunc);
  return function == nullptr ? CUDA_ERROR_INVALID_HANDLE : function->attributes->set(attrib, value);
}

/// A hint, without an effect: the device's cache and shared memory are one memory.
SIMGPU_EXPORT CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config) {
  SIMGPU_ENTER(cuFuncSetCacheConfig);
  if (find(hfunc) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL
             ? CUDA_ERROR_INVALID_VALUE
             : CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config) {
  SIMGPU_ENTER(cuFuncSetSharedMemConfig);
  if (find(hfunc) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return config < CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE ||
                 config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE
             ? CUDA_ERROR_INVALID_VALUE
             : CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction function) {
  SIMGPU_ENTER(cuFuncIsLoaded);
  if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (find(function) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuFuncLoad(CUfunction function) {
  SIMGPU_ENTER(cuFuncLoad);
  return find(function) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuFuncGetParamInfo(CUfunction func, size_t param_index, size_t* param_offset,
                                          size_t* param_size) {
  SIMGPU_ENTER(cuFuncGetParamInfo);
  if (param_offset == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const FunctionPtr found = find(func);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return parameter_layout(found->code->image(), param_index, param_offset, param_size);
}

}  // namespace simgpu
