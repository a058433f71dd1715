// Driver functions of libraries, which need no context: cuLibrary*, cuKernel*.
#include <algorithm>

#include "tools/simgpu/driver/code/decode_image.h"
#include "tools/simgpu/driver/code/module_registry.h"
#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/entry/api.h"

namespace simgpu {
namespace {

bool are_valid(const CUlibraryOption* options, void* const* values, unsigned count) {
  if (count == 0) return true;
  if (options == nullptr || values == nullptr) return false;
  return std::all_of(options, options + count, [](CUlibraryOption option) {
    return option >= 0 && option < CU_LIBRARY_NUM_OPTIONS;
  });
}

/// Any options will do: they steer a just-in-time compiler, and there is none.
bool are_valid(const CUjit_option* options, void* const* values, unsigned count) {
  return count == 0 || (options != nullptr && values != nullptr);
}

}  // namespace

SIMGPU_EXPORT CUresult cuLibraryLoadData(CUlibrary* library, const void* code,
                                         CUjit_option* jit_options, void** jit_options_values,
                                         unsigned int num_jit_options,
                                         CUlibraryOption* library_options,
                                         void** library_option_values,
                                         unsigned int num_library_options) {
  SIMGPU_ENTER(cuLibraryLoadData);
  if (library == nullptr || code == nullptr ||
      !are_valid(jit_options, jit_options_values, num_jit_options) ||
      !are_valid(library_options, library_option_values, num_library_options)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  LoadedImagePtr image;
  if (const CUresult result = decode_image_at(code, &image); result != CUDA_SUCCESS) return result;
  *library = ModuleRegistry::instance().load_library(std::move(image));
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* path,
                                             CUjit_option* jit_options, void** jit_options_values,
                                             unsigned int num_jit_options,
                                             CUlibraryOption* library_options,
                                             void** library_option_values,
                                             unsigned int num_library_options) {
  SIMGPU_ENTER(cuLibraryLoadFromFile);
  if (library == nullptr || path == nullptr ||
      !are_valid(jit_options, jit_options_values, num_jit_options) ||
      !are_valid(library_options, library_option_values, num_library_options)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  LoadedImagePtr image;
  if (const CUresult result = decode_image_file(path, &image); result != CUDA_SUCCESS) {
    return result;
  }
  *library = ModuleRegistry::instance().load_library(std::move(image));
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuLibraryUnload(CUlibrary library) {
  SIMGPU_ENTER(cuLibraryUnload);
  return ModuleRegistry::instance().unload_library(library);
}

SIMGPU_EXPORT CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  SIMGPU_ENTER(cuLibraryGetKernel);
  if (kernel == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const LoadedImagePtr image = ModuleRegistry::instance().image_of(library);
  if (image == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const int index = image->find_kernel(name);
  if (index < 0) return CUDA_ERROR_NOT_FOUND;
  const std::vector<CUkernel> kernels = ModuleRegistry::instance().kernels_of(library);
  if (kernels.empty()) return CUDA_ERROR_INVALID_HANDLE;  // unloaded since
  *kernel = kernels[static_cast<std::size_t>(index)];
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuLibraryGetKernelCount(unsigned int* count, CUlibrary lib) {
  SIMGPU_ENTER(cuLibraryGetKernelCount);
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const LoadedImagePtr image = ModuleRegistry::instance().image_of(lib);
  if (image == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *count = static_cast<unsigned>(image->kernels().size());
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned int num_kernels,
                                                 CUlibrary lib) {
  SIMGPU_ENTER(cuLibraryEnumerateKernels);
  if (kernels == nullptr || num_kernels == 0) return CUDA_ERROR_INVALID_VALUE;
  if (ModuleRegistry::instance().image_of(lib) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const std::vector<CUkernel> all = ModuleRegistry::instance().kernels_of(lib);
  for (std::size_t i = 0; i < all.size() && i < num_kernels; ++i) kernels[i] = all[i];
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  SIMGPU_ENTER(cuLibraryGetModule);
  SIMGPU_CONTEXT(context);
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return ModuleRegistry::instance().module_of(library, *context, module);
}

SIMGPU_EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr* dptr, size_t* bytes, CUlibrary library,
                                          const char* name) {
  SIMGPU_ENTER(cuLibraryGetGlobal);
  SIMGPU_CONTEXT(context);
  if (name == nullptr || (dptr == nullptr && bytes == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  const LoadedImagePtr image = ModuleRegistry::instance().image_of(library);
  if (image == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  // A name that does not exist loads no module.
  if (image->find_global(name) == nullptr) return CUDA_ERROR_NOT_FOUND;
  CUmodule handle = nullptr;
  if (const CUresult result = ModuleRegistry::instance().module_of(library, *context, &handle);
      result != CUDA_SUCCESS) {
    return result;
  }
  const ModulePtr module = ModuleRegistry::instance().find(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return global_of(*module, name, dptr, bytes);
}

/// Never finds one: no image that simgpu reads has managed variables.
SIMGPU_EXPORT CUresult cuLibraryGetManaged(CUdeviceptr* dptr, size_t* bytes, CUlibrary library,
                                           const char* name) {
  SIMGPU_ENTER(cuLibraryGetManaged);
  if (name == nullptr || (dptr == nullptr && bytes == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  return ModuleRegistry::instance().image_of(library) == nullptr ? CUDA_ERROR_INVALID_HANDLE
                                                                 : CUDA_ERROR_NOT_FOUND;
}

SIMGPU_EXPORT CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  SIMGPU_ENTER(cuKernelGetFunction);
  SIMGPU_CONTEXT(context);
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return function_of(kernel, *context, function);
}

SIMGPU_EXPORT CUresult cuKernelGetLibrary(CUlibrary* library, CUkernel kernel) {
  SIMGPU_ENTER(cuKernelGetLibrary);
  if (library == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const KernelPtr found = ModuleRegistry::instance().find(kernel);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *library = found->library;
  return CUDA_SUCCESS;
}

/// The name lives as long as the library.
SIMGPU_EXPORT CUresult cuKernelGetName(const char** name, CUkernel hfunc) {
  SIMGPU_ENTER(cuKernelGetName);
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const KernelPtr found = ModuleRegistry::instance().find(hfunc);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *name = found->code->image().name.c_str();
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuKernelGetParamInfo(CUkernel kernel, size_t param_index,
                                            size_t* param_offset, size_t* param_size) {
  SIMGPU_ENTER(cuKernelGetParamInfo);
  if (param_offset == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const KernelPtr found = ModuleRegistry::instance().find(kernel);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return parameter_layout(found->code->image(), param_index, param_offset, param_size);
}

SIMGPU_EXPORT CUresult cuKernelGetAttribute(int* pi, CUfunction_attribute attrib, CUkernel kernel,
                                            CUdevice dev) {
  SIMGPU_ENTER(cuKernelGetAttribute);
  const KernelPtr found = ModuleRegistry::instance().find(kernel);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (find_device(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  return found->attributes->get(attrib, pi);
}

/// The devices are alike: what is set for one is set for all.
SIMGPU_EXPORT CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel,
                                            CUdevice dev) {
  SIMGPU_ENTER(cuKernelSetAttribute);
  const KernelPtr found = ModuleRegistry::instance().find(kernel);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (find_device(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  return found->attributes->set(attrib, val);
}

/// A hint, without an effect: the device's cache and shared memory are one memory.
SIMGPU_EXPORT CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev) {
  SIMGPU_ENTER(cuKernelSetCacheConfig);
  if (ModuleRegistry::instance().find(kernel) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (find_device(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  return config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL
             ? CUDA_ERROR_INVALID_VALUE
             : CUDA_SUCCESS;
}

}  // namespace simgpu
