#include "tools/superpipe/verify_command.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

#include "policy/budget.h"
#include "profiler/process_name.h"
#include "settings/settings.h"
#include "tools/superpipe/copy_comparison.h"
#include "tools/superpipe/exit_code.h"
#include "tools/superpipe/output_comparison.h"
#include "tools/superpipe/plain_text.h"
#include "tools/superpipe/run_environment.h"
#include "tools/superpipe/run_preparation.h"
#include "tools/superpipe/trace_exporter.h"
#include "tools/superpipe/verify_runs.h"

namespace superpipe::cli {
namespace {

using nlohmann::json;

/// Lines of standard error that are shown of a run which ends otherwise than without superpipe.
constexpr std::size_t kShownLines = 8;
/// The most of a kernel's name that is shown: those of templates fill pages.
constexpr std::size_t kShownName = 100;
/// Frames of a call site that are shown, from the innermost outside the CUDA runtime on.
constexpr std::size_t kShownFrames = 4;

/// What a run with superpipe has otherwise than both without.
struct Verdict {
  VerifyRun run;
  CopyComparison copies{};
  bool ends_otherwise = false;
  std::vector<std::size_t> lines{};  ///< of output that differ, from 0

  [[nodiscard]] bool has_same_copies() const { return copies.differing == 0; }
  [[nodiscard]] bool is_same() const {
    return has_same_copies() && !ends_otherwise && lines.empty();
  }
  [[nodiscard]] bool differs_in_output_only() const {
    return has_same_copies() && !ends_otherwise && !lines.empty();
  }
  /// Whether superpipe was there, as far as it has not said that the program runs without it.
  [[nodiscard]] bool is_managed() const {
    return std::none_of(run.errors.begin(), run.errors.end(), [](const std::string& error) {
      return error.rfind("superpipe: ", 0) == 0 &&
             error.find("the program runs without superpipe") != std::string::npos;
    });
  }
};

/// What the program does without superpipe, and whether it does the same with it.
class Verification {
 public:
  Verification(VerifyRun first, const VerifyRun& second, OutputRule rule)
      : first_(std::move(first)),
        ends_alike_(first_.end.exit_code == second.end.exit_code),
        copies_(first_.copies, second.copies),
        output_(first_.output, rule) {
    add_output_of(second);
  }

  /// One more run without superpipe: lines of output that are others in it are not compared.
  void add_output_of(const VerifyRun& run) { output_.add(run.output); }

  [[nodiscard]] const CopyBaseline& copies() const { return copies_; }
  [[nodiscard]] const OutputBaseline& output() const { return output_; }
  [[nodiscard]] const VerifyRun& first() const { return first_; }
  /// Whether the program ends in the same way each time.
  [[nodiscard]] bool ends_alike() const { return ends_alike_; }

  [[nodiscard]] Verdict judge(VerifyRun run) const {
    Verdict verdict;
    verdict.copies = copies_.compare(run.copies);
    verdict.ends_otherwise = ends_alike() && run.end.exit_code != first_.end.exit_code;
    verdict.lines = output_.differing(run.output);
    verdict.run = std::move(run);
    return verdict;
  }

 private:
  VerifyRun first_;
  bool ends_alike_;
  CopyBaseline copies_;
  OutputBaseline output_;
};

// Lines can be the same twice by chance, as printed times are: where one is another with superpipe
// while all copies are the same, the program runs again without, to see whether it always is.
void see_whether_lines_vary(VerifyRunner& runner, Verification& verification,
                            std::vector<Verdict>& verdicts) {
  constexpr std::size_t kMostRuns = 3;
  const auto is_doubtful = [](const Verdict& verdict) { return verdict.differs_in_output_only(); };
  for (std::size_t i = 1;
       i <= kMostRuns && std::any_of(verdicts.begin(), verdicts.end(), is_doubtful); ++i) {
    verification.add_output_of(runner.once_more_without_superpipe(i, kMostRuns));
    for (Verdict& verdict : verdicts) {
      verdict.lines = verification.output().differing(verdict.run.output);
    }
  }
}

std::string quoted_line(const std::vector<std::string>& lines, std::size_t index) {
  return index < lines.size() ? "'" + lines[index] + "'" : "the end of the output";
}

// "FUNCTION (MODULE+0xOFFSET), called by ...", of Python's functions alone if there are some; empty
// where it is not known.
std::string text_of_call_site(const std::vector<std::string>& lines) {
  std::vector<CallFrame> frames;
  frames.reserve(lines.size());
  for (const std::string& line : lines) frames.push_back(parse_frame(line));
  if (std::ranges::any_of(frames, &CallFrame::is_python)) {
    std::erase_if(frames, [](const CallFrame& frame) { return !frame.is_python(); });
  }
  std::string text;
  const std::size_t first = first_frame_of_program(frames);
  for (std::size_t i = first; i < std::min(frames.size(), first + kShownFrames); ++i) {
    if (!text.empty()) text += ", called by ";
    const CallFrame& frame = frames[i];
    text += frame.function == frame.place
                ? frame.place
                : shortened(frame.function, kShownName) + " (" + frame.place + ")";
  }
  return text;
}

std::string name_of_copy(const CopyRecord& copy, std::size_t process) {
  std::string name =
      "copy " + std::to_string(copy.number) + " of thread " + std::to_string(copy.thread);
  if (process > 0) name += " of process " + std::to_string(process + 1);
  return name;
}

std::string text_of(const CopyDifference& difference) {
  const CopyRecord& copy = difference.copy;
  std::ostringstream text;
  text << name_of_copy(copy, difference.process) << ", " << exact_bytes(copy.bytes) << ", ";
  switch (difference.kind) {
    case CopyDifference::Kind::kContent:
      text << "has other content";
      break;
    case CopyDifference::Kind::kSize:
      text << "has another size";
      break;
    case CopyDifference::Kind::kMissing:
      text << "is missing";
      break;
    case CopyDifference::Kind::kAdditional:
      text << "is not made without superpipe";
      break;
  }
  if (copy.source && difference.kind != CopyDifference::Kind::kAdditional) {
    text << "; it comes from byte " << copy.source->offset.count() << " of an allocation of "
         << exact_bytes(copy.source->buffer);
    if (copy.source->launch && !difference.kernel.empty()) {
      text << ", which launch " << copy.source->launch->number << ", of kernel "
           << shortened(difference.kernel, kShownName) << ", was the last to name";
    }
  }
  const std::string copied_by = text_of_call_site(difference.frames);
  if (!copied_by.empty()) text << "; it is copied by " << copied_by;
  return text.str();
}

// Behind what was said of how the run ends.
void say_last_errors(const VerifyRun& run) {
  if (run.errors.empty()) {
    std::cout << "; it wrote nothing to standard error\n";
    return;
  }
  std::cout << "; its last lines on standard error:\n";
  const std::size_t shown = std::min(run.errors.size(), kShownLines);
  for (std::size_t i = run.errors.size() - shown; i < run.errors.size(); ++i) {
    std::cout << "    " << run.errors[i] << '\n';
  }
}

// "in line 2: 'b' instead of 'a', and 3 more".
std::string text_of_lines(const Verification& verification, const Verdict& verdict) {
  const std::size_t line = verdict.lines.front();
  std::string text = "in line " + std::to_string(line + 1) + ": " +
                     quoted_line(verdict.run.output, line) + " instead of " +
                     quoted_line(verification.output().lines(), line);
  if (verdict.lines.size() > 1) {
    text += ", and in " + std::to_string(verdict.lines.size() - 1) + " more";
  }
  return text;
}

void say_differences(const Verification& verification, const Verdict& verdict) {
  if (verdict.differs_in_output_only()) {
    std::cout << "DIFFERENT OUTPUT " << verdict.run.name << ": every copy is the same ("
              << verdict.copies.compared << " out of the device, "
              << format_bytes(verdict.copies.bytes) << "), and the exit code; the output differs "
              << text_of_lines(verification, verdict)
              << ". --output no-times leaves times out, and --output ignore all of it\n";
    return;
  }
  std::cout << "DIFFERENT " << verdict.run.name << ":\n";
  if (verdict.copies.first) {
    std::cout << "  " << verdict.copies.differing << " of " << verification.copies().copies()
              << " copies out of the device differ; the first: " << text_of(*verdict.copies.first)
              << '\n';
  }
  if (!verdict.lines.empty()) {
    std::cout << "  the output differs " << text_of_lines(verification, verdict) << '\n';
  }
  if (verdict.ends_otherwise) {
    std::cout << "  " << verdict.run.end.text() << " instead of "
              << verification.first().end.text();
    say_last_errors(verdict.run);
  }
}

/// Which share of the bytes that the program copies out was judged, from 0 to 1.
double judged_share(const CopyBaseline& copies) {
  const auto all = static_cast<double>(copies.bytes().count());
  return all > 0 ? static_cast<double>(copies.judged_bytes().count()) / all : 1;
}

bool is_mostly_judged(const CopyBaseline& copies) { return judged_share(copies) >= 0.5; }

/// "1.3 KiB of 2 MiB, 0.1 %".
std::string text_of_judged_share(const CopyBaseline& copies) {
  std::ostringstream text;
  text << format_bytes(copies.judged_bytes()) << " of " << format_bytes(copies.bytes()) << ", "
       << std::fixed << std::setprecision(1) << 100 * judged_share(copies) << " %";
  return text.str();
}

/// Names what the share leaves out.
void say_judged_share(const CopyBaseline& copies) {
  constexpr std::size_t kNamedCopies = 3;
  std::cout << "judged: " << text_of_judged_share(copies)
            << " of the bytes that the program copies out; the largest of the others: ";
  const char* separator = "";
  for (const NotJudged& other : copies.largest_not_judged(kNamedCopies)) {
    std::cout << separator << name_of_copy(other.copy, other.process) << " ("
              << format_bytes(other.copy.bytes) << ')';
    separator = ", ";
  }
  std::cout << '\n';
}

// What was not compared, and why.
void say_limits(const Verification& verification) {
  const CopyBaseline& copies = verification.copies();
  if (verification.first().end.exit_code != 0) {
    std::cout << "the program fails without superpipe too (" << verification.first().end.text()
              << ")";
    say_last_errors(verification.first());
  }
  if (copies.varying() > 0) {
    std::cout << "not compared: the content of " << copies.varying() << " of " << copies.copies()
              << " copies, which changes from run to run without superpipe too\n";
  }
  if (copies.is_unordered()) {
    std::cout << "compared without their order: copies, which come in another order, or in another "
                 "number, from run to run without superpipe too\n";
  }
  if (copies.unseen() > 0) {
    std::cout << "not compared: the content of " << copies.unseen()
              << " copies that the program captured into graphs\n";
  }
  if (copies.varying() + copies.unseen() > 0) say_judged_share(copies);
  const OutputBaseline& output = verification.output();
  if (output.varying() > 0) {
    std::cout << "not compared: " << output.varying() << " of " << output.lines().size()
              << " lines of output, which change from run to run without superpipe too\n";
  }
  if (output.rule() == OutputRule::kNoTimes) {
    std::cout << "not compared: times and rates in the output\n";
  }
  if (output.rule() == OutputRule::kIgnore) std::cout << "not compared: the output\n";
  if (!verification.ends_alike()) {
    std::cout << "not compared: how the program ends, which changes from run to run without "
                 "superpipe too\n";
  }
}

std::string moved(const VerifyRun& run) {
  if (!run.statistics.is_object()) {
    // Statistics are written by what runs at the exit of a process.
    return run.end.signal != 0 ? "superpipe could not say what it moved"
                               : "superpipe had nothing to manage, or the program ended by _exit()";
  }
  return "peak " + format_bytes(run.statistic("peak_device_bytes")) + ", " +
         format_bytes(run.statistic("h2d_bytes")) + " moved in, " +
         format_bytes(run.statistic("d2h_bytes")) + " out";
}

json json_of(const Verification& verification, const Verdict& verdict) {
  json run{{"run", verdict.run.name},
           {"same", verdict.is_same()},
           {"same_copies", verdict.has_same_copies()},
           {"same_exit_code", !verdict.ends_otherwise},
           {"different_lines", verdict.lines.size()},
           {"managed", verdict.is_managed()},
           {"exit_code", verdict.run.end.exit_code},
           {"expected_exit_code", verification.first().end.exit_code},
           {"compared_copies", verdict.copies.compared},
           {"compared_bytes", verdict.copies.bytes.count()},
           {"different_copies", verdict.copies.differing},
           {"h2d_bytes", verdict.run.statistic("h2d_bytes").count()},
           {"d2h_bytes", verdict.run.statistic("d2h_bytes").count()}};
  if (verdict.copies.first) run["first_difference"] = text_of(*verdict.copies.first);
  if (!verdict.lines.empty()) {
    const std::size_t line = verdict.lines.front();
    const auto text_in = [line](const std::vector<std::string>& lines) {
      return line < lines.size() ? json(lines[line]) : json();
    };
    run["different_line"] = line + 1;
    run["line"] = text_in(verdict.run.output);
    run["expected_line"] = text_in(verification.output().lines());
  }
  return run;
}

int report(const Verification& verification, const std::vector<Verdict>& verdicts, bool as_json) {
  const bool same = std::all_of(verdicts.begin(), verdicts.end(),
                                [](const Verdict& verdict) { return verdict.is_same(); });
  const CopyBaseline& copies = verification.copies();
  const bool is_managed = std::all_of(verdicts.begin(), verdicts.end(),
                                      [](const Verdict& verdict) { return verdict.is_managed(); });
  const bool compares = copies.copies() > copies.varying() + copies.unseen() && is_managed;
  const int code = !same || !compares         ? kProblemFound
                   : is_mostly_judged(copies) ? kSuccess
                                              : kMostlyNotJudged;
  if (as_json) {
    json runs = json::array();
    for (const Verdict& verdict : verdicts) runs.push_back(json_of(verification, verdict));
    std::cout << json{{"same", same && compares},
                      {"copies", copies.copies()},
                      {"bytes", copies.bytes().count()},
                      {"varying_copies", copies.varying()},
                      {"unseen_copies", copies.unseen()},
                      {"judged_bytes", copies.judged_bytes().count()},
                      {"mostly_judged", is_mostly_judged(copies)},
                      {"unordered", copies.is_unordered()},
                      {"output", name_of(verification.output().rule())},
                      {"varying_lines", verification.output().varying()},
                      {"runs", runs}}
                     .dump(2, ' ', false, json::error_handler_t::replace)
              << '\n';
    return code;
  }
  for (const Verdict& verdict : verdicts) {
    if (verdict.is_same() && !verdict.is_managed()) {
      std::cout << "NOT VERIFIED " << verdict.run.name << ": superpipe could do nothing there";
      say_last_errors(verdict.run);
    } else if (verdict.is_same()) {
      std::cout << "same " << verdict.run.name << ": " << verdict.copies.compared
                << " copies out of the device (" << format_bytes(verdict.copies.bytes) << "), "
                << (verification.output().rule() == OutputRule::kIgnore ? "and exit code; "
                                                                        : "exit code and output; ")
                << moved(verdict.run) << '\n';
    } else {
      say_differences(verification, verdict);
    }
  }
  say_limits(verification);
  if (same && !compares && is_managed) {
    std::cout << (copies.copies() == 0
                      ? "nothing was verified: the program copied nothing out of the device\n"
                      : "nothing was verified: no copy could be compared\n");
  }
  if (code == kMostlyNotJudged) {
    std::cout
        << "NOT JUDGED for the most part: that nothing differs says little, and the exit code "
           "is "
        << kMostlyNotJudged << "; make the program do the same in each run (seeds, order)\n";
  }
  return code;
}

std::vector<std::string> split_at_commas(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream text(list);
  for (std::string part; std::getline(text, part, ',');) parts.push_back(part);
  return parts;
}

std::string flag_text(Bytes budget) {
  return " (--gpu-mem " + std::to_string(budget.count()) + ")";
}

// The smallest budget that would have run what was refused in `run`; 0: nothing was, or nobody
// says.
Bytes least_budget(const VerifyRun& run) { return run.statistic("least_budget_bytes"); }

// A run with half of the buffers that `whole`, with all of them, had; nullopt: there were none.
// Where a launch is refused because it needs more at once, the program runs again with the smallest
// budget that the refused launches ask for. A program mostly ends with the first of them, so that
// the budget grows by an eighth of its buffers at least: all that it had are reached soon.
std::optional<VerifyRun> run_with_half(VerifyRunner& runner, const VerifyRun& whole) {
  constexpr int kMostAttempts = 4;
  constexpr std::uint64_t kStep = 8;
  const Bytes passthrough = whole.statistic("passthrough_bytes");
  const Bytes pages = saturating_subtract(whole.statistic("peak_device_bytes"), passthrough);
  if (pages == Bytes{}) return std::nullopt;
  // The context and what is left to the driver are there whatever the budget.
  Bytes budget = whole.statistic("context_bytes") + passthrough + Bytes{pages.count() / 2};
  VerifyRun run = runner.with_superpipe(budget, "with half of its buffers" + flag_text(budget));
  for (int i = 0; i < kMostAttempts && least_budget(run) > budget; ++i) {
    budget = std::max(least_budget(run), budget + (i > 0 ? Bytes{pages.count() / kStep} : Bytes{}));
    run = runner.with_superpipe(budget, "with as much as a launch needs" + flag_text(budget),
                                "again, for a launch needs more at once");
  }
  if (least_budget(run) > budget) run.name = "with less than a launch needs" + flag_text(budget);
  return run;
}

// Whether the user said how much shall stay on the device, in flags or variables.
bool says_what_stays(const RunOptions& options) {
  const SettingValues values =
      values_of(options, [](const char* name) { return std::getenv(name); });
  return values.given(SettingId::kGpuMem) != nullptr || values.given(SettingId::kK) != nullptr ||
         values.given(SettingId::kPolicy) != nullptr;
}

// Whether flags say it.
bool says_bytes_or_layers(const RunOptions& options) {
  return !options.flag(SettingId::kGpuMem).empty() || !options.flag(SettingId::kK).empty();
}

// With a budget of --budget in the place of --gpu-mem, without which a policy that counts layers is
// refused.
RunOptions with_budget(RunOptions options, const std::string& budget) {
  options.flag(SettingId::kGpuMem) = budget;
  return options;
}

}  // namespace

std::optional<std::string> problem_with(const VerifyOptions& options) {
  const auto budgets = split_at_commas(options.budgets);
  if (!options.budgets.empty() && says_bytes_or_layers(options.run)) {
    return "--budget says what stays on the device in each run, so it goes with neither --gpu-mem "
           "nor --k";
  }
  // Any size tells what is wrong with the other flags.
  const RunOptions run = budgets.empty() ? options.run : with_budget(options.run, "1G");
  if (auto problem = problem_with(run)) return problem;
  if (const std::string& stats = options.run.flag(SettingId::kStats); names_each_process(stats)) {
    return "--stats " + stats +
           ": verify reads the file after each run, and cannot tell what %p and %r become; name "
           "one "
           "without them";
  }
  if (!options.output.empty() && !output_rule_named(options.output)) {
    std::string names;
    for (const OutputRule rule : kOutputRules) {
      names.append(names.empty() ? "" : ", ").append(name_of(rule));
    }
    return "--output " + options.output + ": it takes " + names;
  }
  for (const std::string& budget : budgets) {
    if (budget.empty() || problem_with(with_budget(options.run, budget))) {
      return "--budget " + options.budgets + ": '" + budget +
             "' is no size above 0; it takes sizes with commas between them, such as 40%,3G";
    }
  }
  return std::nullopt;
}

int verify_command(const VerifyOptions& options) try {
  const auto budgets = split_at_commas(options.budgets);
  const RunOptions run = budgets.empty() ? options.run : with_budget(options.run, budgets.front());
  const RunPreparation ready = prepare_run(run);
  if (!ready.ok()) {
    std::cerr << "superpipe verify: " << ready.problem << '\n';
    return ready.code;
  }
  if (switched_off()) {
    std::cerr
        << "superpipe verify: SUPERPIPE_OFF=1 is set, so there is nothing to verify; unset it\n";
    return kCannotRun;
  }
  const bool chooses = budgets.empty() && !says_what_stays(options.run);
  // The last of those that are chosen is with half of what the program has taken, if it took
  // anything. More may follow (run_with_half()).
  VerifyRunner runner(run, ready, 2 + (chooses ? 2 : std::max<std::size_t>(budgets.size(), 1)),
                      chooses);
  VerifyRun first = runner.without_superpipe();
  const VerifyRun second = runner.without_superpipe();
  Verification verification(std::move(first), second,
                            output_rule_named(options.output).value_or(OutputRule::kLines));
  std::vector<Verdict> verdicts;
  verdicts.reserve(budgets.size() + 2);
  for (const std::string& budget : budgets) {
    verdicts.push_back(verification.judge(runner.with_superpipe(budget)));
  }
  if (budgets.empty()) {
    verdicts.push_back(verification.judge(runner.with_superpipe(
        std::nullopt, chooses ? "with superpipe" : "with superpipe and the flags")));
  }
  if (chooses) {
    auto half = run_with_half(runner, verdicts.front().run);
    if (half) verdicts.push_back(verification.judge(std::move(*half)));
  }
  see_whether_lines_vary(runner, verification, verdicts);
  return report(verification, verdicts, options.json);
} catch (const Interrupted& interrupted) {
  // As a shell expects of who was interrupted, now that the folder is gone.
  std::cerr << "superpipe verify: interrupted; nothing was verified\n";
  std::signal(interrupted.signal(), SIG_DFL);
  std::raise(interrupted.signal());
  return 128 + interrupted.signal();
}

}  // namespace superpipe::cli
