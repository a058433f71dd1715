// Contexts: the program's references are counted, and a managed one is closed before it goes.
#include "interposer/context_registry.h"
#include "interposer/driver/table.h"
#include "interposer/generated/hooks.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace superpipe {
namespace {

ContextRegistry& registry() noexcept { return ContextRegistry::of_process(); }
ContextReferences& references() noexcept { return registry().references(); }

CUresult counted(CUresult result) noexcept {
  if (result == CUDA_SUCCESS) references().on_created();
  return result;
}

CUresult counted_destroy(CUresult result) noexcept {
  if (result == CUDA_SUCCESS) references().on_destroyed();
  return result;
}

CUresult counted_reset(CUresult result, CUdevice device) noexcept {
  if (result == CUDA_SUCCESS) references().on_primary_reset(device);
  return result;
}

void release_primary(CUdevice device) noexcept {
  if (references().on_primary_releasing(device)) registry().on_primary_destroying(device);
}

}  // namespace

CUresult hook::cuCtxCreate(CUcontext* pctx, unsigned int flags, CUdevice dev) noexcept {
  return counted(driver().cuCtxCreate(pctx, flags, dev));
}
CUresult hook::cuCtxCreate_v2(CUcontext* pctx, unsigned int flags, CUdevice dev) noexcept {
  return counted(driver().cuCtxCreate_v2(pctx, flags, dev));
}
CUresult hook::cuCtxCreate_v3(CUcontext* pctx, CUexecAffinityParam* paramsArray, int numParams,
                              unsigned int flags, CUdevice dev) noexcept {
  return counted(driver().cuCtxCreate_v3(pctx, paramsArray, numParams, flags, dev));
}
CUresult hook::cuCtxCreate_v4(CUcontext* pctx, CUctxCreateParams* ctxCreateParams,
                              unsigned int flags, CUdevice dev) noexcept {
  return counted(driver().cuCtxCreate_v4(pctx, ctxCreateParams, flags, dev));
}
CUresult hook::cuCtxFromGreenCtx(CUcontext* pContext, CUgreenCtx hCtx) noexcept {
  const CUresult result = driver().cuCtxFromGreenCtx(pContext, hCtx);
  if (result == CUDA_SUCCESS) references().on_green(*pContext);
  return result;
}

CUresult hook::cuCtxDestroy(CUcontext ctx) noexcept {
  registry().on_destroying(ctx);
  return counted_destroy(driver().cuCtxDestroy(ctx));
}
CUresult hook::cuCtxDestroy_v2(CUcontext ctx) noexcept {
  registry().on_destroying(ctx);
  return counted_destroy(driver().cuCtxDestroy_v2(ctx));
}
CUresult hook::cuCtxAttach(CUcontext* pctx, unsigned int flags) noexcept {
  const CUresult result = driver().cuCtxAttach(pctx, flags);
  if (result == CUDA_SUCCESS) references().on_attached(*pctx);
  return result;
}
CUresult hook::cuCtxDetach(CUcontext ctx) noexcept {
  const bool last = references().is_last(ctx);
  if (last) registry().on_destroying(ctx);
  const CUresult result = driver().cuCtxDetach(ctx);
  if (last) return counted_destroy(result);
  if (result == CUDA_SUCCESS) references().on_detached(ctx);
  return result;
}

CUresult hook::cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) noexcept {
  const CUresult result = driver().cuDevicePrimaryCtxRetain(pctx, dev);
  if (result == CUDA_SUCCESS) references().on_primary_retained(dev);
  return result;
}
CUresult hook::cuDevicePrimaryCtxRelease(CUdevice dev) noexcept {
  release_primary(dev);
  return driver().cuDevicePrimaryCtxRelease(dev);
}
CUresult hook::cuDevicePrimaryCtxRelease_v2(CUdevice dev) noexcept {
  release_primary(dev);
  return driver().cuDevicePrimaryCtxRelease_v2(dev);
}
CUresult hook::cuDevicePrimaryCtxReset(CUdevice dev) noexcept {
  registry().on_primary_destroying(dev);
  return counted_reset(driver().cuDevicePrimaryCtxReset(dev), dev);
}
CUresult hook::cuDevicePrimaryCtxReset_v2(CUdevice dev) noexcept {
  registry().on_primary_destroying(dev);
  return counted_reset(driver().cuDevicePrimaryCtxReset_v2(dev), dev);
}

}  // namespace superpipe
