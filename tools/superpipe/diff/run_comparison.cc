#include "tools/superpipe/diff/run_comparison.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <sstream>
#include <utility>

namespace superpipe::cli {
namespace {

using Outcome = ComparedQuantity::Outcome;
using Worse = QuantityKind::Worse;

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// A limit beyond is a slip of the keyboard.
constexpr double kMostPercent = 1e6;
// Of fewer passes than these the interval of the median is from the least to the most.
constexpr std::size_t kFewPasses = 9;
// Of fewer, even that interval does not hold the median with 95 % confidence.
constexpr std::size_t kFewestSurePasses = 6;

bool overlap(const std::optional<Measured::Spread>& a, const std::optional<Measured::Spread>& b) {
  return a && b && a->low <= b->high && b->low <= a->high;
}

double change_from(double a, double b) {
  if (a == b) return 0;
  return a == 0 ? kInfinite : std::min((b - a) / a, std::numeric_limits<double>::max());
}

bool is_time_of_waiting(Quantity quantity) {
  return quantity == Quantity::kStallTime || quantity == Quantity::kLaunchWait ||
         quantity == Quantity::kDeviceWait || quantity == Quantity::kCopyWait;
}

// `launches`: by how many launches to divide what is a sum over a run.
void judge_quantity(ComparedQuantity& compared, double launches_a, double launches_b,
                    double pass_ms) {
  if (!compared.a || !compared.b) return;
  const bool by_launch = compared.kind->is_sum && !compared.is_of_pass && launches_a > 0 &&
                         launches_b > 0 && compared.kind->id != Quantity::kLaunches;
  const double a = compared.a->value / (by_launch ? launches_a : 1);
  const double b = compared.b->value / (by_launch ? launches_b : 1);
  compared.change = change_from(a, b);
  const double least_ms =
      std::max(kLeastStallShare * pass_ms, compared.is_of_pass ? 0 : kLeastStallMsOfRun);
  const double more_ms = std::abs(b - a) * (by_launch ? launches_b : 1);
  if (a == b || (is_time_of_waiting(compared.kind->id) && more_ms <= least_ms)) {
    compared.outcome = Outcome::kSame;
  } else if (overlap(compared.a->spread, compared.b->spread)) {
    compared.outcome = Outcome::kNoise;
  } else if (compared.kind->worse == Worse::kNeither) {
    compared.outcome = Outcome::kChanged;
  } else {
    compared.outcome =
        (b > a) == (compared.kind->worse == Worse::kMore) ? Outcome::kWorse : Outcome::kBetter;
  }
}

std::vector<ComparedQuantity> compare_quantities(const ComparedRun& a, const ComparedRun& b) {
  double pass_ms = 0;
  if (const auto& time = a.of_pass[Quantity::kPassTime]) pass_ms = time->value;
  const auto launches_of = [](const ComparedRun& run) {
    const auto& launches = run.of_run[Quantity::kLaunches];
    return launches ? launches->value : 0;
  };
  std::vector<ComparedQuantity> compared;
  for (const QuantityKind& kind : all_quantities()) {
    ComparedQuantity& one = compared.emplace_back();
    one.kind = &kind;
    const auto& pass_a = a.of_pass[kind.id];
    const auto& pass_b = b.of_pass[kind.id];
    const auto& run_a = a.of_run[kind.id];
    const auto& run_b = b.of_run[kind.id];
    one.is_of_pass = (pass_a && pass_b) || (!run_a && !run_b);
    one.a = one.is_of_pass ? pass_a : run_a;
    one.b = one.is_of_pass ? pass_b : run_b;
    // At the end of the run in statistics, and at most in a trace: these are two figures.
    const bool is_comparable = a.is_trace == b.is_trace || kind.id != Quantity::kPinnedHost;
    if (is_comparable) judge_quantity(one, launches_of(a), launches_of(b), pass_ms);
    if (!one.a && !one.b) compared.pop_back();
  }
  return compared;
}

std::vector<KernelPair> match_kernels(const ComparedRun& a, const ComparedRun& b) {
  std::map<std::string, KernelPair> by_name;
  for (const ComparedKernel& kernel : a.kernels) by_name[kernel.name].a = kernel;
  for (const ComparedKernel& kernel : b.kernels) by_name[kernel.name].b = kernel;
  std::vector<KernelPair> pairs;
  pairs.reserve(by_name.size());
  for (auto& [name, pair] : by_name) pairs.push_back(std::move(pair));
  return pairs;
}

// The groups that are numbered layers, in the order of their numbers, which the name ends with.
std::vector<const ComparedGroup*> layers_of(const ComparedRun& run) {
  std::vector<const ComparedGroup*> layers;
  for (const ComparedGroup& group : run.groups) {
    if (group.is_layer && group.content != group.name) layers.push_back(&group);
  }
  const auto number = [](const ComparedGroup* group) {
    unsigned long value = 0;
    const std::size_t digits = group->name.find_first_of("0123456789");
    if (digits == std::string::npos) return value;
    std::from_chars(group->name.data() + digits, group->name.data() + group->name.size(), value);
    return value;
  };
  std::stable_sort(
      layers.begin(), layers.end(),
      [&](const ComparedGroup* x, const ComparedGroup* y) { return number(x) < number(y); });
  return layers;
}

// Pairs layers of the same content in their order, as many as there can be: the longest common
// subsequence. Those that are in one run only stand by themselves.
void match_layers(const ComparedRun& a, const ComparedRun& b, std::vector<GroupPair>& pairs) {
  const auto in_a = layers_of(a);
  const auto in_b = layers_of(b);
  const std::size_t width = in_b.size() + 1;
  std::vector<std::size_t> longest((in_a.size() + 1) * width);
  for (std::size_t i = in_a.size(); i-- > 0;) {
    for (std::size_t j = in_b.size(); j-- > 0;) {
      longest[i * width + j] =
          in_a[i]->content == in_b[j]->content
              ? longest[(i + 1) * width + j + 1] + 1
              : std::max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < in_a.size() || j < in_b.size()) {
    if (i < in_a.size() && j < in_b.size() && in_a[i]->content == in_b[j]->content) {
      pairs.push_back({*in_a[i++], *in_b[j++]});
    } else if (j == in_b.size() ||
               (i < in_a.size() && longest[(i + 1) * width + j] >= longest[i * width + j + 1])) {
      pairs.push_back({*in_a[i++], std::nullopt});
    } else {
      pairs.push_back({std::nullopt, *in_b[j++]});
    }
  }
}

std::vector<GroupPair> match_groups(const ComparedRun& a, const ComparedRun& b) {
  std::vector<GroupPair> pairs;
  match_layers(a, b, pairs);
  std::map<std::string, GroupPair> by_name;
  for (const ComparedGroup& group : a.groups) {
    if (group.content == group.name) by_name[group.name].a = group;
  }
  for (const ComparedGroup& group : b.groups) {
    if (group.content == group.name) by_name[group.name].b = group;
  }
  for (auto& [name, pair] : by_name) pairs.push_back(std::move(pair));
  return pairs;
}

bool are_of_different_programs(const ComparedRun& a, const std::vector<KernelPair>& kernels,
                               const ComparedRun& b) {
  if (a.kernels.empty() || b.kernels.empty()) return false;
  return std::none_of(kernels.begin(), kernels.end(),
                      [](const KernelPair& pair) { return pair.a && pair.b; });
}

std::string count_text(double count) {
  std::ostringstream text;
  text.precision(15);
  text << count;
  return text.str();
}

std::string rounded_text(double value) {
  std::ostringstream text;
  text.precision(value < 10 ? 2 : 0);
  text << std::fixed << value;
  return text.str();
}

void note_run(const ComparedRun& run, const std::string& name, std::vector<std::string>& notes) {
  if (!run.is_complete) {
    notes.push_back(name + " ends early, because its process died or the disk was full: it is " +
                    "compared up to there");
  }
  const auto& dropped = run.of_run[Quantity::kDroppedEvents];
  if (dropped && dropped->value > 0) {
    notes.push_back(count_text(dropped->value) + " events of " + name +
                    " were not recorded, because the disk was slow: its figures are too low");
  }
  if (!run.passes) {
    if (run.is_trace) notes.push_back(name + " has no passes to compare: " + run.no_passes);
    return;
  }
  if (run.passes->first == 0) {
    notes.push_back(name + " has too few passes to leave out those in which superpipe learns");
  }
  if (run.passes->count == 1) {
    notes.push_back("one pass of " + name + " is compared, so that its spread is not known");
  } else if (run.passes->count < kFewPasses) {
    notes.push_back("only " + std::to_string(run.passes->count) + " passes of " + name +
                    " are compared: their spread says little");
  }
  if (run.passes->is_ahead) {
    notes.push_back("the program of " + name +
                    " was passes ahead of its device: times of passes are means up to the end of " +
                    (run.passes->ends_with_kernel ? "the last kernel" : "the trace") +
                    ", and their spread is not known");
  }
  if (run.passes->may_be_ahead) {
    notes.push_back(rounded_text(run.passes->tail_ms) +
                    " ms lie between the last launch and the end of the trace of " + name +
                    ": if its device was busy for them, passes take longer than is said");
  }
}

void note_differences(const ComparedRun& a, const ComparedRun& b, std::vector<std::string>& notes) {
  if (a.is_trace != b.is_trace) {
    const std::string name = a.is_trace ? "B" : "A";
    notes.push_back(name +
                    " is statistics, which do not tell kernels, layers, single passes, "
                    "allocations, the program's copies, the speed of the link and dropped events");
    notes.emplace_back(
        "a trace has passes as the program submitted them and peaks of what is recorded now and "
        "then, and statistics have passes as the device reached them and exact peaks; pinned host "
        "memory is that at the end in statistics, and is not compared");
  } else if (!a.is_trace) {
    notes.emplace_back("statistics tell neither kernels nor the spread of passes; traces do");
  }
  if (!a.command.empty() && !b.command.empty() && a.command != b.command) {
    notes.emplace_back("the commands are not the same");
  }
  if (!a.device.empty() && !b.device.empty() && a.device != b.device) {
    notes.push_back("the devices are not the same: " + a.device + " and " + b.device);
  }
  if (a.passes && b.passes && a.passes->launches != b.passes->launches) {
    notes.push_back("a pass has " + count_text(a.passes->launches) + " launches in A and " +
                    count_text(b.passes->launches) +
                    " in B: unless they do the same work, passes are not comparable");
  }
  const auto& launches_a = a.of_run[Quantity::kLaunches];
  const auto& launches_b = b.of_run[Quantity::kLaunches];
  if (launches_a && launches_b && launches_a->value != launches_b->value &&
      !(a.passes && b.passes)) {
    notes.emplace_back(
        "the runs are not equally long, so that changes of sums over all of a run are by launch");
  }
}

// How far the passes of a run are from their median, as a share of it, at most.
double share_of_spread(const std::optional<Measured>& measured) {
  if (!measured->spread || measured->value == 0) return 0;
  return std::max(measured->spread->high - measured->value,
                  measured->value - measured->spread->low) /
         measured->value;
}

// What there is to say about a difference that passes of both runs show; empty: nothing.
std::string few_passes_text(const ComparedQuantity& one, const ComparedRun& a,
                            const ComparedRun& b) {
  if (!one.is_of_pass || !a.passes || !b.passes) return {};
  if (std::min(a.passes->count, b.passes->count) >= kFewestSurePasses) return {};
  return "of only " + std::to_string(a.passes->count) + " passes of A and " +
         std::to_string(b.passes->count) + " of B";
}

// Why a figure of `run`, which is called `name`, may be lower than it was; empty: it is not.
std::string why_too_low(const ComparedQuantity& one, const ComparedRun& run,
                        const std::string& name) {
  if (one.kind->id == Quantity::kPassTime && run.passes && run.passes->may_be_ahead) {
    return "the device of " + name + " may have been busy for " +
           rounded_text(run.passes->tail_ms) + " ms after the last launch";
  }
  const auto& dropped = run.of_run[Quantity::kDroppedEvents];
  if (one.kind->is_sum && dropped && dropped->value > 0) {
    return "events of " + name + " were not recorded, so that it is too low there";
  }
  if (!run.is_complete && (one.kind->is_sum || !one.is_of_pass)) {
    return name + " ends early, so that it may be too low there";
  }
  return {};
}

// Whether means of passes up to the end of both traces say the same of a limit as the times at
// which the program submitted them: the one counts what may be work of the device after the last
// launch, and the other does not.
bool agree_means(const RunComparison& comparison, const GateLimit& limit, bool is_exceeded) {
  const auto& a = comparison.a.passes;
  const auto& b = comparison.b.passes;
  return a && b && (b->mean_ms > a->mean_ms * (1 + limit.share)) == is_exceeded;
}

}  // namespace

double KernelPair::more_stall_ms() const { return (b ? b->stall_ms : 0) - (a ? a->stall_ms : 0); }

double GroupPair::more_stall_ms() const { return (b ? b->stall_ms : 0) - (a ? a->stall_ms : 0); }

double GroupPair::more_fetched_bytes() const {
  return (b ? b->fetched_bytes : 0) - (a ? a->fetched_bytes : 0);
}

const ComparedQuantity* RunComparison::find(Quantity quantity) const {
  const auto found =
      std::find_if(quantities.begin(), quantities.end(),
                   [&](const ComparedQuantity& one) { return one.kind->id == quantity; });
  return found == quantities.end() ? nullptr : &*found;
}

std::variant<RunComparison, std::string> compare_runs(ComparedRun a, ComparedRun b) {
  RunComparison comparison;
  comparison.kernels = match_kernels(a, b);
  if (are_of_different_programs(a, comparison.kernels, b)) {
    return a.file + " and " + b.file +
           " are of different programs, which have no kernel in common: " +
           (a.command.empty() ? "?" : a.command) + " and " + (b.command.empty() ? "?" : b.command);
  }
  comparison.pass_times_are_means =
      (a.passes && a.passes->is_ahead) || (b.passes && b.passes->is_ahead);
  if (comparison.pass_times_are_means) {
    for (ComparedRun* const run : {&a, &b}) {
      if (run->passes) run->of_pass.set(Quantity::kPassTime, run->passes->mean_ms);
    }
  }
  comparison.quantities = compare_quantities(a, b);
  if (std::all_of(comparison.quantities.begin(), comparison.quantities.end(),
                  [](const ComparedQuantity& one) { return one.outcome == Outcome::kMissing; })) {
    return "there is nothing that both " + a.file + " and " + b.file + " tell";
  }
  // Kernels and layers of a pass and of a whole run are no pair.
  comparison.parts_are_of_pass = a.passes.has_value() && b.passes.has_value();
  if (a.passes.has_value() != b.passes.has_value() || !a.is_trace || !b.is_trace) {
    comparison.kernels.clear();
  } else {
    comparison.groups = match_groups(a, b);
  }
  const auto by_stalls = [](const auto& x, const auto& y) {
    return x.more_stall_ms() > y.more_stall_ms();
  };
  std::stable_sort(comparison.kernels.begin(), comparison.kernels.end(), by_stalls);
  std::stable_sort(comparison.groups.begin(), comparison.groups.end(), by_stalls);
  note_differences(a, b, comparison.notes);
  note_run(a, "A", comparison.notes);
  note_run(b, "B", comparison.notes);
  comparison.a = std::move(a);
  comparison.b = std::move(b);
  return comparison;
}

Gate parse_gate(const std::string& text) {
  Gate gate;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    GateLimit limit;
    const std::size_t equals = word.find('=');
    const std::string name = equals == std::string::npos
                                 ? std::string(kind_of(Quantity::kPassTime).name)
                                 : word.substr(0, equals);
    const QuantityKind* const kind = find_quantity(name);
    if (kind == nullptr || !kind->can_be_limited()) {
      std::string names;
      for (const QuantityKind& one : all_quantities()) {
        if (one.can_be_limited()) {
          names.append(names.empty() ? "" : ", ").append(one.name);
        }
      }
      gate.problem.append("'").append(name);
      gate.problem.append("' is no quantity that can become worse; it is one of ").append(names);
      return gate;
    }
    limit.quantity = kind->id;
    std::string number = equals == std::string::npos ? word : word.substr(equals + 1);
    if (!number.empty() && number.back() == '%') number.pop_back();
    double percent = 0;
    const char* const end = number.data() + number.size();
    const auto read = std::from_chars(number.data(), end, percent, std::chars_format::fixed);
    if (number.empty() || read.ec != std::errc() || read.ptr != end || !(percent >= 0) ||
        percent > kMostPercent) {
      gate.problem = "'" + word + "' has no percentage, such as 5, 5% or h2d_bytes=2.5%";
      return gate;
    }
    limit.share = percent / 100;
    if (std::any_of(gate.limits.begin(), gate.limits.end(),
                    [&](const GateLimit& one) { return one.quantity == limit.quantity; })) {
      gate.problem = name + " is given twice";
      return gate;
    }
    gate.limits.push_back(limit);
  }
  if (gate.limits.empty()) gate.problem = "there is no percentage, such as 5%";
  return gate;
}

GateVerdict judge(const RunComparison& comparison, const std::vector<GateLimit>& limits) {
  GateVerdict verdict;
  for (const GateLimit& limit : limits) {
    const ComparedQuantity* const one = comparison.find(limit.quantity);
    if (one == nullptr || one->outcome == Outcome::kMissing) {
      const bool is_told = one != nullptr && one->a && one->b;
      verdict.unknown.push_back({limit, is_told ? "a trace and statistics measure it differently"
                                                : "one of the runs does not tell it"});
      continue;
    }
    const bool is_above = one->kind->can_be_limited() && one->change > limit.share;
    const bool is_exceeded = one->outcome == Outcome::kWorse && is_above;
    if (one->outcome == Outcome::kNoise && is_above) {
      const double share = std::max(share_of_spread(one->a), share_of_spread(one->b));
      verdict.unknown.push_back({limit, "it cannot be told: passes differ by " +
                                            rounded_text(std::min(share, 10.0) * 100) +
                                            " % within a run"});
      continue;
    }
    // Where B is too low, what is exceeded is exceeded; where A is too low, what is not is not.
    const ComparedRun& doubtful = is_exceeded ? comparison.a : comparison.b;
    std::string why = why_too_low(*one, doubtful, is_exceeded ? "A" : "B");
    if (limit.quantity == Quantity::kPassTime && agree_means(comparison, limit, is_exceeded)) {
      why.clear();
    }
    if (!why.empty()) {
      verdict.unknown.push_back({limit, std::move(why)});
    } else if (is_exceeded) {
      verdict.exceeded.push_back({limit, few_passes_text(*one, comparison.a, comparison.b)});
    }
  }
  return verdict;
}

}  // namespace superpipe::cli
