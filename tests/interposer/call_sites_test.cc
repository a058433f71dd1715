// Where in a program a call comes from is named by module and function.
#include "interposer/recording/call_sites.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/trace_writer.h"

namespace superpipe {
namespace {

using ::testing::MatchesRegex;

class NoSink final : public TraceSink {
 public:
  std::optional<std::string> write(std::span<const std::byte> /*bytes*/) override {
    return std::nullopt;
  }
};

TEST(FrameNames, AreOfTheFunctionAndTheModule) {
  FrameNames names;
  // One that no sanitizer replaces.
  auto* const in_libc = static_cast<char*>(::dlsym(RTLD_DEFAULT, "getppid")) + 4;
  void* const frames[] = {in_libc, nullptr, in_libc};
  const std::string text = names.describe(frames, "");
  EXPECT_THAT(text, MatchesRegex("[a-z_]*getppid[+]0x4 .*libc[.]so.*[+]0x[0-9a-f]+\n"
                                 "[?] [?][+]0x0\n"
                                 "[a-z_]*getppid[+]0x4 .*"));
}

TEST(FrameNames, LeaveOutWhatIsInTheirOwnModule) {
  FrameNames names;
  void* const frames[] = {reinterpret_cast<void*>(&open_call_sites)};
  EXPECT_EQ(names.describe(frames, ""), "");
}

/// The line of a frame in a library.
std::string line_of(void* frame) {
  void* const frames[] = {frame};
  return FrameNames().describe(frames, "");
}

class MergedFrames : public ::testing::Test {
 protected:
  MergedFrames() {
    library_ = ::dlopen(FAKE_INTERPRETER, RTLD_NOW | RTLD_LOCAL);
    evaluates = static_cast<char*>(::dlsym(library_, "_PyEval_EvalFrameDefault")) + 1;
    calls = static_cast<char*>(::dlsym(library_, "PyObject_Call")) + 1;
  }
  ~MergedFrames() override { ::dlclose(library_); }

  static std::string merged(const std::vector<void*>& native, std::string_view python) {
    return FrameNames().describe(native, python);
  }

  void* evaluates = nullptr;
  void* calls = nullptr;

 private:
  void* library_ = nullptr;
};

TEST_F(MergedFrames, StandWhereTheInterpreterRanThem) {
  ASSERT_TRUE(line_of(evaluates).starts_with("_PyEval_EvalFrameDefault+0x1 "));
  EXPECT_EQ(merged({calls, evaluates, calls, evaluates, calls},
                   "forward a.py:1\n\nmain a.py:2\n<module> a.py:3\n\n"),
            line_of(calls) + "\nforward a.py:1\n" + line_of(calls) +
                "\nmain a.py:2\n<module> a.py:3\n" + line_of(calls));
}

TEST_F(MergedFrames, ComeLastWhereTheInterpreterIsNotSeen) {
  EXPECT_EQ(merged({calls, evaluates, calls}, "f a.py:1\n\ng a.py:2\n\nh a.py:3\n"),
            line_of(calls) + "\nf a.py:1\n" + line_of(calls) + "\ng a.py:2\nh a.py:3");
  EXPECT_EQ(merged({}, "f a.py:1\n\n"), "f a.py:1");
}

TEST_F(MergedFrames, AreNotMissedWhereACallHasNone) {
  EXPECT_EQ(merged({evaluates, calls, evaluates, evaluates}, "\nf a.py:1\n\n"),
            line_of(calls) + "\nf a.py:1\n" + line_of(evaluates));
}

TEST(CallSites, AreKnownAgain) {
  open_call_sites();
  NoSink sink;
  TraceRecorder recorder(sink, std::chrono::steady_clock::now(), {});
  ASSERT_EQ(recorder.begin({}), std::nullopt);
  std::vector<TraceIndex> sites;
  for (int i = 0; i < 2; ++i) sites.push_back(call_site_of_hook(recorder));
  EXPECT_EQ(sites[0], sites[1]);
  EXPECT_NE(sites[0], 0u);
  EXPECT_NE(call_site_of_hook(recorder), sites[0]);
}

}  // namespace
}  // namespace superpipe
