#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tools/superpipe/diff/run_comparison.h"

namespace superpipe::cli {
namespace {

using nlohmann::ordered_json;
using Outcome = ComparedQuantity::Outcome;
using Unit = QuantityKind::Unit;

// Whole numbers without a fraction. What is no number is null.
ordered_json number_json(double value) {
  constexpr double kMostExact = 9007199254740992.0;  // 2^53
  if (!std::isfinite(value)) return nullptr;
  if (value == std::floor(value) && std::abs(value) < kMostExact) {
    return static_cast<std::int64_t>(value);
  }
  return value;
}

std::string_view unit_name(Unit unit) {
  switch (unit) {
    case Unit::kMilliseconds:
      return "ms";
    case Unit::kBytes:
      return "bytes";
    case Unit::kGigabytesPerSecond:
      return "GB/s";
    case Unit::kCount:
      break;
  }
  return "count";
}

std::string_view outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kSame:
      return "same";
    case Outcome::kNoise:
      return "within_spread";
    case Outcome::kBetter:
      return "better";
    case Outcome::kWorse:
      return "worse";
    case Outcome::kChanged:
      return "changed";
    case Outcome::kMissing:
      break;
  }
  return "missing";
}

ordered_json measured_json(const std::optional<Measured>& measured) {
  if (!measured) return nullptr;
  ordered_json said{{"value", number_json(measured->value)}};
  if (measured->spread) {
    said["low"] = number_json(measured->spread->low);
    said["high"] = number_json(measured->spread->high);
  }
  return said;
}

ordered_json run_json(const ComparedRun& run) {
  ordered_json said{{"file", run.file},       {"kind", run.is_trace ? "trace" : "statistics"},
                    {"command", run.command}, {"device", run.device},
                    {"policy", run.policy},   {"version", run.version},
                    {"passes", nullptr}};
  if (run.is_trace) {
    said["complete"] = run.is_complete;
    said["events"] = number_json(run.events);
  }
  if (run.passes) {
    said["passes"] = {{"first", run.passes->first + 1},
                      {"last", run.passes->first + run.passes->count},
                      {"found", run.passes->found},
                      {"launches", number_json(run.passes->launches)},
                      {"mean_ms", number_json(run.passes->mean_ms)},
                      {"is_ahead", run.passes->is_ahead}};
  } else {
    said["no_passes"] = run.no_passes;
  }
  return said;
}

ordered_json part_json(const std::optional<ComparedKernel>& kernel) {
  if (!kernel) return nullptr;
  return {
      {"launches", number_json(kernel->launches)},
      {"stall_ms", number_json(kernel->stall_ms)},
      {"late_bytes", number_json(kernel->late_bytes)},
      {"device_us", kernel->device_us ? number_json(*kernel->device_us) : ordered_json(nullptr)}};
}

ordered_json part_json(const std::optional<ComparedGroup>& group) {
  if (!group) return nullptr;
  return {{"name", group->name},
          {"bytes", number_json(group->bytes)},
          {"stall_ms", number_json(group->stall_ms)},
          {"fetched_bytes", number_json(group->fetched_bytes)},
          {"written_back_bytes", number_json(group->written_back_bytes)}};
}

ordered_json quantity_json(const ComparedQuantity& one) {
  return {{"name", one.kind->name},
          {"unit", unit_name(one.kind->unit)},
          {"of", one.is_of_pass ? "pass" : "run"},
          {"a", measured_json(one.a)},
          {"b", measured_json(one.b)},
          {"change",
           one.outcome == Outcome::kMissing ? ordered_json(nullptr) : number_json(one.change)},
          {"outcome", outcome_name(one.outcome)}};
}

ordered_json gate_json(const RunComparison& comparison, const std::vector<GateLimit>& limits) {
  const GateVerdict verdict = judge(comparison, limits);
  const auto names = [](const std::vector<JudgedLimit>& some) {
    ordered_json list = ordered_json::array();
    for (const JudgedLimit& limit : some) list.push_back(kind_of(limit.quantity).name);
    return list;
  };
  ordered_json reasons = ordered_json::object();
  for (const auto* const some : {&verdict.exceeded, &verdict.unknown}) {
    for (const JudgedLimit& limit : *some) {
      if (!limit.reason.empty()) reasons[std::string(kind_of(limit.quantity).name)] = limit.reason;
    }
  }
  ordered_json allowed = ordered_json::object();
  for (const GateLimit& limit : limits) {
    allowed[std::string(kind_of(limit.quantity).name)] = number_json(limit.share);
  }
  return {{"passed", verdict.exceeded.empty() && verdict.unknown.empty()},
          {"limits", std::move(allowed)},
          {"exceeded", names(verdict.exceeded)},
          {"unknown", names(verdict.unknown)},
          {"reasons", std::move(reasons)}};
}

}  // namespace

std::string comparison_json(const RunComparison& comparison, const std::vector<GateLimit>& limits) {
  ordered_json said{{"a", run_json(comparison.a)},
                    {"b", run_json(comparison.b)},
                    {"quantities", ordered_json::array()},
                    {"pass_times_are_means", comparison.pass_times_are_means},
                    {"parts_of", comparison.parts_are_of_pass ? "pass" : "run"},
                    {"kernels", ordered_json::array()},
                    {"groups", ordered_json::array()},
                    {"unexplained_stall_ms",
                     {{"a", number_json(comparison.a.unexplained_stall_ms)},
                      {"b", number_json(comparison.b.unexplained_stall_ms)}}},
                    {"notes", comparison.notes},
                    {"gate", nullptr}};
  for (const ComparedQuantity& one : comparison.quantities) {
    said["quantities"].push_back(quantity_json(one));
  }
  for (const KernelPair& pair : comparison.kernels) {
    said["kernels"].push_back({{"name", pair.a ? pair.a->name : pair.b->name},
                               {"a", part_json(pair.a)},
                               {"b", part_json(pair.b)}});
  }
  for (const GroupPair& pair : comparison.groups) {
    said["groups"].push_back({{"is_layer", pair.a ? pair.a->is_layer : pair.b->is_layer},
                              {"a", part_json(pair.a)},
                              {"b", part_json(pair.b)}});
  }
  if (!limits.empty()) said["gate"] = gate_json(comparison, limits);
  return said.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace superpipe::cli
