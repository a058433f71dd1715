// Where interpreters of Python keep what tells a thread's frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace superpipe {

/// Offsets in bytes into the interpreter's structures, of which Python offers no functions that may
/// be called without its lock.
struct PythonLayout {
  /// What the owner of a frame says.
  enum class Owner {
    kIsOutermost,  ///< not 0: the frame is the outermost of a call of the interpreter
    kIsWho,        ///< 3 and more: the interpreter itself, behind the outermost frame of a call
  };

  std::size_t thread_frame;                 ///< in PyThreadState: the frame, or its _PyCFrame
  std::optional<std::size_t> cframe_frame;  ///< in _PyCFrame; nullopt: there is none
  std::size_t frame_code;
  std::size_t frame_previous;
  std::size_t frame_instruction;
  std::size_t frame_owner;  ///< a byte
  Owner owner;
  std::size_t object_type;
  std::size_t code_file;  ///< co_filename
  std::size_t code_name;  ///< co_qualname
  std::size_t code_instructions;
};

/// How many words of `_PyRuntime` python_layout() needs.
inline constexpr std::size_t kPythonRuntimeWords = 64;

/// The layout of the version `hex` (PY_VERSION_HEX), from 3.11 on. Those of 3.11 and 3.12 do not
/// change any more; 3.13 and 3.14 begin their `_PyRuntime` with a table for profilers
/// (_Py_DebugOffsets), of which `runtime` has the first words. Pure.
/// @return nullopt: it is not known, or the interpreter runs without a global lock.
[[nodiscard]] std::optional<PythonLayout> python_layout(std::uint32_t hex,
                                                        std::span<const std::uint64_t> runtime);

}  // namespace superpipe
