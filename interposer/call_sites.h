// Where in the program a call comes from.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "profiler/trace_recorder.h"

namespace superpipe {

/// Opens libunwind, where it is. To be called before the program's main: later, a thread that loads
/// a library could wait for one that is in a hook, and that one for the loader's lock.
void open_libunwind() noexcept;

/// The call site of the hook that is running on this thread, for `trace`: its frames, at most 64,
/// of native code. Of a Python program these are the interpreter's own and those of its extensions;
/// the names of Python's functions are not read. The frames are named by the thread that writes the
/// trace (FrameNames). Takes the recorder's lock, and not the loader's.
/// @return 0 where open_libunwind() found none, which the log says once, or no host memory.
[[nodiscard]] TraceIndex call_site_of_hook(TraceRecorder& trace) noexcept;

/// Names the frames of call sites, each address once. For one thread at a time.
///
/// Asks the loader, which holds its lock meanwhile and looks through all names that a module
/// exports: milliseconds with a large one. Therefore not for a thread of the program's.
class FrameNames {
 public:
  /// One line a frame, innermost first, without those of superpipe's library:
  /// "FUNCTION+0xOFFSET MODULE+0xOFFSET"; a question mark stands for what is not known.
  [[nodiscard]] std::string describe(std::span<void* const> frames);

 private:
  /// Of superpipe's own library: empty.
  const std::string& line_of(void* address);

  std::unordered_map<void*, std::string> lines_;
};

}  // namespace superpipe
