#include "interposer/fault_watch.h"

#include "interposer/context_registry.h"
#include "interposer/driver/hook_scope.h"
#include "interposer/managed_context.h"

namespace superpipe {

void report_access_fault() noexcept {
  const HookScope scope;
  if (ManagedContext* const managed = ContextRegistry::managed()) managed->report_access_fault();
}

}  // namespace superpipe
