#include "interposer/cupti/cupti_collector.h"

#include <cupti_driver_cbid.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <utility>

#include "interposer/driver/hook_scope.h"
#include "interposer/log.h"

namespace superpipe {
namespace {

using std::chrono::nanoseconds;
using Clock = std::chrono::steady_clock;

/// What interposer/hooks/launch_hooks.cc launches by.
constexpr std::array kLaunchFunctions = {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
                                         CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
                                         CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
                                         CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
                                         CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
                                         CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz};

/// The buffers that CUPTI has. It may return one long after the collector stopped, or one of
/// another tool's. Thread-safe.
class LentBuffers {
 public:
  /// Null if it has as many as it may have, or host memory has run out.
  std::uint8_t* lend() noexcept {
    const std::lock_guard lock(mutex_);
    const auto place = std::ranges::find(lent_, nullptr);
    if (place == lent_.end()) return nullptr;
    *place = static_cast<std::uint8_t*>(
        std::aligned_alloc(ACTIVITY_RECORD_ALIGNMENT, CuptiCollector::kBufferBytes));
    return *place;
  }
  /// Whether `buffer`, which is not null, is one of them.
  bool has(const std::uint8_t* buffer) noexcept {
    const std::lock_guard lock(mutex_);
    return std::ranges::find(lent_, buffer) != lent_.end();
  }
  /// Frees `buffer`. REQUIRES: has(buffer).
  void take_back(std::uint8_t* buffer) noexcept {
    const std::lock_guard lock(mutex_);
    *std::ranges::find(lent_, buffer) = nullptr;
    std::free(buffer);
  }

 private:
  std::mutex mutex_;
  std::array<std::uint8_t*, CuptiCollector::kMostBuffers> lent_{};
};

constinit LentBuffers lent_buffers;

nanoseconds steady_now() {
  return std::chrono::duration_cast<nanoseconds>(Clock::now().time_since_epoch());
}

}  // namespace

std::variant<std::unique_ptr<CuptiCollector>, std::string> CuptiCollector::start(
    const CuptiApi& api, TraceRecorder& trace) {
  const HookScope scope;
  std::unique_ptr<CuptiCollector> collector(new CuptiCollector(api, trace));
  CuptiCollector* none = nullptr;
  if (!active_.compare_exchange_strong(none, collector.get())) {
    return std::string("another context of this process is recorded with it");
  }
  owner_.store(::getpid());
  CuptiCollector* const self = collector.get();
  // Where it fails nothing is recorded yet, so that CUPTI calls back nothing that may not go.
  if (std::string problem = self->enable(); !problem.empty()) return problem;
  // Without the thread, times come when CUPTI's buffers are full, and at the end.
  (void)self->thread_.start("superpipe-cupti", [self] { self->main(); });
  // Registered behind CUPTI's own handler, so that it runs before that one.
  [[maybe_unused]] static const int registered = std::atexit(finish_at_exit);
  return collector;
}

CuptiCollector::~CuptiCollector() {
  stop();
  abandon();
}

std::string CuptiCollector::problem_of(CUptiResult result, const char* call) const {
  if (result == CUPTI_SUCCESS) return "";
  const char* name = nullptr;
  (void)api_.cuptiGetResultString(result, &name);
  std::string why = std::string(call) + ": " +
                    (name != nullptr ? std::string(name) : "error " + std::to_string(result));
  if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
    why += " (another tool profiles the process)";
  }
  return why;
}

// Empty if all went well.
std::string CuptiCollector::enable() {
  CUpti_SubscriberHandle subscriber = nullptr;
  std::string problem =
      problem_of(api_.cuptiSubscribe(&subscriber, on_call, nullptr), "cuptiSubscribe");
  if (!problem.empty()) return problem;
  subscriber_ = subscriber;
  for (const CUpti_CallbackId function : kLaunchFunctions) {
    problem =
        problem_of(api_.cuptiEnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_DRIVER_API, function),
                   "cuptiEnableCallback");
    if (!problem.empty()) return problem;
  }
  problem =
      problem_of(api_.cuptiActivityRegisterCallbacks(on_buffer_requested, on_buffer_completed),
                 "cuptiActivityRegisterCallbacks");
  if (!problem.empty()) return problem;
  // Where it refuses, it times as well, and takes longer for it.
  std::size_t bytes = kDeviceBufferBytes;
  std::size_t size = sizeof bytes;
  (void)api_.cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, &size, &bytes);
  std::uint64_t now = 0;
  problem = problem_of(api_.cuptiGetTimestamp(&now), "cuptiGetTimestamp");
  if (!problem.empty()) return problem;
  return problem_of(api_.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL),
                    "cuptiActivityEnable");
}

void CuptiCollector::disable() noexcept {
  if (subscriber_ == nullptr) return;
  (void)api_.cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  (void)api_.cuptiUnsubscribe(subscriber_);
  subscriber_ = nullptr;
}

// By itself CUPTI delivers a buffer when it is full, which the last of a slow thread never is.
void CuptiCollector::main() noexcept {
  const HookScope scope;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kRest, [this] { return has_ended_.load(); })) {
    lock.unlock();
    (void)api_.cuptiActivityFlushAll(0);
    lock.lock();
  }
}

void CuptiCollector::end_thread() noexcept {
  const std::lock_guard lock(mutex_);
  has_ended_.store(true);
  changed_.notify_one();
}

// Everything, and the count of what is missing.
void CuptiCollector::flush() noexcept {
  (void)api_.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  std::size_t dropped = 0;
  if (api_.cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped) != CUPTI_SUCCESS) return;
  if (dropped == 0) return;
  try {
    log_line(LogLevel::kWarning, "CUPTI dropped " + std::to_string(dropped) +
                                     " records: the trace has no times of so many kernels");
  } catch (const std::exception&) {
    // The trace says less than it seems to.
  }
}

void CuptiCollector::stop() noexcept {
  if (subscriber_ == nullptr || ::getpid() != owner_.load() || of_process() != this) return;
  // The program destroys its context in a destructor: CUPTI has ended before that.
  if (is_at_exit_.load()) return;
  const HookScope scope;
  end_thread();
  if (!is_thread_taken_.exchange(true)) thread_.join();
  flush();
  disable();
  active_.store(nullptr);
}

void CuptiCollector::abandon() noexcept {
  has_ended_.store(true);
  CuptiCollector* self = this;
  (void)active_.compare_exchange_strong(self, nullptr);
  if (!is_thread_taken_.exchange(true)) (void)thread_.abandon();
}

// CUPTI stays as it is: other threads may still launch, or be in stop(), and it ends by a handler
// of its own.
void CuptiCollector::finish_at_exit() noexcept {
  CuptiCollector* const self = of_process();
  if (self == nullptr) return;
  const HookScope scope;
  self->end_thread();
  if (!self->is_thread_taken_.exchange(true)) (void)self->thread_.abandon();
  self->flush();
  self->is_at_exit_.store(true);
}

CuptiCollector* CuptiCollector::of_process() noexcept {
  // In the child of a fork others may hold our locks for ever.
  return ::getpid() == owner_.load() ? active_.load() : nullptr;
}

void CuptiCollector::on_call(void* /*user*/, CUpti_CallbackDomain domain,
                             CUpti_CallbackId /*function*/, const void* data) noexcept {
  const LaunchMark* const mark = LaunchMark::current();
  if (mark == nullptr || domain != CUPTI_CB_DOMAIN_DRIVER_API) return;
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  if (call.callbackSite == CUPTI_API_ENTER)
    mark->collector().note(call.correlationId, mark->launch());
}

void CuptiCollector::note(std::uint32_t correlation, const MarkedLaunch& launch) noexcept {
  if (has_ended_.load()) return;
  try {
    const std::lock_guard lock(mutex_);
    launches_.add(correlation, launch);
  } catch (const std::exception&) {
    // Out of memory: it is not known how long it takes.
  }
}

void CuptiCollector::on_buffer_requested(std::uint8_t** buffer, std::size_t* size,
                                         std::size_t* most_records) noexcept {
  *buffer = of_process() != nullptr ? lent_buffers.lend() : nullptr;
  *size = *buffer != nullptr ? kBufferBytes : 0;
  *most_records = 0;  // as many as it holds
}

void CuptiCollector::on_buffer_completed(CUcontext /*context*/, std::uint32_t /*stream*/,
                                         std::uint8_t* buffer, std::size_t /*size*/,
                                         std::size_t valid) noexcept {
  if (::getpid() != owner_.load() || buffer == nullptr || !lent_buffers.has(buffer)) return;
  if (CuptiCollector* const self = of_process()) self->read(buffer, valid);
  lent_buffers.take_back(buffer);
}

// Graphs' kernels have the number of the graph's launch, and are of no launch of ours.
void CuptiCollector::read(std::uint8_t* buffer, std::size_t valid) noexcept {
  const std::optional<nanoseconds> ahead = clock_ahead();
  if (!ahead) return;
  CUpti_Activity* record = nullptr;
  while (api_.cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel10&>(*record);
    if (kernel.graphId == 0) tell(kernel, *ahead);
  }
}

void CuptiCollector::tell(const CUpti_ActivityKernel10& record, nanoseconds ahead) noexcept {
  std::optional<MarkedLaunch> launch;
  {
    const std::lock_guard lock(mutex_);
    launch = launches_.take(record.correlationId);
  }
  // A kernel that still runs has no end; where CUPTI could not take the times, both are 0.
  if (!launch || record.start == 0 || record.end < record.start) return;
  const nanoseconds now = steady_now();
  TraceKernelTime time;
  time.launch.value = launch->number;
  time.begin = (nanoseconds(static_cast<std::int64_t>(record.start)) - ahead - now).count();
  time.duration_ns = record.end - record.start;
  time.launches = launch->names_buffers ? 1 : 0;
  trace_.kernel_time(Clock::time_point(now), time, launch->kernel);
}

// By how much CUPTI's clock, which records have, is ahead of the trace's. It is the system's time
// as a rule, which the program may set: so this is asked for each buffer again. The least of some
// readings had no pause between its halves.
std::optional<nanoseconds> CuptiCollector::clock_ahead() const noexcept {
  constexpr int kReadings = 3;
  std::optional<nanoseconds> ahead;
  nanoseconds least = nanoseconds::max();
  for (int i = 0; i < kReadings; ++i) {
    std::uint64_t theirs = 0;
    const nanoseconds before = steady_now();
    if (api_.cuptiGetTimestamp(&theirs) != CUPTI_SUCCESS) continue;
    const nanoseconds after = steady_now();
    if (after - before >= least) continue;
    least = after - before;
    ahead = nanoseconds(static_cast<std::int64_t>(theirs)) - before - least / 2;
  }
  return ahead;
}

}  // namespace superpipe
