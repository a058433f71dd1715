#include "tools/simgpu/driver/memory/address_space.h"

namespace simgpu {
namespace {

/// `size` bytes at `offset` in `memory`, of which `limit` may be used, and which begins at `base`.
Resolution resolve_in(const PhysicalPtr& memory, std::uint64_t base, std::uint64_t offset,
                      std::uint64_t size, std::uint64_t limit) {
  Resolution result;
  if (offset > limit || size > limit - offset) {
    result.first_bad = base + limit;
    return result;
  }
  result.segments.push_back({memory->window() + offset, size, memory, 0});
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

Claim AddressSpace::claim(std::uint64_t address) {
  Claim claim;
  claim.address = address;
  if (const auto allocation = allocations_.find(address)) {
    claim.allocated = true;
    claim.base = allocation->base;
    claim.memory = allocation->physical;
  }
  return claim;
}

Resolution AddressSpace::resolve(std::uint64_t address, std::uint64_t size, bool write,
                                 int device) {
  if (const auto allocation = allocations_.find_accessible(address)) {
    if (allocation->freeing) return {.first_bad = address, .segments = {}};
    return resolve_in(allocation->physical, allocation->base, address - allocation->base, size,
                      allocation->size);
  }
  return mappings_.resolve(address, size, write, device);
}

Resolution AddressSpace::resolve(const Claim& claim, std::uint64_t size, bool write, int device) {
  if (!claim.allocated) return mappings_.resolve(claim.address, size, write, device);
  const PhysicalPtr memory = claim.memory.lock();
  if (memory == nullptr || !allocations_.holds(claim.base, memory)) {
    return {.first_bad = claim.address, .segments = {}};
  }
  return resolve_in(memory, claim.base, claim.address - claim.base, size, memory->size());
}

}  // namespace simgpu
