// What every function of the runtime library begins with: the driver, a context, the thread's last
// error.
#pragma once

/// The version that the library passes for.
#ifndef SIMGPU_CUDART_VERSION
#define SIMGPU_CUDART_VERSION CUDART_VERSION
#endif

#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#include <utility>

#include "tools/simgpu/cudart/driver.h"
#include "tools/simgpu/export.h"

namespace simgpu::cudart {

/// The runtime's name for a driver error. The two enumerations share their values.
constexpr cudaError_t to_error(CUresult result) { return static_cast<cudaError_t>(result); }
constexpr cudaError_t to_error(cudaError_t error) { return error; }

/// Makes `error` the thread's last error unless it is success, and returns it.
cudaError_t record(cudaError_t error) noexcept;

/// The thread's last error; `last_error(true)` also forgets it.
cudaError_t last_error(bool forget) noexcept;

/// While it lives, this thread's calls go to the driver's per-thread-default-stream functions.
class PerThreadDefaultStream {
 public:
  PerThreadDefaultStream() noexcept;
  ~PerThreadDefaultStream();
  PerThreadDefaultStream(const PerThreadDefaultStream&) = delete;
  PerThreadDefaultStream& operator=(const PerThreadDefaultStream&) = delete;

  /// True inside such a scope on this thread.
  static bool active() noexcept;

 private:
  bool outer_;
};

/// Finds and initialises the driver, once per process. Thread safe.
/// @return cudaErrorInsufficientDriver without a driver or with one older than CUDA 13,
/// cudaErrorCudartUnloading once the process is exiting (the driver may be gone), else what cuInit
/// answered.
cudaError_t ensure_driver() noexcept;

/// The driver that was found. REQUIRES: ensure_driver() succeeded.
const Driver& driver() noexcept;

/// The driver's functions in the form that this thread's scope asks for. REQUIRES: ensure_driver()
/// succeeded.
const DriverTable& table() noexcept;

/// Makes sure that a context is current to the calling thread: the one that is, else the primary
/// context of the thread's device, which is retained on first use and stays retained until
/// cudaDeviceReset. Source: CUDA Runtime API, "Interactions with the driver API".
cudaError_t ensure_context() noexcept;

/// The thread's device: that of the current context, else the last one set, else 0. REQUIRES:
/// ensure_driver() succeeded.
cudaError_t current_device(int* device) noexcept;

/// Makes `device` the thread's device and its primary context current. @return
/// cudaErrorInvalidDevice if there is none.
cudaError_t select_device(int device) noexcept;

/// The primary context of `device`, retained. @return cudaErrorInvalidDevice if there is no such
/// device.
cudaError_t primary_context(int device, CUcontext* context) noexcept;

/// Destroys the primary context of the thread's device; the next call that needs one makes a new
/// one.
cudaError_t reset_device() noexcept;

/// Runs `body(table)` with a driver, records and returns the error. `body` returns CUresult or
/// cudaError_t.
template <typename Body>
cudaError_t with_driver(Body&& body) noexcept {
  const cudaError_t error = ensure_driver();
  return record(error != cudaSuccess ? error : to_error(std::forward<Body>(body)(table())));
}

/// Runs `body(table)` with a current context, records and returns the error. `body` returns
/// CUresult or cudaError_t.
template <typename Body>
cudaError_t with_context(Body&& body) noexcept {
  const cudaError_t error = ensure_context();
  return record(error != cudaSuccess ? error : to_error(std::forward<Body>(body)(table())));
}

/// The driver's view of a device address.
inline CUdeviceptr to_device(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace simgpu::cudart
