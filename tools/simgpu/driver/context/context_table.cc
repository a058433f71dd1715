#include "tools/simgpu/driver/context/context_table.h"

#include <utility>

#include "tools/simgpu/driver/context/green_context.h"
#include "tools/simgpu/driver/entry/handle_table.h"
#include "tools/simgpu/driver/graphs/capture.h"
#include "tools/simgpu/driver/memory/address_space.h"
#include "tools/simgpu/driver/memory/host_memory.h"
#include "tools/simgpu/driver/memory/pool_table.h"
#include "tools/simgpu/driver/process/configuration.h"
#include "tools/simgpu/driver/streams/event.h"
#include "tools/simgpu/driver/streams/stream_table.h"

namespace simgpu {
namespace {

std::mutex& hooks_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}
std::vector<std::function<void(Context&)>>& hooks() {
  static auto* const list = new std::vector<std::function<void(Context&)>>;
  return *list;
}

void run_hooks(Context& context) {
  std::vector<std::function<void(Context&)>> list;
  {
    const std::lock_guard lock{hooks_mutex()};
    list = hooks();
  }
  for (const auto& hook : list) hook(context);
}

}  // namespace

ContextTable& ContextTable::instance() {
  static auto* const table = new ContextTable;
  return *table;
}

Context& ContextTable::primary(Device& device) {
  const std::lock_guard lock{mutex_};
  for (const auto& context : contexts_) {
    if (context->primary() && &context->device() == &device) return *context;
  }
  contexts_.push_back(std::make_unique<Context>(device, true, CU_CTX_SCHED_AUTO, next_object_id()));
  return *contexts_.back();
}

Context* ContextTable::find(CUcontext handle) {
  const std::lock_guard lock{mutex_};
  for (const auto& context : contexts_) {
    if (context->handle() == handle) return context.get();
  }
  return nullptr;
}

CUresult ContextTable::retain_primary(Device& device, Context** out) {
  Context& context = primary(device);
  const std::lock_guard lock{primaries_mutex_};
  int& count = retained_[static_cast<std::size_t>(device.ordinal())];
  if (count == 0) {
    if (!device.take(configuration().context_bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    activate(context);
  }
  ++count;
  *out = &context;
  return CUDA_SUCCESS;
}

CUresult ContextTable::release_primary(Device& device, bool reset) {
  Context& context = primary(device);
  const std::lock_guard lock{primaries_mutex_};
  int& count = retained_[static_cast<std::size_t>(device.ordinal())];
  if (count == 0) return reset ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
  count = reset ? 0 : count - 1;
  if (count == 0) tear_down(context);
  return CUDA_SUCCESS;
}

bool ContextTable::primary_active(Device& device) { return primary(device).alive(); }

CUresult ContextTable::create(Device& device, unsigned flags, Context** out) {
  if (!device.take(configuration().context_bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  auto context = std::make_unique<Context>(device, false, flags, next_object_id());
  activate(*context);
  *out = context.get();
  const std::lock_guard lock{mutex_};
  contexts_.push_back(std::move(context));
  return CUDA_SUCCESS;
}

CUresult ContextTable::destroy(Context& context) {
  if (context.primary() || !context.alive()) return CUDA_ERROR_INVALID_CONTEXT;
  tear_down(context);
  return CUDA_SUCCESS;
}

void ContextTable::activate(Context& context) { context.alive_ = true; }

void ContextTable::forget_peers_of(Context& context) {
  const std::lock_guard lock{mutex_};
  for (const auto& other : contexts_) {
    context.cease_peer_of(*other);
    other->cease_peer_of(context);
  }
}

void ContextTable::tear_down(Context& context) {
  forget_captures_of(context);
  synchronize(context);
  run_hooks(context);
  context.alive_ = false;
  forget_peers_of(context);
  close_streams_of(context);
  destroy_events_of(context);
  release_pool_memory_of(context);
  AddressSpace::instance().allocations().remove_all_of(context);
  release_host_memory_of(context);
  context.device().give_back(configuration().context_bytes);
}

Context* find_context(CUcontext handle) noexcept {
  if (GreenContext* const green = GreenContext::find(handle)) return &green->primary();
  return ContextTable::instance().find(handle);
}

void on_context_destroy(std::function<void(Context&)> hook) {
  const std::lock_guard lock{hooks_mutex()};
  hooks().push_back(std::move(hook));
}

}  // namespace simgpu
