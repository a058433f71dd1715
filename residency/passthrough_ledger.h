// How much of the device is left to the driver: what hooks counted, corrected by what the device
// says.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "policy/units.h"

namespace superpipe {

/// Estimates the device bytes that the budget pays for but no page of ours holds: pass-through
/// allocations, memory pools, loaded code, and what other processes have taken since the start.
///
/// A hook counts an allocation with one atomic add, once the driver has made it, and counts no
/// frees. A *sample* replaces everything counted before it by what the device really holds. Between
/// samples the estimate can therefore only be too high by what was freed, and too low by what the
/// driver took unasked (code, a pool that grew), for which the headroom is kept free.
///
/// note_allocation(), note_change() and admits() may be called from any thread at any time, and
/// wait for nobody. Everything else is serialised by the caller. Calls neither a device nor a
/// clock. Source: docs/design.md, "Invariants", I4.
class PassthroughLedger {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// The shortest and the longest time between two samples. The interval starts at the shortest
  /// whenever something changed, and doubles as long as nothing does.
  static constexpr std::chrono::milliseconds kShortestInterval{5};
  static constexpr std::chrono::milliseconds kLongestInterval{1000};
  /// Growth that no hook counted and that exceeds this in one sample is another process's, not
  /// code or a pool of this one, and is not charged to the budget.
  static constexpr Bytes kMostUncounted = 1_GiB;

  /// `budget`: what managed and pass-through bytes may take together; nullopt: no such promise was
  /// made. `headroom`: the part of it that is kept free for growth between samples. `block`: what
  /// the driver takes of the device at least, for an allocation however small.
  PassthroughLedger(std::optional<Bytes> budget, Bytes headroom, Bytes block);

  /// The device held `used` bytes before there was a page of ours: these are nobody's.
  void start(Bytes used) { baseline_ = used; }

  /// Whether an allocation of `size` bytes would leave pass-through bytes within the budget, as far
  /// as known. One load.
  [[nodiscard]] bool admits(Bytes size) const noexcept {
    const std::uint64_t grown = grown_.load(std::memory_order_relaxed);
    const std::uint64_t most = most_growth_.load(std::memory_order_relaxed);
    return grown <= most && size.count() <= most - grown;
  }

  /// The driver has made a pass-through allocation of `size` bytes.
  /// @return whether a sample should be taken soon: half of the headroom is used up.
  bool note_allocation(Bytes size) noexcept {
    const std::uint64_t before = grown_.fetch_add(size.count(), std::memory_order_release);
    return before + size.count() > sample_above_;
  }

  /// Something has changed that no hook can count: an allocation was freed, code was loaded, a pool
  /// trimmed. @return whether it is the first change since the last sample.
  bool note_change() noexcept {
    if (changed_.load(std::memory_order_relaxed)) return false;
    return !changed_.exchange(true, std::memory_order_acq_rel);
  }

  /// What is left to the driver.
  [[nodiscard]] Bytes bytes() const noexcept { return sampled_ + grown(); }

  /// The best guess of what the driver has taken: what the last sample found, or the blocks that
  /// all counted allocations fill if these are more. Unlike bytes(), which may be too high, it does
  /// not count an allocation that fits a block which was there.
  [[nodiscard]] Bytes likely() const noexcept {
    return std::max(sampled_, round_up(counted_ + grown(), block_));
  }

  /// What the budget has to leave free of managed pages: bytes(), or more, so that at least the
  /// headroom is free beyond the last sample.
  [[nodiscard]] Bytes reserved() const noexcept { return sampled_ + std::max(grown(), headroom_); }

  [[nodiscard]] Bytes headroom() const noexcept { return headroom_; }

  /// Whether it is time for a sample.
  [[nodiscard]] bool is_due(TimePoint now) const noexcept { return now >= due_at(); }

  /// How long after `now` the next sample is due if nothing changes until then, never negative.
  [[nodiscard]] std::chrono::nanoseconds until_due(TimePoint now) const noexcept {
    return std::max<std::chrono::nanoseconds>(due_at() - now, std::chrono::nanoseconds{0});
  }

  /// What had been counted when a sample began. The device is to be asked after begin_sample(), so
  /// that its answer includes all of it.
  struct Sample {
    std::uint64_t grown = 0;
    bool changed = false;
  };
  [[nodiscard]] Sample begin_sample() noexcept;

  /// The device has answered a sample begun as `sample`: it holds `used` bytes besides our pages.
  /// REQUIRES: no page of ours was created or destroyed since begin_sample().
  /// @return whether the estimate is another one now.
  bool end_sample(const Sample& sample, Bytes used, TimePoint now) noexcept;

  /// The sample could not be taken; what it began with counts on.
  void give_up_sample(const Sample& sample, TimePoint now) noexcept;

 private:
  /// The time of the next sample: soon if much has grown or anything has changed.
  [[nodiscard]] TimePoint due_at() const noexcept {
    const bool soon = grown_.load(std::memory_order_relaxed) > sample_above_ ||
                      changed_.load(std::memory_order_relaxed);
    return sampled_at_ + (soon ? kShortestInterval : interval_);
  }
  [[nodiscard]] Bytes grown() const noexcept {
    return Bytes{grown_.load(std::memory_order_acquire)};
  }

  const std::optional<Bytes> budget_;
  const Bytes headroom_;
  const Bytes block_;
  const std::uint64_t sample_above_;        ///< growth since the last sample that calls for another
  std::atomic<std::uint64_t> grown_{0};     ///< bytes allocated since the last sample
  std::atomic<bool> changed_{false};        ///< since the last sample, by an unknown amount
  std::atomic<std::uint64_t> most_growth_;  ///< the budget less what the last sample found
  Bytes baseline_;
  Bytes sampled_;
  Bytes counted_;  ///< of sampled_, what hooks counted
  TimePoint sampled_at_{};
  std::chrono::milliseconds interval_ = kShortestInterval;
};

}  // namespace superpipe
