// Frames of Python, out of structures as interpreters have them.
#include "interposer/python/python_frames.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace superpipe {
namespace {

constexpr std::uint8_t kShim = 3;

alignas(8) const char code_type = 0;
alignas(8) const char text_type = 0;

/// Of "3.11", "3.12" or "3.13", of which the last has no _PyCFrame.
PythonLayout layout_of(const std::string& version) {
  auto layout = python_layout(version == "3.11" ? 0x030B00F0 : 0x030C00F0, {});
  if (version == "3.13") {
    layout->cframe_frame.reset();
    layout->thread_frame = 72;
    layout->code_instructions = 208;
  }
  return *layout;
}

/// What a thread of an interpreter has in memory.
class FakeInterpreter {
 public:
  explicit FakeInterpreter(const std::string& version) : layout_(layout_of(version)) {
    thread = block();
    is_initialized = true;
    if (!layout_.cframe_frame) return;
    cframe_ = block();
    put(thread, layout_.thread_frame, cframe_);
  }

  [[nodiscard]] PythonFrames frames() const { return frames_of(layout_); }
  [[nodiscard]] static PythonFrames frames_of(const std::optional<PythonLayout>& layout) {
    PythonFrames::Interpreter interpreter{};
    interpreter.is_initialized = [] { return is_initialized ? 1 : 0; };
    interpreter.thread_state = []() -> void* { return thread; };
    interpreter.line = [](void*, int instruction) {
      if (instruction == kHasNoLine) return -1;
      return instruction == -1 ? first_line : 100 + instruction;
    };
    interpreter.length = [](void* text) {
      return static_cast<std::ptrdiff_t>(text_of(text).size());
    };
    interpreter.character = [](void* text, std::ptrdiff_t at) -> std::uint32_t {
      return text_of(text)[static_cast<std::size_t>(at)];
    };
    interpreter.type_of_code = &code_type;
    interpreter.type_of_text = &text_type;
    return {interpreter, layout};
  }

  [[nodiscard]] bool marks_outermost() const {
    return layout_.owner == PythonLayout::Owner::kIsOutermost;
  }

  /// A call of the interpreter, which runs functions of these names; the last one is the innermost.
  void call(const std::vector<std::u32string>& functions) {
    if (!marks_outermost()) push(block(), kShim, 0);
    bool is_outermost = true;
    for (const std::u32string& name : functions) {
      push(code(name, U"/my code/a.py"), marks_outermost() && is_outermost ? 1 : 0, 10);
      is_outermost = false;
    }
  }
  std::byte* push(std::byte* code, std::uint8_t owner, std::ptrdiff_t instruction) {
    std::byte* const frame = block();
    put(frame, layout_.frame_code, code);
    put(frame, layout_.frame_previous, innermost_);
    put(frame, layout_.frame_instruction, code + layout_.code_instructions + instruction);
    std::memcpy(frame + layout_.frame_owner, &owner, sizeof owner);
    innermost_ = frame;
    if (layout_.cframe_frame) {
      put(cframe_, *layout_.cframe_frame, frame);
    } else {
      put(thread, layout_.thread_frame, frame);
    }
    return frame;
  }
  std::byte* code(const std::u32string& name, const std::u32string& file) {
    std::byte* const made = block();
    put(made, layout_.object_type, &code_type);
    put(made, layout_.code_name, text(name));
    put(made, layout_.code_file, text(file));
    return made;
  }
  void put(std::byte* at, std::size_t offset, const void* value) {
    std::memcpy(at + offset, &value, sizeof value);
  }
  [[nodiscard]] const PythonLayout& layout() const { return layout_; }

  /// Of the calling thread; null: it has none.
  static inline std::byte* thread = nullptr;
  static inline bool is_initialized = true;
  /// An instruction without a line, and the line of all functions.
  static constexpr int kHasNoLine = 44;
  static inline int first_line = 99;

 private:
  struct Text {
    std::array<std::byte, 32> object;
    std::u32string text;
  };
  static const std::u32string& text_of(const void* object) {
    return reinterpret_cast<const Text*>(object)->text;
  }
  std::byte* block() { return blocks_.emplace_back().data(); }
  std::byte* text(const std::u32string& of) {
    Text& made = texts_.emplace_back(Text{{}, of});
    put(made.object.data(), layout_.object_type, &text_type);
    return made.object.data();
  }

  const PythonLayout layout_;
  std::deque<std::array<std::byte, 512>> blocks_;
  std::deque<Text> texts_;
  std::byte* cframe_ = nullptr;
  std::byte* innermost_ = nullptr;
};

class OfVersion : public ::testing::TestWithParam<std::string> {
 protected:
  OfVersion() { FakeInterpreter::first_line = 99; }

  std::string lines() {
    std::array<PythonFrame, 8> found;
    const std::size_t count = frames.walk(found);
    return frames.describe(std::span(found).first(count));
  }

  FakeInterpreter interpreter{GetParam()};
  PythonFrames frames = interpreter.frames();
};

/// Digits alone are no good names of tests.
std::string name_of_version(const ::testing::TestParamInfo<std::string>& tested) {
  std::string name = "Python" + tested.param;
  std::ranges::replace(name, '.', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(PythonFrames, OfVersion, ::testing::Values("3.11", "3.12", "3.13"),
                         name_of_version);

TEST_P(OfVersion, FramesAreToldCallByCall) {
  interpreter.call({U"<module>", U"main"});
  interpreter.call({U"Net.forward"});
  EXPECT_EQ(lines(),
            "Net.forward /my code/a.py:110\n\n"
            "main /my code/a.py:110\n<module> /my code/a.py:110\n\n");
}

TEST_P(OfVersion, ThreadsWithoutFramesHaveNone) {
  EXPECT_EQ(lines(), "");
  interpreter.call({U"main"});
  EXPECT_NE(lines(), "");
  FakeInterpreter::thread = nullptr;
  EXPECT_EQ(lines(), "");
}

TEST_P(OfVersion, InnermostFramesComeFirstWhereThereAreMany) {
  std::vector<std::u32string> names;
  for (char32_t i = 0; i < 20; ++i) names.push_back({static_cast<char32_t>(U'a' + i)});
  interpreter.call(names);
  std::array<PythonFrame, 3> found;
  ASSERT_EQ(frames.walk(found), found.size());
  EXPECT_TRUE(frames.describe(found).starts_with("t "));
}

TEST_P(OfVersion, FramesThatHaveNotBegunAreLeftOut) {
  interpreter.call({U"main"});
  interpreter.push(interpreter.code(U"soon", U"a.py"), 0, -2);
  EXPECT_EQ(lines(), "main /my code/a.py:110\n\n");
}

TEST_P(OfVersion, ACallOfWhichNothingHasBegunEndsAllTheSame) {
  interpreter.call({U"main"});
  if (!interpreter.marks_outermost()) interpreter.push(interpreter.code(U"", U""), kShim, 0);
  const std::uint8_t outermost = interpreter.marks_outermost() ? 1 : 0;
  interpreter.push(interpreter.code(U"soon", U"a.py"), outermost, -2);
  EXPECT_EQ(lines(), "\nmain /my code/a.py:110\n\n");
}

TEST_P(OfVersion, NothingIsReadOnceTheInterpreterEnds) {
  interpreter.call({U"main"});
  EXPECT_NE(lines(), "");
  FakeInterpreter::is_initialized = false;
  FakeInterpreter::thread = reinterpret_cast<std::byte*>(0x10);  // freed
  EXPECT_EQ(lines(), "");
}

TEST_P(OfVersion, FramesWithoutALineHaveTheirFunctions) {
  interpreter.call({U"main"});
  interpreter.push(interpreter.code(U"f", U"a.py"), 0, FakeInterpreter::kHasNoLine);
  EXPECT_EQ(lines(), "f a.py:99\nmain /my code/a.py:110\n\n");
  // What the interpreter made for itself has none of a file.
  FakeInterpreter::first_line = 0;
  EXPECT_EQ(lines(), "main /my code/a.py:110\n\n");
}

TEST_P(OfVersion, AFrameThatIsOddEndsTheStack) {
  interpreter.call({U"main"});
  std::byte* const code = interpreter.code(U"odd", U"a.py");
  interpreter.push(code, 0, 10);
  interpreter.call({U"f"});
  EXPECT_NE(lines(), "");
  interpreter.put(code, interpreter.layout().object_type, &text_type);
  EXPECT_EQ(lines(), "f /my code/a.py:110\n\n");
}

TEST_P(OfVersion, TextsOfTypesOfTheProgramsOwnAreNotRead) {
  std::byte* const code = interpreter.code(U"f", U"a.py");
  interpreter.put(code, interpreter.layout().code_file, code);
  interpreter.push(code, 0, 10);
  EXPECT_EQ(lines(), "f ?:110\n");
}

TEST_P(OfVersion, ALookThatWasNotPossibleIsTakenAgain) {
  interpreter.call({U"main"});
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{0, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const std::string without_files = lines();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(without_files, "");
  EXPECT_EQ(lines(), "main /my code/a.py:110\n\n");
}

TEST_P(OfVersion, ThereAreNoneWhereTheLayoutIsNotKnown) {
  interpreter.call({U"main"});
  PythonFrames unknown = interpreter.frames_of({});
  std::array<PythonFrame, 8> found;
  EXPECT_EQ(unknown.walk(found), 0u);
  EXPECT_EQ(unknown.walk(found), 0u);
}

TEST_P(OfVersion, NamesAreUtf8OnOneLine) {
  interpreter.call({U"\u00E4\u20AC\U0001F600 a\nb\xD800\x9B\u2028\u202E\u2066"});
  EXPECT_EQ(lines(), "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80_a?b????? /my code/a.py:110\n\n");
}

TEST_P(OfVersion, FunctionsAreToldApart) {
  interpreter.call({U"main"});
  std::array<PythonFrame, 8> found;
  ASSERT_EQ(frames.walk(found), 1u);
  const PythonFrame first = found[0];
  ASSERT_EQ(frames.walk(found), 1u);
  EXPECT_EQ(found[0].code, first.code);
  EXPECT_EQ(found[0].name, first.name);
  // Another function's code came to the same place.
  auto* const code = static_cast<std::byte*>(const_cast<void*>(first.code));
  const std::byte* const other = interpreter.code(U"other", U"a.py");
  std::memcpy(code, other, 256);
  ASSERT_EQ(frames.walk(found), 1u);
  EXPECT_NE(found[0].name, first.name);
}

TEST_P(OfVersion, MarksInPointersToCodeAreNoPartOfThem) {
  interpreter.push(interpreter.code(U"main", U"a.py") + 1, 0, 9);
  EXPECT_EQ(lines(), "main a.py:110\n");
}

/// Each thing that is not as the layout says has nothing read any more, and nothing faults.
class Unfit : public OfVersion {
 protected:
  void expect_nothing() {
    EXPECT_EQ(lines(), "");
    // Not even if it looks right later.
    interpreter.call({U"main"});
    EXPECT_EQ(lines(), "");
  }
  std::byte* const nowhere = reinterpret_cast<std::byte*>(0x10);
};

INSTANTIATE_TEST_SUITE_P(PythonFrames, Unfit, ::testing::Values("3.11", "3.12", "3.13"),
                         name_of_version);

TEST_P(Unfit, AFrameThatIsNowhere) {
  interpreter.put(FakeInterpreter::thread, interpreter.layout().thread_frame, nowhere);
  EXPECT_EQ(lines(), "");
}

TEST_P(Unfit, ACallerThatIsNowhere) {
  interpreter.call({U"main"});
  std::byte* const frame = interpreter.push(interpreter.code(U"f", U"a.py"), 0, 10);
  interpreter.put(frame, interpreter.layout().frame_previous, nowhere);
  expect_nothing();
}

TEST_P(Unfit, CodeOfAnotherType) {
  std::byte* const code = interpreter.code(U"f", U"a.py");
  interpreter.put(code, interpreter.layout().object_type, &text_type);
  interpreter.push(code, 0, 10);
  expect_nothing();
}

TEST_P(Unfit, ANameOfAnotherType) {
  std::byte* const code = interpreter.code(U"f", U"a.py");
  interpreter.put(code, interpreter.layout().code_name, code);
  interpreter.push(code, 0, 10);
  expect_nothing();
}

TEST_P(Unfit, ANameThatIsNowhere) {
  std::byte* const code = interpreter.code(U"f", U"a.py");
  interpreter.put(code, interpreter.layout().code_name, nowhere);
  interpreter.push(code, 0, 10);
  expect_nothing();
}

TEST_P(Unfit, AnInstructionOutsideTheCode) {
  interpreter.push(interpreter.code(U"f", U"a.py"), 0, std::ptrdiff_t{1} << 40);
  expect_nothing();
}

}  // namespace
}  // namespace superpipe
