#include "interposer/configuration.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <variant>

#include "profiler/plan_file.h"

namespace superpipe {
namespace {

LogLevel log_level_from_name(std::string_view name) {
  constexpr std::pair<std::string_view, LogLevel> kLevels[] = {{"debug", LogLevel::kDebug},
                                                               {"info", LogLevel::kInfo},
                                                               {"warning", LogLevel::kWarning},
                                                               {"error", LogLevel::kError},
                                                               {"off", LogLevel::kOff}};
  for (const auto& [known, level] : kLevels) {
    if (known == name) return level;
  }
  return LogLevel::kWarning;
}

KernelTimes kernel_times_from_name(std::string_view name) {
  if (name == "cupti") return KernelTimes::kCupti;
  return name == "off" ? KernelTimes::kOff : KernelTimes::kEvents;
}

MemoryReport memory_report_from_name(std::string_view name) {
  if (name == "virtual") return MemoryReport::kVirtual;
  if (name == "budget") return MemoryReport::kBudget;
  return name == "real" ? MemoryReport::kReal : MemoryReport::kAuto;
}

/// Sets policy, k, k' and budget, with the defaults that follow from each other.
void set_schedule(const SettingValues& values, Configuration& configuration) {
  const auto named = policy_from_name(values.choice(SettingId::kPolicy));
  const auto k = values.count(SettingId::kK);
  PolicyKind kind = PolicyKind::kResident;
  if (named) {
    kind = *named;
  } else if (k) {
    kind = PolicyKind::kSuperpipeline;
  } else if (values.given(SettingId::kGpuMem) != nullptr) {
    kind = PolicyKind::kAuto;
  }
  configuration.policy = kind;
  if (kind == PolicyKind::kResident) return;
  configuration.k = k;
  configuration.gpu_mem = values.size(SettingId::kGpuMem);
  if (k && *k > 1 && kind != PolicyKind::kNaive) {
    configuration.k_prime = values.count(SettingId::kKPrime).value_or(std::max(1, *k / 2));
  }
}

/// What the plan says that the program does, except the host memory that it needs.
std::shared_ptr<const RecordedRun> without_slabs(const Plan& plan) {
  RecordedRun recorded = *plan.recorded;
  recorded.slabs.clear();
  recorded.write_backs.clear();
  return std::make_shared<const RecordedRun>(std::move(recorded));
}

}  // namespace

Configuration::Configuration() : Configuration(SettingValues()) {}

Configuration::Configuration(const SettingValues& values)
    : off(values.is_on(SettingId::kOff)),
      strict(values.is_on(SettingId::kStrict)),
      policy(PolicyKind::kResident),
      headroom(values.size(SettingId::kHeadroom)),
      host_mem(values.size(SettingId::kHostMem)),
      shared_folder(values.text(SettingId::kSharedFolder)),
      shared_folder_is_given(values.given(SettingId::kSharedFolder) != nullptr),
      shares_host_memory(values.choice(SettingId::kHostLedger) == "shared"),
      min_buffer(values.size(SettingId::kMinBuffer)->resolve(Bytes{})),
      async_allocators(values.choice(SettingId::kAllocator) == "async"),
      wait_limit(*values.count(SettingId::kWaitMs)),
      zero_fill(values.choice(SettingId::kFill) == "zero"),
      known_kernel_words(values.choice(SettingId::kKernelWords) == "known"),
      pins(values.pins(SettingId::kPin)),
      pins_text(values.text(SettingId::kPin)),
      overflow_allowed(values.choice(SettingId::kOverflow) == "allow"),
      compares_digests(values.choice(SettingId::kWriteback) == "digest"),
      maps_early(values.choice(SettingId::kMap) == "early"),
      memory_report(memory_report_from_name(values.choice(SettingId::kReportMem))),
      summary(values.is_on(SettingId::kSummary)),
      progress(summary && values.choice(SettingId::kProgress) == "auto"),
      stats_file(values.text(SettingId::kStats)),
      timeline_file(values.text(SettingId::kTimeline)),
      copies_file(values.text(SettingId::kCopies)),
      trace_file(values.text(SettingId::kTrace)),
      kernel_times(kernel_times_from_name(values.choice(SettingId::kKernelTimes))) {
  set_schedule(values, *this);
  LogValue log = values.log(SettingId::kLog);
  log_level = log_level_from_name(log.level);
  log_file = std::move(log.file);
}

Bytes Configuration::headroom_on(Bytes device, Bytes budget) const {
  return headroom ? headroom->resolve(device) : default_headroom(device, budget);
}

ReadConfiguration read_configuration(const Environment& environment) {
  SettingValues values = read_variables(environment);
  std::optional<Plan> plan;
  std::optional<SettingProblem> bad_plan;
  if (const GivenValue* const file = values.given(SettingId::kPlan)) {
    auto read = read_plan(file->text);
    if (const auto* const problem = std::get_if<std::string>(&read)) {
      bad_plan = {*file, *problem};
    } else {
      plan = std::get<Plan>(std::move(read));
      // What is evicted with another budget is something else, and may be nothing.
      if (values.given(SettingId::kGpuMem) != nullptr) plan->recorded = without_slabs(*plan);
      give_values_of(*plan, values);
    }
  }
  ReadConfiguration result{Configuration(values), values.problems()};
  if (bad_plan) result.errors.push_back(*std::move(bad_plan));
  Configuration& configuration = result.configuration;
  if (plan && configuration.policy == PolicyKind::kAuto && !plan->recorded->launches.empty()) {
    configuration.recorded = plan->recorded;
  }
  return result;
}

}  // namespace superpipe
