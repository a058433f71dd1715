// The driver functions that the probes call, straight from the driver's file: neither superpipe nor
// NVIDIA's runtime is in between.
#pragma once

#include <cuda.h>

// Here it means the first one, which every driver has; the header's is only in drivers of CUDA 12.8
// and newer.
#undef cuEventElapsedTime

#include <atomic>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

// clang-format off
/// By the names cuda.h gives them today; a driver of CUDA 12.0 exports all of them but
/// cuTensorMapReplaceAddress.
#define SUPERPIPE_PROBE_FUNCTIONS(X) \
  X(cuInit) X(cuDriverGetVersion) X(cuGetProcAddress) X(cuDeviceGet) X(cuDeviceGetName) \
  X(cuDeviceGetAttribute) X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent) X(cuCtxSynchronize) \
  X(cuDeviceGetCount) X(cuDeviceCanAccessPeer) X(cuDeviceGetDefaultMemPool) X(cuMemPoolSetAccess) \
  X(cuMemPoolSetAttribute) \
  X(cuMemAllocAsync) X(cuMemFreeAsync) \
  X(cuMemGetInfo) X(cuMemAlloc) X(cuMemFree) X(cuMemHostAlloc) X(cuMemFreeHost) \
  X(cuMemHostGetDevicePointer) X(cuMemHostRegister) X(cuMemHostUnregister) \
  X(cuMemAddressReserve) X(cuMemAddressFree) \
  X(cuMemCreate) X(cuMemRelease) X(cuMemMap) X(cuMemUnmap) X(cuMemSetAccess) \
  X(cuMemGetAllocationGranularity) X(cuMemcpyAsync) X(cuMemcpyHtoD) X(cuMemcpyDtoH) \
  X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) X(cuMemcpyDtoDAsync) X(cuMemsetD32Async) \
  X(cuMemsetD8Async) X(cuStreamCreate) X(cuStreamDestroy) X(cuStreamSynchronize) \
  X(cuStreamQuery) X(cuStreamWaitEvent) X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) \
  X(cuEventQuery) X(cuEventSynchronize) X(cuLaunchKernel) X(cuModuleLoadData) \
  X(cuModuleGetFunction) X(cuTensorMapEncodeTiled) X(cuTensorMapReplaceAddress) \
  X(cuMemcpy2DAsync) X(cuLaunchHostFunc) X(cuStreamBeginCapture) X(cuStreamEndCapture) \
  X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) X(cuGraphExecDestroy) X(cuGraphDestroy)
// clang-format on

namespace superpipe::cli {

/// A driver call answered an error that the probe did not expect.
class CallFailed : public std::runtime_error {
 public:
  CallFailed(std::string call, int code, std::string name)
      : std::runtime_error(call + ": " + name + " (" + std::to_string(code) + ")"),
        call_(std::move(call)),
        code_(code),
        name_(std::move(name)) {}
  [[nodiscard]] const std::string& call() const { return call_; }
  [[nodiscard]] int code() const { return code_; }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  std::string call_;
  int code_;
  std::string name_;
};

/// This driver or device cannot do what the question is about. The text says what is missing.
class NotSupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Where a child process writes which driver call it is in, so that its parent can read it after a
/// crash: memory that both share. A literal, valid in both, since the one is forked from the other.
using CallInProgress = std::atomic<const char*>;

/// Makes every call of every Driver note its name in `place`; null: nowhere, as at the start.
void note_calls_in(CallInProgress* place);

/// "CUDA_ERROR_INVALID_VALUE"; "error 9999" for a code that the driver does not know.
using ErrorNamer = CUresult (*)(CUresult, const char**);
std::string name_of(ErrorNamer namer, CUresult code);

namespace detail {
void begin_call(const char* name);
[[noreturn]] void throw_missing(const char* name);
[[noreturn]] void throw_failure(const char* name, CUresult result, ErrorNamer namer);
}  // namespace detail

/// One driver function.
template <typename Pointer>
class Function;

template <typename... Parameters>
class Function<CUresult (*)(Parameters...)> {
 public:
  void set(const char* name, void* address, ErrorNamer namer) {
    name_ = name;
    namer_ = namer;
    pointer_ = reinterpret_cast<CUresult (*)(Parameters...)>(address);
  }
  [[nodiscard]] bool exists() const { return pointer_ != nullptr; }

  /// What the driver answers. Throws NotSupported if it lacks the function.
  CUresult operator()(Parameters... arguments) const {
    if (pointer_ == nullptr) detail::throw_missing(name_);
    detail::begin_call(name_);
    return pointer_(arguments...);
  }

  /// Throws CallFailed unless the driver answers success; NotSupported where it says that.
  void must(Parameters... arguments) const {
    const CUresult result = (*this)(arguments...);
    if (result != CUDA_SUCCESS) detail::throw_failure(name_, result, namer_);
  }

 private:
  const char* name_ = "";
  CUresult (*pointer_)(Parameters...) = nullptr;
  ErrorNamer namer_ = nullptr;
};

/// A driver, opened. Never closed: a driver does not survive that.
class Driver {
 public:
  /// Opens the driver at `path` without initialising it. Throws std::runtime_error if it cannot be
  /// loaded.
  explicit Driver(const std::string& path);

  /// The address of an exported symbol; null if there is none.
  [[nodiscard]] void* symbol(const char* name) const;
  [[nodiscard]] std::string name_of(CUresult code) const { return cli::name_of(namer_, code); }

// NOLINTNEXTLINE(bugprone-macro-parentheses): the name of a member
#define SUPERPIPE_PROBE_FIELD(name) Function<decltype(&::name)> name;
  SUPERPIPE_PROBE_FUNCTIONS(SUPERPIPE_PROBE_FIELD)
#undef SUPERPIPE_PROBE_FIELD
  Function<CUresult (*)(float*, CUevent, CUevent)> cuEventElapsedTime;

 private:
  void* library_;
  ErrorNamer namer_;
};

}  // namespace superpipe::cli
