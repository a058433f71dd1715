// What residency tells a trace: its transfers, when they end, stalls, and what memory is in use.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "policy/units.h"
#include "profiler/completion.h"
#include "profiler/trace_recorder.h"
#include "residency/tuning.h"

namespace superpipe {

/// Numbers the transfers of one manager, and tells its recorder of them as they begin and end.
///
/// Its owner asks the device about awaited() and then calls settle(). Not thread-safe. Events for
/// which there is no host memory are left out.
class ResidencyTrace {
 public:
  using TimePoint = TraceRecorder::TimePoint;

  /// `recorder` must outlive this.
  explicit ResidencyTrace(TraceRecorder& recorder) : recorder_(recorder) {}

  /// A fetch was enqueued at `now`, and ends with `done`; null: there is nothing to wait for.
  /// `fetch.transfer` is given here.
  void add(TimePoint now, CompletionRef done, TraceFetch fetch) noexcept {
    fetch.transfer = begin(std::move(done), fetches_);
    recorder_.add(now, fetch);
  }
  /// The same for an eviction, whose write-back ends with `done`; null: it has none.
  void add(TimePoint now, CompletionRef done, TraceEviction eviction) noexcept {
    eviction.transfer = done == nullptr ? last_ : begin(std::move(done), write_backs_);
    recorder_.add(now, eviction);
  }
  /// A launch stalled, which is known at `now`.
  void add(TimePoint now, std::uint64_t launch, TimePoint ready,
           std::chrono::nanoseconds duration) noexcept {
    recorder_.add(now, TraceStall{{launch},
                                  std::chrono::nanoseconds{ready - now}.count(),
                                  static_cast<std::uint64_t>(duration.count())});
  }
  void add(TimePoint now, const TracePass& pass) noexcept { recorder_.add(now, pass); }

  /// Tells budget and memory where they have changed, memory at most once in kMemoryInterval unless
  /// `at_once`.
  void note(TimePoint now, const TraceBudget& budget, const TraceMemory& memory,
            bool at_once = false) noexcept {
    if (!budget_ || budget_->budget != budget.budget || budget_->limit != budget.limit) {
      budget_ = budget;
      recorder_.add(now, budget);
    }
    const bool is_same =
        memory_ && memory_->pages == memory.pages && memory_->live == memory.live &&
        memory_->passthrough == memory.passthrough && memory_->pinned_host == memory.pinned_host;
    if (is_same || (!at_once && memory_ && now - memory_time_ < kMemoryInterval)) return;
    memory_ = memory;
    memory_time_ = now;
    recorder_.add(now, memory);
  }

  /// What the device is to be asked about: the oldest transfers each way, which end in order.
  /// Throws std::bad_alloc.
  [[nodiscard]] std::vector<CompletionRef> awaited() const {
    std::vector<CompletionRef> completions;
    for (const auto* const pending : {&fetches_, &write_backs_}) {
      const std::size_t asked = std::min(pending->size(), tuning::kTraceMostAsked);
      for (std::size_t i = 0; i < asked; ++i) completions.push_back((*pending)[i].done);
    }
    return completions;
  }
  [[nodiscard]] bool is_waiting() const { return !fetches_.empty() || !write_backs_.empty(); }

  /// Tells of the transfers that are known to have ended, as of `now`. Those of which the device
  /// cannot tell it, `failed`, are forgotten. @return whether there were any.
  bool settle(TimePoint now, std::span<const CompletionRef> failed) {
    const bool fetched = settle(fetches_, now, failed);
    return settle(write_backs_, now, failed) || fetched;
  }

  static constexpr auto kMemoryInterval = tuning::kTraceMemoryInterval;

 private:
  struct Pending {
    TraceCount transfer;
    CompletionRef done;
  };

  TraceCount begin(CompletionRef done, std::deque<Pending>& pending) noexcept {
    ++last_.value;
    try {
      if (done != nullptr) pending.push_back({last_, std::move(done)});
    } catch (const std::bad_alloc&) {
      // Its end is left out.
    }
    return last_;
  }

  bool settle(std::deque<Pending>& pending, TimePoint now, std::span<const CompletionRef> failed) {
    bool any = false;
    while (!pending.empty()) {
      const Pending& oldest = pending.front();
      const bool has_failed = contains(failed, oldest.done);
      if (!has_failed && !oldest.done->is_known()) break;
      if (!has_failed) recorder_.add(now, TraceTransferEnd{oldest.transfer});
      pending.pop_front();
      any = true;
    }
    return any;
  }

  TraceRecorder& recorder_;
  TraceCount last_;
  std::deque<Pending> fetches_;
  std::deque<Pending> write_backs_;
  std::optional<TraceBudget> budget_;
  std::optional<TraceMemory> memory_;
  TimePoint memory_time_;
};

}  // namespace superpipe
