#include "tools/simgpu/driver/memory/mapping_table.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <utility>
#include <vector>

#include "tools/simgpu/driver/entry/handle_table.h"
#include "tools/simgpu/driver/memory/program_view.h"
#include "tools/simgpu/driver/memory/start_address.h"
#include "tools/simgpu/driver/process/configuration.h"

namespace simgpu {
namespace {

bool protect_as_reserved(std::uint64_t address, std::uint64_t size) {
  return mmap(pointer_to(address), size, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

constexpr int kReserveFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

/// Reserves [address, address + size). @return false if any of it is taken.
bool reserve_at(std::uint64_t address, std::uint64_t size) {
  void* const there =
      mmap(pointer_to(address), size, PROT_NONE, kReserveFlags | MAP_FIXED_NOREPLACE, -1, 0);
  if (there == pointer_to(address)) {
    madvise(there, size, MADV_DONTDUMP);
    return true;
  }
  if (there != MAP_FAILED) munmap(there, size);
  return false;
}

/// Reserves the lowest range that is free beside `reservations`, from where drivers were seen to
/// begin: there, small integers and pairs of them look like addresses. 0 if nothing low is free.
std::uint64_t reserve_low(std::uint64_t size, std::uint64_t alignment,
                          const std::map<std::uint64_t, std::uint64_t>& reservations) {
  constexpr std::uint64_t kLowest = 0x3'0200'0000;
  constexpr std::uint64_t kLow = std::uint64_t{1} << 40;
  constexpr std::uint64_t kStep = std::uint64_t{256} << 20;  // past what is no reservation
  std::uint64_t address = align_up(kLowest, alignment);
  for (auto next = reservations.lower_bound(kLowest); address < kLow;) {
    if (next != reservations.end() && next->first < address + size) {
      address = std::max(address, align_up(next->first + next->second, alignment));
      ++next;
    } else if (reserve_at(address, size)) {
      return address;
    } else {
      address = align_up(address + kStep, alignment);
    }
  }
  return 0;
}

/// Reserves [address, address + size), for the first `address` that `next` gives in the room that
/// the system has for `size` + `slack` bytes. 0 if it has none.
template <typename Next>
std::uint64_t reserve_in(std::uint64_t size, std::uint64_t slack, const Next& next) {
  if (size + slack < size) return 0;
  void* const room = mmap(nullptr, size + slack, PROT_NONE, kReserveFlags, -1, 0);
  if (room == MAP_FAILED) return 0;
  const auto start = reinterpret_cast<std::uint64_t>(room);
  const std::uint64_t address = next(start);
  if (address > start) munmap(room, address - start);
  const std::uint64_t end = start + size + slack;
  if (address + size < end) munmap(pointer_to(address + size), end - address - size);
  madvise(pointer_to(address), size, MADV_DONTDUMP);
  return address;
}

/// Reserves anywhere that is aligned; where memory should begin, if there is room. 0 if there is
/// none.
std::uint64_t reserve_anywhere(std::uint64_t size, std::uint64_t alignment) {
  std::uint64_t address = 0;
  if (alignment <= kStartAlignment) address = reserve_in(size, kStartDistance, next_start);
  if (address != 0) return address;
  return reserve_in(size, alignment,
                    [=](std::uint64_t start) { return align_up(start, alignment); });
}

}  // namespace

CUresult MappingTable::reserve(std::uint64_t size, std::uint64_t alignment, std::uint64_t wanted,
                               std::uint64_t* address) {
  alignment = std::max(alignment, kGranularity);
  const std::unique_lock lock{mutex_};
  std::uint64_t base = 0;
  if (wanted != 0 && wanted % alignment == 0 && reserve_at(wanted, size)) base = wanted;
  if (base == 0 && configuration().arena == ArenaPolicy::kLow) {
    base = reserve_low(size, alignment, reservations_);
  }
  if (base == 0) base = reserve_anywhere(size, alignment);
  if (base == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  reservations_.emplace(base, size);
  *address = base;
  return CUDA_SUCCESS;
}

CUresult MappingTable::release_reservation(std::uint64_t address, std::uint64_t size) {
  const std::unique_lock lock{mutex_};
  const auto found = reservations_.find(address);
  if (found == reservations_.end() || found->second != size) return CUDA_ERROR_INVALID_VALUE;
  const auto mapping = mappings_.lower_bound(address);
  if (mapping != mappings_.end() && mapping->first < address + size) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  munmap(pointer_to(address), size);
  reservations_.erase(found);
  // A range never crosses the reservation's edges: no mapping does.
  once_mapped_.erase(once_mapped_.lower_bound(address), once_mapped_.lower_bound(address + size));
  return CUDA_SUCCESS;
}

CUmemGenericAllocationHandle MappingTable::add_handle(PhysicalPtr physical,
                                                      const CUmemAllocationProp& properties) {
  auto handle = std::make_shared<Handle>();
  handle->physical = std::move(physical);
  handle->properties = properties;
  handle->references = 1;
  const std::unique_lock lock{mutex_};
  handle->id = 0x7000'0000ULL + next_object_id();
  handles_.emplace(handle->id, handle);
  return handle->id;
}

CUresult MappingTable::release_handle(CUmemGenericAllocationHandle id) {
  std::shared_ptr<Handle> gone;  // its memory is freed after the lock
  const std::unique_lock lock{mutex_};
  const auto found = handles_.find(id);
  if (found == handles_.end()) return CUDA_ERROR_INVALID_VALUE;
  if (--found->second->references == 0) {
    gone = std::move(found->second);
    handles_.erase(found);
  }
  return CUDA_SUCCESS;
}

CUresult MappingTable::retain_handle_at(std::uint64_t address, CUmemGenericAllocationHandle* id) {
  const std::unique_lock lock{mutex_};
  const auto mapping = mapping_at(address);
  if (mapping == mappings_.end()) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Handle>& handle = mapping->second.handle;
  ++handle->references;
  handles_.emplace(handle->id, handle);
  *id = handle->id;
  return CUDA_SUCCESS;
}

CUresult MappingTable::handle_properties(CUmemGenericAllocationHandle id,
                                         CUmemAllocationProp* properties) {
  const std::shared_lock lock{mutex_};
  const auto found = handles_.find(id);
  if (found == handles_.end()) return CUDA_ERROR_INVALID_VALUE;
  *properties = found->second->properties;
  return CUDA_SUCCESS;
}

void MappingTable::note_mapped(std::uint64_t address, std::uint64_t size) {
  std::uint64_t base = address;
  std::uint64_t end = address + size;
  auto each = once_mapped_.upper_bound(address);
  if (each != once_mapped_.begin() && std::prev(each)->second > address) --each;
  while (each != once_mapped_.end() && each->first < end) {
    base = std::min(base, each->first);
    end = std::max(end, each->second);
    each = once_mapped_.erase(each);
  }
  once_mapped_.emplace(base, end);
}

bool MappingTable::was_mapped(std::uint64_t address) const {
  const auto after = once_mapped_.upper_bound(address);
  return after != once_mapped_.begin() && std::prev(after)->second > address;
}

bool MappingTable::inside_reservation(std::uint64_t address, std::uint64_t size) const {
  const auto after = reservations_.upper_bound(address);
  if (after == reservations_.begin()) return false;
  const auto reservation = std::prev(after);
  const std::uint64_t offset = address - reservation->first;
  return offset < reservation->second && size <= reservation->second - offset;
}

CUresult MappingTable::map(std::uint64_t address, std::uint64_t size,
                           CUmemGenericAllocationHandle id) {
  const std::unique_lock lock{mutex_};
  const auto handle = handles_.find(id);
  if (handle == handles_.end() || handle->second->physical->size() != size ||
      !inside_reservation(address, size)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto after = mappings_.lower_bound(address);
  const bool overlaps_next = after != mappings_.end() && after->first < address + size;
  if (overlaps_next || mapping_at(address) != mappings_.end()) return CUDA_ERROR_INVALID_VALUE;
  if (!handle->second->physical->map_at(address, PROT_NONE)) return CUDA_ERROR_OUT_OF_MEMORY;
  Mapping mapping;
  mapping.size = size;
  mapping.handle = handle->second;
  mapping.number = next_object_id();
  mappings_.emplace(address, std::move(mapping));
  note_mapped(address, size);
  return CUDA_SUCCESS;
}

bool MappingTable::whole_mappings(std::uint64_t address, std::uint64_t size,
                                  Mappings::iterator* first, Mappings::iterator* last) {
  *first = mappings_.find(address);
  std::uint64_t covered = 0;
  auto each = *first;
  while (covered < size) {
    if (each == mappings_.end() || each->first != address + covered) return false;
    covered += each->second.size;
    ++each;
  }
  *last = each;
  return covered == size;
}

CUresult MappingTable::unmap(std::uint64_t address, std::uint64_t size) {
  std::vector<std::shared_ptr<Handle>> unmapped;  // released handles' memory goes after the lock
  const std::unique_lock lock{mutex_};
  Mappings::iterator first;
  Mappings::iterator last;
  if (!whole_mappings(address, size, &first, &last)) return CUDA_ERROR_INVALID_VALUE;
  if (!protect_as_reserved(address, size)) return CUDA_ERROR_UNKNOWN;
  for (auto each = first; each != last; ++each) unmapped.push_back(each->second.handle);
  mappings_.erase(first, last);
  return CUDA_SUCCESS;
}

CUresult MappingTable::set_access(std::uint64_t address, std::uint64_t size,
                                  const CUmemAccessDesc* access, std::size_t count) {
  const std::unique_lock lock{mutex_};
  Mappings::iterator first;
  Mappings::iterator last;
  if (!whole_mappings(address, size, &first, &last)) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t index = 0; index < count; ++index) {
    if (const CUresult result = check_access(first, last, access[index]); result != CUDA_SUCCESS) {
      return result;
    }
  }
  for (auto each = first; each != last; ++each) {
    for (std::size_t index = 0; index < count; ++index) each->second.note_access(access[index]);
    if (!each->second.protect(each->first)) return CUDA_ERROR_UNKNOWN;
  }
  return CUDA_SUCCESS;
}

CUresult MappingTable::check_access(Mappings::iterator first, Mappings::iterator last,
                                    const CUmemAccessDesc& access) {
  const bool to_host = access.location.type != CU_MEM_LOCATION_TYPE_DEVICE;
  const bool peers = configuration().mapped_peers;
  const bool allowed = std::all_of(first, last, [&](const auto& entry) {
    const Mapping& mapping = entry.second;
    if (to_host) return mapping.on_host();
    if (peers) return true;
    return mapping.on_host() ? !mapping.is_open_to_others(access.location.id)
                             : mapping.handle->properties.location.id == access.location.id;
  });
  return allowed ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

void MappingTable::Mapping::note_access(const CUmemAccessDesc& description) {
  const auto flags = static_cast<unsigned char>(description.flags);
  if (description.location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    host_access = flags;
    return;
  }
  access[static_cast<std::size_t>(description.location.id)] = flags;
  readable = std::any_of(access.begin(), access.end(), [](unsigned char one) { return one != 0; });
  writable = std::any_of(access.begin(), access.end(), [](unsigned char one) {
    return one == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  });
}

bool MappingTable::Mapping::protect(std::uint64_t address) const {
  const bool is_read = readable || host_access != 0;
  const bool is_written = writable || host_access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const int protection = (is_read ? PROT_READ : PROT_NONE) | (is_written ? PROT_WRITE : PROT_NONE);
  return host_access != 0 ? open_program_view(address, size, protection)
                          : protect_program_view(address, size, protection);
}

bool MappingTable::Mapping::is_open_to_others(int device) const {
  for (std::size_t other = 0; other < access.size(); ++other) {
    if (access[other] != 0 && static_cast<int>(other) != device) return true;
  }
  return false;
}

CUresult MappingTable::get_host_access(std::uint64_t address, unsigned long long* flags) {
  const std::shared_lock lock{mutex_};
  const auto mapping = mapping_at(address);
  if (mapping == mappings_.end()) return CUDA_ERROR_INVALID_VALUE;
  *flags = mapping->second.host_access;
  return CUDA_SUCCESS;
}

std::uint64_t MappingTable::bytes_on_host(std::uint64_t address, std::uint64_t size) {
  const std::shared_lock lock{mutex_};
  std::uint64_t on_host = 0;
  std::uint64_t position = address;
  for (auto mapping = mapping_at(address);
       size != 0 && mapping != mappings_.end() && mapping->first <= position; ++mapping) {
    const std::uint64_t length = std::min(size, mapping->first + mapping->second.size - position);
    if (mapping->second.on_host()) on_host += length;
    position += length;
    size -= length;
  }
  return on_host;
}

CUresult MappingTable::get_access(std::uint64_t address, int device, unsigned long long* flags) {
  const std::shared_lock lock{mutex_};
  const auto mapping = mapping_at(address);
  if (mapping == mappings_.end()) return CUDA_ERROR_INVALID_VALUE;
  *flags = mapping->second.access[static_cast<std::size_t>(device)];
  return CUDA_SUCCESS;
}

MappingTable::Mappings::iterator MappingTable::mapping_at(std::uint64_t address) {
  const auto after = mappings_.upper_bound(address);
  if (after == mappings_.begin()) return mappings_.end();
  const auto mapping = std::prev(after);
  return address - mapping->first < mapping->second.size ? mapping : mappings_.end();
}

std::optional<AddressRange> MappingTable::find_mapping(std::uint64_t address) {
  const std::shared_lock lock{mutex_};
  const auto mapping = mapping_at(address);
  if (mapping == mappings_.end()) return std::nullopt;
  AddressRange range;
  range.kind = MemoryKind::kMapped;
  range.base = mapping->first;
  range.size = mapping->second.size;
  range.device = mapping->second.handle->physical->ordinal();
  range.writable = mapping->second.writable;
  range.open_to_host = mapping->second.host_access != 0;
  return range;
}

MappingTable::Reservation MappingTable::reservation_at(std::uint64_t address) const {
  const auto after = reservations_.upper_bound(address);
  if (after == reservations_.begin()) return reservations_.end();
  const auto reservation = std::prev(after);
  return address - reservation->first < reservation->second ? reservation : reservations_.end();
}

AddressRange MappingTable::readable_range_around(
    Mappings::iterator mapping, const std::pair<const std::uint64_t, std::uint64_t>& reservation) {
  auto first = mapping;
  while (first->first != reservation.first && first != mappings_.begin()) {
    const auto before = std::prev(first);
    if (before->first + before->second.size != first->first || !before->second.readable) break;
    first = before;
  }
  AddressRange range;
  range.kind = MemoryKind::kMapped;
  range.base = first->first;
  range.device = mapping->second.handle->physical->ordinal();
  const std::uint64_t last = reservation.first + reservation.second;
  std::uint64_t end = first->first;
  for (auto each = first;
       end < last && each != mappings_.end() && each->first == end && each->second.readable;
       ++each) {
    end += each->second.size;
    range.writable = range.writable && each->second.writable;
    range.open_to_host = range.open_to_host || each->second.host_access != 0;
  }
  range.size = end - range.base;
  return range;
}

std::optional<AddressRange> MappingTable::find(std::uint64_t address) {
  const std::shared_lock lock{mutex_};
  return find_locked(address);
}

std::optional<AddressRange> MappingTable::find(std::uint64_t address, int device,
                                               Resolution* memory) {
  const std::shared_lock lock{mutex_};
  std::optional<AddressRange> range = find_locked(address);
  if (range && range->kind == MemoryKind::kMapped) {
    *memory = resolve_locked(range->base, range->size, false, device, User::kKernel);
  }
  return range;
}

std::optional<AddressRange> MappingTable::find_locked(std::uint64_t address) {
  const auto reservation = reservation_at(address);
  if (reservation == reservations_.end()) return std::nullopt;
  const auto mapping = mapping_at(address);
  if (mapping != mappings_.end() && mapping->second.readable) {
    return readable_range_around(mapping, *reservation);
  }
  AddressRange range;
  range.kind = MemoryKind::kReserved;
  range.base = reservation->first;
  range.size = reservation->second;
  range.once_mapped = was_mapped(address);
  return range;
}

bool MappingTable::touches(std::uint64_t address, std::uint64_t size) {
  const std::shared_lock lock{mutex_};
  const std::uint64_t last = address + std::max<std::uint64_t>(size, 1) - 1;
  const auto after = reservations_.upper_bound(last);
  if (after == reservations_.begin()) return false;
  const auto reservation = std::prev(after);
  return reservation->first + reservation->second > address;
}

bool MappingTable::Mapping::allows(bool write, int device) const {
  if (device < 0) return write ? writable : readable;
  const unsigned flags = access[static_cast<std::size_t>(device)];
  return write ? flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE : flags != 0;
}

bool MappingTable::Mapping::allows_copies(bool write, int device) const {
  return allows(write, device) || (!on_host() && allows(write, handle->physical->ordinal()));
}

Resolution MappingTable::resolve(std::uint64_t address, std::uint64_t size, bool write,
                                 int device) {
  const std::shared_lock lock{mutex_};
  return resolve_locked(address, size, write, device, User::kCopy);
}

Resolution MappingTable::resolve_locked(std::uint64_t address, std::uint64_t size, bool write,
                                        int device, User user) {
  Resolution result;
  std::uint64_t position = address;
  for (auto mapping = mapping_at(address); size != 0; ++mapping) {
    result.first_bad = position;
    if (mapping == mappings_.end() || mapping->first > position) return result;
    const bool is_allowed = user == User::kKernel ? mapping->second.allows(write, device)
                                                  : mapping->second.allows_copies(write, device);
    if (!is_allowed) return result;
    const PhysicalPtr& physical = mapping->second.handle->physical;
    const std::uint64_t offset = position - mapping->first;
    const std::uint64_t length = std::min(size, mapping->second.size - offset);
    result.segments.push_back(
        {physical->window() + offset, length, physical, mapping->second.number});
    position += length;
    size -= length;
  }
  result.accessible = true;
  return result;
}

}  // namespace simgpu
