#include "tools/simgpu/driver/memory/host_memory.h"

#include <sys/mman.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/graphs/capture.h"
#include "tools/simgpu/driver/memory/address_space.h"
#include "tools/simgpu/driver/streams/stream.h"

namespace simgpu {
namespace {

constexpr unsigned kAllocFlags =
    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned kRegisterFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                    CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

CUresult allocate(void** out, std::uint64_t size, unsigned flags) {
  SIMGPU_CONTEXT(context);
  if (const CUresult unsafe = check_unsafe(); unsafe != CUDA_SUCCESS) return unsafe;
  if (out == nullptr || size == 0 || (flags & ~kAllocFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (size > (std::uint64_t{1} << 46)) return CUDA_ERROR_OUT_OF_MEMORY;
  void* const memory = mmap(nullptr, align_up(size, kPage), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  PinnedRange range;
  range.base = reinterpret_cast<std::uint64_t>(memory);
  range.size = size;
  range.context = context;
  range.flags = flags;
  // All host memory is mapped and portable on a 64-bit device with unified addressing, but the
  // flags read back are those asked for.
  if (!AddressSpace::instance().pinned().add(range)) {
    munmap(memory, align_up(size, kPage));
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  charge_pinning(size);
  *out = memory;
  return CUDA_SUCCESS;
}

CUresult allocate_host(void** out, std::uint64_t size) {
  SIMGPU_ENTER(cuMemAllocHost);
  return allocate(out, size, 0);
}

/// Whether this process may read and write all of the range: what it may not cannot be pinned.
bool is_accessible(std::uint64_t address, std::uint64_t size) {
  std::FILE* const maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return false;
  std::uint64_t reached = address;
  std::array<char, 512> line{};
  while (reached < address + size && std::fgets(line.data(), line.size(), maps) != nullptr) {
    char* rest = nullptr;
    const std::uint64_t begin = std::strtoull(line.data(), &rest, 16);
    if (*rest != '-') continue;  // the end of a long line
    const std::uint64_t end = std::strtoull(rest + 1, &rest, 16);
    if (end <= reached) continue;
    if (begin > reached || std::strncmp(rest, " rw", 3) != 0) break;
    reached = end;
  }
  std::fclose(maps);
  return reached >= address + size;
}

CUresult register_host(void* memory, std::uint64_t size, unsigned flags) {
  SIMGPU_ENTER(cuMemHostRegister);
  SIMGPU_CONTEXT(context);
  if (const CUresult unsafe = check_unsafe(); unsafe != CUDA_SUCCESS) return unsafe;
  const auto address = reinterpret_cast<std::uint64_t>(memory);
  if (memory == nullptr || size == 0 || address + size < address ||
      (flags & ~kRegisterFlags) != 0 || AddressSpace::instance().touches_device(address, size) ||
      !is_accessible(address, size)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if ((flags & (CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)) != 0) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  PinnedRange range;
  range.base = address;
  range.size = size;
  range.context = context;
  range.flags = flags;
  range.registered = true;
  if (!AddressSpace::instance().pinned().add(range)) {
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  charge_pinning(size);
  return CUDA_SUCCESS;
}

CUresult device_pointer(std::uint64_t* out, const void* memory, unsigned flags) {
  SIMGPU_ENTER(cuMemHostGetDevicePointer);
  SIMGPU_CONTEXT(context);
  const auto address = reinterpret_cast<std::uint64_t>(memory);
  if (out == nullptr || flags != 0 || !AddressSpace::instance().pinned().find(address)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = address;
  return CUDA_SUCCESS;
}

}  // namespace

void release_host_memory_of(const Context& context) {
  for (const PinnedRange& range : AddressSpace::instance().pinned().remove_all_of(context)) {
    if (!range.registered) munmap(pointer_to(range.base), align_up(range.size, kPage));
  }
}

SIMGPU_EXPORT CUresult cuMemAllocHost(void** pp, unsigned int bytesize) {
  return allocate_host(pp, bytesize);
}
SIMGPU_EXPORT CUresult cuMemAllocHost_v2(void** pp, size_t bytesize) {
  return allocate_host(pp, bytesize);
}

SIMGPU_EXPORT CUresult cuMemHostAlloc(void** pp, size_t bytesize, unsigned int Flags) {
  SIMGPU_ENTER(cuMemHostAlloc);
  return allocate(pp, bytesize, Flags);
}

SIMGPU_EXPORT CUresult cuMemFreeHost(void* p) {
  SIMGPU_ENTER(cuMemFreeHost);
  SIMGPU_CONTEXT(context);
  if (const CUresult unsafe = check_unsafe(); unsafe != CUDA_SUCCESS) return unsafe;
  const auto base = reinterpret_cast<std::uint64_t>(p);
  const auto range = AddressSpace::instance().pinned().find(base);
  if (!range || range->base != base || range->registered) return CUDA_ERROR_INVALID_VALUE;
  // Copies that still use it finish first, in whichever context it was allocated.
  if (const CUresult result = synchronize(*range->context); result != CUDA_SUCCESS) return result;
  if (!AddressSpace::instance().pinned().remove(base, false)) return CUDA_ERROR_INVALID_VALUE;
  munmap(p, align_up(range->size, kPage));
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemHostRegister(void* p, size_t bytesize, unsigned int Flags) {
  return register_host(p, bytesize, Flags);
}
SIMGPU_EXPORT CUresult cuMemHostRegister_v2(void* p, size_t bytesize, unsigned int Flags) {
  return register_host(p, bytesize, Flags);
}

SIMGPU_EXPORT CUresult cuMemHostUnregister(void* p) {
  SIMGPU_ENTER(cuMemHostUnregister);
  SIMGPU_CONTEXT(context);
  if (const CUresult unsafe = check_unsafe(); unsafe != CUDA_SUCCESS) return unsafe;
  const auto base = reinterpret_cast<std::uint64_t>(p);
  const auto range = AddressSpace::instance().pinned().find(base);
  if (!range || range->base != base || !range->registered) {
    return p == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  }
  if (const CUresult result = synchronize(*range->context); result != CUDA_SUCCESS) return result;
  return AddressSpace::instance().pinned().remove(base, true)
             ? CUDA_SUCCESS
             : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

SIMGPU_EXPORT CUresult cuMemHostGetDevicePointer(CUdeviceptr_v1* pdptr, void* p,
                                                 unsigned int Flags) {
  std::uint64_t address = 0;
  const CUresult result = device_pointer(pdptr == nullptr ? nullptr : &address, p, Flags);
  if (result != CUDA_SUCCESS) return result;
  if (address > UINT32_MAX) return CUDA_ERROR_INVALID_VALUE;  // this ABI's pointers are too short
  *pdptr = static_cast<CUdeviceptr_v1>(address);
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* pdptr, void* p,
                                                    unsigned int Flags) {
  std::uint64_t address = 0;
  const CUresult result = device_pointer(pdptr == nullptr ? nullptr : &address, p, Flags);
  if (result == CUDA_SUCCESS) *pdptr = address;
  return result;
}

SIMGPU_EXPORT CUresult cuMemHostGetFlags(unsigned int* pFlags, void* p) {
  SIMGPU_ENTER(cuMemHostGetFlags);
  SIMGPU_CONTEXT(context);
  const auto range = AddressSpace::instance().pinned().find(reinterpret_cast<std::uint64_t>(p));
  if (pFlags == nullptr || !range || range->registered) return CUDA_ERROR_INVALID_VALUE;
  // Under unified addressing all of it is mapped, whatever was asked for.
  *pFlags = range->flags | CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}

}  // namespace simgpu
