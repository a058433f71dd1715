// Where in the program a call comes from.
#pragma once

#include <cstdint>
#include <string>

#include "profiler/trace_recorder.h"

namespace superpipe {

/// The call site of the hook that is running on this thread, for `trace`: the frames of native code
/// outside superpipe's library, at most 64. Of a Python program these are the interpreter's own and
/// those of its extensions; the names of Python's functions are not read.
///
/// Uses libunwind, which is opened when this is first called. Takes a lock; the frames of a site
/// are named once. @return 0 where there is no libunwind, which the log says, or no host memory.
[[nodiscard]] TraceIndex call_site_of_hook(TraceRecorder& trace) noexcept;

}  // namespace superpipe
