// How long streams wait for fetches.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "profiler/completion.h"

namespace superpipe {

/// Adds up, over launches, max(0, fetches ready - max(buffers asked for, stream ready)).
///
/// The owner of the meter asks the device about awaited() and then calls settle(). Not thread-safe.
/// Source: docs/design.md, "Settings and statistics", stall_ms.
class StallMeter {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// One launch that has to wait for fetches.
  class Probe {
   public:
    Probe(TimePoint asked, CompletionRef stream_end, std::uint64_t launch)
        : asked_(asked), stream_end_(std::move(stream_end)), launch_(launch) {}

    /// The launch waits for `fetches`. Throws std::bad_alloc.
    template <typename Completions>
    void add_fetches(const Completions& fetches) {
      fetches_.insert(fetches_.end(), fetches.begin(), fetches.end());
    }
    /// No more fetches will be added.
    void submitted(TimePoint now) { submitted_ = now; }

   private:
    friend class StallMeter;
    TimePoint asked_;
    CompletionRef stream_end_;               // of what was on the stream then
    std::uint64_t launch_;                   // its number, for the listener
    std::optional<TimePoint> stream_ready_;  // when that was seen complete
    std::vector<CompletionRef> fetches_;
    std::optional<TimePoint> submitted_;
  };
  using ProbeRef = std::shared_ptr<Probe>;

  /// A launch asked for its buffers at `asked`; `stream_end` is the end of its stream at that
  /// moment. `launch`: its number, or 0. Throws std::bad_alloc.
  ProbeRef open(TimePoint asked, CompletionRef stream_end, std::uint64_t launch = 0) {
    probes_.push_back(std::make_shared<Probe>(asked, std::move(stream_end), launch));
    return probes_.back();
  }

  /// Told of each stall that is not zero, in settle(): the launch, when its fetches were seen to be
  /// ready, and how long it stalled.
  using Listener =
      std::function<void(std::uint64_t launch, TimePoint ready, std::chrono::nanoseconds stall)>;
  void listen(Listener listener) { listener_ = std::move(listener); }

  /// What the device is to be asked about: at most two events of each of the oldest launches. The
  /// host may be a thousand launches ahead of the device, which mostly ends them in order; one that
  /// ends before many older ones is seen late, and its stall with it. Throws std::bad_alloc.
  [[nodiscard]] std::vector<CompletionRef> awaited() const {
    std::vector<CompletionRef> completions;
    std::size_t asked = 0;
    for (const ProbeRef& probe : probes_) {
      if (asked++ == kMostAsked) break;
      if (!probe->stream_ready_) completions.push_back(probe->stream_end_);
      if (!probe->submitted_) continue;
      const auto is_awaited = [](const CompletionRef& fetch) { return !fetch->is_known(); };
      const auto first = std::ranges::find_if(probe->fetches_, is_awaited);
      if (first != probe->fetches_.end()) completions.push_back(*first);
    }
    return completions;
  }
  [[nodiscard]] bool is_waiting() const { return !probes_.empty(); }

  /// Takes what is known to be complete as complete at `now`. Launches that wait for one of
  /// `failed` are not measured. @return whether the measurement of any launch has ended.
  bool settle(TimePoint now, std::span<const CompletionRef> failed) {
    const auto is_over = [&](const ProbeRef& probe) {
      if (!probe->stream_ready_ && probe->stream_end_->is_known()) probe->stream_ready_ = now;
      if (contains(failed, probe->stream_end_)) return true;
      if (!probe->submitted_) return false;
      for (const CompletionRef& fetch : probe->fetches_) {
        if (contains(failed, fetch)) return true;
        if (!fetch->is_known()) return false;
      }
      if (probe->stream_ready_) {
        const TimePoint ready = probe->fetches_.empty() ? *probe->submitted_ : now;
        const auto stall = ready - std::max(probe->asked_, *probe->stream_ready_);
        stall_ms_ += std::max(0.0, std::chrono::duration<double, std::milli>(stall).count());
        if (listener_ && stall > stall.zero()) listener_(probe->launch_, ready, stall);
      }
      return true;
    };
    return std::erase_if(probes_, is_over) > 0;
  }

  [[nodiscard]] double stall_ms() const { return stall_ms_; }

  /// Forgets the launches that are being measured.
  void clear() { probes_.clear(); }

 private:
  static constexpr std::size_t kMostAsked = 8;

  std::list<ProbeRef> probes_;
  double stall_ms_ = 0;
  Listener listener_;
};

}  // namespace superpipe
