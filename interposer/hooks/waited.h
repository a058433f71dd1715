// Calls of the driver in which the program waits for the device.
#pragma once

#include "interposer/contexts/context_registry.h"
#include "interposer/driver/cuda_api.h"
#include "interposer/driver/hook_scope.h"
#include "interposer/hooks/traced.h"

namespace superpipe {

/// The program's call has waited: copies may be over whose sources are watched, and the program may
/// change these from now on.
[[gnu::noinline]] inline void look_after_wait(ManagedContext& managed) noexcept {
  const HookScope scope;
  if (!scope.passes_through()) managed.pins().look_at_watched();
}

/// Passes such a call on through `call`, and tells a trace, if one is recorded, how long it took.
template <typename Call>
CUresult waited(const Call& call) noexcept {
  ManagedContext* const managed = ContextRegistry::managed();
  if (managed == nullptr) return call();
  CUresult result;
  if (managed->trace() == nullptr) [[likely]] {
    result = call();
  } else {
    // What the driver calls in turn is a part of this wait.
    const HookScope scope;
    result =
        scope.passes_through() ? call() : traced_wait(managed->trace(), TraceWait::kDevice, call);
  }
  if (managed->pins().has_pending()) [[unlikely]]
    look_after_wait(*managed);
  return result;
}

}  // namespace superpipe
