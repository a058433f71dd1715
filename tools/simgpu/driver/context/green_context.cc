#include "tools/simgpu/driver/context/green_context.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "tools/simgpu/driver/context/context_table.h"
#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/entry/handle_table.h"
#include "tools/simgpu/driver/graphs/capture.h"
#include "tools/simgpu/driver/streams/stream_object.h"
#include "tools/simgpu/driver/streams/stream_table.h"

namespace simgpu {
namespace {

/// What partitions of compute capability 9.0 are multiples of.
constexpr unsigned kPartition = 8;

struct GreenContexts {
  std::mutex mutex;
  std::vector<std::unique_ptr<GreenContext>> all;

  static GreenContexts& instance() {
    static auto* const contexts = new GreenContexts;
    return *contexts;
  }
  template <typename Matches>
  GreenContext* find(const Matches& matches) {
    const std::lock_guard lock{mutex};
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const auto& green) { return matches(*green); });
    return found == all.end() ? nullptr : found->get();
  }
};

/// What cuDevResourceGenerateDesc makes; never deleted.
struct Description {
  CUdevResource resource;
};

CUdevResource resource_of(unsigned multiprocessors) {
  CUdevResource resource{};
  resource.type = CU_DEV_RESOURCE_TYPE_SM;
  resource.sm.smCount = multiprocessors;
  resource.sm.minSmPartitionSize = kPartition;
  resource.sm.smCoscheduledAlignment = kPartition;
  return resource;
}

CUresult whole_resource(const Device& device, CUdevResource* resource, CUdevResourceType type) {
  if (resource == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  *resource = resource_of(
      static_cast<unsigned>(attribute_of(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)));
  return CUDA_SUCCESS;
}

/// The living green context that `handle` names. @return CUDA_ERROR_INVALID_CONTEXT if there is
/// none.
CUresult find_green(CUgreenCtx handle, GreenContext** green) {
  *green = GreenContext::find(handle);
  return *green != nullptr && (*green)->alive() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

}  // namespace

GreenContext::GreenContext(Context& primary, const CUdevResource& resource)
    : primary_(primary), resource_(resource), id_(next_object_id()) {
  default_stream_ = make_stream(primary, StreamKind::kNonBlocking, CU_STREAM_DEFAULT, 0);
  default_stream_->green = this;
}

GreenContext* GreenContext::create(Device& device, const CUdevResource& resource) {
  Context* primary = nullptr;
  if (ContextTable::instance().retain_primary(device, &primary) != CUDA_SUCCESS) return nullptr;
  std::unique_ptr<GreenContext> made{new GreenContext(*primary, resource)};
  GreenContexts& contexts = GreenContexts::instance();
  const std::lock_guard lock{contexts.mutex};
  contexts.all.push_back(std::move(made));
  return contexts.all.back().get();
}

GreenContext* GreenContext::find(CUgreenCtx handle) {
  return GreenContexts::instance().find(
      [handle](GreenContext& green) { return green.handle() == handle; });
}

GreenContext* GreenContext::find(CUcontext handle) {
  return GreenContexts::instance().find(
      [handle](GreenContext& green) { return green.context_handle() == handle; });
}

void GreenContext::destroy() {
  if (!alive_.exchange(false)) return;
  default_stream_->close();
  ContextTable::instance().release_primary(primary_.device(), false);
}

SIMGPU_EXPORT CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource* resource,
                                              CUdevResourceType type) {
  SIMGPU_ENTER(cuDeviceGetDevResource);
  const Device* const found = find_device(device);
  return found == nullptr ? CUDA_ERROR_INVALID_DEVICE : whole_resource(*found, resource, type);
}

SIMGPU_EXPORT CUresult cuGreenCtxGetDevResource(CUgreenCtx hCtx, CUdevResource* resource,
                                                CUdevResourceType type) {
  SIMGPU_ENTER(cuGreenCtxGetDevResource);
  GreenContext* green = nullptr;
  if (const CUresult result = find_green(hCtx, &green); result != CUDA_SUCCESS) return result;
  if (resource == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  *resource = green->resource();
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuDevSmResourceSplitByCount(CUdevResource* result, unsigned int* nbGroups,
                                                   const CUdevResource* input,
                                                   CUdevResource* remaining, unsigned int useFlags,
                                                   unsigned int minCount) {
  SIMGPU_ENTER(cuDevSmResourceSplitByCount);
  if (nbGroups == nullptr || input == nullptr || useFlags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (input->type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  if (minCount > input->sm.smCount) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  const unsigned size = std::max(kPartition, (minCount + kPartition - 1) / kPartition * kPartition);
  const unsigned most = input->sm.smCount / size;
  const unsigned groups = result == nullptr ? most : std::min(most, *nbGroups);
  for (unsigned i = 0; result != nullptr && i < groups; ++i) result[i] = resource_of(size);
  if (remaining != nullptr) *remaining = resource_of(input->sm.smCount - groups * size);
  *nbGroups = groups;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* phDesc,
                                                 CUdevResource* resources,
                                                 unsigned int nbResources) {
  SIMGPU_ENTER(cuDevResourceGenerateDesc);
  if (phDesc == nullptr || resources == nullptr || nbResources == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  unsigned multiprocessors = 0;
  for (unsigned i = 0; i < nbResources; ++i) {
    if (resources[i].type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    multiprocessors += resources[i].sm.smCount;
  }
  *phDesc = reinterpret_cast<CUdevResourceDesc>(new Description{resource_of(multiprocessors)});
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuGreenCtxCreate(CUgreenCtx* phCtx, CUdevResourceDesc desc, CUdevice dev,
                                        unsigned int flags) {
  SIMGPU_ENTER(cuGreenCtxCreate);
  if (phCtx == nullptr || desc == nullptr || flags != CU_GREEN_CTX_DEFAULT_STREAM) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Device* const device = find_device(dev);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  GreenContext* const green =
      GreenContext::create(*device, reinterpret_cast<Description*>(desc)->resource);
  if (green == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *phCtx = green->handle();
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuGreenCtxDestroy(CUgreenCtx hCtx) {
  SIMGPU_ENTER(cuGreenCtxDestroy);
  GreenContext* green = nullptr;
  if (const CUresult result = find_green(hCtx, &green); result != CUDA_SUCCESS) return result;
  green->destroy();
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuGreenCtxGetId(CUgreenCtx greenCtx, unsigned long long* greenCtxId) {
  SIMGPU_ENTER(cuGreenCtxGetId);
  if (greenCtxId == nullptr) return CUDA_ERROR_INVALID_VALUE;
  GreenContext* green = current_green_context();
  if (greenCtx != nullptr) {
    if (const CUresult result = find_green(greenCtx, &green); result != CUDA_SUCCESS) return result;
  }
  if (green == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *greenCtxId = green->id();
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuCtxFromGreenCtx(CUcontext* pContext, CUgreenCtx hCtx) {
  SIMGPU_ENTER(cuCtxFromGreenCtx);
  if (pContext == nullptr) return CUDA_ERROR_INVALID_VALUE;
  GreenContext* green = nullptr;
  if (const CUresult result = find_green(hCtx, &green); result != CUDA_SUCCESS) return result;
  *pContext = green->context_handle();
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuGreenCtxStreamCreate(CUstream* phStream, CUgreenCtx greenCtx,
                                              unsigned int flags, int priority) {
  SIMGPU_ENTER(cuGreenCtxStreamCreate);
  GreenContext* green = nullptr;
  if (const CUresult result = find_green(greenCtx, &green); result != CUDA_SUCCESS) return result;
  if (phStream == nullptr || flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  *phStream = create_stream(green->primary(), flags, std::clamp(priority, -5, 0), green);
  return CUDA_SUCCESS;
}

}  // namespace simgpu
