#include "tools/superpipe/run_manual.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "policy/settings.h"

namespace superpipe::cli {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(SettingsTable, HasALineForEverySettingOfThisVersion) {
  const auto lines = lines_of(settings_table());
  std::size_t available = 0;
  for (const Setting& setting : all_settings()) available += setting.is_available() ? 1 : 0;
  ASSERT_EQ(lines.size(), available + 2);
  EXPECT_EQ(lines[0], "| flag | variable | meaning |");
  EXPECT_THAT(lines, Contains("| `--k N` | `SUPERPIPE_K` | Layers kept on the device |"));
  EXPECT_THAT(lines, Contains(StartsWith("| `--simulate` | | Run on a simulated GPU")));
  EXPECT_THAT(lines, Contains(StartsWith("| `--strict` | `SUPERPIPE_STRICT=1` | ")));
  EXPECT_THAT(lines, Contains(StartsWith("| | `SUPERPIPE_OFF=1` | ")));
  EXPECT_THAT(lines, Contains(StartsWith("| | `SUPERPIPE_DRIVER=FILE` | ")));
  EXPECT_THAT(settings_table(), Not(HasSubstr("--plan")));
}

// A bar would end the cell that it stands in.
TEST(SettingsTable, EscapesBars) {
  EXPECT_THAT(settings_table(), HasSubstr("| `--overflow fail\\|allow` | `SUPERPIPE_OVERFLOW` |"));
}

TEST(ManualPage, HasAnEntryForEverySettingOfThisVersion) {
  const std::string page = manual_page("1.2.3");
  EXPECT_THAT(page, HasSubstr(".TH SUPERPIPE\\-RUN 1 \"\" \"superpipe 1.2.3\""));
  for (const Setting& setting : all_settings()) {
    for (std::string name : {std::string(setting.flag), std::string(setting.variable)}) {
      if (name.empty()) continue;
      for (std::size_t at = 0; (at = name.find('-', at)) != std::string::npos; at += 2) {
        name.insert(at, 1, '\\');
      }
      // Every name stands in bold; one that begins another is followed by something else.
      const bool found = page.find("\\fB" + name + "\\fR") != std::string::npos ||
                         page.find("\\fB" + name + "=") != std::string::npos;
      EXPECT_EQ(found, setting.is_available()) << name;
    }
  }
  for (const char* const part : {".SH SYNOPSIS", ".SH ENVIRONMENT", ".SH EXIT STATUS", ".TP\n125\n",
                                 ".SH EXAMPLES", "\\-\\-k 4 \\-\\-k\\-prime 2"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
}

// A line that begins with a point or an apostrophe would be taken for a command.
TEST(ManualPage, HasNoCommandsButItsOwn) {
  for (const std::string& line : lines_of(manual_page("1.2.3"))) {
    if (line.empty() || (line[0] != '.' && line[0] != '\'')) continue;
    EXPECT_TRUE(line.rfind(".TH ", 0) == 0 || line.rfind(".SH ", 0) == 0 || line == ".TP" ||
                line == ".PP" || line.rfind(".\\\"", 0) == 0)
        << line;
  }
}

TEST(RunHelpFooter, FitsAWindowAndNamesExamplesAndExitCodes) {
  const std::string footer = run_help_footer();
  for (const std::string& line : lines_of(footer)) {
    EXPECT_LE(line.size(), 100U) << line;
  }
  EXPECT_THAT(footer, HasSubstr("superpipe run --gpu-mem 6G -- ./train"));
  EXPECT_THAT(footer, HasSubstr("2 bad usage, 125 superpipe cannot run here, 126 "));
}

TEST(Wrapped, BreaksAtSpaces) {
  EXPECT_EQ(wrapped("one two three", 7), "one two\nthree");
  EXPECT_EQ(wrapped("one two three", 6), "one\ntwo\nthree");
  EXPECT_EQ(wrapped("one two", 100), "one two");
  EXPECT_EQ(wrapped("", 10), "");
}

TEST(Wrapped, LeavesALongWordWhole) {
  EXPECT_EQ(wrapped("a somewhat-long-word b", 5), "a\nsomewhat-long-word\nb");
}

}  // namespace
}  // namespace superpipe::cli
