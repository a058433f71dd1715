#include "interposer/recording/kernel_timer.h"

#include <algorithm>
#include <exception>
#include <optional>

#include "interposer/driver/capture_count.h"
#include "interposer/driver/event_time.h"
#include "interposer/driver/in_context.h"
#include "interposer/driver/streams.h"
#include "interposer/driver/table.h"
#include "interposer/log.h"

namespace superpipe {
namespace {

using Clock = std::chrono::steady_clock;

/// So many seconds a float tells to the microsecond.
constexpr std::chrono::seconds kOldestBase{8};
/// How long the timer's thread looks at a new base without a rest.
constexpr std::chrono::milliseconds kLongestBase{1};

}  // namespace

std::unique_ptr<KernelTimer> KernelTimer::start(CUcontext context, TraceRecorder& trace) noexcept
    try {
  std::unique_ptr<KernelTimer> timer(new KernelTimer(context, trace));
  KernelTimer* const self = timer.get();
  const InRelaxedContext in_context(context);
  if (driver().cuStreamCreate(&timer->stream_, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
      driver().cuEventCreate(&timer->base_, CU_EVENT_DEFAULT) == CUDA_SUCCESS &&
      timer->thread_.start("superpipe-times", [self] { self->main(); })) {
    return timer;
  }
  timer->destroy_events();
  return nullptr;
} catch (const std::exception&) {
  return nullptr;
}

KernelTimer::Timing KernelTimer::begin_slowly(KernelId kernel, StreamHandle stream) noexcept {
  // Some calls are forbidden to all threads while one captures.
  if (has_ended_.load() || CaptureCount::any()) return {};
  Timing timing;
  try {
    const std::lock_guard lock(mutex_);
    timing = take_events(slot_of(kernel));
  } catch (const std::exception&) {
    return {};
  }
  timing.kernel_ = kernel;
  if (timing && driver().cuEventRecord(timing.begin_, driver_stream(stream)) != CUDA_SUCCESS) {
    fail();
    return {};
  }
  return timing;
}

// REQUIRES: the caller holds mutex_.
KernelTimer::Timing KernelTimer::take_events(std::size_t slot) {
  if (free_.empty()) {
    if (made_ == kMostUnderWay || has_ended_.load()) {
      left_[slot].store(kOneIn, std::memory_order_relaxed);
      return {};
    }
    Timing made;
    free_.reserve(kMostUnderWay);
    if (driver().cuEventCreate(&made.begin_, CU_EVENT_DEFAULT) != CUDA_SUCCESS) return {};
    if (driver().cuEventCreate(&made.end_, CU_EVENT_DEFAULT) != CUDA_SUCCESS) {
      (void)driver().cuEventDestroy_v2(made.begin_);
      return {};
    }
    ++made_;
    free_.push_back(made);
  }
  const Timing timing = free_.back();
  free_.pop_back();
  std::uint32_t& timed = timed_[slot];
  if (timed < kFirst) {
    ++timed;
  } else {
    const auto skipped = std::uniform_int_distribution<std::uint32_t>(0, 2 * kOneIn - 2)(random_);
    left_[slot].store(skipped, std::memory_order_relaxed);
  }
  return timing;
}

void KernelTimer::end(const Timing& timing, StreamHandle stream, std::uint64_t number,
                      bool names_buffers, bool has_succeeded) noexcept {
  const bool is_recorded =
      has_succeeded && driver().cuEventRecord(timing.end_, driver_stream(stream)) == CUDA_SUCCESS;
  try {
    const std::lock_guard lock(mutex_);
    if (is_recorded) {
      under_way_.push_back({timing, stream, number, names_buffers});
      if (under_way_.size() == 1) changed_.notify_one();
    } else {
      free_.push_back(timing);
    }
  } catch (const std::exception&) {
    // The events are lost.
  }
  if (has_succeeded && !is_recorded) fail();
}

void KernelTimer::main() noexcept {
  try {
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return has_ended_.load() || !under_way_.empty(); });
        if (has_ended_.load()) return;
        changed_.wait_for(lock, kRest, [this] { return has_ended_.load(); });
        if (has_ended_.load()) return;
      }
      collect();
    }
  } catch (const std::exception&) {
    has_ended_.store(true);
  }
}

// Kernels of a stream end in their order: of each stream, what comes behind one that runs is not
// asked about.
void KernelTimer::collect() {
  std::vector<UnderWay> under_way;
  {
    const std::lock_guard lock(mutex_);
    under_way.assign(under_way_.begin(), under_way_.end());
  }
  std::vector<UnderWay> ended;
  std::vector<StreamHandle> busy;
  const InRelaxedContext in_context(context_);
  if (!in_context.is_current()) return fail();
  renew_base();
  for (const UnderWay& one : under_way) {
    if (std::ranges::find(busy, one.stream) != busy.end()) continue;
    const CUresult result = driver().cuEventQuery(one.timing.end_);
    if (result == CUDA_ERROR_NOT_READY) {
      busy.push_back(one.stream);
      continue;
    }
    if (result != CUDA_SUCCESS) return fail();
    tell(one, Clock::now());
    ended.push_back(one);
  }
  const std::lock_guard lock(mutex_);
  for (const UnderWay& one : ended) {
    const auto place = std::ranges::find(under_way_, one.timing.end_,
                                         [](const UnderWay& other) { return other.timing.end_; });
    under_way_.erase(place);
    free_.push_back(one.timing);
  }
}

void KernelTimer::tell(const UnderWay& one, TimePoint now) {
  const auto duration = milliseconds_between(one.timing.begin_, one.timing.end_);
  if (!duration || *duration < 0) return;
  // Less than 0 where it began before the base.
  const auto begin =
      base_time_ ? milliseconds_between(base_, one.timing.begin_) : std::optional<float>();
  const auto nanoseconds = [](float milliseconds) {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(double{milliseconds} * 1e6));
  };
  const TimePoint began = begin ? *base_time_ + nanoseconds(*begin) : now - nanoseconds(*duration);
  TraceKernelTime time;
  time.launch.value = one.launch;
  time.begin = std::chrono::nanoseconds{began - now}.count();
  time.duration_ns = static_cast<std::uint64_t>(nanoseconds(*duration).count());
  time.launches = one.names_buffers ? 1 : 0;
  trace_.kernel_time(now, time, one.timing.kernel_);
}

// Nothing else runs in the timer's stream, so that the event is complete at once as a rule. Where
// it is not, it is not known when it was: there is no base until the next one.
void KernelTimer::renew_base() {
  if (base_time_ && Clock::now() - *base_time_ < kOldestBase) return;
  base_time_.reset();
  if (driver().cuEventRecord(base_, stream_) != CUDA_SUCCESS) return;
  const TimePoint limit = Clock::now() + kLongestBase;
  while (Clock::now() < limit) {
    const CUresult result = driver().cuEventQuery(base_);
    if (result == CUDA_SUCCESS) base_time_ = Clock::now();
    if (result != CUDA_ERROR_NOT_READY) return;
  }
}

void KernelTimer::fail() noexcept {
  if (!has_ended_.exchange(true)) {
    log_line(LogLevel::kInfo, "kernels are not timed any more: the driver refused an event");
  }
}

void KernelTimer::stop() noexcept {
  const bool has_failed = has_ended_.load();
  {
    const std::lock_guard lock(mutex_);
    has_ended_.store(true);
    changed_.notify_one();
  }
  thread_.join();
  try {
    if (!has_failed) collect();
  } catch (const std::exception&) {
    // Less is known of the last kernels.
  }
  const InRelaxedContext in_context(context_);
  destroy_events();
}

bool KernelTimer::abandon() noexcept {
  // In the child of a fork another thread may hold the lock for ever.
  has_ended_.store(true);
  if (thread_.is_owner() && mutex_.try_lock()) {
    changed_.notify_one();
    mutex_.unlock();
  }
  return thread_.abandon();
}

void KernelTimer::destroy_events() noexcept {
  const auto destroy = [](CUevent event) {
    if (event != nullptr) (void)driver().cuEventDestroy_v2(event);
  };
  const std::lock_guard lock(mutex_);
  for (const Timing& timing : free_) {
    destroy(timing.begin_);
    destroy(timing.end_);
  }
  for (const UnderWay& one : under_way_) {
    destroy(one.timing.begin_);
    destroy(one.timing.end_);
  }
  free_.clear();
  under_way_.clear();
  destroy(base_);
  if (stream_ != nullptr) (void)driver().cuStreamDestroy_v2(stream_);
  base_ = nullptr;
  stream_ = nullptr;
}

}  // namespace superpipe
