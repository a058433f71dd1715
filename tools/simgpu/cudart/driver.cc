#include "tools/simgpu/cudart/driver.h"

#include <dlfcn.h>

#include <string_view>

namespace simgpu::cudart {
namespace {

/// The first version whose cuGetProcAddress has five parameters.
constexpr int kFiveParameterVersion = 12000;

void* resolve(GetProcAddress get, const char* name, int version, cuuint64_t flags) {
  void* address = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  return get(name, &address, version, flags, &status) == CUDA_SUCCESS ? address : nullptr;
}

/// The CUDA version to ask cuGetProcAddress for, so that it answers with the ABI of `name` that
/// cuda.h declares under that name. That is the newest, except for two functions whose newest ABI
/// the header declares under a suffixed name only. generate.py checks that there are no others.
int version_of(std::string_view name) {
  constexpr int kBeforeContextParameters = 12000;
  if (name == "cuCtxGetDevice" || name == "cuCtxSynchronize") return kBeforeContextParameters;
  return CUDA_VERSION;
}

void fill(DriverTable& table, GetProcAddress get, cuuint64_t flags) {
#define SIMGPU_CUDART_RESOLVE(name) table.name.set(resolve(get, #name, version_of(#name), flags));
  SIMGPU_CUDART_DRIVER_FUNCTIONS(SIMGPU_CUDART_RESOLVE)
#undef SIMGPU_CUDART_RESOLVE
}

}  // namespace

bool open_driver(Driver& driver) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return false;
  const auto first = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  if (first == nullptr) return false;
  void* const second =
      resolve(first, "cuGetProcAddress", kFiveParameterVersion, CU_GET_PROC_ADDRESS_DEFAULT);
  driver.get_proc_address = second == nullptr ? first : reinterpret_cast<GetProcAddress>(second);
  fill(driver.legacy, driver.get_proc_address, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
  fill(driver.per_thread, driver.get_proc_address, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
  return true;
}

}  // namespace simgpu::cudart
