#include "tools/simgpu/driver/entry/call_scope.h"

#include <mutex>

#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/device/timeline.h"
#include "tools/simgpu/driver/process/configuration.h"
#include "tools/simgpu/driver/process/statistics.h"
#include "tools/simgpu/driver/streams/stream.h"

namespace simgpu {
namespace {

std::mutex& process_lock() {
  static auto* const mutex = new std::mutex;  // never destroyed: threads outlive exit handlers
  return *mutex;
}

/// The outermost call of the calling thread that costs something.
thread_local CallScope* open_call = nullptr;

}  // namespace

void CallScope::begin(const CallCost& cost) noexcept {
  if (open_call != nullptr || !initialized()) return;
  Context* const context = current_context();
  if (cost.synchronises && context != nullptr && context->alive()) synchronize(*context);
  if (cost.nanoseconds <= 0) return;
  cost_ = &cost;
  open_call = this;
  const auto duration = static_cast<Nanoseconds>(cost.nanoseconds);
  const Nanoseconds asked = now_ns();
  const auto start = [&] {
    start_ = now_ns();
    end_ = start_ + duration;
    statistics().call_wait_ns += start_ - asked;
  };
  switch (cost.lock) {
    case CallLock::kProcess: {
      std::unique_lock held{process_lock()};
      start();
      (void)held.release();  // until end()
      break;
    }
    case CallLock::kProcessAtFirst: {
      const std::lock_guard lock{process_lock()};
      start();
      sleep_until(end_);
      break;
    }
    case CallLock::kContextAtFirst: {
      {
        const std::lock_guard others{process_lock()};
      }
      if (context == nullptr) break;
      const std::lock_guard lock{context->call_mutex};
      start();
      sleep_until(end_);
      break;
    }
    case CallLock::kNone:
      start();
      break;
  }
}

void CallScope::end() noexcept {
  open_call = nullptr;
  statistics().call_ns += end_ - start_;
  sleep_until(end_);
  if (cost_->lock == CallLock::kProcess) {
    const std::unique_lock held{process_lock(), std::adopt_lock};
  }
}

void charge_call(double nanoseconds) noexcept {
  if (open_call != nullptr) open_call->end_ += static_cast<Nanoseconds>(nanoseconds);
}

void charge_pinning(std::uint64_t bytes) noexcept {
  charge_call(static_cast<double>(bytes) * configuration().calls.pin_ns_per_byte());
}

void charge_host_page(std::uint64_t bytes) noexcept {
  if (open_call == nullptr) return;
  charge_call(-open_call->cost_->nanoseconds);
  charge_pinning(bytes);
}

void charge_busy_unmap() noexcept { charge_call(configuration().calls.busy_unmap_ns()); }

void charge_loading() noexcept { charge_call(configuration().calls.loading_ns()); }

}  // namespace simgpu
