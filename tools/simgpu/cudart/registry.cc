#include "tools/simgpu/cudart/registry.h"

#include <cstdio>
#include <utility>

namespace simgpu::cudart {

cudaError_t FatBinary::load() {
  const DriverTable& d = driver().legacy;
  const CUresult result =
      d.cuLibraryLoadData(&library_, wrapper_->data, nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (result != CUDA_SUCCESS) return to_error(result);
  for (const Managed& variable : managed_) {
    CUdeviceptr address = 0;
    size_t bytes = 0;
    const CUresult found = d.cuLibraryGetManaged(&address, &bytes, library_, variable.name.c_str());
    if (found == CUDA_SUCCESS) {
      *variable.host_pointer = reinterpret_cast<void*>(address);
    } else {
      // The rest of the program can run; code that uses the variable finds a null pointer.
      std::fprintf(stderr, "simgpu: the driver has no managed variable %s (error %d)\n",
                   variable.name.c_str(), static_cast<int>(found));
    }
  }
  return cudaSuccess;
}

cudaError_t FatBinary::library(CUlibrary* library) {
  const std::lock_guard lock{mutex_};
  if (!loaded_) {
    status_ = load();
    loaded_ = true;
  }
  if (status_ == cudaSuccess) *library = library_;
  return status_;
}

void FatBinary::add_managed(void** host_pointer, std::string name) {
  const std::lock_guard lock{mutex_};
  managed_.push_back({host_pointer, std::move(name)});
}

void FatBinary::unload() {
  const std::lock_guard lock{mutex_};
  // At exit the driver may be gone; the process takes its libraries with it.
  if (library_ == nullptr || ensure_driver() != cudaSuccess) return;
  static_cast<void>(driver().legacy.cuLibraryUnload(library_));
  library_ = nullptr;
}

Registry& Registry::instance() {
  static auto* const registry = new Registry;
  return *registry;
}

FatBinary* Registry::add(const __fatBinC_Wrapper_t* wrapper) { return new FatBinary(wrapper); }

void Registry::add_function(FatBinary* binary, const void* host, const char* name) {
  const std::unique_lock lock{mutex_};
  functions_[host] = Function{binary, name, nullptr};
}

void Registry::add_variable(FatBinary* binary, const void* host, const char* name, size_t bytes) {
  const std::unique_lock lock{mutex_};
  variables_[host] = Variable{binary, name, bytes};
}

void Registry::remove(FatBinary* binary) {
  {
    const std::unique_lock lock{mutex_};
    std::erase_if(functions_,
                  [binary](const auto& entry) { return entry.second.binary == binary; });
    std::erase_if(variables_,
                  [binary](const auto& entry) { return entry.second.binary == binary; });
  }
  binary->unload();
  delete binary;
}

cudaError_t Registry::kernel(const void* function, CUkernel* kernel) {
  FatBinary* binary = nullptr;
  std::string name;
  {
    const std::shared_lock lock{mutex_};
    const auto found = functions_.find(function);
    if (found == functions_.end()) return cudaErrorInvalidDeviceFunction;
    if (found->second.kernel != nullptr) {
      *kernel = found->second.kernel;
      return cudaSuccess;
    }
    binary = found->second.binary;
    name = found->second.name;
  }
  // Loading and looking up happen outside the lock: the driver may take its time over them.
  CUlibrary library = nullptr;
  if (const cudaError_t error = binary->library(&library); error != cudaSuccess) return error;
  CUkernel loaded = nullptr;
  const CUresult result = driver().legacy.cuLibraryGetKernel(&loaded, library, name.c_str());
  if (result == CUDA_ERROR_NOT_FOUND) return cudaErrorInvalidDeviceFunction;
  if (result != CUDA_SUCCESS) return to_error(result);
  const std::unique_lock lock{mutex_};
  functions_[function].kernel = loaded;
  functions_[loaded] = Function{binary, name, loaded};
  *kernel = loaded;
  return cudaSuccess;
}

void Registry::remember(CUkernel kernel) {
  const std::unique_lock lock{mutex_};
  functions_.try_emplace(kernel, Function{nullptr, {}, kernel});
}

cudaError_t Registry::variable(const void* symbol, CUdeviceptr* address, size_t* bytes) {
  Variable wanted;
  {
    const std::shared_lock lock{mutex_};
    const auto found = variables_.find(symbol);
    if (found == variables_.end()) return cudaErrorInvalidSymbol;
    wanted = found->second;
  }
  CUlibrary library = nullptr;
  if (const cudaError_t error = wanted.binary->library(&library); error != cudaSuccess) {
    return error;
  }
  CUdeviceptr found_address = 0;
  size_t found_bytes = 0;
  const CUresult result = driver().legacy.cuLibraryGetGlobal(&found_address, &found_bytes, library,
                                                             wanted.name.c_str());
  if (result == CUDA_ERROR_NOT_FOUND) return cudaErrorInvalidSymbol;
  if (result != CUDA_SUCCESS) return to_error(result);
  *address = found_address;
  *bytes = found_bytes == 0 ? wanted.bytes : found_bytes;
  return cudaSuccess;
}

}  // namespace simgpu::cudart
