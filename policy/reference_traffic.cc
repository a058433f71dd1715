#include "policy/reference_traffic.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "policy/eviction.h"

namespace superpipe {
namespace {

// For each access, how many launches later its buffer is used next. In a cyclic sequence the first
// launch follows on the last one.
std::vector<std::uint64_t> next_use_distances(const WorkingSets& sets, std::size_t buffers,
                                              bool cyclic) {
  std::vector<std::uint64_t> distances(sets.accesses());
  std::vector<std::uint64_t> next_use(buffers, kNeverUsedAgain);
  const std::size_t launches = sets.launches();
  // Of a cyclic sequence, the second pass says what follows on the first one.
  for (std::size_t at = cyclic ? 2 * launches : launches; at-- > 0;) {
    std::size_t access = sets.first_access(at % launches);
    for (const BufferId id : sets.buffers(at % launches)) {
      std::uint64_t& next = next_use[index_of(id)];
      distances[access++] = next == kNeverUsedAgain ? kNeverUsedAgain : next - at;
      next = at;
    }
  }
  return distances;
}

// One in so many buffers that come is kept as if it had been used before.
constexpr std::uint64_t kKeptOneIn = 32;

// The device under one of the replacements: how much of each buffer is on it.
class ReferenceDevice {
 public:
  ReferenceDevice(const LaunchSequence& sequence, const WorkingSets& sets, Bytes fit,
                  Replacement replacement, bool cyclic)
      : bytes_(sequence.buffer_bytes),
        sets_(sets),
        capacity_(std::max(fit, sets.largest())),
        replacement_(replacement),
        distances_(next_use_distances(sets, bytes_.size(), cyclic)),
        resident_(bytes_.size()),
        rank_(bytes_.size()),
        was_missing_(bytes_.size()) {}

  // Runs all launches once more.
  void run() {
    for (std::size_t at = 0; at < sets_.launches(); ++at) launch(at);
  }

  [[nodiscard]] Bytes fetched() const { return fetched_; }
  // By buffer, what is on the device of it.
  [[nodiscard]] const std::vector<Bytes>& resident() const { return resident_; }

 private:
  void launch(std::size_t at) {
    for (const BufferId id : sets_.buffers(at)) {
      const std::uint32_t buffer = index_of(id);
      victims_.erase({rank_[buffer], buffer});  // it is needed now
      const Bytes missing = bytes_[buffer] - resident_[buffer];
      was_missing_[buffer] = missing > Bytes{};
      fetched_ += missing;
      used_ += missing;
      resident_[buffer] = bytes_[buffer];
    }
    while (used_ > capacity_) evict();
    std::size_t access = sets_.first_access(at);
    for (const BufferId id : sets_.buffers(at)) {
      const std::uint32_t buffer = index_of(id);
      rank_[buffer] = rank_after(buffer, distances_[access++]);
      victims_.insert({rank_[buffer], buffer});
    }
    ++launches_run_;
  }

  // The lower, the sooner it is evicted.
  std::uint64_t rank_after(std::uint32_t buffer, std::uint64_t distance) {
    constexpr std::uint64_t kMiddle = kNeverUsedAgain / 2;
    const bool is_inserted = replacement_ == Replacement::kBip && was_missing_[buffer];
    if (is_inserted && ++inserted_ % kKeptOneIn != 0) return kMiddle - inserted_;
    if (replacement_ != Replacement::kMin) return kMiddle + ++accesses_run_;
    return distance == kNeverUsedAgain ? 0 : kNeverUsedAgain - (launches_run_ + distance);
  }

  // REQUIRES: more is on the device than the launch needs, so that there is a victim.
  void evict() {
    const std::uint32_t buffer = victims_.begin()->second;
    const Bytes freed = replacement_ == Replacement::kMin
                            ? std::min(resident_[buffer], used_ - capacity_)
                            : resident_[buffer];
    used_ -= freed;
    resident_[buffer] -= freed;
    if (resident_[buffer] == Bytes{}) victims_.erase(victims_.begin());
  }

  std::span<const Bytes> bytes_;
  const WorkingSets& sets_;
  Bytes capacity_;
  Replacement replacement_;
  std::vector<std::uint64_t> distances_;
  std::vector<Bytes> resident_;
  std::vector<std::uint64_t> rank_;
  std::vector<bool> was_missing_;                              // when it was named last
  std::set<std::pair<std::uint64_t, std::uint32_t>> victims_;  // by rank: buffers on the device
  Bytes used_;
  Bytes fetched_;
  std::uint64_t launches_run_ = 0;
  std::uint64_t accesses_run_ = 0;
  std::uint64_t inserted_ = 0;
};

constexpr std::size_t kMostPassesRun = 4096;
constexpr std::size_t kLeastPassesRun = 4;
constexpr std::size_t kMostAccessesRun = std::size_t{1} << 22;

}  // namespace

Bytes fetched_bytes(const LaunchSequence& sequence, Bytes fit, Replacement replacement) {
  const WorkingSets sets(sequence);
  ReferenceDevice device(sequence, sets, fit, replacement, /*cyclic=*/false);
  device.run();
  return device.fetched();
}

Bytes fetched_bytes_per_pass(const LaunchSequence& pass, Bytes fit, Replacement replacement) {
  const WorkingSets sets(pass);
  if (sets.accesses() == 0) return Bytes{};
  ReferenceDevice device(pass, sets, fit, replacement, /*cyclic=*/true);
  device.run();
  // Brent's search for a cycle: a pass's end is compared with that of the pass last remembered, and
  // is remembered itself when it is twice as far on.
  const Bytes fetched_first = device.fetched();
  std::vector<Bytes> remembered = device.resident();
  Bytes fetched_then = fetched_first;
  std::size_t since = 0;
  std::size_t forget_after = 1;
  const std::size_t passes =
      std::clamp(kMostAccessesRun / sets.accesses(), kLeastPassesRun, kMostPassesRun);
  for (std::size_t at = 1; at < passes; ++at) {
    device.run();
    ++since;
    if (device.resident() == remembered) {
      return Bytes{(device.fetched() - fetched_then).count() / since};
    }
    if (since == forget_after) {
      remembered = device.resident();
      fetched_then = device.fetched();
      since = 0;
      forget_after *= 2;
    }
  }
  return Bytes{(device.fetched() - fetched_first).count() / (passes - 1)};
}

}  // namespace superpipe
