#include "tools/superpipe/command_line/parser.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "tools/superpipe/command_line/subcommands.h"

namespace superpipe::cli {
namespace {

// CLI11 sees nothing of what stands after "--", so its usage line would leave the command out; it
// breaks no lines, and shows all groups that have a name.
class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::string usage) : usage_(std::move(usage)) {}
  std::string make_usage(const CLI::App* /*app*/, std::string /*name*/) const override {
    return "Usage: superpipe " + usage_ + '\n';
  }
  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override {
    if (group == kNotInHelp) return "";
    return CLI::Formatter::make_group(group, is_positional, options);
  }
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string text = CLI::Formatter::make_help(app, name, mode);
    // CLI11 has an empty line before each group, and one behind it.
    for (std::size_t at = 0; (at = text.find("\n\n\n", at)) != std::string::npos;) {
      text.erase(at, 1);
    }
    return text;
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    constexpr std::size_t kWidth = 100;
    return wrapped(option->get_description(), kWidth - get_column_width());
  }

 private:
  std::string usage_;  // after the program's name
};

Word word_of(const CLI::Option& option) {
  Word word;
  word.meaning = option.get_description();
  if (option.get_positional()) {
    word.placeholder = option.get_name(true);
    word.repeats = option.get_items_expected_max() > 1;
  } else {
    for (const std::string& name : option.get_snames()) word.flags.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) word.flags.push_back("--" + name);
    if (option.get_items_expected_max() > 0) word.placeholder = option.get_type_name();
  }
  return word;
}

// Those that the manual and completion have.
std::vector<const CLI::Option*> shown_options(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) { return !option->get_group().empty(); });
}

}  // namespace

CommandLine split_at_separator(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto separator = std::find(words.begin(), words.end(), "--");
  CommandLine line;
  line.own.assign(words.begin(), separator);
  if (separator != words.end()) line.command.emplace(separator + 1, words.end());
  return line;
}

Parser::Parser() : subcommands_(all_subcommands()) {
  app_.set_version_flag("--version", "superpipe " SUPERPIPE_VERSION);
  app_.require_subcommand(1);
  app_.footer("superpipe run --help has examples.");
  for (const auto& subcommand : subcommands_) {
    apps_.push_back(app_.add_subcommand(subcommand->name(), subcommand->purpose()));
    CLI::App& app = *apps_.back();
    subcommand->add_to(app);
    const Manual manual = subcommand->manual();
    app.formatter(std::make_shared<HelpFormatter>(subcommand->name() + ' ' + manual.synopsis));
    app.footer(help_end(manual));
  }
}

std::optional<int> Parser::parse(const CommandLine& line) {
  const std::string first = line.first();
  std::vector<std::string> last_first(line.own.rbegin(), line.own.rend());  // as CLI11 wants them
  try {
    app_.parse(last_first);
  } catch (const CLI::Success& asked) {  // --help, --version
    return app_.exit(asked);
  } catch (const CLI::ExtrasError&) {
    return refuse_extra_word();
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string text = error.what();
    return bad_usage(first, text.substr(0, text.find(':')) + ": give it once, and with a value");
  } catch (const CLI::RequiredError&) {
    return bad_usage("", no_subcommand(first));
  } catch (const CLI::ParseError& error) {
    return bad_usage(is_flag(first) ? "" : first, error.what());
  }
  return std::nullopt;
}

Subcommand* Parser::parsed() const {
  for (std::size_t i = 0; i < apps_.size(); ++i) {
    if (apps_[i]->parsed()) return subcommands_[i].get();
  }
  return nullptr;
}

CommandWords Parser::words() const {
  CommandWords command;
  command.purpose = kPurpose;
  for (const CLI::Option* const option : shown_options(app_)) {
    command.words.push_back(word_of(*option));
    command.words.back().values.kind = ValueKind::kNone;
  }
  for (std::size_t i = 0; i < apps_.size(); ++i) {
    const Subcommand& subcommand = *subcommands_[i];
    SubcommandWords words;
    words.name = subcommand.name();
    words.purpose = subcommand.purpose();
    words.takes_command = subcommand.takes_command();
    words.manual = subcommand.manual();
    for (const CLI::Option* const option : shown_options(*apps_[i])) {
      Word word = word_of(*option);
      word.values = subcommand.values_of(*option);
      if (!word.flags.empty()) word.variable = subcommand.variable_of_flag(word.flags.back());
      words.words.push_back(std::move(word));
    }
    command.subcommands.push_back(std::move(words));
  }
  return command;
}

int Parser::refuse_extra_word() const {
  const Subcommand* const subcommand = parsed();
  const auto extras = app_.remaining(true);
  const std::string word = extras.empty() ? "" : extras.front();
  if (subcommand == nullptr) return bad_usage("", no_such_flag(word, ""));
  return bad_usage(subcommand->name(), is_flag(word) ? no_such_flag(word, subcommand->name())
                                                     : subcommand->too_much(word));
}

std::string Parser::no_subcommand(const std::string& first) const {
  if (is_flag(first)) return no_such_flag(first, "");
  std::string names;
  for (const auto& subcommand : subcommands_) {
    names += (names.empty() ? "" : ", ") + subcommand->name();
  }
  return (first.empty() ? "no subcommand" : "there is no subcommand '" + first + "'") +
         "; it is one of " + names + " (see --help)";
}

}  // namespace superpipe::cli
