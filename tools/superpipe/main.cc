// The command `superpipe`: reads its command line and hands over to one file per subcommand.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "policy/settings.h"
#include "tools/superpipe/budget_command.h"
#include "tools/superpipe/doctor_command.h"
#include "tools/superpipe/exit_code.h"
#include "tools/superpipe/probes/child_program.h"
#include "tools/superpipe/run_command.h"
#include "tools/superpipe/run_manual.h"
#include "tools/superpipe/run_options.h"
#include "tools/superpipe/verify_command.h"

namespace superpipe::cli {
namespace {

// Promised by the design, built in a later version: said clearly, not taken for a typing error.
constexpr std::array<const char*, 5> kLaterCommands = {"profile", "plan", "report", "export",
                                                       "top"};

constexpr const char* kDoctorExamples = R"(Examples:
  superpipe doctor                              all questions, a few minutes at most
  superpipe doctor --quick --output truth.json  in less than a minute; text here, JSON in the file
  superpipe doctor --probe H1,H3 --json         two of them
  superpipe doctor --no-probes                  only what driver, devices and host say of themselves
  superpipe doctor --simulate --quick           on simgpu

Each question is asked in a process of its own; one that crashes, hangs or fails is reported and does
not change the exit code. Exit code: 0 programs can run under superpipe here, 1 something stands in
the way (no driver, too old a driver, no device, a missing part), 2 bad usage.)";

constexpr const char* kVerifyExamples = R"(Examples:
  superpipe verify -- python3 train.py             with all the memory that is free, and with half of what that took
  superpipe verify --budget 60%,6G -- ./program    with two budgets
  superpipe verify --simulate -- ./program         on simgpu

The program runs twice without superpipe first: what then changes from run to run is not compared. Compared are all
copies from the device to the host but those that graphs make, the exit code and the lines of standard output. Standard
input is empty. Other flags are those of superpipe run. Exit code: 0 the same, 1 not, or nothing could be compared, 2 bad
usage, 125 to 127 the program could not be started.)";

// CLI11 sees nothing of what stands after "--", so its usage line would leave the command out; and
// it breaks no lines.
class RunFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string /*name*/) const override {
    return "Usage: superpipe " + app->get_name() + " [FLAGS] -- COMMAND [ARGUMENTS...]\n";
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    constexpr std::size_t kWidth = 100;
    return wrapped(option->get_description(), kWidth - get_column_width());
  }
};

void add_run_flags(CLI::App& run, RunOptions& options) {
  for (const Setting& setting : all_settings()) {
    if (!setting.has_flag()) continue;
    std::string& value = options.flag(setting.id);
    if (setting.kind == SettingKind::kSwitch) {
      run.add_flag_callback(
          setting.flag, [&value] { value = "1"; }, description_of(setting));
    } else {
      run.add_option(setting.flag, value, description_of(setting))->type_name(setting.placeholder);
    }
  }
}

void add_verify_flags(CLI::App& verify, VerifyOptions& options) {
  verify
      .add_option(
          "--budget", options.budgets,
          "Run with each of these as --gpu-mem (default: what is free, and half of what the "
          "program then takes)")
      ->type_name("SIZE,...");
  verify.add_flag("--json", options.json, "Write one JSON object instead of text");
  add_run_flags(verify, options.run);
  verify.footer(kVerifyExamples);
}

void add_doctor_flags(CLI::App& doctor, DoctorOptions& options) {
  const auto add = [&doctor](const char* flag, std::string& value, const char* meaning,
                             const char* kind) {
    doctor.add_option(flag, value, meaning)->type_name(kind);
  };
  doctor.add_flag("--simulate", options.simulate, "Look at the simulated GPU");
  doctor.add_flag("--json", options.json, "Write one JSON object instead of text");
  add("--output", options.output, "Write the JSON object to a file too", "FILE");
  add("--probe", options.probes, "Ask only these questions, such as H1,H3 (default: all)", "IDS");
  doctor.add_flag("--no-probes", options.no_probes, "Ask none: measure nothing");
  doctor.add_flag("--list", options.list, "Say which questions there are, and end");
  doctor.add_flag("--quick", options.quick, "Fewer sizes and repetitions: less than a minute");
  add("--probe-timeout", options.probe_timeout, "How long one question may take (default 60)",
      "SECONDS");
  add("--host-mem", options.host_mem,
      "Host memory that a question may use (default: what is available)", "SIZE");
  add("--cudart", options.cudart, "NVIDIA's runtime library for H0 (default: looked for)", "FILE");
  doctor.footer(kDoctorExamples);
}

constexpr const char* kBudgetExamples = R"(Examples:
  superpipe budget               which processes of yours run under superpipe, and their budgets
  superpipe budget 4711          the budget of process 4711, and what its pages take
  superpipe budget 4711 6G       allows it 6 GiB from now on; returns when its pages fit
  superpipe budget 4711 40%      the same as a share of its device

SIZE is as in superpipe run --gpu-mem: all that the process takes of the device. Exit code: 0 the budget is in
force and the pages fit, 1 not, and a line says why, 2 bad usage. man superpipe-run says what a budget is.)";

void add_budget_words(CLI::App& budget, BudgetOptions& options) {
  budget.add_option("PID", options.pid, "The process (default: list those that there are)")
      ->type_name("");
  budget.add_option("SIZE", options.size, "Its new budget (default: say what it is)")
      ->type_name("");
  budget.add_option("--timeout", options.timeout, "How long to wait at most (default 10)")
      ->type_name("SECONDS");
  budget.footer(kBudgetExamples);
}

// One line, whatever CLI11 would print around it.
int bad_usage(const std::string& command, const std::string& line) {
  std::cerr << "superpipe" << (command.empty() ? "" : " ") << command << ": " << line << '\n';
  return kBadUsage;
}

bool is_flag(const std::string& word) { return word.rfind('-', 0) == 0; }

std::string no_such_flag(const std::string& word, const std::string& command) {
  return "there is no flag '" + word + "'; see superpipe " + command +
         (command.empty() ? "" : " ") + "--help";
}

// What to say where no subcommand was found; `first` is the first word, empty if there is none.
std::string no_subcommand(const std::string& first) {
  if (first.empty()) return "no subcommand; it is one of run, verify, budget, doctor (see --help)";
  if (is_flag(first)) return no_such_flag(first, "");
  return "there is no subcommand '" + first +
         "'; it is one of run, verify, budget, doctor (see --help)";
}

// The command line before "--", and what follows it.
struct CommandLine {
  std::vector<std::string> own;
  std::optional<std::vector<std::string>> command;  ///< nullopt: there is no "--"

  [[nodiscard]] std::string first() const { return own.empty() ? "" : own.front(); }
};

CommandLine split_at_separator(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto separator = std::find(words.begin(), words.end(), "--");
  CommandLine line;
  line.own.assign(words.begin(), separator);
  if (separator != words.end()) line.command.emplace(separator + 1, words.end());
  return line;
}

// The parser, and what it fills.
class Parser {
 public:
  Parser() {
    app_.set_version_flag("--version", "superpipe " SUPERPIPE_VERSION);
    app_.require_subcommand(1);
    app_.footer(
        "Later versions: profile, plan, report, export, top.\n"
        "superpipe run --help has examples.");
    run_ = app_.add_subcommand("run", "Run a command under superpipe");
    run_->formatter(std::make_shared<RunFormatter>());
    add_run_flags(*run_, run_options);
    run_->footer(run_help_footer());
    verify_ = app_.add_subcommand(
        "verify", "Compare what a command copies out of the device without and with superpipe");
    verify_->formatter(std::make_shared<RunFormatter>());
    add_verify_flags(*verify_, verify_options);
    doctor_ = app_.add_subcommand(
        "doctor", "Say what this machine offers, what its device answers, and what is missing");
    add_doctor_flags(*doctor_, doctor_options);
    budget_ = app_.add_subcommand("budget",
                                  "Say or change how much of the device a running program may use");
    add_budget_words(*budget_, budget_options);
  }

  // Fills the options. Returns the exit code if that is all there is to do: the words are wrong, or
  // ask for help or the version, which is then printed.
  std::optional<int> parse(const CommandLine& line) {
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

  [[nodiscard]] bool is_doctor() const { return doctor_->parsed(); }
  [[nodiscard]] bool is_budget() const { return budget_->parsed(); }
  [[nodiscard]] bool is_verify() const { return verify_->parsed(); }

  RunOptions run_options;
  DoctorOptions doctor_options;
  BudgetOptions budget_options;
  VerifyOptions verify_options;

 private:
  [[nodiscard]] std::string parsed_command() const {
    if (run_->parsed()) return "run";
    if (verify_->parsed()) return "verify";
    if (budget_->parsed()) return "budget";
    return doctor_->parsed() ? "doctor" : "";
  }

  [[nodiscard]] int refuse_extra_word() const {
    const std::string command = parsed_command();
    const auto extras = app_.remaining(true);
    const std::string word = extras.empty() ? "" : extras.front();
    if ((command == "run" || command == "verify") && !is_flag(word)) {
      return bad_usage(command, "'" + word + "' is not a flag; put the command after \"--\": " +
                                    "superpipe " + command + " [FLAGS] -- " + word + " ...");
    }
    if (command == "budget" && !is_flag(word)) {
      return bad_usage(command, "'" + word + "' is too much: it takes a process and a size");
    }
    return bad_usage(command, no_such_flag(word, command));
  }

  CLI::App app_{"superpipe: runs CUDA programs whose models are larger than the GPU", "superpipe"};
  CLI::App* run_ = nullptr;
  CLI::App* doctor_ = nullptr;
  CLI::App* budget_ = nullptr;
  CLI::App* verify_ = nullptr;
};

int start_doctor(const DoctorOptions& options, const CommandLine& line) {
  if (line.command) return bad_usage("doctor", "it takes no command");
  if (const auto problem = problem_with(options)) return bad_usage("doctor", *problem);
  return doctor_command(options);
}

int start_budget(const BudgetOptions& options, const CommandLine& line) {
  if (line.command) return bad_usage("budget", "it takes no command");
  if (const auto problem = problem_with(options)) return bad_usage("budget", *problem);
  return budget_command(options);
}

// Puts the command of `line` into `options`. @return the exit code if there is none.
std::optional<int> take_command(const std::string& name, const CommandLine& line,
                                RunOptions& options) {
  if (line.command) options.command = *line.command;
  if (!options.command.empty() && !options.command.front().empty()) return std::nullopt;
  return bad_usage(
      name, "no command; put it after \"--\": superpipe " + name + " [FLAGS] -- COMMAND ...");
}

int start_run(RunOptions options, const CommandLine& line) {
  if (const auto code = take_command("run", line, options)) return *code;
  if (const auto problem = problem_with(options)) return bad_usage("run", *problem);
  return run_command(options);
}

int start_verify(VerifyOptions options, const CommandLine& line) {
  if (const auto code = take_command("verify", line, options.run)) return *code;
  if (const auto problem = problem_with(options)) return bad_usage("verify", *problem);
  return verify_command(options);
}

int run_main(int argc, char** argv) {
  // What follows "--" belongs to the program that is run, whatever it looks like.
  const CommandLine line = split_at_separator(argc, argv);
  const std::string first = line.first();
  // The doctor starts this executable for what has to be seen in a program of its own.
  if (first == kChildProgramWord) {
    return child_program_main({line.own.begin() + 1, line.own.end()});
  }
  if (std::find(kLaterCommands.begin(), kLaterCommands.end(), first) != kLaterCommands.end()) {
    return bad_usage(first, "not available in this version (" SUPERPIPE_VERSION ")");
  }
  Parser parser;
  if (const auto code = parser.parse(line)) return *code;
  if (parser.is_budget()) return start_budget(parser.budget_options, line);
  if (parser.is_verify()) return start_verify(parser.verify_options, line);
  if (parser.is_doctor()) return start_doctor(parser.doctor_options, line);
  return start_run(parser.run_options, line);
}

}  // namespace
}  // namespace superpipe::cli

int main(int argc, char** argv) {
  try {
    return superpipe::cli::run_main(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "superpipe: " << error.what() << '\n';
    return superpipe::cli::kCannotRun;
  }
}
