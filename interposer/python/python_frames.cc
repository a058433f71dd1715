#include "interposer/python/python_frames.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "interposer/kernels/readable_memory.h"
#include "interposer/log.h"

namespace superpipe {
namespace {

using Interpreter = PythonFrames::Interpreter;

// What owns a frame that the interpreter makes for itself; also higher.
constexpr std::uint8_t kOwnedByInterpreter = 3;
// Of 3.14, whose frames have pointers to code with marks in the lowest bits.
constexpr std::uintptr_t kMarks = 3;
// Frames that are followed to find those of functions.
constexpr int kMostFollowed = 1024;
// Longer than any function's.
constexpr std::ptrdiff_t kMostInstructionBytes = 1 << 24;
constexpr std::ptrdiff_t kMostCharacters = 512;

/// Reads what is known to be there.
struct Direct {
  static constexpr bool kIsCareful = false;

  [[nodiscard]] static bool was_refused() { return false; }

  template <typename Value>
  std::optional<Value> read(const void* base, std::size_t offset) {
    Value value;
    std::memcpy(&value, static_cast<const std::byte*>(base) + offset, sizeof value);
    return value;
  }
};

/// Reads what may not be there.
struct Careful {
  static constexpr bool kIsCareful = true;

  /// Whether the kernel could not be asked.
  [[nodiscard]] bool was_refused() const { return was_refused_; }

  template <typename Value>
  std::optional<Value> read(const void* base, std::size_t offset) {
    Value value;
    const auto size =
        read_if_readable(static_cast<const std::byte*>(base) + offset, &value, sizeof value);
    was_refused_ = was_refused_ || !size;
    return size == sizeof value ? std::optional(value) : std::nullopt;
  }

 private:
  bool was_refused_ = false;
};

/// Follows a thread's frames with the reads of `Read`.
template <typename Read>
class Walk {
 public:
  Walk(const Interpreter& interpreter, const PythonLayout& layout, std::span<PythonFrame> frames)
      : interpreter_(interpreter), layout_(layout), frames_(frames) {}

  /// Fills the frames up to the first thing that is not as it should be. @return whether all was.
  bool follow(const void* thread) {
    auto next = first_frame(thread);
    for (int i = 0; next && *next != nullptr && i < kMostFollowed; ++i) {
      if (count_ == frames_.size()) return true;
      if (!take(*next)) return false;
      next = pointer(*next, layout_.frame_previous);
    }
    return next.has_value();
  }

  [[nodiscard]] std::size_t count() const { return count_; }
  /// Whether nothing can be said, because a read was not possible at all.
  [[nodiscard]] bool was_refused() const { return read_.was_refused(); }

 private:
  [[nodiscard]] std::optional<const void*> pointer(const void* base, std::size_t offset) {
    return read_.template read<const void*>(base, offset);
  }
  [[nodiscard]] static const void* without_marks(const void* pointer) {
    return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(pointer) & ~kMarks);
  }
  [[nodiscard]] std::optional<const void*> first_frame(const void* thread) {
    const auto first = pointer(thread, layout_.thread_frame);
    if (!layout_.cframe_frame || !first || *first == nullptr) return first;
    return pointer(*first, *layout_.cframe_frame);
  }
  [[nodiscard]] bool is_of(const void* object, const void* type) {
    return object != nullptr && pointer(object, layout_.object_type) == type;
  }

  bool take(const void* frame) {
    const auto owner = read_.template read<std::uint8_t>(frame, layout_.frame_owner);
    const auto code = pointer(frame, layout_.frame_code);
    if (!owner || !code) return false;
    const bool says_who = layout_.owner == PythonLayout::Owner::kIsWho;
    if (says_who && *owner >= kOwnedByInterpreter) {
      end_call();
      return true;
    }
    const auto found = frame_of(frame, without_marks(*code));
    if (!found) return false;
    if (found->instruction >= 0) {  // else it has not begun
      frames_[count_++] = *found;
      is_within_call_ = true;
    }
    if (!says_who && *owner != 0) end_call();
    return true;
  }

  // What was taken last is the outermost of a call; where nothing was, that has a place all the
  // same.
  void end_call() {
    if (!std::exchange(is_within_call_, false)) {
      if (count_ < frames_.size()) frames_[count_++] = {nullptr, nullptr, nullptr, 0, true};
    } else {
      frames_[count_ - 1].ends_call = true;
    }
  }

  /// nullopt: `code` is none, or at least not as it should be.
  [[nodiscard]] std::optional<PythonFrame> frame_of(const void* frame, const void* code) {
    if (!is_of(code, interpreter_.type_of_code)) return std::nullopt;
    const auto name = pointer(code, layout_.code_name);
    const auto file = pointer(code, layout_.code_file);
    const auto at = pointer(frame, layout_.frame_instruction);
    if (!name || !file || !at) return std::nullopt;
    if (Read::kIsCareful && !is_of(*name, interpreter_.type_of_text)) return std::nullopt;
    const auto first = reinterpret_cast<std::uintptr_t>(code) + layout_.code_instructions;
    const auto instruction =
        static_cast<std::ptrdiff_t>(reinterpret_cast<std::uintptr_t>(*at) - first);
    if (instruction < -kMostInstructionBytes || instruction > kMostInstructionBytes) {
      return std::nullopt;
    }
    return PythonFrame{code, *name, *file, static_cast<int>(instruction), false};
  }

  const Interpreter& interpreter_;
  const PythonLayout& layout_;
  const std::span<PythonFrame> frames_;
  Read read_;
  std::size_t count_ = 0;
  bool is_within_call_ = false;  // the last frame that was taken may not be the outermost of it
};

void append_utf8(std::string& text, std::uint32_t character) {
  const auto add = [&](std::uint32_t bits) { text += static_cast<char>(bits); };
  const auto add_following = [&](int shift) { add(0x80 | ((character >> shift) & 0x3F)); };
  if (character < 0x80) {
    add(character);
  } else if (character < 0x800) {
    add(0xC0 | (character >> 6));
    add_following(0);
  } else if (character < 0x1'0000) {
    add(0xE0 | (character >> 12));
    add_following(6);
    add_following(0);
  } else {
    add(0xF0 | (character >> 18));
    add_following(12);
    add_following(6);
    add_following(0);
  }
}

// Whether it may be shown in a line of text: neither a control character nor one that turns the
// direction of what follows, or begins another line.
bool is_printable(std::uint32_t character) {
  const auto is_within = [character](std::uint32_t first, std::uint32_t last) {
    return character >= first && character <= last;
  };
  const bool is_control = character < 0x20 || is_within(0x7F, 0x9F);
  const bool is_separator = is_within(0x2028, 0x2029);
  const bool is_direction = is_within(0x202A, 0x202E) || is_within(0x2066, 0x2069);
  const bool is_surrogate = is_within(0xD800, 0xDFFF);
  return !is_control && !is_separator && !is_direction && !is_surrogate && character < 0x11'0000;
}

}  // namespace

std::size_t PythonFrames::walk(std::span<PythonFrame> frames) noexcept {
  void* const thread = thread_state();
  if (thread == nullptr) return 0;
  Fit fit = fit_.load(std::memory_order_relaxed);
  if (fit == Fit::kNotKnown) fit = look(thread);
  if (fit != Fit::kFits) return 0;
  Walk<Direct> walk(interpreter_, *layout_, frames);
  (void)walk.follow(thread);
  return walk.count();
}

/// Threads outlive the states that an interpreter at its end takes away from them.
void* PythonFrames::thread_state() const noexcept {
  return interpreter_.is_initialized() != 0 ? interpreter_.thread_state() : nullptr;
}

/// Whether the frames of the thread with this state can be read. Not known if it has none.
PythonFrames::Fit PythonFrames::look(void* thread) noexcept {
  bool fits = false;
  if (layout_) {
    std::array<PythonFrame, 64> frames;
    Walk<Careful> walk(interpreter_, *layout_, frames);
    fits = walk.follow(thread);
    if (walk.was_refused() || (fits && walk.count() == 0)) return Fit::kNotKnown;
  }
  Fit fit = Fit::kNotKnown;
  const Fit found = fits ? Fit::kFits : Fit::kDoesNot;
  if (!fit_.compare_exchange_strong(fit, found)) return fit;
  if (!fits) {
    log_line(LogLevel::kWarning,
             layout_ ? "call sites have no frames of Python: this interpreter keeps them in "
                       "another way than others of its version"
                     : "call sites have no frames of Python: they are known of CPython 3.11 to "
                       "3.14, with the global interpreter lock");
  }
  return found;
}

std::string PythonFrames::describe(std::span<const PythonFrame> frames) const {
  std::string text;
  for (const PythonFrame& frame : frames) {
    const int line = frame.code == nullptr ? 0 : line_of(frame);
    if (line > 0) {
      append_text(text, frame.name, false);
      text += ' ';
      append_text(text, frame.file, true);
      text += ':' + std::to_string(line) + '\n';
    }
    if (frame.ends_call) text += '\n';
  }
  return text;
}

/// That of its instruction; of one without a line, the function's first. 0 or less: it has none.
int PythonFrames::line_of(const PythonFrame& frame) const {
  void* const code = const_cast<void*>(frame.code);
  const int line = interpreter_.line(code, frame.instruction);
  return line > 0 ? line : interpreter_.line(code, -1);
}

void PythonFrames::append_text(std::string& line, const void* text, bool may_have_spaces) const {
  void* const object = const_cast<void*>(text);
  if (object == nullptr ||
      Direct{}.read<const void*>(object, layout_->object_type) != interpreter_.type_of_text) {
    line += '?';  // a type of the program's own may do anything
    return;
  }
  const std::ptrdiff_t length = std::min(interpreter_.length(object), kMostCharacters);
  for (std::ptrdiff_t i = 0; i < length; ++i) {
    std::uint32_t character = interpreter_.character(object, i);
    if (!is_printable(character)) character = '?';
    if (character == ' ' && !may_have_spaces) character = '_';
    append_utf8(line, character);
  }
}

std::unique_ptr<PythonFrames> find_python() {
  bool has_all = true;
  const auto find = [&]<typename Pointer>(Pointer& to, const char* name) {
    void* const found = ::dlsym(RTLD_DEFAULT, name);
    has_all = has_all && found != nullptr;
    to = reinterpret_cast<Pointer>(found);
  };
  Interpreter interpreter{};
  const unsigned long* version = nullptr;
  const void* runtime = nullptr;
  find(runtime, "_PyRuntime");
  find(interpreter.is_initialized, "Py_IsInitialized");
  find(interpreter.thread_state, "PyGILState_GetThisThreadState");
  find(interpreter.line, "PyCode_Addr2Line");
  find(interpreter.length, "PyUnicode_GetLength");
  find(interpreter.character, "PyUnicode_ReadChar");
  find(interpreter.type_of_code, "PyCode_Type");
  find(interpreter.type_of_text, "PyUnicode_Type");
  if (!has_all) return nullptr;
  find(version, "Py_Version");
  if (version == nullptr) return std::make_unique<PythonFrames>(interpreter, std::nullopt);
  std::array<std::uint64_t, kPythonRuntimeWords> words;
  std::memcpy(words.data(), runtime, sizeof words);
  const auto layout = python_layout(static_cast<std::uint32_t>(*version), words);
  return std::make_unique<PythonFrames>(interpreter, layout);
}

}  // namespace superpipe
