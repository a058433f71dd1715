#include "tools/simgpu/driver/memory/address_space.h"

namespace simgpu {
namespace {

Resolution resolve_in(const Allocation& allocation, std::uint64_t address, std::uint64_t size,
                      bool submitting) {
  Resolution result;
  result.first_bad = address;
  if (submitting && allocation.freeing) return result;
  const std::uint64_t offset = address - allocation.base;
  // The host runs ahead: it may have freed a pool's block in stream order and got it back with a
  // smaller size, while work on what it was before is still to come.
  const bool is_ahead = !submitting && allocation.source == AllocationSource::kPool;
  const std::uint64_t limit = is_ahead ? allocation.physical->size() : allocation.size;
  if (size > limit - offset) {
    result.first_bad = allocation.base + limit;
    return result;
  }
  result.segments.push_back({allocation.physical->window() + offset, size, allocation.physical});
  result.accessible = true;
  return result;
}

}  // namespace

AddressSpace& AddressSpace::instance() {
  static auto* const space = new AddressSpace;
  return *space;
}

AddressRange AddressSpace::find(std::uint64_t address) {
  AddressRange range;
  if (const auto allocation = allocations_.find_accessible(address)) {
    range.kind = MemoryKind::kAllocated;
    range.base = allocation->base;
    range.size = allocation->size;
    range.device = allocation->physical->device().ordinal();
  } else if (const auto mapped = mappings_.find(address)) {
    range = *mapped;
  } else if (const auto pinned = pinned_.find(address)) {
    range.kind = MemoryKind::kPinned;
    range.base = pinned->base;
    range.size = pinned->size;
  }
  return range;
}

bool AddressSpace::touches_device(std::uint64_t address, std::uint64_t size) {
  return allocations_.touches(address, size) || mappings_.touches(address, size);
}

Resolution AddressSpace::resolve(std::uint64_t address, std::uint64_t size, bool write, int device,
                                 bool submitting) {
  if (const auto allocation = allocations_.find_accessible(address)) {
    return resolve_in(*allocation, address, size, submitting);
  }
  return mappings_.resolve(address, size, write, device);
}

}  // namespace simgpu
