// Where in a program a call comes from is named by module and function.
#include "interposer/call_sites.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
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
  const std::string text = names.describe(frames);
  EXPECT_THAT(text, MatchesRegex("[a-z_]*getppid[+]0x4 .*libc[.]so.*[+]0x[0-9a-f]+\n"
                                 "[?] [?][+]0x0\n"
                                 "[a-z_]*getppid[+]0x4 .*"));
}

TEST(FrameNames, LeaveOutWhatIsInTheirOwnModule) {
  FrameNames names;
  void* const frames[] = {reinterpret_cast<void*>(&open_libunwind)};
  EXPECT_EQ(names.describe(frames), "");
}

TEST(CallSites, AreKnownAgain) {
  open_libunwind();
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
