#include "interposer/hooks/recorded_copy.h"

#include "interposer/contexts/context_registry.h"
#include "interposer/hooks/memory_kind.h"

namespace superpipe {
namespace {

bool is_on_device(CUdeviceptr address) noexcept {
  const ManagedContext* const managed = ContextRegistry::managed();
  return (managed != nullptr && managed->in_arena(address)) || is_device_memory(address);
}

/// Whether the processor may read what a copy wrote to `address`, or could if it waited.
bool is_on_host(CUdeviceptr address) noexcept {
  return !is_on_device(address) || is_unified_memory(address);
}

const std::byte* host_address(CUdeviceptr address) noexcept {
  return reinterpret_cast<const std::byte*>(address);
}

/// What all descriptions of copies of rows have. `slices`, `slice_height`, `first_slice`: of the
/// host's memory, 1, 1 and 0 for one slice.
template <typename Copy>
CopyTarget rows_of(const Copy& copy, std::size_t slices, std::size_t slice_height,
                   std::size_t first_slice) noexcept {
  CopyTarget target;
  if (copy.srcMemoryType == CU_MEMORYTYPE_HOST ||
      (copy.srcMemoryType == CU_MEMORYTYPE_UNIFIED && !is_on_device(copy.srcDevice))) {
    return target;
  }
  if (copy.dstMemoryType == CU_MEMORYTYPE_HOST) {
    target.base = static_cast<const std::byte*>(copy.dstHost);
  } else if (copy.dstMemoryType == CU_MEMORYTYPE_UNIFIED && is_on_host(copy.dstDevice)) {
    target.base = host_address(copy.dstDevice);
  }
  if (target.base == nullptr) return target;
  target.width = copy.WidthInBytes;
  target.height = copy.Height;
  target.depth = slices;
  target.pitch = copy.dstPitch != 0 ? copy.dstPitch : copy.WidthInBytes;
  target.slice_pitch = target.pitch * (slice_height != 0 ? slice_height : copy.Height);
  target.base += first_slice * target.slice_pitch + copy.dstY * target.pitch + copy.dstXInBytes;
  if (copy.srcMemoryType != CU_MEMORYTYPE_ARRAY) target.source = copy.srcDevice;
  return target;
}

}  // namespace

CopyTarget copy_target(void* to, CUdeviceptr from, std::size_t size) noexcept {
  CopyTarget target;
  // The driver takes any address, whatever the call's name says.
  if (!is_on_host(reinterpret_cast<CUdeviceptr>(to))) return target;
  target.base = static_cast<const std::byte*>(to);
  target.width = size;
  target.source = from;
  return target;
}

CopyTarget copy_target(CUdeviceptr to, CUdeviceptr from, std::size_t size) noexcept {
  if (!is_on_device(from)) return {};
  return copy_target(reinterpret_cast<void*>(to), from, size);
}

CopyTarget copy_target(const CUDA_MEMCPY2D* copy) noexcept {
  return copy == nullptr ? CopyTarget{} : rows_of(*copy, 1, copy->Height, 0);
}

CopyTarget copy_target(const CUDA_MEMCPY3D* copy) noexcept {
  return copy == nullptr ? CopyTarget{} : rows_of(*copy, copy->Depth, copy->dstHeight, copy->dstZ);
}

CopyTarget copy_target(const CUDA_MEMCPY3D_PEER* copy) noexcept {
  return copy == nullptr ? CopyTarget{} : rows_of(*copy, copy->Depth, copy->dstHeight, copy->dstZ);
}

}  // namespace superpipe
