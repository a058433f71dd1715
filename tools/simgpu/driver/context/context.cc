// One context, and the calling thread's stack of current ones.
#include "tools/simgpu/driver/context/context.h"

#include "tools/simgpu/driver/context/green_context.h"

namespace simgpu {
namespace {

/// The calling thread's stack of current contexts. Without a destructor: calls may come while the
/// thread ends.
struct CurrentStack {
  static constexpr int kDeepest = 64;  // static TLS, of which a late library gets little
  Current entries[kDeepest];
  int depth;
};
thread_local CurrentStack current_stack{};

}  // namespace

Context::Context(Device& device, bool primary, unsigned flags, std::uint64_t id)
    : device_(device), primary_(primary), id_(id), flags_(flags) {}

void Context::set_sticky_error(CUresult error) {
  CUresult none = CUDA_SUCCESS;
  sticky_.compare_exchange_strong(none, error);
}

bool Context::is_peer_of(const Context& owner) const {
  const std::lock_guard lock{peers_mutex_};
  return owners_.count(&owner) != 0;
}

bool Context::become_peer_of(const Context& owner) {
  const std::lock_guard lock{peers_mutex_};
  return owners_.insert(&owner).second;
}

bool Context::cease_peer_of(const Context& owner) {
  const std::lock_guard lock{peers_mutex_};
  return owners_.erase(&owner) != 0;
}

Current current() noexcept {
  return current_stack.depth == 0 ? Current{} : current_stack.entries[current_stack.depth - 1];
}

Context* current_context() noexcept { return current().context; }

GreenContext* current_green_context() noexcept { return current().green; }

CUcontext Current::handle() const {
  if (green != nullptr) return green->context_handle();
  return context == nullptr ? nullptr : context->handle();
}

CUresult check_context(const Context* context) noexcept {
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!context->alive()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return context->sticky_error();
}

bool push_current(Current current) noexcept {
  if (current_stack.depth == CurrentStack::kDeepest) return false;
  current_stack.entries[current_stack.depth++] = current;
  return true;
}

Current pop_current() noexcept {
  return current_stack.depth == 0 ? Current{} : current_stack.entries[--current_stack.depth];
}

}  // namespace simgpu
