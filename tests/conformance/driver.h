#pragma once

#include <cuda.h>

#include <string>

// clang-format off
/// The driver functions that the suite calls, by the names cuda.h gives them today.
#define CONFORMANCE_FUNCTIONS(X) \
  X(cuInit) X(cuDriverGetVersion) X(cuGetErrorName) X(cuGetProcAddress) X(cuDeviceGet) \
  X(cuDeviceGetCount) X(cuDeviceCanAccessPeer) X(cuDeviceGetName) X(cuDeviceGetAttribute) X(cuDeviceTotalMem) \
  X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuDeviceGetDefaultMemPool) \
  X(cuCtxGetCurrent) X(cuCtxSetCurrent) X(cuCtxPushCurrent) X(cuCtxPopCurrent) X(cuCtxGetDevice) \
  X(cuCtxSynchronize) X(cuCtxEnablePeerAccess) X(cuCtxDisablePeerAccess) X(cuCtxGetStreamPriorityRange) X(cuMemGetInfo) X(cuMemAlloc) X(cuMemFree) X(cuMemAllocPitch) \
  X(cuMemAllocHost) X(cuMemFreeHost) X(cuMemHostAlloc) X(cuMemHostRegister) \
  X(cuMemHostUnregister) X(cuMemHostGetDevicePointer) X(cuPointerGetAttribute) \
  X(cuMemGetAddressRange) X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemCreate) \
  X(cuMemRelease) X(cuMemMap) X(cuMemUnmap) X(cuMemSetAccess) X(cuMemGetAllocationGranularity) \
  X(cuMemAllocAsync) X(cuMemFreeAsync) X(cuMemPoolSetAttribute) X(cuMemPoolGetAttribute) \
  X(cuMemPoolTrimTo) X(cuMemPoolSetAccess) X(cuMemcpy) X(cuMemcpyAsync) X(cuMemcpyHtoD) X(cuMemcpyDtoH) X(cuMemcpyDtoD) \
  X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) X(cuMemcpyDtoDAsync) X(cuMemsetD8) X(cuMemsetD8Async) \
  X(cuMemsetD32) X(cuMemsetD32Async) X(cuStreamCreate) X(cuStreamCreateWithPriority) \
  X(cuStreamDestroy) X(cuStreamSynchronize) X(cuStreamQuery) X(cuStreamWaitEvent) \
  X(cuStreamBeginCapture) X(cuStreamEndCapture) X(cuStreamIsCapturing) \
  X(cuThreadExchangeStreamCaptureMode) X(cuGraphDestroy) X(cuEventCreate) X(cuEventDestroy) \
  X(cuEventRecord) X(cuEventQuery) X(cuEventSynchronize) X(cuEventElapsedTime) X(cuLaunchKernel) \
  X(cuLaunchKernelEx) X(cuLaunchHostFunc) X(cuModuleLoadData) X(cuModuleGetFunction) \
  X(cuModuleUnload) X(cuLibraryLoadData) X(cuLibraryGetKernel) X(cuLibraryUnload) \
  X(cuKernelGetFunction) X(cuKernelGetParamInfo) X(cuFuncGetParamInfo) X(cuFuncLoad) \
  X(cuFuncGetName) X(cuFuncGetModule) X(cuKernelGetLibrary) X(cuLibraryGetKernelCount) \
  X(cuLibraryEnumerateKernels) X(cuKernelGetName) X(cuLibraryGetModule) X(cuLaunchCooperativeKernel) \
  X(cuModuleLoadDataEx) X(cuModuleGetLoadingMode) X(cuCtxCreate) X(cuCtxDestroy) \
  X(cuDevicePrimaryCtxGetState) X(cuDevicePrimaryCtxReset) X(cuStreamGetCtx) X(cuStreamGetFlags) \
  X(cuGetExportTable) X(cuDeviceGetMemPool) X(cuMemPoolCreate) X(cuMemPoolDestroy) \
  X(cuMemAllocFromPoolAsync) X(cuMemRetainAllocationHandle) X(cuPointerGetAttributes) \
  X(cuPointerSetAttribute) X(cuMemcpy2D) X(cuMemcpy2DAsync) X(cuMemcpy3DAsync) \
  X(cuMemcpyPeer) X(cuMemcpyPeerAsync) X(cuIpcGetMemHandle) X(cuMemcpyBatchAsync) X(cuMemsetD16Async) X(cuMemsetD2D32Async) \
  X(cuArrayCreate) X(cuArray3DCreate) X(cuArrayDestroy) X(cuMipmappedArrayCreate) \
  X(cuMipmappedArrayDestroy) X(cuGraphCreate) X(cuStreamBeginCaptureToGraph) \
  X(cuGraphGetNodes) X(cuGraphNodeGetType) X(cuGraphKernelNodeGetParams) X(cuGraphKernelNodeGetAttribute) \
  X(cuGraphMemcpyNodeGetParams) X(cuGraphMemsetNodeGetParams) X(cuGraphAddChildGraphNode) \
  X(cuGraphChildGraphNodeGetGraph) X(cuGraphInstantiateWithFlags) X(cuGraphInstantiateWithParams) \
  X(cuGraphExecKernelNodeSetParams) X(cuGraphExecNodeSetParams) X(cuGraphExecUpdate) \
  X(cuGraphExecChildGraphNodeSetParams) X(cuGraphExecDestroy) X(cuGraphLaunch) \
  X(cuGraphMemAllocNodeGetParams) X(cuGraphMemFreeNodeGetParams) X(cuGraphUpload) X(cuDeviceGraphMemTrim) \
  X(cuMemcpy3DBatchAsync) X(cuDeviceGetDevResource) X(cuDevSmResourceSplitByCount) \
  X(cuDevResourceGenerateDesc) X(cuGreenCtxCreate) X(cuGreenCtxDestroy) X(cuGreenCtxStreamCreate) \
  X(cuCtxFromGreenCtx) X(cuStreamGetCtx_v2)
// clang-format on

namespace conformance {

/// One driver function. Calling one that the driver lacks answers CUDA_ERROR_NOT_SUPPORTED, and the
/// test is skipped.
template <typename Pointer>
class Function;

template <typename... Parameters>
class Function<CUresult (*)(Parameters...)> {
 public:
  void set(void* address) { pointer_ = reinterpret_cast<CUresult (*)(Parameters...)>(address); }
  CUresult operator()(Parameters... arguments) const {
    return pointer_ == nullptr ? CUDA_ERROR_NOT_SUPPORTED : pointer_(arguments...);
  }

 private:
  CUresult (*pointer_)(Parameters...) = nullptr;
};

/// The driver under test.
struct Driver {
// NOLINTNEXTLINE(bugprone-macro-parentheses): the name of a member
#define CONFORMANCE_FIELD(name) Function<decltype(&::name)> name;
  CONFORMANCE_FUNCTIONS(CONFORMANCE_FIELD)
#undef CONFORMANCE_FIELD
};

/// Opens the driver at `path`, or libcuda.so.1 as the loader finds it where `path` is empty. Call
/// once, from main.
/// @return an empty string, or why it could not be opened.
std::string open_driver(const std::string& path);

/// The driver under test. REQUIRES: open_driver() succeeded.
const Driver& cu();

/// The address of an exported symbol of the driver; null if it has none of that name.
void* exported(const char* symbol);

/// The path that open_driver() was given.
const std::string& driver_path();

/// True if the driver under test is simgpu, whose faults can be asked for.
bool is_simgpu();

/// "CUDA_ERROR_INVALID_VALUE (1)".
std::string describe(CUresult result);

}  // namespace conformance
