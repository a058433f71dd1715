// The subcommands that read traces.

#include <CLI/CLI.hpp>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "settings/settings.h"
#include "tools/superpipe/command_line/subcommands.h"
#include "tools/superpipe/diff/quantity.h"
#include "tools/superpipe/diff_command.h"
#include "tools/superpipe/exit_code.h"
#include "tools/superpipe/export_command.h"
#include "tools/superpipe/plan_command.h"
#include "tools/superpipe/planner/cards.h"
#include "tools/superpipe/report_command.h"

namespace superpipe::cli {
namespace {

Values policies() {
  const Setting& policy = setting(SettingId::kPolicy);
  return {.kind = ValueKind::kChoice,
          .choices = {policy.choices.begin(), policy.choices.end()},
          .is_list = true};
}

Values links() {
  Values values{.kind = ValueKind::kChoice};
  for (const std::string_view name : link_names()) values.choices.emplace_back(name);
  return values;
}

Values cards() {
  Values values{.kind = ValueKind::kChoice};
  for (const Card& card : all_cards()) values.choices.emplace_back(card.name);
  return values;
}

Values formats() {
  Values values{.kind = ValueKind::kChoice};
  std::istringstream names(export_formats());
  for (std::string name; std::getline(names, name, ',');) {
    values.choices.push_back(name.substr(name.find_first_not_of(' ')));
  }
  return values;
}

// What may be worse by too much.
std::vector<ManualEntry> quantities() {
  std::vector<ManualEntry> entries;
  for (const QuantityKind& kind : all_quantities()) {
    if (!kind.can_be_limited()) continue;
    entries.push_back({std::string(kind.name), std::string(kind.label)});
  }
  return entries;
}

class PlanSubcommand final : public Subcommand {
 public:
  std::string name() const override { return "plan"; }
  std::string purpose() const override {
    return "Say how a traced program would do with other budgets, policies and links";
  }
  void add_to(CLI::App& plan) override {
    add(plan, "FILE", options_.file, "A trace of superpipe profile", "");
    add(plan, "--gpu-mem", options_.gpu_mem,
        "Device memory to plan for, also as a share of the traced device's (default: several "
        "shares of what the program takes)",
        "SIZE,...");
    add(plan, "--host-mem", options_.host_mem,
        "Cap of the host memory that holds what is not on the device (default: none)", "SIZE");
    complete_with(add(plan, "--policy", options_.policies, "Policies (default: auto)", "NAME,..."),
                  policies());
    add(plan, "--k", options_.k, "Layers on the device, for policies that count them", "N,...");
    add(plan, "--k-prime", options_.k_prime, "Layers that superpipeline-paper moves at a time",
        "N");
    complete_with(
        add(plan, "--link", options_.link,
            "gen3, gen4, gen5, one of these with x8, or GB/s each way (default: the traced run's, "
            "or gen4 where its trace does not tell it)",
            "LINK"),
        links());
    complete_with(
        add(plan, "--fit", options_.fit,
            "Would it run on this card (docs/cards.md), or in so much memory?", "CARD|SIZE"),
        cards());
    plan.add_flag("--sweep", options_.sweep, "All budgets in steps of 5 %, under four policies");
    add(plan, "--svg", options_.svg, "Write a picture of the trade-off", "FILE");
    add(plan, "-o,--output", options_.output,
        "Write the best plan, for superpipe run --plan; - writes it alone to standard output",
        "FILE");
    plan.add_flag("--json", options_.json, "Write one JSON object instead of text");
  }
  Manual manual() const override {
    return {
        .synopsis = "FILE [FLAGS]",
        .examples = {{"superpipe profile -o run.sptrace -- python generate.py",
                      "record what the program does, on any device that it fits"},
                     {"superpipe plan run.sptrace", "what it would take, in several budgets"},
                     {"superpipe plan run.sptrace --fit rtx4090",
                      "will it run on that card, and how fast; also --fit 24G"},
                     {"superpipe plan run.sptrace --gpu-mem 6G,8G --link gen5",
                      "two budgets over another link"},
                     {"superpipe plan run.sptrace --sweep --svg trade-off.svg",
                      "all of the trade-off, as a table and a picture"},
                     {"superpipe plan run.sptrace --gpu-mem 6G -o run.spplan",
                      "what superpipe run --plan run.spplan -- COMMAND follows from its first "
                      "pass on"}},
        .notes = {"The traced program runs again in virtual time, under the policy and the manager "
                  "that superpipe run has. Kernels take as long as they were measured to take, or "
                  "an estimate by the trace's length, which it says."},
        .exit_codes = {
            {std::to_string(kSuccess), "what was asked about runs"},
            {std::to_string(kProblemFound), "it does not run"},
            {std::to_string(kBadUsage), "bad usage, no usable trace, or what cannot be written"}}};
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
    complete_with(add(report, "--link", options_.link,
                      "For the plan: gen3, gen4, gen5, one of these with x8, or GB/s each way "
                      "(default: the traced run's, or gen4)",
                      "LINK"),
                  links());
    report.add_flag("--no-plan", options_.no_plan,
                    "Leave out what other budgets would do, which takes the longest");
  }
  Manual manual() const override {
    return {
        .synopsis = "FILE... -o PAGE [FLAGS]",
        .examples = {{"superpipe profile -o run.sptrace --gpu-mem 6G -- python generate.py",
                      "record what the program does"},
                     {"superpipe report run.sptrace -o report.html", "look at it in a browser"},
                     {"superpipe report small.sptrace large.sptrace -o both.html",
                      "two runs on one axis"}},
        .notes =
            {"The page needs no other file and no network: memory and budget, what was on the "
             "device when, link, stalls with the bytes that caused them, layers, kernels, "
             "call sites, and a slider over budgets. Its size does not depend on the trace's."},
        .exit_codes = {{std::to_string(kSuccess), "written"},
                       {std::to_string(kBadUsage),
                        "bad usage, a FILE that is no trace or is damaged, or a page that cannot "
                        "be written"}}};
  }
  int start(const CommandLine& line) override {
    if (line.command) return bad_usage(name(), "it takes no command, but traces");
    if (const auto problem = problem_with(options_)) return bad_usage(name(), *problem);
    return report_command(options_);
  }

 private:
  ReportOptions options_;
};

class DiffSubcommand final : public Subcommand {
 public:
  std::string name() const override { return "diff"; }
  std::string purpose() const override {
    return "Say what got slower between two runs, also as a gate in CI";
  }
  void add_to(CLI::App& diff) override {
    diff.add_option("FILE", options_.files,
                    "The run before and the one after: traces, or statistics (--stats)")
        ->type_name("");
    // CLI11 takes an empty text for an option that is absent, where that is an std::optional.
    diff.add_option_function<std::string>(
            "--fail-above", [this](const std::string& limits) { options_.fail_above = limits; },
            "Exit with 1 if passes take longer by more than so much, or another quantity is worse")
        ->type_name("PERCENT|NAME=PERCENT,...");
    diff.add_flag("--json", options_.json, "Write one JSON object instead of text");
  }
  Manual manual() const override {
    return {
        .synopsis = "BEFORE AFTER [FLAGS]",
        .lists = {{.heading = "What --fail-above limits", .entries = quantities()}},
        .examples = {{"superpipe diff before.sptrace after.sptrace",
                      "what is different: times, stalls by layer and kernel, bytes"},
                     {"superpipe diff before.sptrace after.sptrace --fail-above 5%",
                      "a gate: exit code 1 if a pass takes over 5 % longer"},
                     {"superpipe diff before.json after.json --fail-above "
                      "pass_ms=5%,h2d_bytes=1%,peak_device_bytes=2%",
                      "limits of its own for each quantity"},
                     {"superpipe diff before.sptrace after.sptrace --json",
                      "all of it for programs"}},
        .notes =
            {"Of traces, passes are compared from the third on: in the first two superpipe "
             "learns. A difference above a limit that is smaller than the spread of the medians "
             "is unknown, not passed."},
        .exit_codes = {{std::to_string(kSuccess), "no limit is exceeded, or there is none"},
                       {std::to_string(kProblemFound), "worse by more than is allowed"},
                       {std::to_string(kBadUsage),
                        "bad usage, files that cannot be compared, or a limit that what the runs "
                        "tell does not suffice to judge"}}};
  }
  int start(const CommandLine& line) override {
    if (line.command) return bad_usage(name(), "it takes no command, but two traces or statistics");
    if (const auto problem = problem_with(options_)) return bad_usage(name(), *problem);
    return diff_command(options_);
  }

 private:
  DiffOptions options_;
};

class ExportSubcommand final : public Subcommand {
 public:
  std::string name() const override { return "export"; }
  std::string purpose() const override { return "Write a trace in a format that other tools read"; }
  void add_to(CLI::App& command) override {
    add(command, "FILE", options_.file, "The trace", "");
    complete_with(add(command, "--format", options_.format,
                      "What to make of it: " + export_formats(), "NAME"),
                  formats());
    add(command, "-o,--output", options_.output,
        "The file to write, - for standard output (default: named after FILE)", "FILE");
    complete_with(
        add(command, "--stacks", options_.stacks,
            "What collapsed stacks weigh: allocated, peak, stalls or waits (default allocated)",
            "NAME"),
        {.kind = ValueKind::kChoice, .choices = {"allocated", "peak", "stalls", "waits"}});
  }
  Manual manual() const override {
    return {
        .synopsis = "FILE --format NAME [FLAGS]",
        .lists = {{"Formats",
                   {{"perfetto",
                     "for ui.perfetto.dev and its trace processor: streams, link, memory, marks"},
                    {"torch-snapshot",
                     "allocations, for torch.cuda._memory_viz and pytorch.org/memory_viz"},
                    {"csv",
                     "a row for each event, a column for each field, and the layer of each buffer"},
                    {"collapsed", "stacks with weights, for flamegraph.pl and inferno"},
                    {"speedscope", "the same for www.speedscope.app, all weights in one file"}}},
                  {"Weights of stacks",
                   {{"allocated", "bytes by call site"},
                    {"peak", "those held when most was"},
                    {"stalls", "nanoseconds that launches waited on the device, by kernel"},
                    {"waits", "nanoseconds that calls of the program waited, by thread"}}}},
        .examples = {{"superpipe export run.sptrace --format perfetto",
                      "writes run.perfetto-trace"},
                     {"superpipe export run.sptrace --format csv -o - | grep ^stall",
                      "to standard output"},
                     {"superpipe export run.sptrace --format collapsed --stacks peak",
                      "bytes by call site at the peak"},
                     {"superpipe export run.sptrace --format torch-snapshot -o run.pickle",
                      "for python -m torch.cuda._memory_viz trace_plot run.pickle -o run.html"}},
        .exit_codes = {
            {std::to_string(kSuccess), "written"},
            {std::to_string(kBadUsage),
             "bad usage, FILE is no trace or is damaged, or the output cannot be written"}}};
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

}  // namespace

std::unique_ptr<Subcommand> make_plan_subcommand() { return std::make_unique<PlanSubcommand>(); }

std::unique_ptr<Subcommand> make_report_subcommand() {
  return std::make_unique<ReportSubcommand>();
}

std::unique_ptr<Subcommand> make_diff_subcommand() { return std::make_unique<DiffSubcommand>(); }

std::unique_ptr<Subcommand> make_export_subcommand() {
  return std::make_unique<ExportSubcommand>();
}

}  // namespace superpipe::cli
