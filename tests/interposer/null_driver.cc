#include "tests/interposer/null_driver.h"

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>

#include "interposer/driver/context_count.h"
#include "interposer/driver/joining_streams.h"
#include "interposer/driver/table.h"
#include "interposer/hooks/gates.h"
#include "settings/settings.h"

namespace superpipe::testing {
namespace {

constexpr std::size_t kDeviceBytes = std::size_t{1} << 40;
constexpr CUdeviceptr kFirstReservation = 0x300000000000;

std::size_t pointer_parameter_count = 0;
std::uint64_t launched = 0;
CUstream captured_stream = nullptr;
std::map<CUstream, std::uint64_t> recorded;
std::atomic<std::uint64_t> next_handle{0x1000};
CUdeviceptr next_reservation = kFirstReservation;
std::atomic<std::int64_t> used_bytes{0};
std::mutex pages_mutex;
std::map<CUmemGenericAllocationHandle, std::size_t> pages;  // guarded by pages_mutex

template <typename T>
T handle() {
  return reinterpret_cast<T>(next_handle += 16);
}

CUresult launch(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                CUstream, void**, void**) {
  ++launched;
  return CUDA_SUCCESS;
}

CUresult create_pages(CUmemGenericAllocationHandle* handle, std::size_t size,
                      const CUmemAllocationProp*, unsigned long long) {
  const std::lock_guard lock(pages_mutex);
  *handle = next_handle += 16;
  pages[*handle] = size;
  used_bytes += static_cast<std::int64_t>(size);
  return CUDA_SUCCESS;
}

CUresult release_pages(CUmemGenericAllocationHandle handle) {
  const std::lock_guard lock(pages_mutex);
  const auto found = pages.find(handle);
  if (found == pages.end()) return CUDA_ERROR_INVALID_VALUE;
  used_bytes -= static_cast<std::int64_t>(found->second);
  pages.erase(found);
  return CUDA_SUCCESS;
}

CUcontext the_context() { return reinterpret_cast<CUcontext>(0x10); }

}  // namespace

CUfunction null_kernel(std::uintptr_t number) {
  return reinterpret_cast<CUfunction>(0x10000 + 64 * number);
}

std::uint64_t null_driver_launches() { return launched; }

void set_captured_stream(CUstream stream) { captured_stream = stream; }

std::uint64_t events_recorded_on(CUstream stream) { return recorded[stream]; }

void change_device_usage(std::int64_t bytes) { used_bytes += bytes; }

void free_device() {
  const std::lock_guard lock(pages_mutex);
  pages.clear();
  used_bytes = 0;
}

/// As the table is when a process begins.
const DriverTable untouched_table = driver_table;

void forget_contexts() {
  while (!ContextCount::has_several()) ContextCount::add();
  while (ContextCount::has_several()) ContextCount::remove();
  ContextCount::remove();
}

void install_null_driver(std::size_t pointer_parameters) {
  // What is not in the table here is loaded at its first call. On a machine with a GPU that would
  // be the real driver, whose answers are no part of this.
  ::setenv(variable_of(SettingId::kDriver), "/dev/null", 1);
  pointer_parameter_count = pointer_parameters;
  launched = 0;
  captured_stream = nullptr;
  recorded.clear();
  forget_contexts();
  Gates::forget();
  JoiningStreams::forget();
  DriverTable& table = driver();
  table = untouched_table;  // an earlier test may have functions of its own there
  table.cuCtxGetCurrent = [](CUcontext* context) {
    *context = the_context();
    return CUDA_SUCCESS;
  };
  table.cuCtxGetDevice = [](CUdevice* device) {
    *device = 0;
    return CUDA_SUCCESS;
  };
  table.cuCtxSynchronize = [] { return CUDA_SUCCESS; };
  table.cuCtxPushCurrent_v2 = [](CUcontext) { return CUDA_SUCCESS; };
  table.cuCtxPopCurrent_v2 = [](CUcontext* context) {
    *context = the_context();
    return CUDA_SUCCESS;
  };
  table.cuDevicePrimaryCtxGetState = [](CUdevice, unsigned* flags, int* active) {
    *flags = 0;
    *active = 0;
    return CUDA_SUCCESS;
  };
  table.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode*) { return CUDA_SUCCESS; };
  table.cuDriverGetVersion = [](int* version) {
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
  };
  table.cuDeviceGetAttribute = [](int* value, CUdevice_attribute, CUdevice) {
    *value = 1;
    return CUDA_SUCCESS;
  };
  table.cuMemGetInfo_v2 = [](std::size_t* free, std::size_t* total) {
    *total = kDeviceBytes;
    *free = kDeviceBytes - static_cast<std::size_t>(used_bytes.load());
    return CUDA_SUCCESS;
  };
  table.cuMemGetAllocationGranularity = [](std::size_t* granularity, const CUmemAllocationProp*,
                                           CUmemAllocationGranularity_flags) {
    *granularity = std::size_t{2} << 20;
    return CUDA_SUCCESS;
  };
  table.cuMemAddressReserve = [](CUdeviceptr* address, std::size_t size, std::size_t, CUdeviceptr,
                                 unsigned long long) {
    *address = next_reservation;
    next_reservation += size;
    return CUDA_SUCCESS;
  };
  table.cuMemAddressFree = [](CUdeviceptr, std::size_t) { return CUDA_SUCCESS; };
  table.cuMemCreate = &create_pages;
  table.cuMemRelease = &release_pages;
  table.cuMemMap = [](CUdeviceptr, std::size_t, std::size_t, CUmemGenericAllocationHandle,
                      unsigned long long) { return CUDA_SUCCESS; };
  table.cuMemSetAccess = [](CUdeviceptr, std::size_t, const CUmemAccessDesc*, std::size_t) {
    return CUDA_SUCCESS;
  };
  table.cuMemUnmap = [](CUdeviceptr, std::size_t) { return CUDA_SUCCESS; };
  table.cuDeviceGetMemPool = [](CUmemoryPool* pool, CUdevice) {
    *pool = reinterpret_cast<CUmemoryPool>(0x20);
    return CUDA_SUCCESS;
  };
  table.cuCtxGetStreamPriorityRange = [](int* lowest, int* highest) {
    *lowest = *highest = 0;
    return CUDA_SUCCESS;
  };
  table.cuStreamCreateWithPriority = [](CUstream* stream, unsigned, int) {
    *stream = handle<CUstream>();
    return CUDA_SUCCESS;
  };
  table.cuStreamDestroy_v2 = [](CUstream) { return CUDA_SUCCESS; };
  table.cuStreamWaitEvent = [](CUstream, CUevent, unsigned) { return CUDA_SUCCESS; };
  table.cuEventCreate = [](CUevent* event, unsigned) {
    *event = handle<CUevent>();
    return CUDA_SUCCESS;
  };
  table.cuEventDestroy_v2 = [](CUevent) { return CUDA_SUCCESS; };
  table.cuEventRecord = [](CUevent, CUstream stream) {
    ++recorded[stream];
    return CUDA_SUCCESS;
  };
  table.cuStreamIsCapturing = [](CUstream stream, CUstreamCaptureStatus* status) {
    *status = stream != nullptr && stream == captured_stream ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                                             : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  };
  table.cuStreamBeginCapture_v2 = [](CUstream, CUstreamCaptureMode) { return CUDA_SUCCESS; };
  table.cuStreamEndCapture = [](CUstream, CUgraph*) { return CUDA_SUCCESS; };
  table.cuModuleUnload = [](CUmodule) { return CUDA_SUCCESS; };
  table.cuEventQuery = [](CUevent) { return CUDA_SUCCESS; };
  table.cuMemHostRegister_v2 = [](void*, std::size_t, unsigned) { return CUDA_SUCCESS; };
  table.cuMemHostUnregister = [](void*) { return CUDA_SUCCESS; };
  table.cuMemcpyHtoDAsync_v2 = [](CUdeviceptr, const void*, std::size_t, CUstream) {
    return CUDA_SUCCESS;
  };
  table.cuMemcpyDtoHAsync_v2 = [](void*, CUdeviceptr, std::size_t, CUstream) {
    return CUDA_SUCCESS;
  };
  table.cuMemsetD8Async = [](CUdeviceptr, unsigned char, std::size_t, CUstream) {
    return CUDA_SUCCESS;
  };
  table.cuFuncGetParamInfo = [](CUfunction, std::size_t index, std::size_t* offset,
                                std::size_t* size) {
    if (index >= pointer_parameter_count) return CUDA_ERROR_INVALID_VALUE;
    *offset = 8 * index;
    *size = 8;
    return CUDA_SUCCESS;
  };
  table.cuFuncGetName = [](const char** name, CUfunction) {
    *name = "null_kernel";
    return CUDA_SUCCESS;
  };
  table.cuLaunchKernel = &launch;
}

}  // namespace superpipe::testing
