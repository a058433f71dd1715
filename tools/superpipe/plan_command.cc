#include "tools/superpipe/plan_command.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string_view>
#include <system_error>
#include <variant>
#include <vector>

#include "policy/budget.h"
#include "policy/policy_engine.h"
#include "profiler/trace_reader.h"
#include "tools/superpipe/exit_code.h"
#include "tools/superpipe/export_sink.h"
#include "tools/superpipe/plan_json.h"
#include "tools/superpipe/plan_recommendation.h"
#include "tools/superpipe/plan_text.h"
#include "tools/superpipe/planner/assumed_link.h"
#include "tools/superpipe/planner/cards.h"
#include "tools/superpipe/planner/planner.h"
#include "tools/superpipe/planner/trade_off_svg.h"
#include "tools/superpipe/progress_line.h"
#include "tools/superpipe/trace_files.h"

namespace superpipe::cli {
namespace {

using nlohmann::json;

// Of all that the program needs, in percent.
constexpr std::array kDefaultShares = {100, 90, 75, 50, 35, 25, 15, 10};
// As a file's name.
constexpr std::string_view kStandardOutput = "-";

int fail_plan(int code, const std::string& line) {
  std::cerr << "superpipe plan: " << line << '\n';
  return code;
}

// What went wrong with all that was written to standard output.
std::optional<std::string> problem_with_output() {
  std::cout << std::flush;
  return std::cout ? std::nullopt : std::optional<std::string>("cannot write to standard output");
}

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream text(list);
  for (std::string word; std::getline(text, word, ',');) words.push_back(word);
  return words;
}

std::optional<int> count_in(const std::string& text) {
  int count = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool whole = read.ec == std::errc() && read.ptr == text.data() + text.size();
  return whole && count >= 1 ? std::optional(count) : std::nullopt;
}

bool is_size(const std::string& text) {
  const auto size = parse_size(text);
  return size && size->resolve(Bytes{~std::uint64_t{0}}) > Bytes{};
}

/// What the flags say, resolved for the device of the trace.
struct Request {
  AssumedLink link;
  std::vector<PolicyKind> policies;
  std::vector<Bytes> budgets;
  std::vector<int> ks;
  std::optional<int> k_prime;
  std::optional<Bytes> host_mem;
};

// REQUIRES: !problem_with(options).
std::optional<Bytes> host_mem_of(const PlanOptions& options) {
  if (options.host_mem.empty()) return std::nullopt;
  return parse_size(options.host_mem)->resolve(Bytes{});
}

Request request_of(const PlanOptions& options, const TracedRun& run) {
  Request request;
  request.link = assumed_link(options.link, run);
  for (const std::string& name : words_of(options.policies)) {
    request.policies.push_back(*policy_from_name(name));
  }
  for (const std::string& k : words_of(options.k)) request.ks.push_back(*count_in(k));
  request.k_prime = count_in(options.k_prime);
  request.host_mem = host_mem_of(options);
  if (request.policies.empty()) {
    if (!request.ks.empty()) {
      request.policies = {PolicyKind::kSuperpipeline};
    } else if (options.sweep) {
      request.policies = {PolicyKind::kAuto, PolicyKind::kLru, PolicyKind::kSuperpipeline,
                          PolicyKind::kNaive};
    } else {
      request.policies = {PolicyKind::kAuto};
    }
  }
  for (const std::string& size : words_of(options.gpu_mem)) {
    request.budgets.push_back(parse_size(size)->resolve(run.device));
  }
  return request;
}

// Budgets from all that is needed down to the least that runs, rounded up to what people type.
std::vector<Bytes> chosen_budgets(const Planner& planner, bool sweep) {
  std::vector<int> shares(kDefaultShares.begin(), kDefaultShares.end());
  if (sweep) {
    shares.clear();
    for (int share = 100; share >= 5; share -= 5) shares.push_back(share);
  }
  const std::uint64_t needed = planner.needed().count();
  const Bytes unit = planner.needed() > 8_GiB ? 64_MiB : planner.needed() > 256_MiB ? 8_MiB : 1_MiB;
  std::vector<Bytes> budgets;
  for (const int share : shares) {
    const Bytes budget = round_up(Bytes{needed / 100 * static_cast<std::uint64_t>(share)}, unit);
    if (budget < planner.least()) break;
    budgets.push_back(budget);
  }
  const Bytes least = round_up(planner.least(), unit);
  if (budgets.empty() || budgets.back() > least) budgets.push_back(least);
  return budgets;
}

std::vector<Prediction> predict_all(const Planner& planner, const Request& request, bool sweep) {
  std::vector<PlanQuestion> questions;
  if (!request.ks.empty()) {
    for (const PolicyKind policy : request.policies) {
      for (const int k : request.ks) {
        questions.push_back({policy, Bytes{}, k, request.k_prime, request.host_mem});
      }
    }
  } else {
    const auto budgets = request.budgets.empty() ? chosen_budgets(planner, sweep) : request.budgets;
    for (const PolicyKind policy : request.policies) {
      for (const Bytes budget : budgets)
        questions.push_back({policy, budget, {}, {}, request.host_mem});
    }
  }
  ProgressLine progress("plan");
  std::vector<Prediction> rows;
  for (const PlanQuestion& question : questions) {
    progress.say("budget " + std::to_string(rows.size() + 1) + " of " +
                 std::to_string(questions.size()));
    rows.push_back(planner.predict(question));
  }
  return rows;
}

// Answers --fit. @return the exit code.
int write_fit(const TracedProgram& program, const PlanOptions& options) {
  const Card* const card = find_card(options.fit);
  const Bytes memory = card != nullptr ? card->memory : parse_size(options.fit)->resolve(Bytes{});
  AssumedLink link = assumed_link(options.link, program.run());
  if (card != nullptr && options.link.empty()) {
    link = assumed_link(std::string(card->link), program.run());
    link.source = AssumedLink::Source::kCard;
  }
  const Planner planner(program, link.speed, memory);
  const std::string name = card != nullptr ? std::string(card->title) + " (" +
                                                 format_bytes(memory) + ", " + link.name + ")"
                                           : format_bytes(memory) + " over " + link.name;
  const bool fits = planner.needed() <= memory;
  const Prediction row = planner.predict({PolicyKind::kAuto, memory, {}, {}, host_mem_of(options)});
  if (options.json) {
    json said = plan_json(program, planner, link, std::span(&row, 1));
    said["fits"] = fits;
    said["memory_bytes"] = memory.count();
    std::cout << said.dump(2, ' ', false, json::error_handler_t::replace) << '\n';
    return row.problem.empty() ? kSuccess : kProblemFound;
  }
  write_facts(std::cout, program, planner, link);
  if (fits) {
    std::cout << "Fits " << name << ": nothing would be moved.\n";
  } else if (row.problem.empty()) {
    std::cout << "Does not fit " << name << ", and runs there: a pass would take "
              << milliseconds_text(row.pass_ms) << ", " << std::fixed << std::setprecision(2)
              << row.pass_ms / planner.resident_pass_ms()
              << " times as long as with all on the device, and move "
              << format_bytes(Bytes{static_cast<std::uint64_t>(row.to_device_bytes)}) << " in.\n";
  } else {
    std::cout << "Does not run on " << name << ": " << row.problem << '\n';
  }
  std::cout << "Kernels are taken to be as fast there as on the traced device.\n";
  return row.problem.empty() ? kSuccess : kProblemFound;
}

std::variant<TracedProgram, std::string> read_program(const std::string& path) {
  auto reader = TraceReader::open(path);
  if (!reader.ok()) return reader.error().message;
  ProgressLine progress("plan");
  progress.begin("reading " + path);
  auto program = TracedProgram::read(*reader);
  if (const auto* const problem = std::get_if<std::string>(&program)) {
    const bool names_file = problem->find(path) != std::string::npos;
    return names_file ? *problem : path + ": " + *problem;
  }
  return program;
}

}  // namespace

std::optional<std::string> problem_with(const PlanOptions& options) {
  if (options.file.empty())
    return "it takes a trace: superpipe profile -o FILE -- COMMAND makes one";
  for (const std::string& size : words_of(options.gpu_mem)) {
    if (is_size(size)) continue;
    return "--gpu-mem " + options.gpu_mem + ": '" + size +
           "' is no size above 0; it takes sizes with commas between them, such as 6G,40%";
  }
  if (!options.host_mem.empty()) {
    const auto size = parse_size(options.host_mem);
    if (!size || size->is_percentage() || !is_size(options.host_mem)) {
      return "--host-mem " + options.host_mem +
             ": must be a size above 0, such as 32G; of whose memory a percentage would be is not "
             "known";
    }
  }
  for (const std::string& name : words_of(options.policies)) {
    if (policy_from_name(name)) continue;
    return "--policy " + options.policies + ": there is no policy '" + name +
           "'; it is one of resident, naive, superpipeline, superpipeline-paper, lru and auto";
  }
  std::optional<int> smallest;
  for (const std::string& text : words_of(options.k)) {
    const std::optional<int> k = count_in(text);
    if (!k) {
      return "--k " + options.k + ": '" + text +
             "' is no number of layers; it takes whole numbers of at least 1 with commas between "
             "them, such as 2,4";
    }
    smallest = std::min(*k, smallest.value_or(*k));
  }
  if (!options.k.empty() && !smallest) return "--k " + options.k + ": names no number of layers";
  if (!options.k_prime.empty() &&
      (!count_in(options.k_prime) || !smallest || *count_in(options.k_prime) >= *smallest)) {
    return "--k-prime " + options.k_prime +
           ": must be a whole number of layers below each --k, which it needs";
  }
  if (!options.k.empty() && (!options.gpu_mem.empty() || options.sweep)) {
    return "--k says what stays on the device, so it goes with neither --gpu-mem nor --sweep";
  }
  if (!options.link.empty() && !link_named(options.link)) {
    return "--link " + options.link +
           ": must be gen3, gen4, gen5, one of these with x8, or GB/s each way";
  }
  if (options.svg == kStandardOutput) {
    return "--svg -: the picture would lie among the answers; name a file for it";
  }
  if (options.output == kStandardOutput && options.json) {
    return "-o - writes the plan alone to standard output, so it does not go with --json";
  }
  if (!options.fit.empty()) {
    const auto size = parse_size(options.fit);
    if (find_card(options.fit) == nullptr &&
        (!size || size->is_percentage() || !is_size(options.fit))) {
      std::string names;
      for (const Card& card : all_cards())
        names += (names.empty() ? "" : ", ") + std::string(card.name);
      return "--fit " + options.fit + ": must be a size, such as 24G, or one of " + names;
    }
    if (options.sweep || !options.gpu_mem.empty() || !options.k.empty() || !options.svg.empty() ||
        !options.output.empty()) {
      return "--fit asks about one device, so it goes with none of --sweep, --gpu-mem, --k, --svg "
             "and -o";
    }
  }
  return std::nullopt;
}

int plan_command(const PlanOptions& options) {
  auto read = read_program(options.file);
  if (const auto* const problem = std::get_if<std::string>(&read)) {
    return fail_plan(kBadUsage, *problem);
  }
  const auto& program = std::get<TracedProgram>(read);
  if (const std::string others = other_trace_files(options.file, {}); !others.empty()) {
    std::cerr << "superpipe plan: note: the run has other files too, each to be planned by itself: "
              << others << '\n';
  }
  if (!options.fit.empty()) {
    const int code = write_fit(program, options);
    const auto problem = problem_with_output();
    return problem ? fail_plan(kBadUsage, *problem) : code;
  }
  const Request request = request_of(options, program.run());
  if (std::find(request.budgets.begin(), request.budgets.end(), Bytes{}) != request.budgets.end()) {
    return fail_plan(kBadUsage, "--gpu-mem " + options.gpu_mem +
                                    ": the trace does not tell how much memory its device has; "
                                    "give sizes, such as 16G, instead of percentages");
  }
  const Planner planner(program, request.link.speed);
  const std::vector<Prediction> rows = predict_all(planner, request, options.sweep);
  if (!options.svg.empty()) {
    std::string problem;
    const auto file = ExportFile::open(options.svg, problem);
    if (file == nullptr) return fail_plan(kBadUsage, problem);
    file->write(trade_off_svg(rows, planner.resident_pass_ms()));
    if (const auto failure = file->finish()) return fail_plan(kBadUsage, *failure);
  }
  const bool is_plan_alone = options.output == kStandardOutput;
  if (options.json) {
    std::cout << plan_json(program, planner, request.link, rows)
                     .dump(2, ' ', false, json::error_handler_t::replace)
              << '\n';
  } else if (!is_plan_alone) {
    write_facts(std::cout, program, planner, request.link);
    write_table(std::cout, rows, planner.resident_pass_ms());
    std::cout << recommendation(rows, planner.resident_pass_ms());
  }
  if (!options.output.empty()) {
    const WrittenPlan written = write_best_plan(options.output, rows, planner);
    if (written.code != kSuccess) return fail_plan(written.code, written.text);
    if (!options.json && !is_plan_alone) std::cout << written.text;
  }
  if (const auto problem = problem_with_output()) return fail_plan(kBadUsage, *problem);
  return rows.size() == 1 && !rows.front().problem.empty() ? kProblemFound : kSuccess;
}

}  // namespace superpipe::cli
