// libsuperpipe.nvtx.so, which NVTX loads where a trace is recorded, and which leads to
// libsuperpipe.so.
//
// A library of its own, because NVTX loads by file: in a process without the preload nothing must
// come of it but this.

#include <dlfcn.h>

#include "interposer/nvtx/nvtx_marks.h"

extern "C" {

/// NVTX calls this in each module that marks. @return 1 if superpipe listens.
__attribute__((visibility("default"))) int
InitializeInjectionNvtx2(  // NOLINT(readability-identifier-naming): NVTX looks for this name
    NvtxGetExportTableFunc_t table) {
  using Attach = int (*)(NvtxGetExportTableFunc_t);
  const auto attach = reinterpret_cast<Attach>(::dlsym(RTLD_DEFAULT, "superpipe_attach_to_nvtx"));
  return attach != nullptr ? attach(table) : 0;
}

}  // extern "C"
