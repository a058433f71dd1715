#include "examples/options.h"

#include <gmock/gmock.h>

#include <initializer_list>

namespace examples {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

constexpr OptionSpec kKnown[] = {{"--size", true}, {"--mode", true}, {"--quick", false}};

Options parse(std::initializer_list<const char*> words) {
  std::vector<const char*> argv{"program"};
  argv.insert(argv.end(), words.begin(), words.end());
  return Options(static_cast<int>(argv.size()), argv.data(), kKnown);
}

TEST(Options, TakesValuesFromTheNextWordAndAfterEquals) {
  EXPECT_EQ(parse({"--size", "12"}).count("--size", 1, 1, 100), 12U);
  EXPECT_EQ(parse({"--size=13"}).count("--size", 1, 1, 100), 13U);
  EXPECT_EQ(parse({"--mode="}).text("--mode", "other"), "");
}

TEST(Options, AnswersFallbacksForWhatWasNotGiven) {
  const Options options = parse({});
  EXPECT_EQ(options.count("--size", 7, 1, 100), 7U);
  EXPECT_EQ(options.text("--mode", "other"), "other");
  EXPECT_FALSE(options.has("--quick"));
  EXPECT_THAT(options.positional(), IsEmpty());
}

TEST(Options, TheLastOfTwoCounts) {
  EXPECT_EQ(parse({"--size", "1", "--size", "2"}).count("--size", 0, 0, 9), 2U);
}

TEST(Options, SeparatesPositionalWords) {
  const Options options = parse({"one", "--quick", "-", "--", "--size", "two"});
  EXPECT_TRUE(options.has("--quick"));
  EXPECT_FALSE(options.has("--size"));
  EXPECT_THAT(options.positional(), ElementsAre("one", "-", "--size", "two"));
}

TEST(Options, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT([] { parse({"--sise", "1"}); }, ThrowsMessage<UsageError>(HasSubstr("'--sise'")));
  EXPECT_THAT([] { parse({"-q"}); }, ThrowsMessage<UsageError>(HasSubstr("'-q'")));
}

TEST(Options, RefusesMissingAndSuperfluousValues) {
  EXPECT_THAT([] { parse({"--size"}); }, ThrowsMessage<UsageError>(HasSubstr("needs a value")));
  EXPECT_THAT([] { parse({"--quick=1"}); }, ThrowsMessage<UsageError>(HasSubstr("takes no value")));
}

TEST(Options, RefusesCountsThatAreNone) {
  for (const char* const word :
       {"", "x", "1x", "-1", "+1", " 1", "1.5", "0", "101", "99999999999999999999999"}) {
    EXPECT_THAT(
        [word] {
          static_cast<void>(parse({"--size", word}).count("--size", 5, 1, 100));
        },
        ThrowsMessage<UsageError>(HasSubstr("from 1 to 100")))
        << word;
  }
}

TEST(Options, TakesOneOfTheChoices) {
  constexpr std::string_view kModes[] = {"slow", "fast"};
  EXPECT_EQ(parse({}).choice("--mode", kModes), "slow");
  EXPECT_EQ(parse({"--mode", "fast"}).choice("--mode", kModes), "fast");
  EXPECT_THAT(
      [&] {
        static_cast<void>(parse({"--mode", "fas"}).choice("--mode", kModes));
      },
      ThrowsMessage<UsageError>(HasSubstr("slow, fast")));
}

}  // namespace
}  // namespace examples
