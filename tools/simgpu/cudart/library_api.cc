// Libraries loaded at run time, and the way from the runtime to the driver's own entry points.

#include "tools/simgpu/cudart/registry.h"

namespace simgpu::cudart {

namespace {

static_assert(static_cast<int>(cudaLibraryBinaryIsPreserved) == CU_LIBRARY_BINARY_IS_PRESERVED);
static_assert(static_cast<int>(cudaDriverEntryPointVersionNotSufficent) ==
              CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);

/// Flags of the query; without one, the variant that the caller was compiled for.
cuuint64_t query_flags(unsigned long long flags) {
  if (flags != cudaEnableDefault) return flags;
  return PerThreadDefaultStream::active() ? cudaEnablePerThreadDefaultStream
                                          : cudaEnableLegacyStream;
}

}  // namespace

SIMGPU_EXPORT cudaError_t cudaGetDriverEntryPointByVersion(
    const char* symbol, void** func_ptr, unsigned int cuda_version, unsigned long long flags,
    cudaDriverEntryPointQueryResult* driver_status) {
  if (symbol == nullptr || func_ptr == nullptr) return record(cudaErrorInvalidValue);
  return with_driver([&](const DriverTable&) {
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    const CUresult result = driver().get_proc_address(
        symbol, func_ptr, static_cast<int>(cuda_version), query_flags(flags), &status);
    if (driver_status == nullptr) return to_error(result);
    // A caller that asks for the status learns from it that a symbol is missing, not from an error.
    *driver_status = static_cast<cudaDriverEntryPointQueryResult>(status);
    return result == CUDA_ERROR_NOT_FOUND ? cudaSuccess : to_error(result);
  });
}

SIMGPU_EXPORT cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** func_ptr,
                                                  unsigned long long flags,
                                                  cudaDriverEntryPointQueryResult* driver_status) {
  return cudaGetDriverEntryPointByVersion(symbol, func_ptr, CUDART_VERSION, flags, driver_status);
}

SIMGPU_EXPORT cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code,
                                              cudaJitOption* jit_options, void** jit_options_values,
                                              unsigned int num_jit_options,
                                              cudaLibraryOption* library_options,
                                              void** library_option_values,
                                              unsigned int num_library_options) {
  return with_context([&](const DriverTable& d) {
    return d.cuLibraryLoadData(reinterpret_cast<CUlibrary*>(library), code,
                               reinterpret_cast<CUjit_option*>(jit_options), jit_options_values,
                               num_jit_options, reinterpret_cast<CUlibraryOption*>(library_options),
                               library_option_values, num_library_options);
  });
}

SIMGPU_EXPORT cudaError_t cudaLibraryLoadFromFile(
    cudaLibrary_t* library, const char* file_name, cudaJitOption* jit_options,
    void** jit_options_values, unsigned int num_jit_options, cudaLibraryOption* library_options,
    void** library_option_values, unsigned int num_library_options) {
  return with_context([&](const DriverTable& d) {
    return d.cuLibraryLoadFromFile(reinterpret_cast<CUlibrary*>(library), file_name,
                                   reinterpret_cast<CUjit_option*>(jit_options), jit_options_values,
                                   num_jit_options,
                                   reinterpret_cast<CUlibraryOption*>(library_options),
                                   library_option_values, num_library_options);
  });
}

SIMGPU_EXPORT cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  return with_context([&](const DriverTable& d) {
    return d.cuLibraryUnload(reinterpret_cast<CUlibrary>(library));
  });
}

SIMGPU_EXPORT cudaError_t cudaLibraryGetKernel(cudaKernel_t* p_kernel, cudaLibrary_t library,
                                               const char* name) {
  return with_context([&](const DriverTable& d) {
    const CUresult result =
        d.cuLibraryGetKernel(p_kernel, reinterpret_cast<CUlibrary>(library), name);
    if (result == CUDA_SUCCESS) Registry::instance().remember(*p_kernel);
    return result;
  });
}

SIMGPU_EXPORT cudaError_t cudaLibraryGetGlobal(void** dptr, size_t* bytes, cudaLibrary_t library,
                                               const char* name) {
  return with_context([&](const DriverTable& d) {
    return d.cuLibraryGetGlobal(reinterpret_cast<CUdeviceptr*>(dptr), bytes,
                                reinterpret_cast<CUlibrary>(library), name);
  });
}

SIMGPU_EXPORT cudaError_t cudaLibraryGetManaged(void** dptr, size_t* bytes, cudaLibrary_t library,
                                                const char* name) {
  return with_context([&](const DriverTable& d) {
    return d.cuLibraryGetManaged(reinterpret_cast<CUdeviceptr*>(dptr), bytes,
                                 reinterpret_cast<CUlibrary>(library), name);
  });
}

SIMGPU_EXPORT cudaError_t cudaLibraryGetUnifiedFunction(void** fptr, cudaLibrary_t library,
                                                        const char* symbol) {
  return with_context([&](const DriverTable& d) {
    return d.cuLibraryGetUnifiedFunction(fptr, reinterpret_cast<CUlibrary>(library), symbol);
  });
}

SIMGPU_EXPORT cudaError_t cudaLibraryGetKernelCount(unsigned int* count, cudaLibrary_t lib) {
  return with_context([&](const DriverTable& d) {
    return d.cuLibraryGetKernelCount(count, reinterpret_cast<CUlibrary>(lib));
  });
}

SIMGPU_EXPORT cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t* kernels,
                                                      unsigned int num_kernels, cudaLibrary_t lib) {
  return with_context([&](const DriverTable& d) {
    const CUresult result =
        d.cuLibraryEnumerateKernels(kernels, num_kernels, reinterpret_cast<CUlibrary>(lib));
    for (unsigned i = 0; result == CUDA_SUCCESS && i < num_kernels; ++i) {
      Registry::instance().remember(kernels[i]);
    }
    return result;
  });
}

SIMGPU_EXPORT cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel,
                                                          cudaFuncAttribute attr, int value,
                                                          int device) {
  return with_context([&](const DriverTable& d) {
    return d.cuKernelSetAttribute(static_cast<CUfunction_attribute>(attr), value, kernel, device);
  });
}

SIMGPU_EXPORT cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                          cudaChannelFormatKind f) {
  return {x, y, z, w, f};
}

}  // namespace simgpu::cudart
