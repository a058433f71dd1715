// The end of modules and libraries: cached layouts go before the functions that they describe.
#include "interposer/context_registry.h"
#include "interposer/copy_recorder.h"
#include "interposer/driver/table.h"
#include "interposer/generated/hooks.h"
#include "interposer/passthrough/passthrough_allocation.h"

namespace superpipe {
namespace {

/// Unloads code through `call`; `forget` has its layouts forgotten.
template <typename Forget, typename Call>
CUresult unload(const Forget& forget, const Call& call) noexcept {
  // First, because the driver may give the same handles to other functions as soon as it has freed
  // them.
  if (ManagedContext* const managed = ContextRegistry::managed()) forget(managed->layouts());
  if (CopyRecorder* const recorder = CopyRecorder::of_process()) recorder->forget_kernels();
  return change_passthrough(PassthroughChange::kFree, call);
}

}  // namespace

CUresult hook::cuModuleUnload(CUmodule hmod) noexcept {
  return unload([&](KernelLayoutCache& layouts) { layouts.forget_module(hmod); },
                [&] { return driver().cuModuleUnload(hmod); });
}
CUresult hook::cuLibraryUnload(CUlibrary library) noexcept {
  return unload([&](KernelLayoutCache& layouts) { layouts.forget_library(library); },
                [&] { return driver().cuLibraryUnload(library); });
}

}  // namespace superpipe
