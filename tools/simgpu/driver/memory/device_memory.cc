#include "tools/simgpu/driver/memory/device_memory.h"

#include <cstring>

#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/memory/address_space.h"
#include "tools/simgpu/driver/process/configuration.h"

namespace simgpu {

CUresult allocate_device(Context& context, std::uint64_t size, std::uint64_t* address) {
  return AddressSpace::instance().allocations().allocate(
      context, context.device().small_allocations(), size, address);
}

CUresult allocate_for_module(Context& context, std::uint64_t size, std::uint64_t* address) {
  AddressSpace& space = AddressSpace::instance();
  const CUresult result =
      space.allocations().allocate(context, context.device().modules(), size, address);
  if (result != CUDA_SUCCESS || configuration().fill == FillPolicy::kZero) return result;
  // A variable without an initial value is zero, whatever other memory reads as.
  for (const Segment& segment : space.resolve(*address, size, true, -1).segments) {
    std::memset(segment.bytes, 0, segment.size);
  }
  return CUDA_SUCCESS;
}

CUresult free_device(std::uint64_t address) {
  return AddressSpace::instance().allocations().remove(address);
}

bool write_device(std::uint64_t address, const void* source, std::uint64_t size) {
  if (size == 0) return true;
  const Resolution found = AddressSpace::instance().resolve(address, size, true, -1);
  const auto* bytes = static_cast<const unsigned char*>(source);
  if (!found.accessible) return false;
  for (const Segment& segment : found.segments) {
    std::memcpy(segment.bytes, bytes, segment.size);
    bytes += segment.size;
  }
  return true;
}

}  // namespace simgpu
