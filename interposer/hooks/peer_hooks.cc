// Access of other devices to the managed device's memory. The driver opens what it allocated
// itself; buffers are mapped memory, which is opened here.
#include "interposer/allocators/memory_pools.h"
#include "interposer/contexts/context_registry.h"
#include "interposer/contexts/peer_contexts.h"
#include "interposer/driver/table.h"
#include "interposer/generated/hooks.h"

namespace superpipe {
namespace {

ContextRegistry& contexts() noexcept { return ContextRegistry::of_process(); }

/// Of the `count` devices in `map`, those that get access (or, `opens` false, lose it).
DeviceMask devices_in(const CUmemAccessDesc* map, std::size_t count, bool opens) noexcept {
  DeviceMask devices = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_open = map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    if (map[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE && is_open == opens) {
      devices |= mask_of(map[i].location.id);
    }
  }
  return devices;
}

/// Takes the access to `pool` away again that `map` has given to `devices`.
void close_pool(CUmemoryPool pool, const CUmemAccessDesc* map, std::size_t count,
                DeviceMask devices) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    CUmemAccessDesc none = map[i];
    if (none.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE) continue;
    if ((mask_of(none.location.id) & devices) == 0) continue;
    none.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    (void)driver().cuMemPoolSetAccess(pool, &none, 1);
  }
}

}  // namespace

CUresult hook::cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags) noexcept {
  const CUresult result = driver().cuCtxEnablePeerAccess(peerContext, Flags);
  CUdevice device = 0;
  if (result != CUDA_SUCCESS || driver().cuCtxGetDevice(&device) != CUDA_SUCCESS) return result;
  PeerContexts& peers = contexts().peers();
  peers.on_enabled(peerContext, device);
  if (contexts().open_to_peers() == Status::kOk) return result;
  peers.on_disabled(peerContext, device);
  (void)driver().cuCtxDisablePeerAccess(peerContext);
  return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

CUresult hook::cuCtxDisablePeerAccess(CUcontext peerContext) noexcept {
  const CUresult result = driver().cuCtxDisablePeerAccess(peerContext);
  CUdevice device = 0;
  if (result == CUDA_SUCCESS && driver().cuCtxGetDevice(&device) == CUDA_SUCCESS) {
    contexts().peers().on_disabled(peerContext, device);
  }
  return result;
}

CUresult hook::cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map,
                                  size_t count) noexcept {
  const CUresult result = driver().cuMemPoolSetAccess(pool, map, count);
  const MemoryPoolPtr known = memory_pools().at(pool);
  if (result != CUDA_SUCCESS || map == nullptr || known == nullptr) return result;
  const DeviceMask opened = devices_in(map, count, true) & ~known->peers();
  known->close_to(devices_in(map, count, false));
  known->open_to(opened);
  if (contexts().open_to_peers() == Status::kOk) return result;
  known->close_to(opened);
  close_pool(pool, map, count, opened);
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace superpipe
