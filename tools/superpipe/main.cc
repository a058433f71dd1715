// The command `superpipe`: reads its command line and hands over to one file per subcommand.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tools/superpipe/doctor_command.h"
#include "tools/superpipe/exit_code.h"
#include "tools/superpipe/probes/child_program.h"
#include "tools/superpipe/run_command.h"
#include "tools/superpipe/run_options.h"

namespace superpipe::cli {
namespace {

// Promised by the design, built in a later version: said clearly, not taken for a typing error.
constexpr std::array<const char*, 6> kLaterCommands = {"profile", "plan", "report",
                                                       "export",  "top",  "verify"};

constexpr const char* kRunExamples = R"(Examples:
  superpipe run --k 4 --k-prime 2 -- python generate.py     4 layers on the device, moved 2 at a time
  superpipe run --gpu-mem 6G -- ./train                     as many layers as 6 GiB hold
  superpipe run --simulate --k 2 -- superpipe-minilm "one sentence" "another"
                                                            without a GPU, on a simulated one

SIZE is bytes, or K, M, G, T (KiB, MiB, ...) as powers of 1024, or a percentage of the device.
Each flag mirrors a variable (--host-mem is SUPERPIPE_HOST_MEM); a flag wins over its variable.
Exit code: the command's own; 2 bad usage, 125 superpipe cannot run here, 126 the command cannot be
executed, 127 there is no such command.)";

constexpr const char* kDoctorExamples = R"(Examples:
  superpipe doctor                              all questions, a few minutes at most
  superpipe doctor --quick --output truth.json  in less than a minute; text here, JSON in the file
  superpipe doctor --probe H1,H3 --json         two of them
  superpipe doctor --no-probes                  only what driver, devices and host say of themselves
  superpipe doctor --simulate --quick           on simgpu

Each question is asked in a process of its own; one that crashes, hangs or fails is reported and does
not change the exit code. Exit code: 0 programs can run under superpipe here, 1 something stands in
the way (no driver, too old a driver, no device, a missing part), 2 bad usage.)";

// CLI11 sees nothing of what stands after "--", so its usage line would leave the command out.
class RunFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* /*app*/, std::string /*name*/) const override {
    return "Usage: superpipe run [FLAGS] -- COMMAND [ARGUMENTS...]\n";
  }
};

void add_run_flags(CLI::App& run, RunOptions& options) {
  const auto add = [&run](const char* flag, std::string& value, const char* meaning,
                          const char* kind) {
    run.add_option(flag, value, meaning)->type_name(kind);
  };
  add("--k", options.k, "Layers kept on the device", "N");
  add("--k-prime", options.k_prime, "Layers moved at a time, less than k (default k/2, at least 1)",
      "N");
  add("--gpu-mem", options.gpu_mem, "Device memory to use; k is the number of layers that fits",
      "SIZE");
  add("--policy", options.policy,
      "resident, naive, superpipeline or superpipeline-paper (default: superpipeline if k or a "
      "size is given, else resident)",
      "NAME");
  add("--plan", options.plan, "Follow a plan (not available in this version)", "FILE");
  add("--trace", options.trace, "Record a trace (not available in this version)", "FILE");
  run.add_flag("--simulate", options.simulate, "Run on a simulated GPU; never implied");
  add("--host-mem", options.host_mem, "Cap of the host store (default: what is available)", "SIZE");
  add("--min-buffer", options.min_buffer, "Smaller allocations stay on the device (default 1M)",
      "SIZE");
  add("--allocator", options.allocator,
      "How frameworks allocate: async (each tensor by itself, the default) or native",
      "async|native");
  add("--writeback", options.writeback,
      "What is copied back at an eviction: always (all that a kernel may have written)", "always");
  add("--overflow", options.overflow,
      "A launch that needs more than the budget: fail (the default) or allow", "fail|allow");
  add("--wait-ms", options.wait_ms, "Bound of every wait of superpipe's own (default 30000)", "MS");
  add("--fill", options.fill,
      "What new allocations read as: zero, or none (whatever was there, the default)", "zero|none");
  add("--evicted", options.evicted, "What an evicted address is: auto or unmapped",
      "auto|unmapped");
  add("--report-mem", options.report_mem,
      "What programs are told: virtual (device plus host, the default) or real", "virtual|real");
  add("--log", options.log, "Log level: debug, info, warning, error, off", "LEVEL[:FILE]");
  add("--stats", options.stats, "Write statistics as JSON at exit", "FILE");
  add("--timeline", options.timeline, "Write as CSV at exit when buffers came, went and were used",
      "FILE");
  run.add_flag("--strict", options.strict,
               "Do not run the program at all if a SUPERPIPE_ variable is bad");
  run.footer(kRunExamples);
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

// One line, whatever CLI11 would print around it.
int bad_usage(const std::string& command, const std::string& line) {
  std::cerr << "superpipe" << (command.empty() ? "" : " ") << command << ": " << line << '\n';
  return kBadUsage;
}

int run_main(int argc, char** argv) {
  // What follows "--" belongs to the program that is run, whatever it looks like.
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto separator = std::find(words.begin(), words.end(), "--");
  std::vector<std::string> own(words.begin(), separator);
  const std::string first = own.empty() ? "" : own.front();

  // The doctor starts this executable for what has to be seen in a program of its own.
  if (first == kChildProgramWord) return child_program_main({own.begin() + 1, own.end()});
  if (std::find(kLaterCommands.begin(), kLaterCommands.end(), first) != kLaterCommands.end()) {
    return bad_usage(first, "not available in this version (" SUPERPIPE_VERSION ")");
  }

  CLI::App app{"superpipe: runs CUDA programs whose models are larger than the GPU", "superpipe"};
  app.set_version_flag("--version", "superpipe " SUPERPIPE_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Later versions: profile, plan, report, export, top, verify.\n"
      "superpipe run --help has examples.");

  RunOptions run_options;
  CLI::App* const run = app.add_subcommand("run", "Run a command under superpipe");
  run->formatter(std::make_shared<RunFormatter>());
  add_run_flags(*run, run_options);

  DoctorOptions doctor_options;
  CLI::App* const doctor = app.add_subcommand(
      "doctor", "Say what this machine offers, what its device answers, and what is missing");
  add_doctor_flags(*doctor, doctor_options);

  try {
    std::reverse(own.begin(), own.end());  // CLI11 takes them last first
    app.parse(own);
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked);
  } catch (const CLI::ExtrasError&) {
    const bool in_run = run->parsed();
    const auto extras = app.remaining(true);
    const std::string word = extras.empty() ? "" : extras.front();
    if (in_run && word.rfind('-', 0) != 0) {
      return bad_usage("run", "'" + word + "' is not a flag; put the command after \"--\": " +
                                  "superpipe run [FLAGS] -- " + word + " ...");
    }
    return bad_usage(in_run              ? "run"
                     : first == "doctor" ? first
                                         : "",
                     "there is no flag '" + word + "'; see superpipe " +
                         (in_run              ? "run "
                          : first == "doctor" ? "doctor "
                                              : "") +
                         "--help");
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string text = error.what();
    return bad_usage(first, text.substr(0, text.find(':')) + ": give it once, and with a value");
  } catch (const CLI::RequiredError&) {
    return bad_usage(
        "", first.empty() ? "no subcommand; it is one of run, doctor (see --help)"
            : first[0] == '-'
                ? "there is no flag '" + first + "'; see superpipe --help"
                : "there is no subcommand '" + first + "'; it is one of run, doctor (see --help)");
  } catch (const CLI::ParseError& error) {
    return bad_usage(first.rfind('-', 0) == 0 ? "" : first, error.what());
  }

  if (doctor->parsed()) {
    if (separator != words.end()) return bad_usage("doctor", "it takes no command");
    if (const auto problem = problem_with(doctor_options)) return bad_usage("doctor", *problem);
    return doctor_command(doctor_options);
  }
  if (separator != words.end()) run_options.command.assign(separator + 1, words.end());
  if (run_options.command.empty() || run_options.command.front().empty()) {
    return bad_usage("run",
                     "no command; put it after \"--\": superpipe run [FLAGS] -- COMMAND ...");
  }
  if (const auto problem = problem_with(run_options)) return bad_usage("run", *problem);
  return run_command(run_options);
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
