#include "tools/simgpu/cudart/runtime.h"

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <vector>

namespace simgpu::cudart {
namespace {

struct PrimaryContext {
  CUcontext context = nullptr;
  bool retained = false;
};

/// Never destroyed: static destructors of the program may still call into the library.
struct Runtime {
  std::once_flag opened;
  cudaError_t status = cudaErrorInitializationError;
  Driver driver;
  std::mutex mutex;                     // guards `primary`
  std::vector<PrimaryContext> primary;  // by device
  // Counted up at each reset, so that the common path need not take the mutex.
  std::atomic<unsigned> resets{0};
};

Runtime& runtime() {
  static auto* const instance = new Runtime;
  return *instance;
}

std::atomic<bool> exiting{false};

struct ThreadState {
  int device = 0;
  cudaError_t last_error = cudaSuccess;
  bool per_thread = false;
  unsigned resets_seen = 0;
};
thread_local ThreadState thread_state;

cudaError_t open() {
  Runtime& self = runtime();
  if (!open_driver(self.driver)) return cudaErrorInsufficientDriver;
  const DriverTable& driver_table = self.driver.legacy;
  int version = 0;
  if (driver_table.cuDriverGetVersion(&version) != CUDA_SUCCESS ||
      version / 1000 < CUDART_VERSION / 1000) {
    return cudaErrorInsufficientDriver;
  }
  if (const CUresult result = driver_table.cuInit(0); result != CUDA_SUCCESS) {
    return to_error(result);
  }
  int count = 0;
  if (const CUresult result = driver_table.cuDeviceGetCount(&count); result != CUDA_SUCCESS) {
    return to_error(result);
  }
  if (count == 0) return cudaErrorNoDevice;
  self.primary.resize(static_cast<size_t>(count));
  // Registered after the driver was loaded, so it runs before the driver's own end.
  std::atexit([] { exiting.store(true, std::memory_order_relaxed); });
  return cudaSuccess;
}

/// True if `context` is a primary context that was reset and not retained since.
bool is_reset(CUcontext context) {
  Runtime& self = runtime();
  const unsigned resets = self.resets.load(std::memory_order_acquire);
  if (thread_state.resets_seen == resets) return false;
  const std::lock_guard lock{self.mutex};
  for (const PrimaryContext& primary : self.primary) {
    if (primary.context == context && !primary.retained) return true;
  }
  thread_state.resets_seen = resets;
  return false;
}

}  // namespace

cudaError_t record(cudaError_t error) noexcept {
  if (error != cudaSuccess) thread_state.last_error = error;
  return error;
}

cudaError_t last_error(bool forget) noexcept {
  const cudaError_t error = thread_state.last_error;
  if (forget) thread_state.last_error = cudaSuccess;
  return error;
}

PerThreadDefaultStream::PerThreadDefaultStream() noexcept : outer_(thread_state.per_thread) {
  thread_state.per_thread = true;
}
PerThreadDefaultStream::~PerThreadDefaultStream() { thread_state.per_thread = outer_; }
bool PerThreadDefaultStream::active() noexcept { return thread_state.per_thread; }

cudaError_t ensure_driver() noexcept {
  if (exiting.load(std::memory_order_relaxed)) return cudaErrorCudartUnloading;
  Runtime& self = runtime();
  std::call_once(self.opened, [&self] { self.status = open(); });
  return self.status;
}

const Driver& driver() noexcept { return runtime().driver; }

const DriverTable& table() noexcept {
  const Driver& found = driver();
  return thread_state.per_thread ? found.per_thread : found.legacy;
}

cudaError_t primary_context(int device, CUcontext* context) noexcept {
  Runtime& self = runtime();
  if (device < 0 || static_cast<size_t>(device) >= self.primary.size()) {
    return cudaErrorInvalidDevice;
  }
  const std::lock_guard lock{self.mutex};
  PrimaryContext& primary = self.primary[static_cast<size_t>(device)];
  if (!primary.retained) {
    CUdevice handle = 0;
    CUresult result = self.driver.legacy.cuDeviceGet(&handle, device);
    if (result == CUDA_SUCCESS) {
      result = self.driver.legacy.cuDevicePrimaryCtxRetain(&primary.context, handle);
    }
    if (result != CUDA_SUCCESS) return to_error(result);
    primary.retained = true;
  }
  *context = primary.context;
  return cudaSuccess;
}

cudaError_t select_device(int device) noexcept {
  CUcontext context = nullptr;
  const cudaError_t error = primary_context(device, &context);
  if (error != cudaSuccess) return error;
  thread_state.device = device;
  return to_error(driver().legacy.cuCtxSetCurrent(context));
}

cudaError_t ensure_context() noexcept {
  if (const cudaError_t error = ensure_driver(); error != cudaSuccess) return error;
  CUcontext context = nullptr;
  const CUresult result = driver().legacy.cuCtxGetCurrent(&context);
  if (result != CUDA_SUCCESS) return to_error(result);
  if (context != nullptr && !is_reset(context)) return cudaSuccess;
  return select_device(thread_state.device);
}

cudaError_t current_device(int* device) noexcept {
  CUcontext context = nullptr;
  CUdevice handle = 0;
  if (driver().legacy.cuCtxGetCurrent(&context) == CUDA_SUCCESS && context != nullptr &&
      !is_reset(context) && driver().legacy.cuCtxGetDevice(&handle) == CUDA_SUCCESS) {
    *device = handle;
  } else {
    *device = thread_state.device;
  }
  return cudaSuccess;
}

cudaError_t reset_device() noexcept {
  Runtime& self = runtime();
  int device = 0;
  if (const cudaError_t error = current_device(&device); error != cudaSuccess) return error;
  CUdevice handle = 0;
  CUresult result = self.driver.legacy.cuDeviceGet(&handle, device);
  if (result != CUDA_SUCCESS) return to_error(result);
  const std::lock_guard lock{self.mutex};
  PrimaryContext& primary = self.primary[static_cast<size_t>(device)];
  result = self.driver.legacy.cuDevicePrimaryCtxReset(handle);
  if (primary.retained) {
    primary.retained = false;
    self.resets.fetch_add(1, std::memory_order_release);
    // Resetting does not give the retained context back.
    const CUresult released = self.driver.legacy.cuDevicePrimaryCtxRelease(handle);
    if (result == CUDA_SUCCESS && released != CUDA_ERROR_INVALID_CONTEXT) result = released;
  }
  return to_error(result);
}

}  // namespace simgpu::cudart
