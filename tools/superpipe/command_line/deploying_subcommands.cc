// The subcommand that brings superpipe to other places.

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "tools/superpipe/command_line/subcommands.h"
#include "tools/superpipe/copy_runtime_command.h"
#include "tools/superpipe/exit_code.h"

namespace superpipe::cli {
namespace {

class CopyRuntimeSubcommand final : public Subcommand {
 public:
  std::string name() const override { return "copy-runtime"; }
  std::string purpose() const override {
    return "Copy superpipe into a folder that other containers or hosts see";
  }
  void add_to(CLI::App& copy) override {
    complete_with(add(copy, "FOLDER", options_.folder, "Where to put it; made if need be", ""),
                  {.kind = ValueKind::kFile});
    copy.add_flag("--simulate", options_.simulate, "With the simulated GPU");
  }
  Manual manual() const override {
    return {
        .synopsis = "FOLDER [--simulate]",
        .examples = {{"superpipe copy-runtime /shared",
                      "the command, the library and licences, in /shared/superpipe"},
                     {"superpipe env --runtime /shared --gpu-mem 6G --format k8s",
                      "what then puts programs under it"}},
        .notes = {"The copy takes its place as a whole: programs find the old one or the new one. "
                  "It replaces a copy that an earlier copy-runtime made, and nothing else. Take it "
                  "from the wheel or the package: another build may need libraries of this "
                  "machine."},
        .exit_codes = {{std::to_string(kSuccess), "copied"},
                       {std::to_string(kBadUsage), "bad usage, or FOLDER cannot be written"},
                       {std::to_string(kCannotRun), "a part of superpipe is missing"}}};
  }
  std::string too_much(const std::string& word) const override {
    return "'" + word + "' is too much: it takes one folder";
  }
  int start(const CommandLine& line) override {
    if (line.command) return bad_usage(name(), "it takes no command");
    if (const auto problem = problem_with(options_)) return bad_usage(name(), *problem);
    return copy_runtime_command(options_);
  }

 private:
  CopyRuntimeOptions options_;
};

}  // namespace

std::unique_ptr<Subcommand> make_copy_runtime_subcommand() {
  return std::make_unique<CopyRuntimeSubcommand>();
}

}  // namespace superpipe::cli
