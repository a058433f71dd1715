// Driver functions of modules: cuModule*.
#include "tools/simgpu/driver/code/decode_image.h"
#include "tools/simgpu/driver/code/module_registry.h"
#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/entry/api.h"
#include "tools/simgpu/driver/graphs/capture.h"

namespace simgpu {
namespace {

CUresult load(Context& context, const void* image, CUmodule* module) {
  if (const CUresult unsafe = check_unsafe(); unsafe != CUDA_SUCCESS) return unsafe;
  if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  LoadedImagePtr loaded;
  if (const CUresult result = decode_image_at(image, &loaded); result != CUDA_SUCCESS) {
    return result;
  }
  return ModuleRegistry::instance().load_module(context, loaded, module);
}

}  // namespace

SIMGPU_EXPORT CUresult cuModuleLoad(CUmodule* module, const char* fname) {
  SIMGPU_ENTER(cuModuleLoad);
  SIMGPU_CONTEXT(context);
  if (module == nullptr || fname == nullptr) return CUDA_ERROR_INVALID_VALUE;
  LoadedImagePtr loaded;
  if (const CUresult result = decode_image_file(fname, &loaded); result != CUDA_SUCCESS) {
    return result;
  }
  return ModuleRegistry::instance().load_module(*context, loaded, module);
}

SIMGPU_EXPORT CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  SIMGPU_ENTER(cuModuleLoadData);
  SIMGPU_CONTEXT(context);
  return load(*context, image, module);
}

/// The options steer a just-in-time compiler; there is none, and their outputs stay as they are.
SIMGPU_EXPORT CUresult cuModuleLoadDataEx(CUmodule* module, const void* image,
                                          unsigned int num_options, CUjit_option* options,
                                          void** option_values) {
  SIMGPU_ENTER(cuModuleLoadDataEx);
  SIMGPU_CONTEXT(context);
  if (num_options != 0 && (options == nullptr || option_values == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return load(*context, image, module);
}

SIMGPU_EXPORT CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  SIMGPU_ENTER(cuModuleLoadFatBinary);
  SIMGPU_CONTEXT(context);
  return load(*context, image, module);
}

SIMGPU_EXPORT CUresult cuModuleUnload(CUmodule hmod) {
  SIMGPU_ENTER(cuModuleUnload);
  SIMGPU_CONTEXT(context);
  (void)context;
  return ModuleRegistry::instance().unload_module(hmod);
}

/// Modules are always loaded whole: there is no code to load later.
SIMGPU_EXPORT CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  SIMGPU_ENTER(cuModuleGetLoadingMode);
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_EAGER_LOADING;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod, const char* name) {
  SIMGPU_ENTER(cuModuleGetFunction);
  SIMGPU_CONTEXT(context);
  (void)context;
  if (hfunc == nullptr || name == nullptr || *name == '\0') return CUDA_ERROR_INVALID_VALUE;
  const ModulePtr module = ModuleRegistry::instance().find(hmod);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const int index = module->image->find_kernel(name);
  *hfunc = nullptr;  // as drivers were seen to do where there is none
  if (index < 0) return CUDA_ERROR_NOT_FOUND;
  *hfunc = module->functions[static_cast<std::size_t>(index)];
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuModuleGetFunctionCount(unsigned int* count, CUmodule mod) {
  SIMGPU_ENTER(cuModuleGetFunctionCount);
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ModulePtr module = ModuleRegistry::instance().find(mod);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *count = static_cast<unsigned>(module->functions.size());
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned int num_functions,
                                                  CUmodule mod) {
  SIMGPU_ENTER(cuModuleEnumerateFunctions);
  if (functions == nullptr || num_functions == 0) return CUDA_ERROR_INVALID_VALUE;
  const ModulePtr module = ModuleRegistry::instance().find(mod);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  for (std::size_t i = 0; i < module->functions.size() && i < num_functions; ++i) {
    functions[i] = module->functions[i];
  }
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr* dptr, size_t* bytes, CUmodule hmod,
                                            const char* name) {
  SIMGPU_ENTER(cuModuleGetGlobal);
  SIMGPU_CONTEXT(context);
  (void)context;
  if (name == nullptr || (dptr == nullptr && bytes == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  const ModulePtr module = ModuleRegistry::instance().find(hmod);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return global_of(*module, name, dptr, bytes);
}

}  // namespace simgpu
