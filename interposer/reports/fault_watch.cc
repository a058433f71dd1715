#include "interposer/reports/fault_watch.h"

#include "interposer/contexts/context_registry.h"
#include "interposer/contexts/managed_context.h"
#include "interposer/driver/hook_scope.h"

namespace superpipe {

void report_access_fault() noexcept {
  const HookScope scope;
  if (ManagedContext* const managed = ContextRegistry::managed()) managed->report_access_fault();
}

}  // namespace superpipe
