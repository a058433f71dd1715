// The command `superpipe`: reads its command line and hands over to one file per subcommand.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policy/settings.h"
#include "tools/superpipe/budget_command.h"
#include "tools/superpipe/doctor_command.h"
#include "tools/superpipe/exit_code.h"
#include "tools/superpipe/export_command.h"
#include "tools/superpipe/plan_command.h"
#include "tools/superpipe/probes/child_program.h"
#include "tools/superpipe/report_command.h"
#include "tools/superpipe/run_command.h"
#include "tools/superpipe/run_environment.h"
#include "tools/superpipe/run_manual.h"
#include "tools/superpipe/run_options.h"
#include "tools/superpipe/top_command.h"
#include "tools/superpipe/verify_command.h"

namespace superpipe::cli {
namespace {

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

/// One of the things that the command can do.
class Subcommand {
 public:
  virtual ~Subcommand() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual std::string purpose() const = 0;
  /// Adds its flags and words to `app`, which fills the options.
  virtual void add_to(CLI::App& app) = 0;
  /// What is wrong with a word that is no flag and that it does not take.
  [[nodiscard]] virtual std::string too_much(const std::string& word) const {
    return no_such_flag(word, name());
  }
  /// Checks what was parsed, and does it. @return the exit code.
  virtual int start(const CommandLine& line) = 0;

 protected:
  static void add(CLI::App& app, const char* flag, std::string& value, const char* meaning,
                  const char* kind) {
    app.add_option(flag, value, meaning)->type_name(kind);
  }
};

// CLI11 sees nothing of what stands after "--", so its usage line would leave the command out; and
// it breaks no lines.
class RunFormatter : public CLI::Formatter {
 public:
  explicit RunFormatter(std::string words) : words_(std::move(words)) {}
  std::string make_usage(const CLI::App* /*app*/, std::string /*name*/) const override {
    return "Usage: superpipe " + words_ + " [FLAGS] -- COMMAND [ARGUMENTS...]\n";
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    constexpr std::size_t kWidth = 100;
    return wrapped(option->get_description(), kWidth - get_column_width());
  }

 private:
  std::string words_;  // after the program's name
};

/// A subcommand that starts a program: what stands after "--".
class StartingSubcommand : public Subcommand {
 public:
  std::string too_much(const std::string& word) const override {
    return "'" + word + "' is not a flag; put the command after \"--\": superpipe " + name() +
           " [FLAGS] -- " + word + " ...";
  }

 protected:
  /// Adds the flags of `superpipe run` but `left_out`.
  static void add_run_flags(CLI::App& app, RunOptions& options,
                            std::optional<SettingId> left_out = {}) {
    for (const Setting& setting : all_settings()) {
      if (!setting.has_flag() || setting.id == left_out) continue;
      std::string& value = options.flag(setting.id);
      if (setting.kind == SettingKind::kSwitch) {
        app.add_flag_callback(
            setting.flag, [&value] { value = "1"; }, description_of(setting));
      } else {
        app.add_option(setting.flag, value, description_of(setting))
            ->type_name(setting.placeholder);
      }
    }
  }
  /// Puts the command of `line` into `options`. @return the exit code if there is none.
  std::optional<int> take_command(const CommandLine& line, RunOptions& options) const {
    if (line.command) options.command = *line.command;
    if (!options.command.empty() && !options.command.front().empty()) return std::nullopt;
    return bad_usage(
        name(), "no command; put it after \"--\": superpipe " + name() + " [FLAGS] -- COMMAND ...");
  }
};

class RunSubcommand final : public StartingSubcommand {
 public:
  std::string name() const override { return "run"; }
  std::string purpose() const override { return "Run a command under superpipe"; }
  void add_to(CLI::App& run) override {
    run.formatter(std::make_shared<RunFormatter>(name()));
    add_run_flags(run, options_);
    run.footer(run_help_footer());
  }
  int start(const CommandLine& line) override {
    if (const auto code = take_command(line, options_)) return *code;
    if (const auto problem = problem_with(options_)) return bad_usage(name(), *problem);
    return run_command(options_);
  }

 private:
  RunOptions options_;
};

/// The same with a trace, whose flag is short and comes first.
class ProfileSubcommand final : public StartingSubcommand {
 public:
  std::string name() const override { return "profile"; }
  std::string purpose() const override { return "Run a command and record a trace of it"; }
  void add_to(CLI::App& profile) override {
    profile.formatter(std::make_shared<RunFormatter>("profile -o FILE"));
    options_.subcommand = "profile";
    add(profile, "-o,--trace", options_.flag(SettingId::kTrace),
        "The file to record in; an old one is overwritten", "FILE");
    add_run_flags(profile, options_, SettingId::kTrace);
    profile.footer(R"(Examples:
  superpipe profile -o run.sptrace -- python generate.py                 with what the device has free
  superpipe profile -o run.sptrace --gpu-mem 6G -- python generate.py    while it runs with 6 GiB
  superpipe profile -o run.sptrace --simulate -- superpipe-layers        without a GPU

It takes the flags of superpipe run, and runs the command in the same way. At its end a line says what
was recorded. A command of several processes writes run.sptrace, run.sptrace.PID and so on; name the first
to those who read them. Exit code: as superpipe run.)");
  }
  int start(const CommandLine& line) override {
    if (options_.flag(SettingId::kTrace).empty()) {
      return bad_usage(name(), "no file; name the one to record in with -o FILE");
    }
    if (switched_off()) {
      return bad_usage(name(), "SUPERPIPE_OFF=1 is set, and nothing is recorded without superpipe");
    }
    if (const auto code = take_command(line, options_)) return *code;
    if (const auto problem = problem_with(options_)) return bad_usage(name(), *problem);
    return run_command(options_);
  }

 private:
  RunOptions options_;
};

class VerifySubcommand final : public StartingSubcommand {
 public:
  std::string name() const override { return "verify"; }
  std::string purpose() const override {
    return "Compare what a command copies out of the device without and with superpipe";
  }
  void add_to(CLI::App& verify) override {
    verify.formatter(std::make_shared<RunFormatter>(name()));
    add(verify, "--budget", options_.budgets,
        "Run with each of these as --gpu-mem (default: what is free, and half of what the program "
        "then takes)",
        "SIZE,...");
    verify.add_flag("--json", options_.json, "Write one JSON object instead of text");
    add_run_flags(verify, options_.run);
    verify.footer(R"(Examples:
  superpipe verify -- python3 train.py             with all the memory that is free, and with half of what that took
  superpipe verify --budget 60%,6G -- ./program    with two budgets
  superpipe verify --simulate -- ./program         on simgpu

The program runs twice without superpipe first: what then changes from run to run is not compared. Compared are all
copies from the device to the host but those that graphs make, the exit code and the lines of standard output. Standard
input is empty. Other flags are those of superpipe run. Exit code: 0 the same, 1 not, or nothing could be compared, 2 bad
usage, 125 to 127 the program could not be started.)");
  }
  int start(const CommandLine& line) override {
    if (const auto code = take_command(line, options_.run)) return *code;
    if (const auto problem = problem_with(options_)) return bad_usage(name(), *problem);
    return verify_command(options_);
  }

 private:
  VerifyOptions options_;
};

class PlanSubcommand final : public Subcommand {
 public:
  std::string name() const override { return "plan"; }
  std::string purpose() const override {
    return "Say how a traced program would do with other budgets, policies and links";
  }
  void add_to(CLI::App& plan) override {
    add(plan, "FILE", options_.file, "A trace of superpipe profile", "");
    add(plan, "--gpu-mem", options_.gpu_mem, "Device memory to plan for (default: several shares)",
        "SIZE,...");
    add(plan, "--policy", options_.policies, "Policies (default: auto)", "NAME,...");
    add(plan, "--k", options_.k, "Layers on the device, for policies that count them", "N");
    add(plan, "--k-prime", options_.k_prime, "Layers moved at a time", "N");
    add(plan, "--link", options_.link,
        "gen3, gen4, gen5, one of these with x8, or GB/s each way (default: gen4)", "LINK");
    add(plan, "--fit", options_.fit, "Would it run on this card, or in so much memory?",
        "CARD|SIZE");
    plan.add_flag("--sweep", options_.sweep, "All budgets in steps of 5 %, under four policies");
    add(plan, "--svg", options_.svg, "Write a picture of the trade-off", "FILE");
    plan.add_flag("--json", options_.json, "Write one JSON object instead of text");
    plan.footer(R"(Examples:
  superpipe profile -o run.sptrace -- python generate.py      record what the program does, on any device that it fits
  superpipe plan run.sptrace                                  what it would take, in several budgets
  superpipe plan run.sptrace --fit rtx4090                    will it run on that card, and how fast; also --fit 24G
  superpipe plan run.sptrace --gpu-mem 6G,8G --link gen5      two budgets over another link
  superpipe plan run.sptrace --sweep --svg trade-off.svg      all of the trade-off, as a table and a picture

The traced program runs again in virtual time, under the policy and the manager that superpipe run has. Kernels take
as long as they were measured to take, or an estimate by the trace's length, which it says. Exit code: 0, 1 what was asked about does not run, 2 bad usage or no usable
trace.)");
  }
  std::string too_much(const std::string& word) const override {
    return "'" + word + "' is too much: it takes one trace";
  }
  int start(const CommandLine& line) override {
    if (line.command) return bad_usage(name(), "it takes no command, but a trace of one");
    if (const auto problem = problem_with(options_)) return bad_usage(name(), *problem);
    return plan_command(options_);
  }

 private:
  PlanOptions options_;
};

class ReportSubcommand final : public Subcommand {
 public:
  std::string name() const override { return "report"; }
  std::string purpose() const override { return "Make a page of traces, for a browser"; }
  void add_to(CLI::App& report) override {
    report.add_option("FILE", options_.files, "The traces; several are drawn on one axis")
        ->type_name("");
    add(report, "-o,--output", options_.output, "The page to write, - for standard output", "FILE");
    add(report, "--link", options_.link,
        "For the plan: gen3, gen4, gen5, one of these with x8, or GB/s each way (default: gen4)",
        "LINK");
    report.add_flag("--no-plan", options_.no_plan,
                    "Leave out what other budgets would do, which takes the longest");
    report.footer(R"(Examples:
  superpipe profile -o run.sptrace --gpu-mem 6G -- python generate.py   record what the program does
  superpipe report run.sptrace -o report.html                           look at it in a browser
  superpipe report small.sptrace large.sptrace -o both.html             two runs on one axis

The page needs no other file and no network: memory and budget, what was on the device when, link, stalls with the
bytes that caused them, layers, kernels, call sites, and a slider over budgets. Its size does not depend on the
trace's. Exit code: 0 written, 2 bad usage, a FILE that is no trace or is damaged, or a page that cannot be written.)");
  }
  int start(const CommandLine& line) override {
    if (line.command) return bad_usage(name(), "it takes no command, but traces");
    if (const auto problem = problem_with(options_)) return bad_usage(name(), *problem);
    return report_command(options_);
  }

 private:
  ReportOptions options_;
};

class ExportSubcommand final : public Subcommand {
 public:
  std::string name() const override { return "export"; }
  std::string purpose() const override { return "Write a trace in a format that other tools read"; }
  void add_to(CLI::App& command) override {
    add(command, "FILE", options_.file, "The trace", "");
    command.add_option("--format", options_.format, "What to make of it: " + export_formats())
        ->type_name("NAME");
    add(command, "-o,--output", options_.output,
        "The file to write, - for standard output (default: named after FILE)", "FILE");
    add(command, "--stacks", options_.stacks,
        "What collapsed stacks weigh: allocated, peak or stalls (default allocated)", "NAME");
    command.footer(R"(Formats:
  perfetto        for ui.perfetto.dev and its trace processor: streams, link, memory, marks
  chrome          the same as JSON, for chrome://tracing and what else reads it
  torch-snapshot  allocations, for torch.cuda._memory_viz and pytorch.org/memory_viz
  csv             a row for each event, a column for each field
  collapsed       stacks with weights, for flamegraph.pl and inferno
  speedscope      the same for www.speedscope.app, all weights in one file

Examples:
  superpipe export run.sptrace --format perfetto                  writes run.perfetto-trace
  superpipe export run.sptrace --format csv -o - | grep ^stall    to standard output
  superpipe export run.sptrace --format collapsed --stacks peak   bytes by call site at the peak
  superpipe export run.sptrace --format torch-snapshot -o run.pickle
  python -m torch.cuda._memory_viz trace_plot run.pickle -o run.html

Weights of stacks: allocated (bytes by call site), peak (those held when most was) and stalls (nanoseconds by
kernel). Exit code: 0 written, 1 the output cannot be written, 2 bad usage, or FILE is no trace or is damaged.)");
  }
  std::string too_much(const std::string& word) const override {
    return "'" + word + "' is too much: it takes one trace";
  }
  int start(const CommandLine& line) override {
    if (line.command) return bad_usage(name(), "it takes no command");
    if (const auto problem = problem_with(options_)) return bad_usage(name(), *problem);
    return export_command(options_);
  }

 private:
  ExportOptions options_;
};

class BudgetSubcommand final : public Subcommand {
 public:
  std::string name() const override { return "budget"; }
  std::string purpose() const override {
    return "Say or change how much of the device a running program may use";
  }
  void add_to(CLI::App& budget) override {
    add(budget, "PID", options_.pid, "The process (default: list those that there are)", "");
    add(budget, "SIZE", options_.size, "Its new budget (default: say what it is)", "");
    add(budget, "--timeout", options_.timeout, "How long to wait at most (default 10)", "SECONDS");
    budget.footer(R"(Examples:
  superpipe budget               which processes of yours run under superpipe, and their budgets
  superpipe budget 4711          the budget of process 4711, and what its pages take
  superpipe budget 4711 6G       allows it 6 GiB from now on; returns when its pages fit
  superpipe budget 4711 40%      the same as a share of its device

SIZE is as in superpipe run --gpu-mem: all that the process takes of the device. Exit code: 0 the budget is in
force and the pages fit, 1 not, and a line says why, 2 bad usage. man superpipe-run says what a budget is.)");
  }
  std::string too_much(const std::string& word) const override {
    return "'" + word + "' is too much: it takes a process and a size";
  }
  int start(const CommandLine& line) override {
    if (line.command) return bad_usage(name(), "it takes no command");
    if (const auto problem = problem_with(options_)) return bad_usage(name(), *problem);
    return budget_command(options_);
  }

 private:
  BudgetOptions options_;
};

class TopSubcommand final : public Subcommand {
 public:
  std::string name() const override { return "top"; }
  std::string purpose() const override {
    return "Show what running programs do: memory, transfers, stalls";
  }
  void add_to(CLI::App& top) override {
    add(top, "PID", options_.pid, "The process (default: all of yours)", "");
    top.add_flag("--once", options_.once, "Print one table, or JSON object, and end");
    top.add_flag("--json", options_.json, "Print a JSON object per look instead of a screen");
    add(top, "--interval", options_.interval, "Seconds between looks (default 1)", "SECONDS");
    add(top, "--prometheus", options_.prometheus,
        "Write metrics to a file at each look, which is never seen half written, and remove it at "
        "the end",
        "FILE");
    top.footer(R"(Examples:
  superpipe top                                 all your processes under superpipe; ? on the screen says more
  superpipe top 4711                            process 4711 alone, until it ends
  superpipe top --once                          a table of now; also where stdout is no terminal
  superpipe top --json --interval 10            a JSON object on a line of its own every 10 seconds
  superpipe top --prometheus /run/superpipe.prom --interval 15
                                                metrics for node_exporter's textfile collector, until it is ended

Rates are those between two looks, with --once half a second (or --interval) apart. Exit code: 0, 1 the process cannot
be looked at, or the terminal is not known, 2 bad usage, or a file cannot be written.)");
  }
  std::string too_much(const std::string& word) const override {
    return "'" + word + "' is too much: it takes one process at most";
  }
  int start(const CommandLine& line) override {
    if (line.command) return bad_usage(name(), "it takes no command");
    if (const auto problem = problem_with(options_)) return bad_usage(name(), *problem);
    return top_command(options_);
  }

 private:
  TopOptions options_;
};

class DoctorSubcommand final : public Subcommand {
 public:
  std::string name() const override { return "doctor"; }
  std::string purpose() const override {
    return "Say what this machine offers, what its device answers, and what is missing";
  }
  void add_to(CLI::App& doctor) override {
    doctor.add_flag("--simulate", options_.simulate, "Look at the simulated GPU");
    doctor.add_flag("--json", options_.json, "Write one JSON object instead of text");
    add(doctor, "--output", options_.output, "Write the JSON object to a file too", "FILE");
    add(doctor, "--probe", options_.probes,
        "Ask only these questions, such as H1,H3 (default: all)", "IDS");
    doctor.add_flag("--no-probes", options_.no_probes, "Ask none: measure nothing");
    doctor.add_flag("--list", options_.list, "Say which questions there are, and end");
    doctor.add_flag("--quick", options_.quick, "Fewer sizes and repetitions: less than a minute");
    add(doctor, "--probe-timeout", options_.probe_timeout,
        "How long one question may take (default 60)", "SECONDS");
    add(doctor, "--host-mem", options_.host_mem,
        "Host memory that a question may use (default: what is available)", "SIZE");
    add(doctor, "--cudart", options_.cudart,
        "NVIDIA's runtime library for H0 (default: looked for)", "FILE");
    doctor.footer(R"(Examples:
  superpipe doctor                              all questions, a few minutes at most
  superpipe doctor --quick --output truth.json  in less than a minute; text here, JSON in the file
  superpipe doctor --probe H1,H3 --json         two of them
  superpipe doctor --no-probes                  only what driver, devices and host say of themselves
  superpipe doctor --simulate --quick           on simgpu

Each question is asked in a process of its own; one that crashes, hangs or fails is reported and does
not change the exit code. Exit code: 0 programs can run under superpipe here, 1 something stands in
the way (no driver, too old a driver, no device, a missing part), 2 bad usage.)");
  }
  int start(const CommandLine& line) override {
    if (line.command) return bad_usage(name(), "it takes no command");
    if (const auto problem = problem_with(options_)) return bad_usage(name(), *problem);
    return doctor_command(options_);
  }

 private:
  DoctorOptions options_;
};

/// All of them, in the order of the help.
std::vector<std::unique_ptr<Subcommand>> all_subcommands() {
  std::vector<std::unique_ptr<Subcommand>> all;
  all.push_back(std::make_unique<RunSubcommand>());
  all.push_back(std::make_unique<ProfileSubcommand>());
  all.push_back(std::make_unique<PlanSubcommand>());
  all.push_back(std::make_unique<ReportSubcommand>());
  all.push_back(std::make_unique<ExportSubcommand>());
  all.push_back(std::make_unique<VerifySubcommand>());
  all.push_back(std::make_unique<BudgetSubcommand>());
  all.push_back(std::make_unique<TopSubcommand>());
  all.push_back(std::make_unique<DoctorSubcommand>());
  return all;
}

// The parser, and the subcommands, whose options it fills.
class Parser {
 public:
  Parser() {
    app_.set_version_flag("--version", "superpipe " SUPERPIPE_VERSION);
    app_.require_subcommand(1);
    app_.footer("superpipe run --help has examples.");
    for (const auto& subcommand : subcommands_) {
      apps_.push_back(app_.add_subcommand(subcommand->name(), subcommand->purpose()));
      subcommand->add_to(*apps_.back());
    }
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

  // The one that was asked for; null: none was.
  [[nodiscard]] Subcommand* parsed() const {
    for (std::size_t i = 0; i < apps_.size(); ++i) {
      if (apps_[i]->parsed()) return subcommands_[i].get();
    }
    return nullptr;
  }

 private:
  [[nodiscard]] int refuse_extra_word() const {
    const Subcommand* const subcommand = parsed();
    const auto extras = app_.remaining(true);
    const std::string word = extras.empty() ? "" : extras.front();
    if (subcommand == nullptr) return bad_usage("", no_such_flag(word, ""));
    return bad_usage(subcommand->name(), is_flag(word) ? no_such_flag(word, subcommand->name())
                                                       : subcommand->too_much(word));
  }

  // What to say where no subcommand was found; `first` is the first word, empty if there is none.
  [[nodiscard]] std::string no_subcommand(const std::string& first) const {
    if (is_flag(first)) return no_such_flag(first, "");
    std::string names;
    for (const auto& subcommand : subcommands_) {
      names += (names.empty() ? "" : ", ") + subcommand->name();
    }
    return (first.empty() ? "no subcommand" : "there is no subcommand '" + first + "'") +
           "; it is one of " + names + " (see --help)";
  }

  CLI::App app_{"superpipe: runs CUDA programs whose models are larger than the GPU", "superpipe"};
  const std::vector<std::unique_ptr<Subcommand>> subcommands_ = all_subcommands();
  std::vector<CLI::App*> apps_;  // in the same order
};

int run_main(int argc, char** argv) {
  // What follows "--" belongs to the program that is run, whatever it looks like.
  const CommandLine line = split_at_separator(argc, argv);
  const std::string first = line.first();
  // The doctor starts this executable for what has to be seen in a program of its own.
  if (first == kChildProgramWord) {
    return child_program_main({line.own.begin() + 1, line.own.end()});
  }
  Parser parser;
  if (const auto code = parser.parse(line)) return *code;
  return parser.parsed()->start(line);
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
