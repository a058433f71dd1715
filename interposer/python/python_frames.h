// The frames of Python on the calling thread, read without the interpreter's lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "interposer/python/python_layout.h"

namespace superpipe {

/// A frame of Python, as the interpreter has it. Its objects exist as long as the function runs.
struct PythonFrame {
  const void* code = nullptr;  ///< of the function; null: this only ends a call
  const void* name =
      nullptr;  ///< with `file`, tells the function from one whose code was here before
  const void* file = nullptr;
  int instruction = 0;     ///< that it is at, in bytes from its first one
  bool ends_call = false;  ///< native code called the interpreter to run it
};

/// Reads the frames of the calling thread out of the interpreter's structures, as profilers do.
///
/// Frameworks let go of the interpreter's lock before they allocate, and hold locks of their own
/// meanwhile: who waited for it here could stop the program for good. What is read does not
/// change: it belongs to functions that are on this thread's stack, under the hook. Whether the
/// structures are as this class takes them to be is looked at once, with reads that cannot fault;
/// where they are not, nothing is read any more, and the log says so. Thread-safe.
class PythonFrames {
 public:
  /// What the interpreter exports. None of these takes a lock, or host memory, as they are used.
  struct Interpreter {
    int (*is_initialized)();                        ///< Py_IsInitialized
    void* (*thread_state)();                        ///< PyGILState_GetThisThreadState
    int (*line)(void* code, int instruction);       ///< PyCode_Addr2Line
    std::ptrdiff_t (*length)(void* text);           ///< PyUnicode_GetLength
    std::uint32_t (*character)(void* text,          //
                               std::ptrdiff_t at);  ///< PyUnicode_ReadChar
    const void* type_of_code;                       ///< PyCode_Type
    const void* type_of_text;                       ///< PyUnicode_Type
  };

  /// `layout`: nullopt: it is not known, and there are no frames, which the log says when a thread
  /// of Python asks for its own first.
  PythonFrames(const Interpreter& interpreter, const std::optional<PythonLayout>& layout)
      : interpreter_(interpreter), layout_(layout) {}

  /// Fills `frames`, innermost first. @return how many there are; 0 on a thread without any, and
  /// once the interpreter has begun to end.
  std::size_t walk(std::span<PythonFrame> frames) noexcept;

  /// A line for each frame, "FUNCTION FILE:LINE" in UTF-8, and an empty one where a call of the
  /// interpreter ends. Frames of the interpreter's own, which no line of a file stands for, are
  /// left out. REQUIRES: the frames are still on this thread's stack. Throws std::bad_alloc.
  [[nodiscard]] std::string describe(std::span<const PythonFrame> frames) const;

 private:
  enum class Fit { kNotKnown, kFits, kDoesNot };

  /// The calling thread's state; null: it has none.
  [[nodiscard]] void* thread_state() const noexcept;
  [[nodiscard]] Fit look(void* thread) noexcept;
  [[nodiscard]] int line_of(const PythonFrame& frame) const;
  void append_text(std::string& line, const void* text, bool may_have_spaces) const;

  const Interpreter interpreter_;
  const std::optional<PythonLayout> layout_;
  std::atomic<Fit> fit_{Fit::kNotKnown};
};

/// The interpreter that the program is linked with, of which it finds the names. Asks the loader:
/// to be called before the program's main. @return null: there is none.
[[nodiscard]] std::unique_ptr<PythonFrames> find_python();

}  // namespace superpipe
