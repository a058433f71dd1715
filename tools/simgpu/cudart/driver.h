// The driver as the runtime library sees it: a table of functions found through cuGetProcAddress.
#pragma once

#include <cuda.h>
#include <cudaProfiler.h>

// clang-format off
/// The driver functions that the runtime library calls, by the names cuda.h gives them today.
#define SIMGPU_CUDART_DRIVER_FUNCTIONS(X) \
  X(cuInit) X(cuDriverGetVersion) X(cuGetErrorString) X(cuDeviceGet) X(cuDeviceGetCount) \
  X(cuDeviceGetName) X(cuDeviceGetUuid) X(cuDeviceTotalMem) \
  X(cuDeviceGetAttribute) X(cuDeviceGetPCIBusId) X(cuDeviceGetByPCIBusId) \
  X(cuDeviceCanAccessPeer) X(cuDeviceGetP2PAttribute) X(cuDevicePrimaryCtxRetain) \
  X(cuDevicePrimaryCtxRelease) X(cuDevicePrimaryCtxReset) X(cuDevicePrimaryCtxSetFlags) \
  X(cuDevicePrimaryCtxGetState) X(cuDeviceGetDefaultMemPool) X(cuDeviceGetMemPool) \
  X(cuDeviceSetMemPool) X(cuCtxGetCurrent) X(cuCtxSetCurrent) X(cuCtxGetDevice) X(cuCtxGetFlags) \
  X(cuCtxSynchronize) X(cuCtxGetLimit) X(cuCtxSetLimit) X(cuCtxGetCacheConfig) \
  X(cuCtxSetCacheConfig) X(cuCtxGetStreamPriorityRange) X(cuCtxEnablePeerAccess) \
  X(cuCtxDisablePeerAccess) X(cuCtxResetPersistingL2Cache) X(cuMemGetInfo) X(cuMemAlloc) \
  X(cuMemAllocPitch) X(cuMemAllocManaged) X(cuMemFree) X(cuMemHostAlloc) X(cuMemAllocHost) \
  X(cuMemFreeHost) X(cuMemHostRegister) X(cuMemHostUnregister) X(cuMemHostGetDevicePointer) \
  X(cuMemHostGetFlags) X(cuPointerGetAttributes) X(cuMemAllocAsync) X(cuMemFreeAsync) \
  X(cuMemAllocFromPoolAsync) X(cuMemPoolCreate) X(cuMemPoolDestroy) X(cuMemPoolTrimTo) \
  X(cuMemPoolSetAttribute) X(cuMemPoolGetAttribute) X(cuMemPoolSetAccess) X(cuMemPoolGetAccess) \
  X(cuMemPrefetchAsync) X(cuMemAdvise) X(cuMemRangeGetAttribute) X(cuIpcGetMemHandle) \
  X(cuIpcOpenMemHandle) X(cuIpcCloseMemHandle) X(cuIpcGetEventHandle) X(cuIpcOpenEventHandle) \
  X(cuMemcpy) X(cuMemcpyAsync) X(cuMemcpyHtoD) X(cuMemcpyDtoH) X(cuMemcpyDtoD) \
  X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) X(cuMemcpyDtoDAsync) X(cuMemcpyPeer) \
  X(cuMemcpyPeerAsync) X(cuMemcpy2DUnaligned) X(cuMemcpy2DAsync) X(cuMemcpy3D) X(cuMemcpy3DAsync) \
  X(cuMemcpyBatchAsync) X(cuMemsetD8) X(cuMemsetD8Async) X(cuMemsetD2D8) X(cuMemsetD2D8Async) \
  X(cuStreamCreate) X(cuStreamCreateWithPriority) X(cuStreamDestroy) X(cuStreamSynchronize) \
  X(cuStreamQuery) X(cuStreamWaitEvent) X(cuStreamAddCallback) X(cuStreamAttachMemAsync) \
  X(cuStreamGetPriority) X(cuStreamGetFlags) X(cuStreamGetId) X(cuStreamGetDevice) \
  X(cuStreamCopyAttributes) X(cuStreamGetAttribute) X(cuStreamSetAttribute) \
  X(cuStreamBeginCapture) X(cuStreamEndCapture) X(cuStreamIsCapturing) X(cuStreamGetCaptureInfo) \
  X(cuStreamUpdateCaptureDependencies) X(cuThreadExchangeStreamCaptureMode) X(cuEventCreate) \
  X(cuEventRecord) X(cuEventRecordWithFlags) X(cuEventQuery) X(cuEventSynchronize) \
  X(cuEventDestroy) X(cuEventElapsedTime) X(cuLaunchKernel) X(cuLaunchKernelEx) \
  X(cuLaunchCooperativeKernel) X(cuLaunchHostFunc) X(cuLibraryLoadData) X(cuLibraryLoadFromFile) \
  X(cuLibraryUnload) X(cuLibraryGetKernel) X(cuLibraryGetGlobal) X(cuLibraryGetManaged) \
  X(cuLibraryGetUnifiedFunction) X(cuLibraryGetKernelCount) X(cuLibraryEnumerateKernels) \
  X(cuKernelGetFunction) X(cuKernelGetAttribute) X(cuKernelSetAttribute) \
  X(cuKernelSetCacheConfig) X(cuKernelGetName) X(cuKernelGetParamInfo) \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor) \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags) \
  X(cuOccupancyAvailableDynamicSMemPerBlock) X(cuOccupancyMaxPotentialClusterSize) \
  X(cuOccupancyMaxActiveClusters) X(cuProfilerStart) X(cuProfilerStop) X(cuGraphCreate) \
  X(cuGraphDestroy) X(cuGraphInstantiateWithFlags) X(cuGraphExecDestroy) X(cuGraphLaunch) \
  X(cuGraphUpload) X(cuGraphGetNodes) X(cuUserObjectCreate) X(cuUserObjectRetain) \
  X(cuUserObjectRelease) X(cuGraphRetainUserObject) X(cuGraphReleaseUserObject) \
  X(cuStreamBeginCaptureToGraph) X(cuGraphInstantiateWithParams) X(cuGraphExecGetFlags) \
  X(cuGraphExecUpdate) X(cuGraphClone) X(cuGraphNodeFindInClone) X(cuGraphNodeGetType) \
  X(cuGraphGetRootNodes) X(cuGraphGetEdges) X(cuGraphNodeGetDependencies) \
  X(cuGraphNodeGetDependentNodes) X(cuGraphAddDependencies) X(cuGraphRemoveDependencies) \
  X(cuGraphDestroyNode) X(cuGraphDebugDotPrint) X(cuGraphAddNode) X(cuGraphNodeSetParams) \
  X(cuGraphExecNodeSetParams) X(cuGraphConditionalHandleCreate) X(cuGraphAddKernelNode) \
  X(cuGraphKernelNodeGetParams) X(cuGraphKernelNodeSetParams) X(cuGraphExecKernelNodeSetParams) \
  X(cuGraphKernelNodeCopyAttributes) X(cuGraphKernelNodeGetAttribute) \
  X(cuGraphKernelNodeSetAttribute) X(cuGraphAddMemcpyNode) X(cuGraphMemcpyNodeGetParams) \
  X(cuGraphMemcpyNodeSetParams) X(cuGraphExecMemcpyNodeSetParams) X(cuGraphAddMemsetNode) \
  X(cuGraphMemsetNodeGetParams) X(cuGraphMemsetNodeSetParams) X(cuGraphExecMemsetNodeSetParams) \
  X(cuGraphAddHostNode) X(cuGraphHostNodeGetParams) X(cuGraphHostNodeSetParams) \
  X(cuGraphExecHostNodeSetParams) X(cuGraphAddChildGraphNode) X(cuGraphChildGraphNodeGetGraph) \
  X(cuGraphExecChildGraphNodeSetParams) X(cuGraphAddEmptyNode) X(cuGraphAddEventRecordNode) \
  X(cuGraphEventRecordNodeGetEvent) X(cuGraphEventRecordNodeSetEvent) \
  X(cuGraphExecEventRecordNodeSetEvent) X(cuGraphAddEventWaitNode) \
  X(cuGraphEventWaitNodeGetEvent) X(cuGraphEventWaitNodeSetEvent) \
  X(cuGraphExecEventWaitNodeSetEvent) X(cuGraphAddMemAllocNode) X(cuGraphMemAllocNodeGetParams) \
  X(cuGraphAddMemFreeNode) X(cuGraphMemFreeNodeGetParams) X(cuDeviceGraphMemTrim) \
  X(cuDeviceGetGraphMemAttribute) X(cuDeviceSetGraphMemAttribute) X(cuGraphNodeSetEnabled) \
  X(cuGraphNodeGetEnabled)
// clang-format on

namespace simgpu::cudart {

/// One driver function; calling an absent one (an older driver) answers CUDA_ERROR_NOT_SUPPORTED.
template <typename Pointer>
class DriverFunction;

template <typename... Parameters>
class DriverFunction<CUresult (*)(Parameters...)> {
 public:
  /// Takes the address that cuGetProcAddress gave; null means that the driver lacks the function.
  void set(void* address) { pointer_ = reinterpret_cast<CUresult (*)(Parameters...)>(address); }

  CUresult operator()(Parameters... arguments) const {
    return pointer_ == nullptr ? CUDA_ERROR_NOT_SUPPORTED : pointer_(arguments...);
  }

 private:
  CUresult (*pointer_)(Parameters...) = nullptr;
};

/// The driver's functions in one of its two forms: for the legacy default stream, or for the
/// per-thread one.
struct DriverTable {
// NOLINTNEXTLINE(bugprone-macro-parentheses): the name of a member
#define SIMGPU_CUDART_FIELD(name) DriverFunction<decltype(&::name)> name;
  SIMGPU_CUDART_DRIVER_FUNCTIONS(SIMGPU_CUDART_FIELD)
#undef SIMGPU_CUDART_FIELD
};

/// The type of the driver's own cuGetProcAddress.
using GetProcAddress = CUresult (*)(const char*, void**, int, cuuint64_t,
                                    CUdriverProcAddressQueryResult*);

/// A driver that has been found.
struct Driver {
  GetProcAddress get_proc_address = nullptr;
  DriverTable legacy;
  DriverTable per_thread;
};

/// Opens libcuda.so.1 as the loader finds it and fills `driver`.
///
/// As NVIDIA's library does it: one dlopen, one dlsym for cuGetProcAddress_v2, then everything
/// through the cuGetProcAddress that this one returns, so that an interposer of the driver sees all
/// of it. The library is never closed. Not thread safe.
/// @return false if there is no library of that name, or if it has no cuGetProcAddress_v2.
bool open_driver(Driver& driver);

}  // namespace simgpu::cudart
