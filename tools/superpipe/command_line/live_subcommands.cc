// The subcommands that look at running programs, or at the machine.

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "profiler/shared_folder.h"
#include "settings/settings.h"
#include "tools/superpipe/budget_command.h"
#include "tools/superpipe/command_line/subcommands.h"
#include "tools/superpipe/doctor_command.h"
#include "tools/superpipe/exit_code.h"
#include "tools/superpipe/probes/probe.h"
#include "tools/superpipe/top_command.h"

namespace superpipe::cli {
namespace {

std::string shared_folder_in_use() {
  return shared_folder([](const char* name) { return std::getenv(name); });
}

// What superpipe budget and top say of where they look.
std::string note_on_shared_folder() {
  return std::string("Processes are found in the folder that ") +
         variable_of(SettingId::kSharedFolder) + " names, " +
         setting(SettingId::kSharedFolder).default_value +
         " without it: it has to be the same for them and for this command, on a file system of "
         "this host.";
}

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
  }
  Manual manual() const override {
    return {.synopsis = "[PID [SIZE]] [FLAGS]",
            .examples = {{"superpipe budget",
                          "which processes of yours run under superpipe, and their budgets"},
                         {"superpipe budget 4711",
                          "the budget of process 4711, and what its pages take"},
                         {"superpipe budget 4711 6G",
                          "allows it 6 GiB from now on; returns when its pages fit"},
                         {"superpipe budget 4711 40%", "the same as a share of its device"}},
            .notes =
                {"SIZE is as in superpipe run --gpu-mem: all that the process takes of the device. "
                 "man superpipe-run says what a budget is.",
                 note_on_shared_folder()},
            .exit_codes = {{std::to_string(kSuccess), "the budget is in force and the pages fit"},
                           {std::to_string(kProblemFound), "not, and a line says why"},
                           {std::to_string(kBadUsage), "bad usage"}}};
  }
  std::string too_much(const std::string& word) const override {
    return "'" + word + "' is too much: it takes a process and a size";
  }
  int start(const CommandLine& line) override {
    if (line.command) return bad_usage(name(), "it takes no command");
    if (const auto problem = problem_with(options_)) return bad_usage(name(), *problem);
    return budget_command(options_, shared_folder_in_use());
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
  }
  Manual manual() const override {
    return {
        .synopsis = "[PID] [FLAGS]",
        .examples = {{"superpipe top",
                      "all your processes under superpipe; ? on the screen says more"},
                     {"superpipe top 4711", "process 4711 alone, until it ends"},
                     {"superpipe top --once", "a table of now; also where stdout is no terminal"},
                     {"superpipe top --json --interval 10",
                      "a JSON object on a line of its own every 10 seconds"},
                     {"superpipe top --prometheus /run/superpipe.prom --interval 15",
                      "metrics for node_exporter's textfile collector, until it is ended"}},
        .notes = {"Rates are those between two looks, with --once half a second (or --interval) "
                  "apart.",
                  note_on_shared_folder()},
        .exit_codes = {
            {std::to_string(kSuccess), "all went well"},
            {std::to_string(kProblemFound),
             "the process or the folder cannot be looked at, or the terminal is not known"},
            {std::to_string(kBadUsage),
             "bad usage, or a file or standard output cannot be written"}}};
  }
  std::string too_much(const std::string& word) const override {
    return "'" + word + "' is too much: it takes one process at most";
  }
  int start(const CommandLine& line) override {
    if (line.command) return bad_usage(name(), "it takes no command");
    if (const auto problem = problem_with(options_)) return bad_usage(name(), *problem);
    return top_command(options_, shared_folder_in_use());
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
    Values probes{.kind = ValueKind::kChoice, .is_list = true};
    for (const Probe& probe : all_probes()) probes.choices.emplace_back(probe.id);
    complete_with(
        add(doctor, "--probe", options_.probes,
            "Ask only these questions, by code or name, such as H1,map-costs (default: all)",
            "IDS"),
        std::move(probes));
    doctor.add_flag("--no-probes", options_.no_probes, "Ask none: measure nothing");
    doctor.add_flag("--list", options_.list, "Say which questions there are, and end");
    doctor.add_flag("--quick", options_.quick, "Fewer sizes and repetitions: less than a minute");
    add(doctor, "--probe-timeout", options_.probe_timeout,
        "How long one question may take (default 60)", "SECONDS");
    add(doctor, "--host-mem", options_.host_mem,
        "Host memory that a question may use (default: what is available)", "SIZE");
    add(doctor, "--cudart", options_.cudart,
        "NVIDIA's runtime library that the question 'runtime' asks (default: looked for)", "FILE");
  }
  Manual manual() const override {
    return {
        .synopsis = "[FLAGS]",
        .examples = {{"superpipe doctor", "all questions, a few minutes at most"},
                     {"superpipe doctor --quick --output truth.json",
                      "in less than a minute; text here, JSON in the file"},
                     {"superpipe doctor --probe H1,H3 --json", "two of them"},
                     {"superpipe doctor --no-probes",
                      "only what driver, devices and host say of themselves"},
                     {"superpipe doctor --simulate --quick", "on simgpu"}},
        .notes =
            {"Each question is asked in a process of its own; one that crashes, hangs or fails "
             "is reported and does not change the exit code."},
        .exit_codes = {{std::to_string(kSuccess), "programs can run under superpipe here"},
                       {std::to_string(kProblemFound),
                        "something stands in the way (no driver, too old a driver, no device, a "
                        "missing part)"},
                       {std::to_string(kBadUsage), "bad usage"}}};
  }
  int start(const CommandLine& line) override {
    if (line.command) return bad_usage(name(), "it takes no command");
    if (const auto problem = problem_with(options_)) return bad_usage(name(), *problem);
    return doctor_command(options_);
  }

 private:
  DoctorOptions options_;
};

}  // namespace

std::unique_ptr<Subcommand> make_budget_subcommand() {
  return std::make_unique<BudgetSubcommand>();
}

std::unique_ptr<Subcommand> make_top_subcommand() { return std::make_unique<TopSubcommand>(); }

std::unique_ptr<Subcommand> make_doctor_subcommand() {
  return std::make_unique<DoctorSubcommand>();
}

}  // namespace superpipe::cli
