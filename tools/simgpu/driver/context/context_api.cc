// The driver functions of contexts and primary contexts.
#include <utility>

#include "tools/simgpu/driver/context/context_table.h"
#include "tools/simgpu/driver/context/green_context.h"
#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/graphs/capture.h"
#include "tools/simgpu/driver/streams/stream.h"

namespace simgpu {
namespace {

bool are_valid_flags(unsigned flags) {
  if ((flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) != 0) return false;
  const unsigned scheduling = flags & CU_CTX_SCHED_MASK;
  return scheduling == CU_CTX_SCHED_AUTO || scheduling == CU_CTX_SCHED_SPIN ||
         scheduling == CU_CTX_SCHED_YIELD || scheduling == CU_CTX_SCHED_BLOCKING_SYNC;
}

CUresult create(CUcontext* out, unsigned flags, CUdevice ordinal) {
  SIMGPU_ENTER(cuCtxCreate);
  if (out == nullptr || !are_valid_flags(flags)) return CUDA_ERROR_INVALID_VALUE;
  Device* const device = find_device(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  Context* context = nullptr;
  if (const CUresult result = ContextTable::instance().create(*device, flags, &context);
      result != CUDA_SUCCESS) {
    return result;
  }
  if (!push_current({context})) {
    ContextTable::instance().destroy(*context);
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  *out = context->handle();
  return CUDA_SUCCESS;
}

CUresult destroy(CUcontext handle) {
  SIMGPU_ENTER(cuCtxDestroy);
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* const context = find_context(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const CUresult result = ContextTable::instance().destroy(*context);
  if (result == CUDA_SUCCESS && current_context() == context) pop_current();
  return result;
}

/// What `handle` names, for a thread that makes it current. @return CUDA_ERROR_INVALID_CONTEXT.
CUresult find_current(CUcontext handle, Current* found) {
  *found = {find_context(handle), GreenContext::find(handle)};
  if (found->green != nullptr && !found->green->alive()) return CUDA_ERROR_INVALID_CONTEXT;
  return found->context == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

CUresult push(CUcontext handle) {
  SIMGPU_ENTER(cuCtxPushCurrent);
  Current found;
  if (const CUresult result = find_current(handle, &found); result != CUDA_SUCCESS) return result;
  return push_current(found) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult pop(CUcontext* out) {
  SIMGPU_ENTER(cuCtxPopCurrent);
  const Current popped = pop_current();
  if (popped.context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (out != nullptr) *out = popped.handle();
  return CUDA_SUCCESS;
}

/// The context that `handle` names, or the current one for null.
Context* named_or_current(CUcontext handle) {
  return handle == nullptr ? current_context() : find_context(handle);
}

CUresult synchronize_context(CUcontext handle) {
  SIMGPU_ENTER(cuCtxSynchronize);
  Context* const context = named_or_current(handle);
  if (const CUresult result = check_context(context); result != CUDA_SUCCESS) return result;
  if (const CUresult captured = refuse_captures_in(*context); captured != CUDA_SUCCESS) {
    return captured;
  }
  if (const CUresult unsafe = check_unsafe(); unsafe != CUDA_SUCCESS) return unsafe;
  return synchronize(*context);
}

CUresult get_device(CUdevice* device, CUcontext handle) {
  SIMGPU_ENTER(cuCtxGetDevice);
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* const context = named_or_current(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *device = context->device().ordinal();
  return CUDA_SUCCESS;
}

CUresult release_primary(CUdevice ordinal) {
  SIMGPU_ENTER(cuDevicePrimaryCtxRelease);
  Device* const device = find_device(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  return ContextTable::instance().release_primary(*device, false);
}

CUresult reset_primary(CUdevice ordinal) {
  SIMGPU_ENTER(cuDevicePrimaryCtxReset);
  Device* const device = find_device(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  return ContextTable::instance().release_primary(*device, true);
}

CUresult set_primary_flags(CUdevice ordinal, unsigned flags) {
  SIMGPU_ENTER(cuDevicePrimaryCtxSetFlags);
  Device* const device = find_device(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (!are_valid_flags(flags)) return CUDA_ERROR_INVALID_VALUE;
  ContextTable::instance().primary(*device).set_flags(flags);
  return CUDA_SUCCESS;
}

/// The limits. They are kept for the process, since simgpu does nothing that depends on them.
struct Limit {
  std::atomic<std::size_t> value;
  bool settable;
};
Limit* find_limit(CUlimit limit) {
  static Limit limits[] = {{{1024}, true}, {{1 << 20}, true}, {{8 << 20}, true}, {{2}, true},
                           {{2048}, true}, {{64}, true},      {{0}, true},       {{0}, false},
                           {{0}, false},   {{0}, false}};
  const auto index = static_cast<unsigned>(limit);
  return index < std::size(limits) ? &limits[index] : nullptr;
}

}  // namespace

SIMGPU_EXPORT CUresult cuCtxCreate(CUcontext* pctx, unsigned int flags, CUdevice dev) {
  return create(pctx, flags, dev);
}
SIMGPU_EXPORT CUresult cuCtxCreate_v2(CUcontext* pctx, unsigned int flags, CUdevice dev) {
  return create(pctx, flags, dev);
}
SIMGPU_EXPORT CUresult cuCtxCreate_v3(CUcontext* pctx, CUexecAffinityParam* paramsArray,
                                      int numParams, unsigned int flags, CUdevice dev) {
  if (numParams != 0 || paramsArray != nullptr) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  return create(pctx, flags, dev);
}
SIMGPU_EXPORT CUresult cuCtxCreate_v4(CUcontext* pctx, CUctxCreateParams* ctxCreateParams,
                                      unsigned int flags, CUdevice dev) {
  if (ctxCreateParams != nullptr &&
      (ctxCreateParams->numExecAffinityParams != 0 || ctxCreateParams->cigParams != nullptr)) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return create(pctx, flags, dev);
}
SIMGPU_EXPORT CUresult cuCtxDestroy(CUcontext ctx) { return destroy(ctx); }
SIMGPU_EXPORT CUresult cuCtxDestroy_v2(CUcontext ctx) { return destroy(ctx); }
SIMGPU_EXPORT CUresult cuCtxPushCurrent(CUcontext ctx) { return push(ctx); }
SIMGPU_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext ctx) { return push(ctx); }
SIMGPU_EXPORT CUresult cuCtxPopCurrent(CUcontext* pctx) { return pop(pctx); }
SIMGPU_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext* pctx) { return pop(pctx); }

SIMGPU_EXPORT CUresult cuCtxSetCurrent(CUcontext ctx) {
  SIMGPU_ENTER(cuCtxSetCurrent);
  if (ctx == nullptr) {
    pop_current();
    return CUDA_SUCCESS;
  }
  Current found;
  if (const CUresult result = find_current(ctx, &found); result != CUDA_SUCCESS) return result;
  pop_current();
  push_current(found);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuCtxGetCurrent(CUcontext* pctx) {
  SIMGPU_ENTER(cuCtxGetCurrent);
  if (pctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pctx = current().handle();
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuCtxGetDevice(CUdevice* device) { return get_device(device, nullptr); }
SIMGPU_EXPORT CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext ctx) {
  return get_device(device, ctx);
}

SIMGPU_EXPORT CUresult cuCtxGetFlags(unsigned int* flags) {
  SIMGPU_ENTER(cuCtxGetFlags);
  SIMGPU_CONTEXT(context);
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = context->flags();
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuCtxSetFlags(unsigned int flags) {
  SIMGPU_ENTER(cuCtxSetFlags);
  SIMGPU_CONTEXT(context);
  if (!are_valid_flags(flags)) return CUDA_ERROR_INVALID_VALUE;
  context->set_flags(flags);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuCtxGetId(CUcontext ctx, unsigned long long* ctxId) {
  SIMGPU_ENTER(cuCtxGetId);
  if (ctxId == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* const context = named_or_current(ctx);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!context->alive()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *ctxId = context->id();
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuCtxSynchronize() { return synchronize_context(nullptr); }
SIMGPU_EXPORT CUresult cuCtxSynchronize_v2(CUcontext ctx) { return synchronize_context(ctx); }

SIMGPU_EXPORT CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int* version) {
  SIMGPU_ENTER(cuCtxGetApiVersion);
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (named_or_current(ctx) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *version = 3020;  // what a driver has answered since version 3.2
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuCtxGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
  SIMGPU_ENTER(cuCtxGetStreamPriorityRange);
  SIMGPU_CONTEXT(context);
  if (leastPriority != nullptr) *leastPriority = 0;
  if (greatestPriority != nullptr) *greatestPriority = -5;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  SIMGPU_ENTER(cuCtxSetLimit);
  SIMGPU_CONTEXT(context);
  Limit* const found = find_limit(limit);
  if (found == nullptr) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  if (!found->settable) return CUDA_ERROR_INVALID_VALUE;
  found->value = value;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuCtxGetLimit(size_t* pvalue, CUlimit limit) {
  SIMGPU_ENTER(cuCtxGetLimit);
  SIMGPU_CONTEXT(context);
  Limit* const found = find_limit(limit);
  if (found == nullptr) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  if (pvalue == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pvalue = found->value;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuCtxGetCacheConfig(CUfunc_cache* pconfig) {
  SIMGPU_ENTER(cuCtxGetCacheConfig);
  SIMGPU_CONTEXT(context);
  if (pconfig == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pconfig = CU_FUNC_CACHE_PREFER_NONE;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
  SIMGPU_ENTER(cuCtxSetCacheConfig);
  SIMGPU_CONTEXT(context);
  const bool known = config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL;
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_EXPORT CUresult cuCtxResetPersistingL2Cache() {
  SIMGPU_ENTER(cuCtxResetPersistingL2Cache);
  SIMGPU_CONTEXT(context);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) {
  SIMGPU_ENTER(cuDevicePrimaryCtxRetain);
  if (pctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* const device = find_device(dev);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  Context* context = nullptr;
  const CUresult result = ContextTable::instance().retain_primary(*device, &context);
  if (result == CUDA_SUCCESS) *pctx = context->handle();
  return result;
}

SIMGPU_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice dev) { return release_primary(dev); }
SIMGPU_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev) { return release_primary(dev); }
SIMGPU_EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice dev) { return reset_primary(dev); }
SIMGPU_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev) { return reset_primary(dev); }
SIMGPU_EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) {
  return set_primary_flags(dev, flags);
}
SIMGPU_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags) {
  return set_primary_flags(dev, flags);
}

SIMGPU_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int* flags, int* active) {
  SIMGPU_ENTER(cuDevicePrimaryCtxGetState);
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* const device = find_device(dev);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *flags = ContextTable::instance().primary(*device).flags();
  *active = ContextTable::instance().primary_active(*device) ? 1 : 0;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags) {
  SIMGPU_ENTER(cuCtxEnablePeerAccess);
  SIMGPU_CONTEXT(context);
  Context* const peer = find_context(peerContext);
  if (peer == nullptr || peer == context) return CUDA_ERROR_INVALID_CONTEXT;
  if (!peer->alive() || &peer->device() == &context->device()) return CUDA_ERROR_INVALID_CONTEXT;
  if (Flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return context->become_peer_of(*peer) ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

SIMGPU_EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peerContext) {
  SIMGPU_ENTER(cuCtxDisablePeerAccess);
  SIMGPU_CONTEXT(context);
  Context* const peer = find_context(peerContext);
  if (peer == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return context->cease_peer_of(*peer) ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

}  // namespace simgpu
