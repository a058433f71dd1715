// What the program marks through NVTX (NVIDIA's annotations), for the trace.
#pragma once

// Types only: the implementation is for programs that mark.
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

namespace superpipe {

/// Has NVTX load libsuperpipe.nvtx.so, which lies beside this library, and attaches it here. NVTX
/// takes one tool in a process, by NVTX_INJECTION64_PATH; where the user has set that to another,
/// it stays, and the log says that there will be no marks. Changes the environment: to be called
/// before the program's main.
void offer_to_nvtx() noexcept;

/// Receives the marks of one module of the program; NVTX is in each that uses it. `table`: NVTX's
/// own. Marks are told to the trace of the managed context, if there is one. Any thread.
/// @return whether this module has the functions that superpipe knows.
bool attach_to_nvtx(NvtxGetExportTableFunc_t table) noexcept;

}  // namespace superpipe
