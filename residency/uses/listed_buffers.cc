#include "residency/uses/listed_buffers.h"

namespace superpipe {

Result<Address> ListedBuffers::allocate(Bytes size, std::optional<StreamHandle> stream) {
  const auto address = lifetimes_.allocate(size, stream);
  if (!address.ok() || core_.options.pins.empty() || !core_.moves) return address;
  const std::uint64_t number = number_of(*address);
  if (!core_.options.pins.includes(number, size)) return address;
  const Status pinned = uses_.pin_forever({&*address, 1}, "SUPERPIPE_PIN names them");
  if (pinned == Status::kOk) return address;
  // Nothing of the program has used it, so that no order is lost where it cannot be freed in one.
  const bool is_freed = lifetimes_.free(*address, stream) == Status::kOk ||
                        lifetimes_.free(*address, std::nullopt) == Status::kOk;
  if (is_freed) take_back(number);
  return pinned;
}

std::uint64_t ListedBuffers::number_of(Address address) {
  const ManagerLock lock(core_.mutex);
  const std::uint32_t index = core_.arena->index_at(address);
  return index == Arena::kNobody ? 0 : core_.buffers[BufferId{index}].number;
}

void ListedBuffers::take_back(std::uint64_t number) {
  const ManagerLock lock(core_.mutex);
  core_.numbers.take_back(number);
}

}  // namespace superpipe
