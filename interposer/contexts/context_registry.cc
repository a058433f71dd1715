#include "interposer/contexts/context_registry.h"

#include <optional>

#include "interposer/allocators/memory_pools.h"
#include "interposer/driver/in_context.h"
#include "interposer/driver/loader.h"
#include "interposer/driver/primary_context.h"
#include "interposer/driver/process_memory.h"
#include "interposer/driver/table.h"
#include "interposer/log.h"
#include "interposer/process_configuration.h"

namespace superpipe {
namespace {

bool is_primary(CUcontext context, CUdevice device) {
  return active_primary_context(device) == context;
}

}  // namespace

ContextRegistry& ContextRegistry::of_process() noexcept {
  static auto* const registry = new ContextRegistry;
  return *registry;
}

ManagedContext* ContextRegistry::for_allocation() noexcept {
  ManagedContext* context = managed();
  if (context == nullptr) context = start();
  if (context == nullptr) return nullptr;
  CUcontext current = nullptr;
  if (driver().cuCtxGetCurrent(&current) != CUDA_SUCCESS) return nullptr;
  return current == context->context() || is_green_of(*context, current) ? context : nullptr;
}

// What is allocated where a green context is current belongs to the primary context.
bool ContextRegistry::is_green_of(const ManagedContext& context, CUcontext current) const noexcept {
  CUdevice device = 0;
  return references_.is_green(current) && driver().cuCtxGetDevice(&device) == CUDA_SUCCESS &&
         device == context.device() && is_primary(context.context(), device);
}

ManagedContext* ContextRegistry::for_current_device() noexcept {
  ManagedContext* const context = for_allocation();
  return context != nullptr ? context : if_on_current_device();
}

ManagedContext* ContextRegistry::if_on_current_device() const noexcept {
  ManagedContext* const context = managed();
  CUdevice device = 0;
  if (context == nullptr || driver().cuCtxGetDevice(&device) != CUDA_SUCCESS) return nullptr;
  return device == context->device() ? context : nullptr;
}

bool ContextRegistry::may_start() noexcept {
  const std::lock_guard lock(mutex_);
  return managed() == nullptr && !has_given_up_ && !is_closing_ && !process_configuration().off;
}

ManagedContext* ContextRegistry::start() noexcept {
  try {
    const Configuration& configuration = process_configuration();
    CUcontext context = nullptr;
    CUdevice device = 0;
    if (!may_start() || driver().cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr ||
        driver().cuCtxGetDevice(&device) != CUDA_SUCCESS || driver_is_too_old()) {
      return managed();  // or the driver will tell the program what is wrong
    }
    // Without the mutex: a library is opened for that, and who initialises another one may be
    // waiting for the mutex.
    std::optional<Bytes> own;
    if (configuration.limits_memory()) own = memory_of_this_process(device);
    std::unique_lock lock(mutex_);
    if (ManagedContext* const other = managed()) return other;
    if (has_given_up_) return nullptr;
    // While an earlier one still holds memory, the driver does not tell what a context takes.
    if (is_closing_) return nullptr;
    // The context of a green context is the primary one in disguise, and ends without its memory.
    if (references_.is_green(context)) context = active_primary_context(device);
    if (context == nullptr) return nullptr;
    const InContext in_context(context);
    ManagedContext::Created created =
        ManagedContext::create(context, device, configuration, buffers_so_far_, own);
    if (created.context == nullptr) {
      if (!created.problem.empty()) give_up(created.problem, configuration.strict);
      return nullptr;
    }
    (void)say_foreign_drivers();
    ManagedContext* const started = created.context.release();
    managed_.store(started, std::memory_order_release);
    lock.unlock();
    (void)open_to_peers();  // what it could not do is in the log
    started->start_kernel_times();
    say_allocator_when_aborted();
    return started;
  } catch (...) {
    return nullptr;  // out of host memory: the allocation that asked will find out too
  }
}

Status ContextRegistry::open_to_peers() noexcept {
  ManagedContext* const context = managed();
  if (context == nullptr) return Status::kOk;
  const CUdevice device = context->device();
  CUmemoryPool default_pool = nullptr;
  if (memory_pools().has_peers() &&
      driver().cuDeviceGetDefaultMemPool(&default_pool, device) != CUDA_SUCCESS) {
    default_pool = nullptr;  // the device has no pools
  }
  return context->open_to(peers_.of(context->context()) |
                          memory_pools().peers_of(device, default_pool));
}

// Says why no context will be managed, once. REQUIRES: mutex_ is held.
void ContextRegistry::give_up(const std::string& why, bool strict) {
  has_given_up_ = true;
  refuses_.store(strict);
  log_line(LogLevel::kError, why + (strict ? "; SUPERPIPE_STRICT=1, so allocations fail"
                                           : "; the program runs without superpipe"));
}

void ContextRegistry::close_managed() noexcept {
  ManagedContext* context = nullptr;
  {
    const std::lock_guard lock(mutex_);
    context = managed_.exchange(nullptr, std::memory_order_acq_rel);
    if (context == nullptr) return;
    is_closing_ = true;
  }
  // The driver waits for the context's work only when it destroys it, and what is queued still uses
  // buffers.
  context->synchronize();
  try {
    const RunFigures figures = context->figures();
    const std::lock_guard lock(mutex_);
    finished_ = finished_ ? merged(*finished_, figures) : figures;
  } catch (...) {
    // The statistics of this context are lost; its memory must go all the same.
  }
  memory_pools().forget_allocations();
  context->close();
  const std::lock_guard lock(mutex_);
  is_closing_ = false;
  buffers_so_far_ = context->residency().buffers_so_far();
  try {
    closed_.push_back(context);
  } catch (...) {
    // It then looks like a leak to a leak checker, and does no harm.
  }
}

void ContextRegistry::on_destroying(CUcontext context) noexcept {
  references_.on_destroying(context);
  ManagedContext* const current = managed();
  if (current == nullptr) return;
  // The driver refuses to destroy a primary context in this way: its buffers live on.
  if (current->context() == context && !is_primary(context, current->device())) {
    close_managed();
  } else {
    current->layouts().clear();  // handles of its modules may come again
  }
}

void ContextRegistry::on_primary_destroying(CUdevice device) noexcept {
  ManagedContext* const current = managed();
  if (current == nullptr) return;
  if (current->device() == device && is_primary(current->context(), device)) {
    close_managed();
  } else {
    current->layouts().clear();  // handles of its modules may come again
  }
}

void ContextRegistry::abandon() noexcept {
  ManagedContext* const context = managed_.exchange(nullptr, std::memory_order_acq_rel);
  if (context != nullptr) context->abandon();
}

std::optional<RunFigures> ContextRegistry::figures() const {
  const ManagedContext* const context = managed();
  const std::lock_guard lock(mutex_);
  if (context == nullptr) return finished_;
  const RunFigures current = context->figures();
  return finished_ ? merged(*finished_, current) : current;
}

}  // namespace superpipe
