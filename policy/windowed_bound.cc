#include "policy/windowed_bound.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace superpipe {
namespace {

// Where windows may have opened. Each opening has a value: the bound until then, plus the link's
// time for the distinct bytes that were named since. It is sought which is the highest.
//
// A buffer that is named raises all openings behind its last use alike. So an opening that is no
// higher than a later one never will be, and is dropped. The values of those kept fall from each
// to the next, and only the differences are stored: a raise changes one of them, and where that
// makes it vanish, the opening before is dropped.
class Openings {
 public:
  explicit Openings(std::size_t capacity) {
    kept_.reserve(capacity);
    begin_.reserve(capacity);
    lead_.reserve(capacity);
  }

  // The opening with the number size(), which becomes one more. O(1) amortised.
  void add(Seconds value) {
    const auto added = static_cast<std::uint32_t>(size());
    kept_.push_back(added);
    begin_.push_back(added);
    lead_.push_back(last_value_ - value);
    last_value_ = value;
    if (added == 0) {
      highest_value_ = value;
    } else {
      drop_overtaken(added);
    }
  }

  // Raises the openings from `first` on. Nearly O(1) amortised.
  void raise_from(std::size_t first, Seconds by) {
    if (first >= size()) return;
    const std::uint32_t raised = first_kept(static_cast<std::uint32_t>(first));
    last_value_ += by;
    if (raised == highest_) {
      highest_value_ += by;
    } else {
      lead_[raised] -= by;
      drop_overtaken(raised);
    }
  }

  [[nodiscard]] std::size_t size() const { return kept_.size(); }
  // REQUIRES: size() > 0.
  [[nodiscard]] std::uint32_t highest() const { return highest_; }
  [[nodiscard]] Seconds highest_value() const { return highest_value_; }

 private:
  // The first opening at or behind `at` that is kept: disjoint sets, with their paths halved.
  std::uint32_t first_kept(std::uint32_t at) {
    while (kept_[at] != at) {
      kept_[at] = kept_[kept_[at]];
      at = kept_[at];
    }
    return at;
  }

  // Drops the openings before `at` that are no higher than it.
  void drop_overtaken(std::uint32_t at) {
    while (at != highest_ && lead_[at] <= Seconds{}) {
      const std::uint32_t before = begin_[at] - 1;
      kept_[before] = at;
      begin_[at] = begin_[before];
      if (before == highest_) {
        highest_ = at;
        highest_value_ -= lead_[at];
      } else {
        lead_[at] += lead_[before];
      }
    }
  }

  std::vector<std::uint32_t> kept_;   // itself if kept, else one between it and the first kept
  std::vector<std::uint32_t> begin_;  // of one kept: the first of those for which it stands
  std::vector<Seconds> lead_;         // of one kept, not the first: the one kept before it, less it
  std::uint32_t highest_ = 0;
  Seconds highest_value_{};
  Seconds last_value_{};
};

// The best sums of windows over consecutive launches, the first of which follows on launch 0.
struct WindowSums {
  std::vector<Seconds> until;            // by launch: the bound for the time until its end
  std::vector<std::uint32_t> opened_at;  // by launch: the end of which launch its window opened at
};

// Adds up windows over a cyclic sequence.
class WindowAdder {
 public:
  WindowAdder(const LaunchSequence& sequence, const WorkingSets& sets, Bytes fit, Bandwidth link)
      : sequence_(sequence),
        sets_(sets),
        link_(link),
        fit_(link.time_for(std::max(fit, sets.largest()))) {}

  // The first `count` launches, and nothing known of what was before.
  [[nodiscard]] WindowSums from_beginning(std::size_t count) const {
    return add_up(std::nullopt, count);
  }

  // `count` launches from the end of `launch` on.
  [[nodiscard]] WindowSums from_end_of(std::size_t launch, std::size_t count) const {
    return add_up(launch, count);
  }

 private:
  [[nodiscard]] WindowSums add_up(std::optional<std::size_t> launch, std::size_t count) const {
    WindowSums sums;
    sums.until.assign(1, Seconds{});
    sums.until.reserve(count + 1);
    sums.opened_at.assign(1, 0);
    sums.opened_at.reserve(count + 1);
    Openings openings(count + 1);
    // By buffer: the first opening behind its last use.
    std::vector<std::size_t> not_counted(sequence_.buffer_bytes.size(), 0);
    if (launch) {
      for (const BufferId id : sets_.buffers(*launch)) not_counted[index_of(id)] = 1;
      openings.add(link_.time_for(sets_.bytes(*launch)));
    } else {
      openings.add(Seconds{});
    }
    std::size_t at = launch ? *launch + 1 : 0;
    for (std::size_t end = 1; end <= count; ++end, ++at) {
      if (at == sets_.launches()) at = 0;
      std::size_t access = sets_.first_access(at);
      for (const BufferId id : sets_.buffers(at)) {
        // For what the launch makes nothing crosses, in no window in which it does.
        if (!sets_.makes(access++)) {
          openings.raise_from(not_counted[index_of(id)],
                              link_.time_for(sequence_.buffer_bytes[index_of(id)]));
        }
        not_counted[index_of(id)] = end + 1;
      }
      const Seconds arrived = openings.highest_value() - fit_;
      const bool waits = arrived > sums.until.back();
      sums.opened_at.push_back(waits ? openings.highest() : static_cast<std::uint32_t>(end - 1));
      sums.until.push_back(std::max(arrived, sums.until.back()) + sequence_.launches[at].compute);
      openings.add(sums.until.back() + link_.time_for(sets_.bytes(at)));
    }
    return sums;
  }

  const LaunchSequence& sequence_;
  const WorkingSets& sets_;
  Bandwidth link_;
  Seconds fit_;  // the link's time for the bytes that are on the device when a window opens
};

constexpr std::size_t kMostPassesTried = 1024;
constexpr std::size_t kMostLaunchesAndAccesses = std::size_t{1} << 21;

// A launch of the pass at whose end a window of the best sum ends, away from where it is cut off.
std::size_t end_of_a_window(const WindowAdder& adder, std::size_t launches) {
  const WindowSums sums = adder.from_end_of(launches - 1, 3 * launches);
  std::size_t end = 3 * launches;
  while (end > 2 * launches) end = sums.opened_at[end];
  return (end + launches - 1) % launches;
}

}  // namespace

Seconds windowed_bound(const LaunchSequence& sequence, Bytes fit, Bandwidth host_to_device) {
  const WorkingSets sets(sequence);
  const WindowAdder adder(sequence, sets, fit, host_to_device);
  return adder.from_beginning(sets.launches()).until.back();
}

Seconds windowed_bound_per_pass(const LaunchSequence& pass, Bytes fit, Bandwidth host_to_device) {
  const WorkingSets sets(pass);
  const std::size_t launches = sets.launches();
  if (launches == 0) return Seconds{};
  const WindowAdder adder(pass, sets, fit, host_to_device);
  const std::size_t passes = std::clamp(kMostLaunchesAndAccesses / (launches + sets.accesses()),
                                        std::size_t{1}, kMostPassesTried);
  const WindowSums sums = adder.from_end_of(end_of_a_window(adder, launches), passes * launches);
  Seconds best{};
  for (std::size_t m = 1; m <= passes; ++m) {
    best = std::max(best, sums.until[m * launches] / static_cast<double>(m));
  }
  return best;
}

}  // namespace superpipe
