#include "interposer/python/python_layout.h"

#include <algorithm>
#include <array>
#include <bit>
#include <initializer_list>

namespace superpipe {
namespace {

// Source: CPython's Include/cpython/code.h and pystate.h, Include/internal/pycore_frame.h, where
// pointers have 8 bytes.
constexpr PythonLayout kLayout311{.thread_frame = 56,
                                  .cframe_frame = 8,
                                  .frame_code = 32,
                                  .frame_previous = 48,
                                  .frame_instruction = 56,
                                  .frame_owner = 68,
                                  .owner = PythonLayout::Owner::kIsOutermost,
                                  .object_type = 8,
                                  .code_file = 112,
                                  .code_name = 128,
                                  .code_instructions = 184};
constexpr PythonLayout kLayout312{.thread_frame = 56,
                                  .cframe_frame = 0,
                                  .frame_code = 0,
                                  .frame_previous = 8,
                                  .frame_instruction = 56,
                                  .frame_owner = 70,
                                  .owner = PythonLayout::Owner::kIsWho,
                                  .object_type = 8,
                                  .code_file = 112,
                                  .code_name = 128,
                                  .code_instructions = 192};

/// Where _Py_DebugOffsets has what is needed, in words. Its groups begin with the size of a
/// structure. Source: CPython's Include/internal/pycore_runtime.h of 3.13, and
/// pycore_debug_offsets.h of 3.14.
struct OffsetTable {
  std::size_t thread_frame;
  std::size_t frame;   // previous, executable, instr_ptr, localsplus, owner
  std::size_t code;    // filename, name, qualname, then six others and the instructions
  std::size_t object;  // size of PyObject, then its type
};
constexpr OffsetTable kTable313{23, 29, 35, 44};
constexpr OffsetTable kTable314{26, 32, 40, 50};

constexpr std::size_t kCookie = 0;
constexpr std::size_t kVersion = 1;
constexpr std::size_t kIsFreeThreaded = 2;
constexpr std::array<char, 8> kCookieText{'x', 'd', 'e', 'b', 'u', 'g', 'p', 'y'};
constexpr std::uint64_t kObjectBytes = 16;
constexpr std::uint64_t kMostOffset = 4096;

std::optional<PythonLayout> layout_by(const OffsetTable& table, std::uint32_t hex,
                                      std::span<const std::uint64_t> runtime) {
  if (runtime.size() < kPythonRuntimeWords) return std::nullopt;
  const bool is_table = runtime[kCookie] == std::bit_cast<std::uint64_t>(kCookieText) &&
                        runtime[kVersion] == hex && runtime[table.object] == kObjectBytes;
  if (!is_table || runtime[kIsFreeThreaded] != 0) return std::nullopt;
  const PythonLayout layout{.thread_frame = runtime[table.thread_frame],
                            .cframe_frame = std::nullopt,
                            .frame_code = runtime[table.frame + 1],
                            .frame_previous = runtime[table.frame],
                            .frame_instruction = runtime[table.frame + 2],
                            .frame_owner = runtime[table.frame + 4],
                            .owner = PythonLayout::Owner::kIsWho,
                            .object_type = runtime[table.object + 1],
                            .code_file = runtime[table.code],
                            .code_name = runtime[table.code + 2],
                            .code_instructions = runtime[table.code + 8]};
  const auto offsets = {layout.thread_frame, layout.frame_code,  layout.frame_previous,
                        layout.frame_owner,  layout.object_type, layout.frame_instruction,
                        layout.code_file,    layout.code_name,   layout.code_instructions};
  const bool can_be = std::ranges::all_of(offsets, [](auto at) { return at < kMostOffset; });
  return can_be ? std::optional(layout) : std::nullopt;
}

}  // namespace

std::optional<PythonLayout> python_layout(std::uint32_t hex,
                                          std::span<const std::uint64_t> runtime) {
  switch (hex >> 16) {
    case 0x030B:
      return kLayout311;
    case 0x030C:
      return kLayout312;
    case 0x030D:
      return layout_by(kTable313, hex, runtime);
    case 0x030E:
      return layout_by(kTable314, hex, runtime);
    default:
      return std::nullopt;
  }
}

}  // namespace superpipe
