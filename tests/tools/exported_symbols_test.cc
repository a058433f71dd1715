#include "tools/superpipe/probes/exported_symbols.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

namespace superpipe::cli {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(ExportedSymbols, ListsWhatALibraryDefines) {
  const auto names = exported_symbols(FAKE_DRIVER_PATH, "cu");
  EXPECT_THAT(names, Contains("cuInit"));
  EXPECT_THAT(names, Contains("cuGetProcAddress_v2"));
  EXPECT_THAT(exported_symbols(FAKE_DRIVER_PATH, ""), Not(Contains("getenv")));  // only used
  EXPECT_THAT(exported_symbols(FAKE_DRIVER_PATH, "cuInit"), ::testing::ElementsAre("cuInit"));
}

TEST(ExportedSymbols, GivesNothingForWhatIsNoLibrary) {
  EXPECT_THAT(exported_symbols("/etc/passwd", ""), IsEmpty());
  EXPECT_THAT(exported_symbols("/no/such/file", ""), IsEmpty());
}

// A file that says more of itself than there is must not be believed.
TEST(ExportedSymbols, GivesNothingForAFileThatIsCutShort) {
  std::ifstream whole(FAKE_DRIVER_PATH, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(whole), {}};
  ASSERT_GT(bytes.size(), 4096U);
  const std::string path = ::testing::TempDir() + "/cut-" + std::to_string(getpid());
  for (const std::size_t length : {std::size_t{3}, std::size_t{20}, std::size_t{64},
                                   std::size_t{1000}, bytes.size() / 2, bytes.size() - 1}) {
    std::ofstream(path, std::ios::binary) << bytes.substr(0, length);
    EXPECT_THAT(exported_symbols(path, "cu"), IsEmpty()) << length;
  }
  std::remove(path.c_str());
}

}  // namespace
}  // namespace superpipe::cli
