#include "tools/simgpu/nccl/driver.h"

#include <dlfcn.h>

namespace simgpu::nccl {
namespace {

/// Of the functions as they are called here: cuCtxGetDevice takes a context from CUDA 13 on.
constexpr int kInterface = 12000;

struct Driver {
  decltype(&::cuCtxGetDevice) ctx_get_device = nullptr;
  decltype(&::cuMemcpyDtoDAsync) copy = nullptr;
};

using GetProcAddress = CUresult (*)(const char*, void**, int, cuuint64_t,
                                    CUdriverProcAddressQueryResult*);

Driver open_driver() {
  // Never closed: collectives may come until the process ends.
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return {};
  const auto get = reinterpret_cast<GetProcAddress>(::dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr) return {};
  const auto find = [get](const char* name) {
    void* address = nullptr;
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    (void)get(name, &address, kInterface, CU_GET_PROC_ADDRESS_DEFAULT, &found);
    return address;
  };
  return {reinterpret_cast<decltype(Driver::ctx_get_device)>(find("cuCtxGetDevice")),
          reinterpret_cast<decltype(Driver::copy)>(find("cuMemcpyDtoDAsync"))};
}

const Driver& driver() {
  static const Driver driver = open_driver();
  return driver;
}

}  // namespace

int current_device() noexcept {
  CUdevice device = 0;
  const auto get = driver().ctx_get_device;
  return get != nullptr && get(&device) == CUDA_SUCCESS ? device : -1;
}

bool copy(void* to, const void* from, std::size_t bytes, CUstream stream) noexcept {
  if (bytes == 0 || to == from) return true;
  const auto call = driver().copy;
  return call != nullptr &&
         call(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), bytes,
              stream) == CUDA_SUCCESS;
}

}  // namespace simgpu::nccl
