// Modules and libraries: which handles are kernels, and at the end of their code, cached layouts go
// before the functions that they describe.
#include "interposer/contexts/context_registry.h"
#include "interposer/driver/table.h"
#include "interposer/generated/hooks.h"
#include "interposer/kernels/kernel_handles.h"
#include "interposer/passthrough/passthrough_allocation.h"
#include "interposer/recording/copy_recorder.h"

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

CUresult hook::cuLibraryGetKernel(CUkernel* pKernel, CUlibrary library, const char* name) noexcept {
  const CUresult result = driver().cuLibraryGetKernel(pKernel, library, name);
  if (result == CUDA_SUCCESS) KernelHandles::of_process().note(*pKernel, library);
  return result;
}

CUresult hook::cuLibraryEnumerateKernels(CUkernel* kernels, unsigned int numKernels,
                                         CUlibrary lib) noexcept {
  const CUresult result = driver().cuLibraryEnumerateKernels(kernels, numKernels, lib);
  if (result != CUDA_SUCCESS) return result;
  // The driver may have fewer.
  unsigned int count = 0;
  if (driver().cuLibraryGetKernelCount(&count, lib) != CUDA_SUCCESS) return result;
  for (unsigned int i = 0; i < numKernels && i < count; ++i) {
    KernelHandles::of_process().note(kernels[i], lib);
  }
  return result;
}

CUresult hook::cuModuleUnload(CUmodule hmod) noexcept {
  return unload([&](KernelLayoutCache& layouts) { layouts.forget_module(hmod); },
                [&] { return driver().cuModuleUnload(hmod); });
}
CUresult hook::cuLibraryUnload(CUlibrary library) noexcept {
  KernelHandles::of_process().forget(library);
  return unload([&](KernelLayoutCache& layouts) { layouts.forget_library(library); },
                [&] { return driver().cuLibraryUnload(library); });
}

}  // namespace superpipe
