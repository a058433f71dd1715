// How much pass-through memory there is: what hooks counted, corrected by what the device says.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "policy/budget.h"
#include "policy/units.h"
#include "residency/room/passthrough_change.h"
#include "residency/tuning.h"

namespace superpipe {

/// Estimates the device bytes that the budget pays for but no page of ours holds: pass-through
/// allocations, memory pools, loaded code.
///
/// A hook counts an allocation with one atomic add, once the driver has made it, and counts no
/// frees. A *sample* replaces everything counted before it by this process's share of what the
/// device holds. The headroom is kept free for what the driver takes unasked (code, a pool that
/// grew) between two samples; where pools were seen to grow by more at a time, so much is.
///
/// The device tells what all processes hold together, so a sample has to be divided:
///   - Growth up to what this process counted since the last sample is its own. Growth beyond that
///     is its own only up to tuning::kMostUncounted in all if it noted a call that grows memory,
///     and up to tuning::kMostRounding if it noted none. The rest belongs to other processes.
///   - Shrinking is its own if it noted frees. If it noted none, at most the part of its share that
///     it never counted can have shrunk. The rest belongs to other processes.
/// What belongs to other processes is not charged. A process that shrinks while this one frees
/// makes the estimate too low for the rest of the run: then less is kept free than was promised,
/// where an estimate too high would refuse launches that have room. So where something tells what
/// this process has, and the sample had to guess, that is asked for once in a while, and before
/// anything is refused (wants_own(), settle()).
///
/// begin_allocation(), end_allocation(), begin_foreseen(), end_foreseen(), begin_change(),
/// end_change() and admits() may be called from any thread at any time, and wait for nothing.
/// Everything else is serialised by the caller. Calls neither a device nor a clock. Source:
/// docs/design.md, "Invariants", I4.
class PassthroughLedger {
 public:
  /// How much it matters to know what this process has, which takes long to find out.
  enum class Settling : std::uint8_t {
    kWhenDue,        ///< as is due
    kBeforeWorse,    ///< something goes less well without: when it was not found out just now
    kBeforeRefusal,  ///< something is refused without, or a launch does without all that it names
  };

  using TimePoint = std::chrono::steady_clock::time_point;

  /// `budget`: what managed and pass-through bytes may take together; nullopt: no such promise was
  /// made. `headroom`: the part of it that is kept free for growth between samples. `block`: what
  /// the driver takes of the device at least, for an allocation however small.
  PassthroughLedger(std::optional<Bytes> budget, Bytes headroom, Bytes block);

  /// Managed and pass-through bytes may take `budget` together from now on. REQUIRES: there was a
  /// budget before.
  void set_budget(Bytes budget) noexcept;
  [[nodiscard]] std::optional<Bytes> budget() const noexcept { return budget_; }

  /// The device held `used` bytes before there was a page of ours: these are not charged. `own` of
  /// them were this process's, if that is known.
  void start(Bytes used, std::optional<Bytes> own = std::nullopt) {
    baseline_ = used;
    own_baseline_ = own;
  }

  /// Whether an allocation of `size` bytes would leave pass-through bytes within the budget, as far
  /// as known. Three loads.
  [[nodiscard]] bool admits(Bytes size) const noexcept {
    const std::uint64_t grown = this->grown().count();
    const std::uint64_t most = most_growth_.load(std::memory_order_relaxed);
    return grown <= most && size.count() <= most - grown;
  }

  /// Whether what was allocated since the last sample is more than the headroom with `size` bytes
  /// more: then pages have to leave before the driver takes these. Without a headroom nothing is
  /// kept free, and it is false. Three loads.
  [[nodiscard]] bool outgrows_headroom(Bytes size) const noexcept {
    return headroom_ > Bytes{} && grown_or_in_flight() + size > headroom_;
  }
  /// What has been allocated since the last sample, or is being, beyond what is kept free for it.
  [[nodiscard]] Bytes beyond_room() const noexcept {
    return saturating_subtract(grown_or_in_flight(), std::max(headroom_, pool_growth_));
  }

  /// The driver is about to be asked for a pass-through allocation of `size` bytes: the device may
  /// hold it from now on, though nothing is counted yet.
  void begin_allocation(Bytes size) noexcept {
    begun_.fetch_add(1, std::memory_order_acq_rel);
    in_flight_.fetch_add(size.count(), std::memory_order_acq_rel);
  }
  /// The driver has `made` it, or failed. @return whether a sample should be taken soon: growth
  /// has used up another half of the headroom (without a budget, of tuning::kMostRounding).
  bool end_allocation(Bytes size, bool made) noexcept {
    bool soon = false;
    if (made) {
      const std::uint64_t before = grown_.fetch_add(size.count(), std::memory_order_acq_rel);
      soon = steps(before + size.count()) != steps(before);
    }
    // Only now: a sample may find the allocation twice, and never not at all.
    in_flight_.fetch_sub(size.count(), std::memory_order_release);
    return soon;
  }

  /// A call of the driver is about to take `size` bytes that it was not asked for as such. They
  /// count from now on, so that managed pages leave room for them, beside the headroom.
  void begin_foreseen(Bytes size) noexcept {
    begun_.fetch_add(1, std::memory_order_acq_rel);
    foreseen_.fetch_add(size.count(), std::memory_order_acq_rel);
  }
  /// The call has `taken` them, or failed.
  void end_foreseen(Bytes size, bool taken) noexcept {
    if (taken) taken_.fetch_add(size.count(), std::memory_order_acq_rel);
    // Only now: a thread that adds them up may find them twice, but never misses them.
    foreseen_.fetch_sub(size.count(), std::memory_order_release);
  }

  /// A call of the driver is about to change pass-through memory by an unknown amount. A sample
  /// that is taken before its end takes what it finds for this process's.
  void begin_change(PassthroughChange change) noexcept {
    begun_.fetch_add(1, std::memory_order_acq_rel);
    changes_under_way_[index_of(change)].fetch_add(1, std::memory_order_acq_rel);
  }
  /// The call has returned. @return whether it is the first change since the last sample.
  bool end_change(PassthroughChange change) noexcept {
    const std::uint8_t before = changes_.fetch_or(bit_of(change), std::memory_order_acq_rel);
    // Only now: a sample may find the change twice, and never not at all.
    changes_under_way_[index_of(change)].fetch_sub(1, std::memory_order_release);
    return before == 0;
  }

  /// Of it, at most so much is of allocations that hooks counted: not code, nor other contexts.
  [[nodiscard]] Bytes counted() const noexcept { return std::min(counted_ + grown(), bytes()); }

  /// Pass-through memory, as far as it is known.
  [[nodiscard]] Bytes bytes() const noexcept { return sampled_ + grown(); }

  /// What the last sample found.
  [[nodiscard]] Bytes sampled() const noexcept { return sampled_; }

  /// What the last sample found; before the first one, bytes(). What was allocated since is not
  /// in it, and what was freed since still is.
  [[nodiscard]] Bytes seen() const noexcept { return was_sampled_ ? sampled_ : bytes(); }

  /// The best guess of what the driver has taken: what the last sample found, or the blocks that
  /// all counted allocations fill if these are more. Unlike bytes(), which may be too high, it does
  /// not count an allocation that fits a block which was there.
  [[nodiscard]] Bytes likely() const noexcept {
    return std::max(sampled_, round_up(counted_ + grown(), block_));
  }

  /// What the budget has to leave free of managed pages: bytes(), or more, so that at least the
  /// headroom is free beyond the last sample and what was foreseen since; and what is yielded to
  /// other processes.
  [[nodiscard]] Bytes reserved() const noexcept { return kept_ + room_to_grow(); }

  /// What the budget would let managed pages take if nothing was yielded; 0 without a budget.
  [[nodiscard]] Bytes allowed() const noexcept {
    return saturating_subtract(budget_.value_or(Bytes{}), sampled_ + room_to_grow());
  }
  /// Of that, `bytes` are left to other processes from now on (DevicePressure): reserved() has them
  /// too.
  void set_yielded(Bytes bytes) noexcept {
    yielded_ = bytes;
    kept_ = sampled_ + yielded_;
  }
  [[nodiscard]] Bytes yielded() const noexcept { return yielded_; }

  [[nodiscard]] Bytes headroom() const noexcept { return headroom_; }

  /// Whether it is time for a sample.
  [[nodiscard]] bool is_due(TimePoint now) const noexcept { return now >= due_at(); }

  /// How long after `now` the next sample is due if nothing changes until then, never negative.
  [[nodiscard]] std::chrono::nanoseconds until_due(TimePoint now) const noexcept {
    return std::max<std::chrono::nanoseconds>(due_at() - now, std::chrono::nanoseconds{0});
  }

  /// What had been counted and noted when a sample began. The device is to be asked after
  /// begin_sample(), so that its answer includes all of it.
  struct Sample {
    std::uint64_t grown = 0;
    std::uint64_t taken = 0;     ///< of what was foreseen
    std::uint8_t changes = 0;    ///< one bit_of() each: made since the last sample
    std::uint8_t under_way = 0;  ///< one bit_of() each: not yet returned
  };
  [[nodiscard]] Sample begin_sample() noexcept;

  /// The device has answered a sample begun as `sample`: it holds `used` bytes besides our pages.
  /// REQUIRES: no page of ours was created or destroyed since begin_sample().
  /// @return whether the estimate is another one now.
  bool end_sample(const Sample& sample, Bytes used, TimePoint now) noexcept;

  /// What pools were seen to take at a time is not kept free beside the headroom any more, until
  /// one does so again: something would be refused for it. @return whether something was.
  bool forgo_pool_growth() noexcept { return std::exchange(pool_growth_, Bytes{}) > headroom_; }

  /// The next sample is due after the shortest interval, though nothing that is counted here
  /// changed.
  void sample_again_soon() noexcept { interval_ = tuning::kSampleShortestInterval; }

  /// Whether to find out what this process has, because the last samples had to guess: what is
  /// asked for is known at all, and it is time for it.
  [[nodiscard]] bool wants_own(TimePoint now, Settling settling) const noexcept {
    if (!own_baseline_ || !is_guessed_) return false;
    if (settling == Settling::kBeforeRefusal) return true;
    return is_own_due(now,
                      settling == Settling::kWhenDue ? own_interval_ : tuning::kOwnLeastInterval);
  }
  /// Two that are alike, and are none of them empty: this process did nothing in between that is
  /// counted or noted here.
  [[nodiscard]] std::optional<std::uint64_t> quiet_mark() const noexcept;
  /// That is about to be asked for, which is not done again soon but before a refusal.
  void begin_own(TimePoint now) noexcept {
    was_due_ = is_own_due(now, own_interval_);
    asked_own_at_ = now;
    counted_before_own_ = counted_ever_;
  }
  /// What hooks had counted by the last sample since begin_own().
  [[nodiscard]] Bytes counted_since_own() const noexcept {
    return counted_ever_ - counted_before_own_;
  }
  /// Of the `used` bytes that the last sample found besides our pages this process has `own`.
  /// REQUIRES: begin_own() between that sample and the one before. Unless this process `was_quiet`
  /// since then what it holds remains a guess.
  /// @return whether the estimate is another one now.
  bool settle(Bytes own, Bytes used, bool was_quiet) noexcept;
  /// What was settled may be too much: it is asked for again soon.
  void ask_own_soon() noexcept { own_interval_ = tuning::kOwnShortestInterval; }
  /// What this process has was not told. If that is so several times in a row it is not asked for
  /// any more.
  void miss_own() noexcept {
    if (++misses_ >= tuning::kOwnMostMisses) own_baseline_.reset();
  }

  /// The device did not answer; what the sample began with counts on.
  void give_up_sample(const Sample& sample, TimePoint now) noexcept;
  /// The device cannot be asked now. It may be stuck, and a thread that asks waits for it: the next
  /// sample is not due before the longest interval has passed.
  void put_off_sample(TimePoint now) noexcept {
    sampled_at_ = now + (tuning::kSampleLongestInterval - tuning::kSampleShortestInterval);
  }

 private:
  /// How many times `growth` exceeds what calls for a sample.
  [[nodiscard]] std::uint64_t steps(std::uint64_t growth) const noexcept {
    return sample_above_ == 0 || growth == 0 ? growth : (growth - 1) / sample_above_;
  }
  static constexpr std::size_t index_of(PassthroughChange change) {
    return static_cast<std::size_t>(change);
  }
  static constexpr std::uint8_t bit_of(PassthroughChange change) {
    return static_cast<std::uint8_t>(1U << index_of(change));
  }
  [[nodiscard]] bool is_own_due(TimePoint now, std::chrono::milliseconds interval) const noexcept {
    return !asked_own_at_ || now >= *asked_own_at_ + interval;
  }
  [[nodiscard]] std::uint8_t under_way() const noexcept;
  [[nodiscard]] Bytes share_of(const Sample& sample, Bytes used) noexcept;
  void note_pool_growth(const Sample& sample, Bytes share) noexcept;
  void set_share(Bytes share, Bytes used) noexcept;

  /// The time of the next sample: soon if much has grown or anything has changed.
  [[nodiscard]] TimePoint due_at() const noexcept {
    const bool soon =
        grown().count() > sample_above_ || changes_.load(std::memory_order_relaxed) != 0;
    return sampled_at_ + (soon ? tuning::kSampleShortestInterval : interval_);
  }
  [[nodiscard]] Bytes grown_or_in_flight() const noexcept {
    return Bytes{grown_.load(std::memory_order_relaxed) +
                 in_flight_.load(std::memory_order_relaxed)};
  }
  /// What was foreseen since the last sample, taken or not.
  [[nodiscard]] Bytes foreseen() const noexcept {
    // In this order: it goes from the one to the other when the driver has taken it.
    const std::uint64_t waiting = foreseen_.load(std::memory_order_acquire);
    return Bytes{waiting + taken_.load(std::memory_order_acquire)};
  }
  /// What was allocated since the last sample, and what was foreseen.
  [[nodiscard]] Bytes grown() const noexcept {
    return foreseen() + Bytes{grown_.load(std::memory_order_acquire)};
  }
  /// What pages leave free beyond the last sample. What is foreseen takes nothing of the headroom:
  /// code and pools grow while graphs allocate, too. A sample that is taken in the middle of the
  /// call has found a part of it already, which is left free twice until the next one.
  [[nodiscard]] Bytes room_to_grow() const noexcept {
    return foreseen() +
           std::max({Bytes{grown_.load(std::memory_order_acquire)}, headroom_, pool_growth_});
  }

  std::optional<Bytes> budget_;
  const Bytes headroom_;
  const Bytes block_;
  const std::uint64_t sample_above_;        ///< growth since the last sample that calls for another
  std::atomic<std::uint64_t> grown_{0};     ///< bytes allocated since the last sample
  std::atomic<std::uint64_t> foreseen_{0};  ///< bytes that the driver is yet to take
  std::atomic<std::uint64_t> taken_{0};     ///< bytes foreseen that it took since the last sample
  std::atomic<std::uint64_t> in_flight_{0};  ///< bytes that the driver is being asked for
  std::atomic<std::uint64_t> begun_{0};      ///< allocations, changes, and what was foreseen
  std::atomic<std::uint8_t> changes_{0};     ///< one bit_of() each: since the last sample
  std::array<std::atomic<std::uint32_t>, kPassthroughChanges> changes_under_way_{};
  std::atomic<std::uint64_t> most_growth_;  ///< the budget less what the last sample found
  Bytes baseline_;            ///< what others hold: at the start, or found to be theirs since
  Bytes sampled_;             ///< this process's share, by the last sample
  Bytes yielded_;             ///< what pages leave to other processes
  Bytes kept_;                ///< sampled_ and yielded_ together: reserved() is read at each launch
  Bytes counted_;             ///< of sampled_, what hooks counted; freed since or not
  Bytes pool_growth_;         ///< the most that the driver took at a time for small allocations
  Bytes noted_;               ///< of the rest, what grew while growth was noted
  Bytes counted_ever_;        ///< what hooks counted until the last sample, freed since or not
  Bytes counted_before_own_;  ///< of that, until begin_own()
  Bytes known_;               ///< of the rest, what was no guess when it was last settled
  bool was_sampled_ = false;
  bool was_freed_ = false;   ///< a free was noted before the last sample: pools give back later
  bool frees_late_ = false;  ///< a free in stream order was noted: any drop may be of it
  std::optional<Bytes> own_baseline_;  ///< of the baseline at the start: of this process
  bool is_guessed_ = false;            ///< something changed that was not counted
  bool was_due_ = false;               ///< the last question what this process has
  int misses_ = 0;                     ///< such questions in a row without an answer
  TimePoint sampled_at_{};
  std::optional<TimePoint> asked_own_at_;
  std::chrono::milliseconds own_interval_ = tuning::kOwnShortestInterval;
  std::chrono::milliseconds interval_ = tuning::kSampleShortestInterval;
};

}  // namespace superpipe
