#include "tools/simgpu/driver/launch/operands.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tools/simgpu/driver/faults/access_fault.h"

namespace simgpu {

Operands::Operands(std::span<const ParameterLayout> parameters, std::span<const std::byte> buffer,
                   int device)
    : device_(device) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  AddressSpace& space = AddressSpace::instance();
  for (const ParameterLayout& parameter : parameters) {
    const std::size_t end = std::min(parameter.offset + parameter.size, buffer.size());
    for (std::size_t at = (parameter.offset + kWord - 1) / kWord * kWord; at + kWord <= end;
         at += kWord) {
      std::uint64_t word = 0;
      std::memcpy(&word, buffer.data() + at, kWord);
      if (!space.touches_device(word, 1)) continue;
      Operand& operand = operands_[word];
      operand.whole_parameter = operand.whole_parameter || parameter.size == kWord;
      if (const auto allocation = space.allocations().find(word)) {
        operand.claim = space.claim(allocation->base);
        operand.size = allocation->size;
      } else {
        operand.claim.address = word;
      }
    }
  }
}

void Operands::start() {
  for (auto& [word, operand] : operands_) start(word, operand);
}

void Operands::start(std::uint64_t word, Operand& operand) const {
  AddressSpace& space = AddressSpace::instance();
  if (operand.claim.allocated) {
    Resolution found = space.resolve(operand.claim, operand.size, false, device_);
    if (found.accessible) {
      operand.place = {Kind::kLive, operand.claim.base, operand.claim.base + operand.size};
      operand.segments = std::move(found.segments);
    } else if (operand.whole_parameter) {
      operand.place = {.kind = Kind::kUnmapped};  // freed, in an order that nothing made
    }
    return;
  }
  const AddressRange range = space.mappings().find(word).value_or(AddressRange{});
  if (range.kind == MemoryKind::kReserved) {
    operand.place = {.kind = range.once_mapped ? Kind::kUnmapped : Kind::kNeverMapped};
  } else if (range.kind == MemoryKind::kMapped) {
    operand.claim.address = range.base;
    operand.size = range.size;
    operand.place = {Kind::kLive, range.base, range.end()};
    Resolution found = space.resolve(operand.claim, operand.size, false, device_);
    if (!found.accessible) operand.place = {.kind = Kind::kUnmapped};  // for another device alone
    operand.segments = std::move(found.segments);
  }
}

void Operands::end() const {
  for (const auto& [word, operand] : operands_) {
    if (operand.place.kind != Kind::kLive) continue;
    // What lies inside a struct may be a leftover that the kernel never looks at, of a block that
    // the program has every right to free.
    if (operand.claim.allocated && !operand.whole_parameter) continue;
    const Resolution now =
        AddressSpace::instance().resolve(operand.claim, operand.size, false, device_);
    if (now.segments != operand.segments) throw AccessFault{.address = word};
  }
}

MixerMemory::Place Operands::find(std::uint64_t word) const {
  const auto found = operands_.find(word);
  return found == operands_.end() ? Place{} : found->second.place;
}

void Operands::read(std::uint64_t address, std::span<std::byte> target) const {
  std::memcpy(target.data(), reinterpret_cast<const void*>(address), target.size());
}

}  // namespace simgpu
