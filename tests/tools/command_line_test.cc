#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "settings/settings.h"
#include "tools/superpipe/command_line/completion.h"
#include "tools/superpipe/command_line/manual.h"
#include "tools/superpipe/command_line/manual_page.h"
#include "tools/superpipe/command_line/parser.h"
#include "tools/superpipe/settings_table.h"

namespace superpipe::cli {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

const SubcommandWords& named(const CommandWords& command, const std::string& name) {
  return *std::find_if(command.subcommands.begin(), command.subcommands.end(),
                       [&](const SubcommandWords& words) { return words.name == name; });
}

const Word& flag_of(const SubcommandWords& subcommand, const std::string& flag) {
  return *std::find_if(subcommand.words.begin(), subcommand.words.end(), [&](const Word& word) {
    return std::find(word.flags.begin(), word.flags.end(), flag) != word.flags.end();
  });
}

// As roff has it.
std::string minus_signs(std::string text) {
  for (std::size_t at = 0; (at = text.find('-', at)) != std::string::npos; at += 2) {
    text.insert(at, 1, '\\');
  }
  return text;
}

TEST(SettingsTable, HasALineForEverySettingOfThisVersion) {
  const auto lines = lines_of(settings_table());
  ASSERT_EQ(lines.size(), all_settings().size() + 2);
  EXPECT_EQ(lines[0], "| flag | variable | meaning |");
  EXPECT_THAT(lines, Contains("| `--k N` | `SUPERPIPE_K` | Layers kept on the device |"));
  EXPECT_THAT(lines, Contains(StartsWith("| `--simulate` | | Run on a simulated GPU")));
  EXPECT_THAT(lines, Contains(StartsWith("| `--strict` | `SUPERPIPE_STRICT=1` | ")));
  EXPECT_THAT(lines, Contains(StartsWith("| | `SUPERPIPE_OFF=1` | ")));
  EXPECT_THAT(lines, Contains(StartsWith("| | `SUPERPIPE_DRIVER=FILE` | ")));
}

// A bar would end the cell that it stands in.
TEST(SettingsTable, EscapesBars) {
  EXPECT_THAT(settings_table(), HasSubstr("| `--overflow fail\\|allow` | `SUPERPIPE_OVERFLOW` |"));
}

TEST(Words, HaveTheFlagsOfEverySettingOfThisVersion) {
  const CommandWords command = Parser().words();
  for (const char* const name : {"run", "profile", "verify"}) {
    const SubcommandWords& subcommand = named(command, name);
    EXPECT_TRUE(subcommand.takes_command);
    for (const Setting& setting : all_settings()) {
      if (!setting.has_flag()) continue;
      const bool found = std::any_of(
          subcommand.words.begin(), subcommand.words.end(), [&setting](const Word& word) {
            return std::find(word.flags.begin(), word.flags.end(), setting.flag) !=
                       word.flags.end() &&
                   word.variable == setting.variable;
          });
      EXPECT_TRUE(found) << name << ' ' << setting.flag;
    }
  }
}

TEST(Words, SayWhatAValueMayBe) {
  const CommandWords command = Parser().words();
  const SubcommandWords& run = named(command, "run");
  EXPECT_EQ(flag_of(run, "--simulate").values.kind, ValueKind::kNone);
  EXPECT_EQ(flag_of(run, "--help").values.kind, ValueKind::kNone);
  EXPECT_EQ(flag_of(run, "--k").values.kind, ValueKind::kText);
  EXPECT_EQ(flag_of(run, "--gpu-mem").values.kind, ValueKind::kSize);
  EXPECT_EQ(flag_of(run, "--stats").values.kind, ValueKind::kFile);
  EXPECT_EQ(flag_of(run, "--log").values.kind, ValueKind::kLog);
  EXPECT_THAT(flag_of(run, "--writeback").values,
              AllOf(Field(&Values::kind, ValueKind::kChoice),
                    Field(&Values::choices, ElementsAre("digest", "always"))));
  const SubcommandWords& plan = named(command, "plan");
  EXPECT_THAT(flag_of(plan, "--policy").values.choices, Contains("superpipeline"));
  EXPECT_TRUE(flag_of(plan, "--policy").values.is_list);
  EXPECT_TRUE(flag_of(plan, "--gpu-mem").values.is_list);
  EXPECT_THAT(flag_of(plan, "--link").values.choices, Contains("gen4x8"));
  EXPECT_THAT(flag_of(plan, "--fit").values.choices, Contains("rtx4090"));
  EXPECT_THAT(flag_of(named(command, "export"), "--format").values.choices,
              Contains("torch-snapshot"));
  EXPECT_THAT(flag_of(named(command, "export"), "-o").flags, ElementsAre("-o", "--output"));
  EXPECT_THAT(flag_of(named(command, "doctor"), "--probe").values.choices, Contains("H1"));
  EXPECT_THAT(flag_of(named(command, "env"), "--format").values.choices, Contains("k8s"));
}

TEST(Words, TellWordsWithoutAFlag) {
  const CommandWords command = Parser().words();
  std::vector<Word> words = named(command, "budget").words;
  words.erase(std::remove_if(words.begin(), words.end(),
                             [](const Word& word) { return !word.flags.empty(); }),
              words.end());
  ASSERT_EQ(words.size(), 2U);
  EXPECT_EQ(words[0].placeholder, "PID");
  EXPECT_EQ(words[0].values.kind, ValueKind::kProcess);
  EXPECT_FALSE(words[0].repeats);
  EXPECT_EQ(words[1].values.kind, ValueKind::kSize);
  const std::vector<Word>& report = named(command, "report").words;
  EXPECT_TRUE(std::any_of(report.begin(), report.end(), [](const Word& word) {
    return word.flags.empty() && word.placeholder == "FILE" && word.repeats &&
           word.values.kind == ValueKind::kFile;
  }));
}

TEST(ManualPage, HasEveryWordAndVariableOfItsSubcommand) {
  const CommandWords command = Parser().words();
  for (const SubcommandWords& subcommand : command.subcommands) {
    const std::string page = manual_page(command, subcommand, "1.2.3");
    EXPECT_THAT(page, HasSubstr("\"superpipe 1.2.3\""));
    for (const Word& word : subcommand.words) {
      for (const std::string& flag : word.flags) {
        EXPECT_THAT(page, HasSubstr("\\fB" + minus_signs(flag) + "\\fR")) << subcommand.name;
      }
      EXPECT_THAT(page, HasSubstr(word.variable));
    }
    for (const char* const part : {".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH OPTIONS",
                                   ".SH EXIT STATUS", ".SH EXAMPLES", ".SH SEE ALSO"}) {
      EXPECT_THAT(page, HasSubstr(part)) << subcommand.name;
    }
  }
}

TEST(ManualPage, LeavesValuesAsTheyAreTyped) {
  const CommandWords command = Parser().words();
  const std::string page = manual_page(command, named(command, "plan"), "1.2.3");
  EXPECT_THAT(page, HasSubstr("\ngen3, gen4, gen5"));
  EXPECT_THAT(page, Not(HasSubstr("Gen3")));
}

TEST(ManualPage, OfRunHasTheVariablesWithoutAFlag) {
  const CommandWords command = Parser().words();
  const std::string page = manual_page(command, named(command, "run"), "1.2.3");
  for (const Setting& setting : all_settings()) {
    if (setting.has_flag()) continue;
    EXPECT_THAT(page, HasSubstr(std::string("\\fB") + setting.variable + '='));
  }
  EXPECT_THAT(page, HasSubstr(".TP\n125\n"));
  EXPECT_THAT(page, Not(HasSubstr("not available in this version")));
}

TEST(OverviewPage, NamesEverySubcommand) {
  const CommandWords command = Parser().words();
  const std::string page = overview_page(command, "1.2.3");
  for (const SubcommandWords& subcommand : command.subcommands) {
    const std::string name = std::regex_replace(subcommand.name, std::regex("-"), "\\-");
    EXPECT_THAT(page, HasSubstr("\\fBsuperpipe\\-" + name + "\\fR(1)"));
  }
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-version\\fR"));
}

// A line that begins with a point or an apostrophe would be taken for a command.
TEST(ManualPage, HasNoCommandsButItsOwn) {
  CommandWords command;
  command.subcommands.push_back({.name = "x",
                                 .purpose = "p",
                                 .words = {{.flags = {"--a"}, .meaning = ".PP"}},
                                 .manual = {.notes = {"'quoted' text", ".so /etc/passwd"}}});
  const std::string page = manual_page(command, command.subcommands[0], "1");
  for (const std::string& line : lines_of(page)) {
    if (line.empty() || (line[0] != '.' && line[0] != '\'')) continue;
    EXPECT_TRUE(line.rfind(".TH ", 0) == 0 || line.rfind(".SH ", 0) == 0 || line == ".TP" ||
                line == ".PP" || line.rfind(".\\\"", 0) == 0)
        << line;
  }
  EXPECT_THAT(page, HasSubstr("\\&.so /etc/passwd"));
}

TEST(HelpEnd, FitsAWindowAndNamesExamplesAndExitCodes) {
  const CommandWords command = Parser().words();
  for (const SubcommandWords& subcommand : command.subcommands) {
    const std::string end = help_end(subcommand.manual);
    for (const std::string& line : lines_of(end)) EXPECT_LE(line.size(), 100U) << line;
    EXPECT_THAT(end, HasSubstr("Examples:\n")) << subcommand.name;
    EXPECT_THAT(end, HasSubstr("; 2 bad")) << subcommand.name;
  }
  EXPECT_THAT(help_end(named(command, "run").manual),
              AllOf(HasSubstr("superpipe run --gpu-mem 6G -- python generate.py"),
                    HasSubstr("the command's own; 2 bad usage; 125 superpipe cannot run here")));
}

TEST(HelpEnd, PutsTheMeaningOfALongTermBelowIt) {
  const std::string term(60, 'x');
  EXPECT_EQ(help_end({.examples = {{"ab", "short"}, {term, "long"}}, .exit_codes = {{"0", "ok"}}}),
            "Examples:\n  ab  short\n  " + term + "\n      long\n\nExit code: 0 ok.");
}

TEST(Wrapped, BreaksAtSpaces) {
  EXPECT_EQ(wrapped("one two three", 7), "one two\nthree");
  EXPECT_EQ(wrapped("one two three", 6), "one\ntwo\nthree");
  EXPECT_EQ(wrapped("one two", 100), "one two");
  EXPECT_THAT(wrapped("", 10), IsEmpty());
}

TEST(Wrapped, LeavesALongWordWhole) {
  EXPECT_EQ(wrapped("a somewhat-long-word b", 5), "a\nsomewhat-long-word\nb");
}

}  // namespace
}  // namespace superpipe::cli
