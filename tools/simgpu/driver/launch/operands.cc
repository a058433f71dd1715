#include "tools/simgpu/driver/launch/operands.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/faults/access_fault.h"
#include "tools/simgpu/driver/memory/memory_pool.h"

namespace simgpu {
namespace {

/// Whether kernels of `context` may access `allocation`.
bool may_access(const Context& context, const Allocation& allocation) {
  const int device = context.device().ordinal();
  if (allocation.device().ordinal() == device) return true;
  return allocation.pool != nullptr ? allocation.pool->is_open_to(device)
                                    : context.is_peer_of(*allocation.context);
}

}  // namespace

Operands::Operands(std::span<const LiveWord> words, const Context& context)
    : device_(context.device().ordinal()) {
  AddressSpace& space = AddressSpace::instance();
  for (const LiveWord& word : words) {
    Range range;
    range.surely = word.surely;
    if (const auto allocation = space.allocations().find(word.value)) {
      range.claim = space.claim(allocation->base);
      range.size = allocation->size;
      range.is_foreign = !may_access(context, *allocation);
    } else {
      range.claim.address = word.value;
      // A block that was freed is claimed like one whose free is executed before the kernel starts.
      const FreeBlock block = space.allocations().free_block_at(word.value);
      range.claim.allocated = block == FreeBlock::kYes;
      range.doubtful = block == FreeBlock::kPerhaps;
    }
    const auto same = std::find_if(ranges_.begin(), ranges_.end(), [&](const Range& other) {
      return other.claim.address == range.claim.address;
    });
    operands_.push_back({word, static_cast<std::size_t>(same - ranges_.begin())});
    if (same == ranges_.end()) {
      ranges_.push_back(std::move(range));
    } else {
      same->surely = same->surely || range.surely;
    }
  }
}

bool Operands::names(std::uint64_t word) const {
  return std::any_of(operands_.begin(), operands_.end(), [&](const Operand& operand) {
    return operand.word.value == word && !ranges_[operand.range].doubtful;
  });
}

void Operands::start() {
  for (Range& range : ranges_) start(range);
}

bool Operands::is_suspect(const Operand& operand) const {
  const Range& range = ranges_[operand.range];
  if (!range.doubtful || !range.surely) return false;
  return std::none_of(operands_.begin(), operands_.end(), [&](const Operand& other) {
    const Range& block = ranges_[other.range];
    return block.live && block.end() == operand.word.value && other.word.role == operand.word.role;
  });
}

void Operands::refuse_doubtful() const {
  for (const Operand& operand : operands_) {
    if (is_suspect(operand)) throw AccessFault{.address = operand.word.value};
  }
}

void Operands::guard_doubtful(PrivateOperands& operands) const {
  for (const Operand& operand : operands_) {
    if (is_suspect(operand)) operands.add_guard(operand.word.value);
  }
}

void Operands::start(Range& range) const {
  if (range.doubtful) return;
  AddressSpace& space = AddressSpace::instance();
  Resolution memory;
  if (range.claim.allocated) {
    memory = space.resolve(range.claim, range.size, false, device_);
    memory.accessible = memory.accessible && !range.is_foreign;
  } else {
    // At one moment: what adjoins the memory may come and go at any time.
    const AddressRange found =
        space.mappings().find(range.claim.address, device_, &memory).value_or(AddressRange{});
    // Programs hand structs over as they lie on their stack, with what was there before in the
    // bytes that no member covers: there, a word that names memory which was never mapped is rather
    // half of an old pointer beside a small number. So is one whose other half is 0.
    constexpr std::uint64_t kLowerHalf = 0xffff'ffff;
    const bool is_likely = found.once_mapped && (range.claim.address & kLowerHalf) != 0;
    if (found.kind == MemoryKind::kReserved && (is_likely || range.surely)) {
      throw AccessFault{.address = range.claim.address};
    }
    if (found.kind != MemoryKind::kMapped) return;
    range.claim.address = found.base;
    range.size = found.size;
    range.writable = found.writable;
    range.open_to_host = found.open_to_host;
  }
  range.live = memory.accessible;
  range.segments = std::move(memory.segments);
  // An allocation was freed, or has not come, in an order that nothing made; or the memory is for
  // another device.
  if (!range.live && (range.surely || !range.claim.allocated)) {
    throw AccessFault{.address = range.claim.address};
  }
}

template <typename IsTouched>
void Operands::check(const IsTouched& is_touched) const {
  for (const Range& range : ranges_) {
    // What may be a leftover in a struct is a block that the program has every right to free.
    if (!range.live || (range.claim.allocated && !range.surely)) continue;
    std::uint64_t at = range.begin();
    for (std::size_t index = 0; index < range.segments.size(); ++index) {
      const Segment& segment = range.segments[index];
      if (is_touched(range.begin(), index)) {
        Claim claim = range.claim;
        claim.address = at;
        const Resolution now =
            AddressSpace::instance().resolve(claim, segment.size, false, device_);
        if (now.segments.size() != 1 || !(now.segments[0] == segment)) {
          throw AccessFault{.address = at};
        }
      }
      at += segment.size;
    }
  }
}

void Operands::end() const {
  check([](std::uint64_t, std::size_t) { return true; });
}

void Operands::end(const PrivateOperands& operands) const {
  check([&](std::uint64_t begin, std::size_t index) { return operands.touched(begin, index); });
}

std::vector<MixerOperand> Operands::mixer_operands() const {
  std::vector<MixerOperand> found;
  for (const Operand& operand : operands_) {
    const Range& range = ranges_[operand.range];
    if (!range.live) continue;
    found.push_back({operand.word.value, range.begin(), range.end(),
                     operand.word.offset / sizeof(std::uint64_t), operand.word.role,
                     operand.word.type, 0});
  }
  return found;
}

std::vector<std::uint64_t> Operands::extents() const {
  std::vector<std::uint64_t> list;
  list.reserve(operands_.size());
  for (const Operand& operand : operands_) {
    const Range& range = ranges_[operand.range];
    if (range.claim.allocated) {
      list.push_back(range.end() - operand.word.value);
    } else if (const auto mapped = AddressSpace::instance().mappings().find(operand.word.value);
               mapped && mapped->kind == MemoryKind::kMapped) {
      list.push_back(mapped->end() - operand.word.value);
    }
  }
  return list;
}

HostTraffic Operands::host_traffic(
    const std::function<std::uint64_t(std::uint64_t position, std::uint64_t there)>& bytes_of)
    const {
  HostTraffic traffic;
  MappingTable& mappings = AddressSpace::instance().mappings();
  for (const Operand& operand : operands_) {
    const std::uint64_t address = operand.word.value;
    if (ranges_[operand.range].claim.allocated) continue;
    const auto mapped = mappings.find(address);
    if (!mapped || mapped->kind != MemoryKind::kMapped) continue;
    const std::uint64_t touched =
        bytes_of(operand.word.offset / sizeof(std::uint64_t), mapped->end() - address);
    const auto bytes = static_cast<double>(mappings.bytes_on_host(address, touched));
    if (operand.word.role != Role::kOutput) traffic.read += bytes;
    if (operand.word.role == Role::kOutput || operand.word.role == Role::kInOut) {
      traffic.written += bytes;
    }
  }
  return traffic;
}

const Operands::Range* Operands::range_of(std::uint64_t address) const {
  const auto found = std::find_if(ranges_.begin(), ranges_.end(), [&](const Range& range) {
    return range.live && address - range.begin() < range.size;
  });
  return found == ranges_.end() ? nullptr : &*found;
}

void Operands::read(std::uint64_t address, std::span<std::byte> target) const {
  const Range* const range = range_of(address);
  if (range == nullptr) throw AccessFault{.address = address};
  for_each_part(range->segments, address - range->begin(), target.size(),
                [&](const unsigned char* bytes, std::uint64_t size, std::uint64_t offset) {
                  std::memcpy(target.data() + offset, bytes, size);
                });
}

void Operands::write(std::uint64_t address, std::span<const std::byte> bytes) const {
  const Range* const range = range_of(address);
  if (range == nullptr) throw AccessFault{.address = address, .is_write = true};
  for_each_part(range->segments, address - range->begin(), bytes.size(),
                [&](unsigned char* target, std::uint64_t size, std::uint64_t offset) {
                  std::memcpy(target, bytes.data() + offset, size);
                });
}

void Operands::make_private(PrivateOperands& operands) const {
  for (const Operand& operand : operands_) {
    const Range& range = ranges_[operand.range];
    // Where the kernel has no right to write, it works on the program's view, and faults there.
    if (!range.live || !range.writable) continue;
    // Host code may share words with the kernel.
    if (range.open_to_host) continue;
    if (operand.word.role == Role::kInput && range.segments.size() == 1) continue;
    operands.add(range.begin(), range.end(), range.segments);
  }
}

}  // namespace simgpu
