// Contexts: the program's references are counted, and a managed one is closed before it goes.
#include "interposer/contexts/context_registry.h"
#include "interposer/driver/table.h"
#include "interposer/generated/hooks.h"
#include "interposer/passthrough/passthrough_allocation.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace superpipe {
namespace {

ContextRegistry& registry() noexcept { return ContextRegistry::of_process(); }
ContextReferences& references() noexcept { return registry().references(); }

/// Creates a context through `call`, and counts it.
template <typename Call>
CUresult create(const Call& call) noexcept {
  const CUresult result = change_passthrough(PassthroughChange::kGrowth, call);
  if (result == CUDA_SUCCESS) references().on_created();
  return result;
}

/// Destroys a context that is managed no more through `call`.
template <typename Call>
CUresult destroy(const Call& call) noexcept {
  const CUresult result = change_passthrough(PassthroughChange::kFree, call);
  if (result == CUDA_SUCCESS) references().on_destroyed();
  return result;
}

template <typename Call>
CUresult reset_primary(CUdevice device, const Call& call) noexcept {
  registry().on_primary_destroying(device);
  const CUresult result = change_passthrough(PassthroughChange::kFree, call);
  if (result == CUDA_SUCCESS) references().on_primary_reset(device);
  return result;
}

void release_primary(CUdevice device) noexcept {
  if (references().on_primary_releasing(device)) registry().on_primary_destroying(device);
}

}  // namespace

CUresult hook::cuCtxCreate(CUcontext* pctx, unsigned int flags, CUdevice dev) noexcept {
  return create([&] { return driver().cuCtxCreate(pctx, flags, dev); });
}
CUresult hook::cuCtxCreate_v2(CUcontext* pctx, unsigned int flags, CUdevice dev) noexcept {
  return create([&] { return driver().cuCtxCreate_v2(pctx, flags, dev); });
}
CUresult hook::cuCtxCreate_v3(CUcontext* pctx, CUexecAffinityParam* paramsArray, int numParams,
                              unsigned int flags, CUdevice dev) noexcept {
  return create([&] { return driver().cuCtxCreate_v3(pctx, paramsArray, numParams, flags, dev); });
}
CUresult hook::cuCtxCreate_v4(CUcontext* pctx, CUctxCreateParams* ctxCreateParams,
                              unsigned int flags, CUdevice dev) noexcept {
  return create([&] { return driver().cuCtxCreate_v4(pctx, ctxCreateParams, flags, dev); });
}

CUresult hook::cuGreenCtxCreate(CUgreenCtx* phCtx, CUdevResourceDesc desc, CUdevice dev,
                                unsigned int flags) noexcept {
  const CUresult result = change_passthrough(PassthroughChange::kGrowth, [&] {
    return driver().cuGreenCtxCreate(phCtx, desc, dev, flags);
  });
  if (result == CUDA_SUCCESS) references().on_green_created(*phCtx, dev);
  return result;
}
CUresult hook::cuGreenCtxDestroy(CUgreenCtx hCtx) noexcept {
  const auto ends_on = references().on_green_destroying(hCtx);
  if (ends_on) registry().on_primary_destroying(*ends_on);
  // The program may destroy its streams later, and nothing can be recorded on them by then.
  if (ManagedContext* const managed = ContextRegistry::managed()) {
    managed->residency().on_streams_detach();
  }
  return change_passthrough(PassthroughChange::kFree,
                            [hCtx] { return driver().cuGreenCtxDestroy(hCtx); });
}
CUresult hook::cuCtxFromGreenCtx(CUcontext* pContext, CUgreenCtx hCtx) noexcept {
  const CUresult result = driver().cuCtxFromGreenCtx(pContext, hCtx);
  if (result == CUDA_SUCCESS) references().on_converted(*pContext, hCtx);
  return result;
}

CUresult hook::cuCtxDestroy(CUcontext ctx) noexcept {
  registry().on_destroying(ctx);
  return destroy([ctx] { return driver().cuCtxDestroy(ctx); });
}
CUresult hook::cuCtxDestroy_v2(CUcontext ctx) noexcept {
  registry().on_destroying(ctx);
  return destroy([ctx] { return driver().cuCtxDestroy_v2(ctx); });
}
CUresult hook::cuCtxAttach(CUcontext* pctx, unsigned int flags) noexcept {
  const CUresult result = driver().cuCtxAttach(pctx, flags);
  if (result == CUDA_SUCCESS) references().on_attached(*pctx);
  return result;
}
CUresult hook::cuCtxDetach(CUcontext ctx) noexcept {
  const bool last = references().is_last(ctx);
  if (last) {
    registry().on_destroying(ctx);
    return destroy([ctx] { return driver().cuCtxDetach(ctx); });
  }
  const CUresult result = driver().cuCtxDetach(ctx);
  if (result == CUDA_SUCCESS) references().on_detached(ctx);
  return result;
}

CUresult hook::cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) noexcept {
  const CUresult result = change_passthrough(
      PassthroughChange::kGrowth, [&] { return driver().cuDevicePrimaryCtxRetain(pctx, dev); });
  if (result == CUDA_SUCCESS) references().on_primary_retained(dev);
  return result;
}
CUresult hook::cuDevicePrimaryCtxRelease(CUdevice dev) noexcept {
  release_primary(dev);
  return change_passthrough(PassthroughChange::kFree,
                            [dev] { return driver().cuDevicePrimaryCtxRelease(dev); });
}
CUresult hook::cuDevicePrimaryCtxRelease_v2(CUdevice dev) noexcept {
  release_primary(dev);
  return change_passthrough(PassthroughChange::kFree,
                            [dev] { return driver().cuDevicePrimaryCtxRelease_v2(dev); });
}
CUresult hook::cuDevicePrimaryCtxReset(CUdevice dev) noexcept {
  return reset_primary(dev, [dev] { return driver().cuDevicePrimaryCtxReset(dev); });
}
CUresult hook::cuDevicePrimaryCtxReset_v2(CUdevice dev) noexcept {
  return reset_primary(dev, [dev] { return driver().cuDevicePrimaryCtxReset_v2(dev); });
}

}  // namespace superpipe
