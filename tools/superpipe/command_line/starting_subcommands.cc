// The subcommands that start a program, and the one for those that others start.

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "settings/settings.h"
#include "tools/superpipe/command_line/subcommands.h"
#include "tools/superpipe/env_command.h"
#include "tools/superpipe/exit_code.h"
#include "tools/superpipe/run_command.h"
#include "tools/superpipe/run_environment.h"
#include "tools/superpipe/run_options.h"
#include "tools/superpipe/verify_command.h"

namespace superpipe::cli {
namespace {

constexpr const char* kSizes =
    "SIZE is bytes, or K, M, G, T (KiB, MiB, ...) as powers of 1024, or a percentage of the device "
    "(--host-mem: of the host's memory).";

// What shells offer for the flag of `setting`.
Values values_of_setting(const Setting& setting) {
  Values values;
  values.choices.assign(setting.choices.begin(), setting.choices.end());
  switch (setting.kind) {
    case SettingKind::kSwitch:
      values.kind = ValueKind::kNone;
      break;
    case SettingKind::kChoice:
      values.kind = ValueKind::kChoice;
      break;
    case SettingKind::kSize:
    case SettingKind::kSizeOrZero:
      values.kind = ValueKind::kSize;
      break;
    case SettingKind::kOutputFile:
    case SettingKind::kInputFile:
    case SettingKind::kFolder:
    case SettingKind::kLibraryFile:
      values.kind = ValueKind::kFile;
      break;
    case SettingKind::kLog:
      values.kind = ValueKind::kLog;
      break;
    case SettingKind::kCount:
    case SettingKind::kPinList:
      break;
  }
  return values;
}

// The heading of a flag in help.
std::string heading_of(SettingGroup group) {
  switch (group) {
    case SettingGroup::kOptions:
      return "Options";
    case SettingGroup::kMemory:
      return "Memory";
    case SettingGroup::kPolicy:
      return "Policy";
    case SettingGroup::kDiagnosis:
      return "Diagnosis";
    case SettingGroup::kRare:
      break;
  }
  return kNotInHelp;
}

// Names the flags that help leaves out.
std::string note_of_rare_flags() {
  std::string names;
  for (const Setting& setting : all_settings()) {
    if (!setting.has_flag() || setting.group != SettingGroup::kRare) continue;
    names += (names.empty() ? "" : ", ") + std::string(setting.flag);
  }
  return "Rarely needed, and explained in docs/settings.md and in the manual: " + names + ".";
}

std::vector<std::string> with_rare_flags(std::vector<std::string> notes) {
  notes.push_back(note_of_rare_flags());
  return notes;
}

std::vector<ManualEntry> run_exit_codes() {
  return {{std::to_string(kBadUsage), "bad usage"},
          {std::to_string(kCannotRun), "superpipe cannot run here"},
          {std::to_string(kNotExecutable), "the command cannot be executed"},
          {std::to_string(kCommandNotFound), "there is no such command"}};
}

/// A subcommand with the flags of `superpipe run`.
class RunFlagsSubcommand : public Subcommand {
 public:
  std::string variable_of_flag(const std::string& flag) const override {
    for (const Setting& setting : all_settings()) {
      if (flag == setting.flag) return setting.variable;
    }
    return {};
  }

 protected:
  /// Adds the flags of `superpipe run` but `left_out`.
  void add_run_flags(CLI::App& app, RunOptions& options, std::optional<SettingId> left_out = {}) {
    for (const SettingGroup group : kSettingGroups) {
      for (const Setting& setting : all_settings()) {
        if (!setting.has_flag() || setting.group != group || setting.id == left_out) continue;
        add_run_flag(app, setting, options.flag(setting.id));
      }
    }
  }

 private:
  void add_run_flag(CLI::App& app, const Setting& setting, std::string& value) {
    CLI::Option* option = nullptr;
    if (setting.kind == SettingKind::kSwitch) {
      option = app.add_flag_callback(
          setting.flag, [&value] { value = "1"; }, description_of(setting));
    } else {
      option = &add(app, setting.flag, value, description_of(setting), setting.placeholder);
    }
    option->group(heading_of(setting.group));
    complete_with(*option, values_of_setting(setting));
  }
};

/// A subcommand that starts a program: what stands after "--".
class StartingSubcommand : public RunFlagsSubcommand {
 public:
  std::string too_much(const std::string& word) const override {
    return "'" + word + "' is not a flag; put the command after \"--\": superpipe " + name() +
           " [FLAGS] -- " + word + " ...";
  }
  bool takes_command() const override { return true; }

 protected:
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
  void add_to(CLI::App& run) override { add_run_flags(run, options_); }
  Manual manual() const override {
    return {
        .synopsis = "[FLAGS] -- COMMAND [ARGUMENTS...]",
        .description =
            {"Puts superpipe's library in front of the CUDA driver and replaces itself by COMMAND. "
             "The library learns which buffers each kernel uses, keeps a part of the model on the "
             "device and the rest in host memory, and brings every buffer back before it is "
             "needed. Results are bit-identical.",
             "A bad flag is refused before anything starts. A bad variable is said in one line, "
             "and the program runs without superpipe."},
        .examples =
            {{"superpipe run --gpu-mem 6G -- python generate.py", "with 6 GiB of the device"},
             {"superpipe run --k 4 -- ./train", "with as much of the device as 4 layers take"},
             {R"(superpipe run --simulate --k 2 -- superpipe-minilm "one sentence" "another")",
              "without a GPU, on a simulated one"}},
        .notes = with_rare_flags(
            {kSizes,
             "Each flag mirrors a variable (--host-mem is SUPERPIPE_HOST_MEM); a flag wins "
             "over its variable."}),
        .exits_as_command = true,
        .exit_codes = run_exit_codes()};
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
    options_.subcommand = "profile";
    add(profile, "-o,--trace", options_.flag(SettingId::kTrace),
        "The file to record in; a trace that lies there is removed first", "FILE");
    add_run_flags(profile, options_, SettingId::kTrace);
  }
  Manual manual() const override {
    return {.synopsis = "-o FILE [FLAGS] -- COMMAND [ARGUMENTS...]",
            .examples = {{"superpipe profile -o run.sptrace -- python generate.py",
                          "with what the device has free"},
                         {"superpipe profile -o run.sptrace --gpu-mem 6G -- python generate.py",
                          "while it runs with 6 GiB"},
                         {"superpipe profile -o run.sptrace --simulate -- superpipe-layers",
                          "without a GPU"}},
            .notes = with_rare_flags(
                {"It takes the flags of superpipe run, and runs the command in the same way. At "
                 "its end a line says what was recorded, or that nothing was. A command of "
                 "several processes writes "
                 "run.sptrace, run.sptrace.PID and so on; name the first to those who read them."}),
            .exits_as_command = true,
            .exit_codes = run_exit_codes()};
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
    add(verify, "--budget", options_.budgets,
        "Run with each of these as --gpu-mem (default: what is free, and half of what the program "
        "then takes)",
        "SIZE,...");
    complete_with(
        add(verify, "--output", options_.output,
            "How standard output is compared: lines, no-times (but for times and rates in them) or "
            "ignore (not at all) (default lines)",
            "NAME"),
        {.kind = ValueKind::kChoice, .choices = {"lines", "no-times", "ignore"}});
    verify.add_flag("--json", options_.json, "Write one JSON object instead of text");
    add_run_flags(verify, options_.run);
  }
  Manual manual() const override {
    return {.synopsis = "[FLAGS] -- COMMAND [ARGUMENTS...]",
            .examples = {{"superpipe verify -- python3 train.py",
                          "with all the memory that is free, and with half of what that took"},
                         {"superpipe verify --budget 60%,6G -- ./program", "with two budgets"},
                         {"superpipe verify --output no-times -- ./program",
                          "where its output tells how long things took"},
                         {"superpipe verify --simulate -- ./program", "on simgpu"}},
            .notes = with_rare_flags(
                {"The program runs twice without superpipe first: what then changes from run "
                 "to run is not compared. Compared are all copies from the device to the host "
                 "but those that graphs make, the exit code and the lines of standard output. "
                 "Where nothing but output differs, the verdict is DIFFERENT OUTPUT. "
                 "Standard input is empty. Other flags are those of superpipe run."}),
            .exit_codes = {{std::to_string(kSuccess), "the same"},
                           {std::to_string(kProblemFound),
                            "not, be it the output alone, or nothing could be compared"},
                           {std::to_string(kBadUsage), "bad usage"},
                           {std::to_string(kMostlyNotJudged),
                            "nothing differs, but less than half of the bytes that were copied out "
                            "could be compared"},
                           {"125 to 127", "the program could not be started"}}};
  }
  int start(const CommandLine& line) override {
    if (const auto code = take_command(line, options_.run)) return *code;
    if (const auto problem = problem_with(options_)) return bad_usage(name(), *problem);
    return verify_command(options_);
  }

 private:
  VerifyOptions options_;
};

class EnvSubcommand final : public RunFlagsSubcommand {
 public:
  std::string name() const override { return "env"; }
  std::string purpose() const override {
    return "Print the variables that put a program under superpipe";
  }
  void add_to(CLI::App& env) override {
    complete_with(add(env, "--format", options_.format,
                      "What to print: sh, json, docker or k8s (default sh)", "NAME"),
                  {.kind = ValueKind::kChoice, .choices = env_formats()});
    complete_with(
        add(env, "--runtime", options_.runtime,
            "The folder that superpipe copy-runtime was given, under the path by which the program "
            "sees it (default: this installation)",
            "FOLDER"),
        {.kind = ValueKind::kFile});
    add_run_flags(env, options_.run, SettingId::kTrace);
  }
  Manual manual() const override {
    return {
        .synopsis = "[--format NAME] [--runtime FOLDER] [FLAGS]",
        .description = {"For programs that superpipe run cannot start, since something else does: "
                        "a launcher, a notebook server, a container. Prints what superpipe run "
                        "would set, but SUPERPIPE_SUMMARY: a program prints no lines at its end "
                        "unless you set that to 1."},
        .lists =
            {{"Formats",
              {{"sh",
                "for eval in a terminal, or for a file that a script sources: where the library "
                "is not there, the script ends with exit code 125"},
               {"json", "an object of strings"},
               {"docker", "lines for docker run --env-file"},
               {"k8s", "a list for the env of a container in a Kubernetes pod"}}}},
        .examples = {{"eval \"$(superpipe env --gpu-mem 6G)\"",
                      "what this shell starts from now on"},
                     {"superpipe env --gpu-mem 6G --format json", "for programs that start others"},
                     {"superpipe env --runtime /shared --gpu-mem 6G --format k8s",
                      "for a pod whose init container ran superpipe copy-runtime /shared"}},
        .notes = with_rare_flags(
            {"Formats sh and json are for programs of this machine: values of variables that "
             "are set here stay behind superpipe's, and a part that is missing is an error. "
             "Formats docker and k8s are for others: what is set here is left out, and "
             "nothing is looked for. No format asks for a driver.",
             "The loader only warns of a library that is not there, and the program then runs "
             "without superpipe. A program of Python makes sure by: import superpipe; "
             "superpipe.require_active()",
             "A script that evaluates what is printed has to look whether it was: "
             "settings=$(superpipe env --gpu-mem 6G) || exit; eval \"$settings\"",
             "Only superpipe run sees that a program ends without having opened the driver, "
             "also with --strict, and that one opens libcuda.so, the driver's name without a "
             "version."}),
        .exit_codes = {
            {std::to_string(kSuccess), "printed"},
            {std::to_string(kBadUsage), "bad usage, or standard output cannot be written"},
            {std::to_string(kCannotRun), "a part of superpipe is missing"}}};
  }
  std::string too_much(const std::string& word) const override {
    return "'" + word + "' is too much: it takes flags alone";
  }
  int start(const CommandLine& line) override {
    if (line.command) return bad_usage(name(), "it takes no command; superpipe run starts one");
    if (is_for_container(options_)) forget_environment();
    if (const auto problem = problem_with(options_)) return bad_usage(name(), *problem);
    return env_command(options_);
  }

 private:
  EnvOptions options_;
};

}  // namespace

std::unique_ptr<Subcommand> make_run_subcommand() { return std::make_unique<RunSubcommand>(); }

std::unique_ptr<Subcommand> make_profile_subcommand() {
  return std::make_unique<ProfileSubcommand>();
}

std::unique_ptr<Subcommand> make_verify_subcommand() {
  return std::make_unique<VerifySubcommand>();
}

std::unique_ptr<Subcommand> make_env_subcommand() { return std::make_unique<EnvSubcommand>(); }

}  // namespace superpipe::cli
