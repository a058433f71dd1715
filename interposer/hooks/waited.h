// Calls of the driver in which the program waits for the device.
#pragma once

#include "interposer/context_registry.h"
#include "interposer/driver/cuda_api.h"
#include "interposer/driver/hook_scope.h"
#include "interposer/hooks/traced.h"

namespace superpipe {

/// Passes such a call on through `call`, and tells a trace, if one is recorded, how long it took.
template <typename Call>
CUresult waited(const Call& call) noexcept {
  ManagedContext* const managed = ContextRegistry::managed();
  TraceRecorder* const trace = managed != nullptr ? managed->trace() : nullptr;
  if (trace == nullptr) [[likely]] {
    return call();
  }
  // What the driver calls in turn is a part of this wait.
  const HookScope scope;
  return scope.passes_through() ? call() : traced_wait(trace, TraceWait::kDevice, call);
}

}  // namespace superpipe
