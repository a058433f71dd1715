#include "tools/superpipe/plan_command.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "policy/budget.h"
#include "policy/policy_engine.h"
#include "profiler/trace_file.h"
#include "profiler/trace_reader.h"
#include "tools/superpipe/exit_code.h"
#include "tools/superpipe/export_sink.h"
#include "tools/superpipe/plan_recommendation.h"
#include "tools/superpipe/planner/assumed_link.h"
#include "tools/superpipe/planner/cards.h"
#include "tools/superpipe/planner/planner.h"
#include "tools/superpipe/planner/trade_off_svg.h"
#include "tools/superpipe/progress_line.h"

namespace superpipe::cli {
namespace {

using nlohmann::json;

// Of all that the program needs, in percent.
constexpr std::array kDefaultShares = {100, 90, 75, 50, 35, 25, 15, 10};
int fail_plan(int code, const std::string& line) {
  std::cerr << "superpipe plan: " << line << '\n';
  return code;
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

std::string percent_text(double share) {
  std::ostringstream text;
  text << std::showpos << std::fixed << std::setprecision(1) << share * 100 << " %";
  return text.str();
}

/// What the flags say, resolved for the device of the trace.
struct Request {
  AssumedLink link;
  std::vector<PolicyKind> policies;
  std::vector<Bytes> budgets;
  std::optional<int> k;
  std::optional<int> k_prime;
};

Request request_of(const PlanOptions& options, const TracedRun& run) {
  Request request;
  request.link = assumed_link(options.link, run);
  for (const std::string& name : words_of(options.policies)) {
    request.policies.push_back(*policy_from_name(name));
  }
  request.k = count_in(options.k);
  request.k_prime = count_in(options.k_prime);
  if (request.policies.empty()) {
    if (request.k) {
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

void write_titles() {
  std::cout
      << "  GPU memory  policy               pass       x all  x bound  stalled      moved in     "
         "moved out    first pass   loading\n";
}

void write_row(const Prediction& row, double resident_ms) {
  std::cout << std::right << std::setw(12)
            << (row.question.k ? "k=" + std::to_string(*row.question.k)
                               : format_bytes(row.question.gpu_mem))
            << "  " << std::left << std::setw(21) << name_of(row.question.policy);
  if (!row.problem.empty()) {
    std::cout << "does not run: " << row.problem << '\n';
    return;
  }
  const auto factor = [](double value) {
    std::ostringstream text;
    text << std::fixed << std::setprecision(2) << value;
    return text.str();
  };
  const auto bytes = [](double count) {
    return format_bytes(Bytes{static_cast<std::uint64_t>(count)});
  };
  std::cout << std::setw(11) << milliseconds_text(row.pass_ms) << std::setw(7)
            << factor(row.pass_ms / resident_ms) << std::setw(9)
            << (row.bound_ms && *row.bound_ms > 0 ? factor(row.pass_ms / *row.bound_ms) : "-")
            << std::setw(13) << milliseconds_text(row.stall_ms) << std::setw(13)
            << bytes(row.to_device_bytes) << std::setw(13) << bytes(row.to_host_bytes)
            << std::setw(13) << milliseconds_text(row.first_pass_ms)
            << milliseconds_text(row.load_ms) << '\n'
            << std::right;
}

json json_of(const Prediction& row) {
  json said{{"policy", name_of(row.question.policy)}, {"runs", row.problem.empty()}};
  if (row.question.k) {
    said["k"] = *row.question.k;
    if (row.question.k_prime) said["k_prime"] = *row.question.k_prime;
  } else {
    said["gpu_mem_bytes"] = row.question.gpu_mem.count();
  }
  if (!row.problem.empty()) {
    said["problem"] = row.problem;
    return said;
  }
  said["pass_ms"] = row.pass_ms;
  said["first_pass_ms"] = row.first_pass_ms;
  said["load_ms"] = row.load_ms;
  said["stall_ms"] = row.stall_ms;
  said["h2d_bytes"] = row.to_device_bytes;
  said["d2h_bytes"] = row.to_host_bytes;
  said["peak_device_bytes"] = row.peak.count();
  said["pinned_host_bytes"] = row.pinned_host.count();
  if (row.bound_ms) said["windowed_bound_ms"] = *row.bound_ms;
  if (row.physical_ms) said["bound_ms"] = *row.physical_ms;
  return said;
}

json json_of(const AssumedLink& link) {
  const char* source = "default";
  if (link.source == AssumedLink::Source::kUser) source = "flag";
  if (link.source == AssumedLink::Source::kTrace) source = "trace";
  if (link.source == AssumedLink::Source::kCard) source = "card";
  return {{"name", link.name},
          {"source", source},
          {"to_device_bytes_per_second", std::llround(link.speed.to_device.bytes_per_second)},
          {"to_host_bytes_per_second", std::llround(link.speed.to_host.bytes_per_second)}};
}

json json_of(const TracedProgram& program, const Planner& planner, const AssumedLink& link,
             const std::vector<Prediction>& rows) {
  json said{{"command", program.run().command},
            {"device", program.run().device_name},
            {"link", json_of(link)},
            {"launches", program.launches()},
            {"passes", planner.passes().size()},
            {"pass_launches", planner.launches_of_pass()},
            {"complete", program.ending().is_complete},
            {"dropped_events", program.ending().dropped},
            {"graph_launches", program.graph_launches()},
            {"measured_compute_share", program.measured_share()},
            {"compute_is_fitted", program.times_are_fitted()},
            {"writes_are_known", program.run().to_host > Bytes{}},
            {"needed_bytes", planner.needed().count()},
            {"least_bytes", planner.least().count()},
            {"overhead_bytes", planner.overhead().count()},
            {"resident_pass_ms", planner.resident_pass_ms()},
            {"plans", json::array()}};
  for (const Prediction& row : rows) said["plans"].push_back(json_of(row));
  if (const auto accuracy = planner.accuracy()) {
    said["accuracy"] = {{"measured_pass_ms", accuracy->measured_pass_ms},
                        {"predicted_pass_ms", accuracy->predicted_pass_ms},
                        {"pass_error", accuracy->pass_error()},
                        {"measured_peak_bytes", accuracy->measured_peak.count()},
                        {"predicted_peak_bytes", accuracy->predicted_peak.count()},
                        {"link_is_measured", accuracy->has_own_link}};
  }
  return said;
}

// How far the answers can be trusted.
void say_confidence(const TracedProgram& program, const Planner& planner) {
  if (!program.ending().is_complete) {
    std::cout << "The traced process died, or the disk was full: what follows is about what it did "
                 "until then.\n";
  }
  if (program.ending().dropped > 0) {
    std::cout << program.ending().dropped
              << " events are missing from the trace (the disk was too slow): less may be moved "
                 "than would be.\n";
  }
  if (program.graph_launches() > 0) {
    std::cout
        << "Launches of graphs: " << program.graph_launches()
        << ". What they do is not in the trace; the buffers that they name stay on the device, "
           "and their time is missing.\n";
  }
  if (program.measured_share() < 0.5) {
    std::cout << "Kernel times: " << std::lround(program.measured_share() * 100)
              << " % measured; the others are estimates, by "
              << (program.times_are_fitted() ? "the trace's length" : "those of the same kernel")
              << " and the bytes that launches name.\n";
  }
  if (program.run().to_host == Bytes{}) {
    std::cout
        << "Nothing left the device in the traced run, so it does not tell what kernels write: "
           "what the program copied in is taken to stay as it is. Trace training with a "
           "budget (--gpu-mem).\n";
  }
  const bool is_fitted = program.times_are_fitted();
  if (const auto accuracy = planner.accuracy()) {
    std::cout << "The traced run itself, run again: pass "
              << milliseconds_text(accuracy->predicted_pass_ms) << " against "
              << milliseconds_text(accuracy->measured_pass_ms) << " measured ("
              << percent_text(accuracy->pass_error()) << ")";
    if (accuracy->measured_peak > Bytes{}) {
      std::cout << ", peak " << format_bytes(accuracy->predicted_peak) << " against "
                << format_bytes(accuracy->measured_peak) << " ("
                << percent_text(accuracy->peak_error()) << ")";
    }
    std::cout << ".\n";
    if (is_fitted) {
      std::cout << "That the passes agree says little: the estimates come from the same run's "
                   "length.\n";
    }
  } else {
    std::cout
        << "The program does not repeat itself often enough to compare its replay with what was "
           "measured.\n";
  }
}

void say_facts(const TracedProgram& program, const Planner& planner, const AssumedLink& link) {
  std::cout << program.run().command << (program.run().command.empty() ? "" : ": ")
            << program.launches() << " launches";
  if (planner.passes().size() > 0) {
    std::cout << "; a pass has " << planner.launches_of_pass() << " and takes "
              << milliseconds_text(planner.resident_pass_ms()) << " with all on the device";
  }
  std::cout << ".\nIt needs " << format_bytes(planner.needed()) << " of the device for all of it, "
            << format_bytes(planner.overhead())
            << " of them not superpipe's to move, and runs with " << format_bytes(planner.least())
            << " at least (kernel " << program.largest_kernel().substr(0, 60) << ").\n";
  say_confidence(program, planner);
  std::cout << "Link: " << link.text()
            << ". Figures are predictions in virtual time, no measurements.\n\n";
}

std::vector<Prediction> predict_all(const Planner& planner, const Request& request, bool sweep) {
  std::vector<PlanQuestion> questions;
  if (request.k) {
    for (const PolicyKind policy : request.policies) {
      questions.push_back({policy, Bytes{}, request.k, request.k_prime});
    }
  } else {
    const auto budgets = request.budgets.empty() ? chosen_budgets(planner, sweep) : request.budgets;
    for (const PolicyKind policy : request.policies) {
      for (const Bytes budget : budgets) questions.push_back({policy, budget, {}, {}});
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
int say_fit(const TracedProgram& program, const PlanOptions& options) {
  const Card* const card = find_card(options.fit);
  const Bytes memory = card != nullptr ? card->memory : parse_size(options.fit)->resolve(Bytes{});
  AssumedLink link = assumed_link(options.link, program.run());
  if (card != nullptr && options.link.empty()) {
    link = assumed_link(std::string(card->link), program.run());
    link.source = AssumedLink::Source::kCard;
  }
  const Planner planner(program, link.speed);
  const std::string name = card != nullptr ? std::string(card->title) + " (" +
                                                 format_bytes(memory) + ", " + link.name + ")"
                                           : format_bytes(memory) + " over " + link.name;
  const bool fits = planner.needed() <= memory;
  const Prediction row = planner.predict({PolicyKind::kAuto, memory, {}, {}});
  if (options.json) {
    json said = json_of(program, planner, link, {row});
    said["fits"] = fits;
    said["memory_bytes"] = memory.count();
    std::cout << said.dump(2, ' ', false, json::error_handler_t::replace) << '\n';
    return row.problem.empty() ? kSuccess : kProblemFound;
  }
  say_facts(program, planner, link);
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
  for (const std::string& name : words_of(options.policies)) {
    if (policy_from_name(name)) continue;
    return "--policy " + options.policies + ": there is no policy '" + name +
           "'; it is one of resident, naive, superpipeline, superpipeline-paper, lru and auto";
  }
  if (!options.k.empty() && !count_in(options.k)) {
    return "--k " + options.k + ": must be a whole number of layers, at least 1";
  }
  if (!options.k_prime.empty() && (!count_in(options.k_prime) || options.k.empty() ||
                                   *count_in(options.k_prime) >= *count_in(options.k))) {
    return "--k-prime " + options.k_prime +
           ": must be a whole number of layers below --k, which it needs";
  }
  if (!options.k.empty() && (!options.gpu_mem.empty() || options.sweep)) {
    return "--k says what stays on the device, so it goes with neither --gpu-mem nor --sweep";
  }
  if (!options.link.empty() && !link_named(options.link)) {
    return "--link " + options.link +
           ": must be gen3, gen4, gen5, one of these with x8, or GB/s each way";
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
  for (const std::string& other : find_trace_files(options.file)) {
    if (other != options.file) {
      std::cerr
          << "superpipe plan: the run has another process or context, which is planned by itself: "
          << other << '\n';
    }
  }
  if (!options.fit.empty()) return say_fit(program, options);
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
    if (const auto failure = file->finish()) return fail_plan(kProblemFound, *failure);
  }
  if (options.json) {
    std::cout << json_of(program, planner, request.link, rows)
                     .dump(2, ' ', false, json::error_handler_t::replace)
              << '\n';
  } else {
    say_facts(program, planner, request.link);
    write_titles();
    for (const Prediction& row : rows) write_row(row, planner.resident_pass_ms());
    std::cout << recommendation(rows, planner.resident_pass_ms());
  }
  if (!options.output.empty()) {
    const WrittenPlan written = write_best_plan(options.output, rows, planner);
    if (written.code != kSuccess) return fail_plan(written.code, written.text);
    if (!options.json) std::cout << written.text;
  }
  return rows.size() == 1 && !rows.front().problem.empty() ? kProblemFound : kSuccess;
}

}  // namespace superpipe::cli
