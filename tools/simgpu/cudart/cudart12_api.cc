// The functions of CUDA 12 that have another name today, or another structure.
#include <driver_types.h>

#include <cstddef>
#include <cstring>

#include "tools/simgpu/export.h"

// As the sources of the library have them here (names_in_cuda_12.h).
extern "C" cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
extern "C" cudaError_t cudaEventElapsedTime_v2(float* milliseconds, cudaEvent_t start,
                                               cudaEvent_t end);
extern "C" cudaError_t cudaGetDeviceProperties_of_cuda_13(cudaDeviceProp* properties, int device);
extern "C" cudaError_t cudaPointerGetAttributes_of_cuda_13(cudaPointerAttributes* attributes,
                                                           const void* pointer);
extern "C" cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream,
                                                   cudaStreamCaptureStatus* status,
                                                   unsigned long long* id, cudaGraph_t* graph,
                                                   const cudaGraphNode_t** dependencies,
                                                   const cudaGraphEdgeData** edges,
                                                   std::size_t* count);
extern "C" cudaError_t cudaStreamUpdateCaptureDependencies_v2(cudaStream_t stream,
                                                              cudaGraphNode_t* dependencies,
                                                              const cudaGraphEdgeData* edges,
                                                              std::size_t count, unsigned flags);
extern "C" cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t* node, cudaGraph_t graph,
                                           const cudaGraphNode_t* dependencies,
                                           const cudaGraphEdgeData* edges, std::size_t count,
                                           cudaGraphNodeParams* parameters);
extern "C" cudaError_t cudaGraphAddDependencies_v2(cudaGraph_t graph, const cudaGraphNode_t* from,
                                                   const cudaGraphNode_t* to,
                                                   const cudaGraphEdgeData* edges,
                                                   std::size_t count);

namespace simgpu::cudart {
namespace {

/// cudaDeviceProp as CUDA 12 has it. Source: CUDA Toolkit 12.9, driver_types.h.
struct PropertiesOfCuda12 {
  char name[256];
  cudaUUID_t uuid;
  char luid[8];
  unsigned luidDeviceNodeMask;
  std::size_t totalGlobalMem;
  std::size_t sharedMemPerBlock;
  int regsPerBlock;
  int warpSize;
  std::size_t memPitch;
  int maxThreadsPerBlock;
  int maxThreadsDim[3];
  int maxGridSize[3];
  int clockRate;
  std::size_t totalConstMem;
  int major;
  int minor;
  std::size_t textureAlignment;
  std::size_t texturePitchAlignment;
  int deviceOverlap;
  int multiProcessorCount;
  int kernelExecTimeoutEnabled;
  int integrated;
  int canMapHostMemory;
  int computeMode;
  int textures_and_surfaces[40];
  std::size_t surfaceAlignment;
  int concurrentKernels;
  int ECCEnabled;
  int pciBusID;
  int pciDeviceID;
  int pciDomainID;
  int tccDriver;
  int asyncEngineCount;
  int unifiedAddressing;
  int memoryClockRate;
  int memoryBusWidth;
  int l2CacheSize;
  int persistingL2CacheMaxSize;
  int maxThreadsPerMultiProcessor;
  int streamPrioritiesSupported;
  int globalL1CacheSupported;
  int localL1CacheSupported;
  std::size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor;
  int managedMemory;
  int isMultiGpuBoard;
  int multiGpuBoardGroupID;
  int hostNativeAtomicSupported;
  int singleToDoublePrecisionPerfRatio;
  int pageableMemoryAccess;
  int concurrentManagedAccess;
  int computePreemptionSupported;
  int canUseHostPointerForRegisteredMem;
  int cooperativeLaunch;
  int cooperativeMultiDeviceLaunch;
  std::size_t sharedMemPerBlockOptin;
  int pageableMemoryAccessUsesHostPageTables;
  int directManagedMemAccessFromHost;
  int maxBlocksPerMultiProcessor;
  int accessPolicyMaxWindowSize;
  std::size_t reservedSharedMemPerBlock;
  int hostRegisterSupported;
  int sparseCudaArraySupported;
  int hostRegisterReadOnlySupported;
  int timelineSemaphoreInteropSupported;
  int memoryPoolsSupported;
  int gpuDirectRDMASupported;
  unsigned gpuDirectRDMAFlushWritesOptions;
  int gpuDirectRDMAWritesOrdering;
  unsigned memoryPoolSupportedHandleTypes;
  int deferredMappingCudaArraySupported;
  int ipcEventSupported;
  int clusterLaunch;
  int unifiedFunctionPointers;
  int reserved[63];
};
static_assert(sizeof(PropertiesOfCuda12) == 1032);

/// cudaPointerAttributes as CUDA 12 has it.
struct PointerAttributesOfCuda12 {
  cudaMemoryType type;
  int device;
  void* devicePointer;
  void* hostPointer;
};
static_assert(sizeof(PointerAttributesOfCuda12) == 24);

}  // namespace
}  // namespace simgpu::cudart

SIMGPU_EXPORT cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start,
                                               cudaEvent_t end) {
  return cudaEventElapsedTime_v2(milliseconds, start, end);
}

SIMGPU_EXPORT cudaError_t cudaGetDeviceProperties_v2(simgpu::cudart::PropertiesOfCuda12* properties,
                                                     int device) {
  if (properties == nullptr) return cudaErrorInvalidValue;
  cudaDeviceProp now{};
  if (const cudaError_t error = cudaGetDeviceProperties_of_cuda_13(&now, device);
      error != cudaSuccess) {
    return error;
  }
  *properties = {};
  const auto attribute = [device](cudaDeviceAttr asked) {
    int value = 0;
    return cudaDeviceGetAttribute(&value, asked, device) == cudaSuccess ? value : 0;
  };
  properties->clockRate = attribute(cudaDevAttrClockRate);
  properties->memoryClockRate = attribute(cudaDevAttrMemoryClockRate);
  properties->computeMode = attribute(cudaDevAttrComputeMode);
  properties->kernelExecTimeoutEnabled = attribute(cudaDevAttrKernelExecTimeout);
  properties->deviceOverlap = now.asyncEngineCount > 0 ? 1 : 0;
  properties->singleToDoublePrecisionPerfRatio =
      attribute(cudaDevAttrSingleToDoublePrecisionPerfRatio);
  // NOLINTBEGIN(bugprone-macro-parentheses): names of fields
#define SIMGPU_SAME(field)                                                   \
  static_assert(sizeof(properties->field) == sizeof(now.field), "the same"); \
  std::memcpy(&properties->field, &now.field, sizeof(now.field));
  // NOLINTEND(bugprone-macro-parentheses)
  SIMGPU_SAME(name)
  SIMGPU_SAME(uuid)
  SIMGPU_SAME(totalGlobalMem)
  SIMGPU_SAME(sharedMemPerBlock)
  SIMGPU_SAME(regsPerBlock)
  SIMGPU_SAME(warpSize)
  SIMGPU_SAME(memPitch)
  SIMGPU_SAME(maxThreadsPerBlock)
  SIMGPU_SAME(maxThreadsDim)
  SIMGPU_SAME(maxGridSize)
  SIMGPU_SAME(totalConstMem)
  SIMGPU_SAME(major)
  SIMGPU_SAME(minor)
  SIMGPU_SAME(textureAlignment)
  SIMGPU_SAME(texturePitchAlignment)
  SIMGPU_SAME(multiProcessorCount)
  SIMGPU_SAME(integrated)
  SIMGPU_SAME(canMapHostMemory)
  SIMGPU_SAME(surfaceAlignment)
  SIMGPU_SAME(concurrentKernels)
  SIMGPU_SAME(ECCEnabled)
  SIMGPU_SAME(pciBusID)
  SIMGPU_SAME(pciDeviceID)
  SIMGPU_SAME(pciDomainID)
  SIMGPU_SAME(asyncEngineCount)
  SIMGPU_SAME(unifiedAddressing)
  SIMGPU_SAME(memoryBusWidth)
  SIMGPU_SAME(l2CacheSize)
  SIMGPU_SAME(persistingL2CacheMaxSize)
  SIMGPU_SAME(maxThreadsPerMultiProcessor)
  SIMGPU_SAME(streamPrioritiesSupported)
  SIMGPU_SAME(globalL1CacheSupported)
  SIMGPU_SAME(localL1CacheSupported)
  SIMGPU_SAME(sharedMemPerMultiprocessor)
  SIMGPU_SAME(regsPerMultiprocessor)
  SIMGPU_SAME(managedMemory)
  SIMGPU_SAME(pageableMemoryAccess)
  SIMGPU_SAME(concurrentManagedAccess)
  SIMGPU_SAME(computePreemptionSupported)
  SIMGPU_SAME(cooperativeLaunch)
  SIMGPU_SAME(sharedMemPerBlockOptin)
  SIMGPU_SAME(maxBlocksPerMultiProcessor)
  SIMGPU_SAME(accessPolicyMaxWindowSize)
  SIMGPU_SAME(reservedSharedMemPerBlock)
  SIMGPU_SAME(hostRegisterSupported)
  SIMGPU_SAME(memoryPoolsSupported)
  SIMGPU_SAME(clusterLaunch)
#undef SIMGPU_SAME
  return cudaSuccess;
}

SIMGPU_EXPORT cudaError_t cudaPointerGetAttributes(
    simgpu::cudart::PointerAttributesOfCuda12* attributes, const void* pointer) {
  cudaPointerAttributes now{};
  const cudaError_t error =
      cudaPointerGetAttributes_of_cuda_13(attributes == nullptr ? nullptr : &now, pointer);
  if (attributes != nullptr) {
    *attributes = {now.type, now.device, now.devicePointer, now.hostPointer};
  }
  return error;
}

// These have got a parameter since, for the data of edges.
SIMGPU_EXPORT cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream,
                                                      cudaStreamCaptureStatus* status,
                                                      unsigned long long* id, cudaGraph_t* graph,
                                                      const cudaGraphNode_t** dependencies,
                                                      std::size_t* count) {
  return cudaStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, nullptr, count);
}
SIMGPU_EXPORT cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream,
                                                              cudaGraphNode_t* dependencies,
                                                              std::size_t count, unsigned flags) {
  return cudaStreamUpdateCaptureDependencies_v2(stream, dependencies, nullptr, count, flags);
}
SIMGPU_EXPORT cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                           const cudaGraphNode_t* dependencies, std::size_t count,
                                           cudaGraphNodeParams* parameters) {
  return cudaGraphAddNode_v2(node, graph, dependencies, nullptr, count, parameters);
}
SIMGPU_EXPORT cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                                   const cudaGraphNode_t* to, std::size_t count) {
  return cudaGraphAddDependencies_v2(graph, from, to, nullptr, count);
}
