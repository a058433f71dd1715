#include "tools/simgpu/driver/memory/address_space.h"

namespace simgpu {
namespace {

/// `size` bytes from `address` on, of an allocation.
Resolution resolve_in(const AllocationLife& life, std::uint64_t address, std::uint64_t size) {
  Resolution result;
  const std::uint64_t offset = address - life.base;
  if (offset > life.size || size > life.size - offset) {
    result.first_bad = life.base + life.size;
    return result;
  }
  result.segments.push_back(
      {life.physical->window() + life.offset + offset, size, life.physical, 0});
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
  if (const auto allocation = allocations_.find(address)) {
    range.kind = MemoryKind::kAllocated;
    range.base = allocation->base;
    range.size = allocation->size;
    range.device = allocation->device().ordinal();
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
    claim.life = allocation->life;
  }
  return claim;
}

Resolution AddressSpace::resolve(std::uint64_t address, std::uint64_t size, bool write,
                                 int device) {
  if (const auto allocation = allocations_.find(address)) {
    return resolve_in(*allocation->life, address, size);
  }
  return mappings_.resolve(address, size, write, device);
}

Resolution AddressSpace::resolve(const Claim& claim, std::uint64_t size, bool write, int device) {
  if (!claim.allocated) return mappings_.resolve(claim.address, size, write, device);
  const std::shared_ptr<const AllocationLife> life = claim.life.lock();
  if (life == nullptr || !life->begun()) return {.first_bad = claim.address, .segments = {}};
  return resolve_in(*life, claim.address, size);
}

}  // namespace simgpu
