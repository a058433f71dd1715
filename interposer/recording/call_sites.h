// Where in the program a call comes from.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "interposer/python/python_frames.h"
#include "profiler/trace_recorder.h"

namespace superpipe {

/// Opens libunwind, the machine's or that of superpipe's package, where there is one, and finds the
/// program's interpreter of Python, if it has one. To be called before the program's main: later, a
/// thread that loads a library could wait for one that is in a hook, and that one for the loader's
/// lock.
void open_call_sites() noexcept;

/// Where a call comes from.
struct CallSite {
  std::array<void*, 64> addresses;     ///< return addresses, innermost first; filled up to `count`
  std::size_t count = 0;               ///< 0: it is not known
  std::array<PythonFrame, 64> python;  ///< innermost first; filled up to `python_count`
  std::size_t python_count = 0;

  [[nodiscard]] std::span<void* const> frames() const { return std::span(addresses).first(count); }
  [[nodiscard]] std::uint64_t hash() const noexcept;
  /// The frames of Python as PythonFrames::describe() has them. REQUIRES: they are still on this
  /// thread's stack. Throws std::bad_alloc.
  [[nodiscard]] std::string python_lines() const;
};

/// The call site of the hook that is running on this thread: its frames of native code, and those
/// of Python. Takes no lock but the log's, once. Not known where open_call_sites() found no
/// libunwind, which the log says once.
[[nodiscard]] CallSite call_site_of_hook() noexcept;

/// The same for `trace`, whose writing thread names the frames (FrameNames). Takes the recorder's
/// lock, and not the loader's. @return 0 where it is not known, or without host memory.
[[nodiscard]] TraceIndex call_site_of_hook(TraceRecorder& trace) noexcept;

/// Names the frames of call sites, each address once. For one thread at a time.
///
/// Asks the loader, which holds its lock meanwhile and looks through all names that a module
/// exports: milliseconds with a large one. Therefore not for a thread of the program's.
class FrameNames {
 public:
  /// One line a frame, innermost first, without those of superpipe's library:
  /// "FUNCTION+0xOFFSET MODULE+0xOFFSET"; a question mark stands for what is not known. Instead of
  /// the interpreter's own function there are the frames of Python that it ran, of
  /// CallSite::python_lines(), and behind all others those for which there is no such function.
  [[nodiscard]] std::string describe(std::span<void* const> frames, std::string_view python);

 private:
  /// Of superpipe's own library: empty.
  const std::string& line_of(void* address);

  std::unordered_map<void*, std::string> lines_;
};

}  // namespace superpipe
