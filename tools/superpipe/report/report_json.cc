#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policy/layer_grouping.h"
#include "tools/superpipe/report/report_page.h"

namespace superpipe::cli {
namespace {

using nlohmann::json;

constexpr std::size_t kMostNameBytes = 400;
constexpr std::size_t kMostFrames = 32;

// Names of templates are pages long, and their end says nothing.
std::string short_name(const std::string& name) {
  if (name.size() <= kMostNameBytes) return name;
  std::size_t end = kMostNameBytes;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0U) == 0x80U) --end;
  return name.substr(0, end) + "...";
}

std::uint64_t rounded(double value) {
  return value <= 0 ? 0 : static_cast<std::uint64_t>(std::llround(value));
}

json sums_of(const BinnedSums& sums) {
  json list = json::array();
  for (const double amount : sums.bins()) list.push_back(rounded(amount));
  return list;
}

json most_of(const BinnedLevel& level) {
  json list = json::array();
  for (const BinnedLevel::Bin& bin : level.bins()) list.push_back(bin.most);
  return list;
}

json least_of(const BinnedLevel& level) {
  json list = json::array();
  for (const BinnedLevel::Bin& bin : level.bins()) list.push_back(bin.least);
  return list;
}

// In percent of the most that the group ever had.
json shares_of(const TraceReport::Group& group, std::uint64_t end) {
  json list = json::array();
  const BinnedLevel& level = group.residency;
  std::uint64_t begin = 0;
  for (const BinnedLevel::Bin& bin : level.bins()) {
    // The last bin is mostly not full.
    const std::uint64_t until = std::min(begin + level.width(), std::max(end, begin + 1));
    const double whole = static_cast<double>(group.most_bytes) * static_cast<double>(until - begin);
    list.push_back(whole <= 0 ? 0
                              : std::min<std::uint64_t>(100, rounded(bin.integral / whole * 100)));
    begin += level.width();
  }
  return list;
}

using SitePlaces = std::unordered_map<TraceIndex, std::size_t>;

json sites_of(const TraceReport& report, SitePlaces& places) {
  std::vector<std::pair<TraceIndex, const TraceReport::Site*>> sites;
  for (const auto& [index, site] : report.sites()) sites.emplace_back(index, &site);
  std::stable_sort(sites.begin(), sites.end(), [](const auto& one, const auto& other) {
    return one.second->most_live > other.second->most_live;
  });
  if (sites.size() > kMostReportRows) sites.resize(kMostReportRows);
  json list = json::array();
  for (const auto& [index, site] : sites) {
    places[index] = list.size();
    const auto& frames = report.all_names().frames(index);
    json lines = json::array();
    bool is_in_python = false;
    for (const CallFrame& frame : frames) {
      if (lines.size() >= kMostFrames) break;
      // Between functions of Python there are the interpreter's own, which say nothing.
      is_in_python = is_in_python || frame.is_python();
      if (is_in_python && !frame.is_python()) continue;
      const bool is_named = frame.function != frame.place;
      lines.push_back(short_name(is_named ? frame.function + "  " + frame.place : frame.place));
    }
    list.push_back({{"title", short_name(site_title(frames))},
                    {"frames", std::move(lines)},
                    {"allocations", site->allocations},
                    {"managed", site->managed},
                    {"bytes", site->bytes},
                    {"most_live_bytes", site->most_live}});
  }
  return list;
}

json kernels_of(const TraceReport& report) {
  std::vector<std::pair<TraceIndex, const TraceReport::Kernel*>> kernels;
  for (const auto& [index, kernel] : report.kernels()) kernels.emplace_back(index, &kernel);
  std::stable_sort(kernels.begin(), kernels.end(), [](const auto& one, const auto& other) {
    const auto key = [](const TraceReport::Kernel& kernel) {
      return std::pair(kernel.stall_ns, kernel.launches);
    };
    return key(*one.second) > key(*other.second);
  });
  if (kernels.size() > kMostReportRows) kernels.resize(kMostReportRows);
  json list = json::array();
  for (const auto& [index, kernel] : kernels) {
    list.push_back({{"name", short_name(report.kernel_name(index))},
                    {"launches", kernel->launches},
                    {"timed_launches", kernel->timed_launches},
                    {"device_ns", kernel->device_ns},
                    {"stalls", kernel->stalls},
                    {"stall_ns", kernel->stall_ns},
                    {"late_bytes", rounded(kernel->late_bytes)},
                    {"late_new_page_bytes", rounded(kernel->late_new_pages)}});
  }
  return list;
}

json groups_of(const TraceReport& report, const SitePlaces& places) {
  // Layers first, in their order; then call sites, by what they hold.
  std::vector<const TraceReport::Group*> groups;
  for (const TraceReport::Group& group : report.groups()) groups.push_back(&group);
  std::stable_sort(groups.begin(), groups.end(), [](const auto* one, const auto* other) {
    if (one->layer != other->layer) return one->layer < other->layer;
    return one->layer == kNoLayer && one->most_bytes > other->most_bytes;
  });
  json list = json::array();
  for (const TraceReport::Group* const group : groups) {
    json kinds = json::array();
    for (const auto& [key, kind] : group->kinds) {
      const auto place = places.find(key.first);
      json said = {{"bytes", key.second}, {"buffers", kind.buffers}, {"uses", kind.uses}};
      said["site"] = place == places.end() ? json() : json(place->second);
      kinds.push_back(std::move(said));
    }
    list.push_back({{"name", short_name(group->name)},
                    {"is_layer", group->layer != kNoLayer},
                    {"buffers", group->buffers},
                    {"most_bytes", group->most_bytes},
                    {"fetched_bytes", group->fetched},
                    {"demand_bytes", group->demanded},
                    {"evicted_bytes", group->evicted},
                    {"written_back_bytes", group->written_back},
                    {"stall_ns", rounded(group->stall_ns)},
                    {"late_bytes", rounded(group->late_bytes)},
                    {"late_new_page_bytes", rounded(group->late_new_pages)},
                    {"kinds", std::move(kinds)},
                    {"other_kinds", group->other_kinds},
                    {"residency", shares_of(*group, report.end_time())}});
  }
  return list;
}

json passes_of(const TraceReport& report) {
  json means = json::array();
  json most = json::array();
  const auto milliseconds = [](double ms) { return std::round(ms * 1e4) / 1e4; };
  for (const TraceReport::PassPoint& point : report.passes()) {
    means.push_back(milliseconds(point.sum_ms / static_cast<double>(point.passes)));
    most.push_back(milliseconds(point.most_ms));
  }
  return {{"per_point", report.passes_per_point()}, {"mean_ms", means}, {"most_ms", most}};
}

json what_if_of(const WhatIf& what_if) {
  json rows = json::array();
  for (const Prediction& row : what_if.rows) {
    json said = {{"gpu_mem_bytes", row.question.gpu_mem.count()}};
    if (!row.problem.empty()) {
      said["problem"] = row.problem;
    } else {
      said["pass_ms"] = row.pass_ms;
      said["first_pass_ms"] = row.first_pass_ms;
      said["load_ms"] = row.load_ms;
      said["stall_ms"] = row.stall_ms;
      said["h2d_bytes"] = rounded(row.to_device_bytes);
      said["d2h_bytes"] = rounded(row.to_host_bytes);
      said["peak_device_bytes"] = row.peak.count();
      if (row.bound_ms) said["windowed_bound_ms"] = *row.bound_ms;
    }
    rows.push_back(std::move(said));
  }
  json said = {{"link", what_if.link},
               {"needed_bytes", what_if.needed.count()},
               {"least_bytes", what_if.least.count()},
               {"resident_pass_ms", what_if.resident_pass_ms},
               {"measured_compute_share", what_if.measured_share},
               {"passes", what_if.passes},
               {"skipped", what_if.skipped},
               {"rows", std::move(rows)}};
  if (what_if.accuracy) {
    said["accuracy"] = {{"measured_pass_ms", what_if.accuracy->measured_pass_ms},
                        {"predicted_pass_ms", what_if.accuracy->predicted_pass_ms},
                        {"is_near", what_if.accuracy->is_near()}};
  }
  return said;
}

json about_of(const TraceProperties& properties) {
  std::string command;
  for (const std::string& word : properties.texts("process.argument")) {
    command.append(command.empty() ? "" : " ").append(as_utf8(word));
  }
  json said = {{"command", command}};
  const auto add_text = [&](const char* name, const char* key) {
    if (const auto text = properties.text(key)) said[name] = as_utf8(*text);
  };
  const auto add_number = [&](const char* name, const char* key) {
    if (const auto number = properties.number(key)) said[name] = *number;
  };
  add_text("device", "device.name");
  add_text("policy", "policy.name");
  add_text("recorded_by", "superpipe.version");
  add_text("run", "trace.run");
  add_number("k", "policy.k");
  add_number("k_prime", "policy.k_prime");
  add_number("process", "process.id");
  add_number("device_bytes", "device.total_bytes");
  add_number("context_bytes", "device.context_bytes");
  add_number("start_unix_ns", "trace.start_unix_ns");
  return said;
}

json counts_of(const TraceReport::Counts& counts) {
  return {{"allocations", counts.allocations},
          {"frees", counts.frees},
          {"launches", counts.launches},
          {"uses", counts.uses},
          {"fetches", counts.fetches},
          {"demand_fetches", counts.demand_fetches},
          {"evictions", counts.evictions},
          {"write_backs", counts.write_backs},
          {"stalls", counts.stalls},
          {"passes", counts.passes},
          {"copied_in_bytes", counts.copied_in},
          {"copied_out_bytes", counts.copied_out}};
}

json waits_of(const TraceReport& report) {
  constexpr std::array<const char*, std::tuple_size_v<TraceReport::WaitsByReason>> kReasons = {
      "in operations", "for the device", "for copies", "for something else"};
  json list = json::array();
  for (std::size_t i = 0; i < kReasons.size(); ++i) {
    const TraceReport::Waits& waits = report.waits()[i];
    if (waits.calls == 0) continue;
    list.push_back({{"reason", kReasons[i]},
                    {"calls", waits.calls},
                    {"all_ns", waits.ns},
                    {"ns", sums_of(waits.by_time)}});
  }
  return list;
}

// Names with most of the time first; shares of bins in percent.
json marks_of(const TraceReport& report) {
  std::vector<std::pair<TraceIndex, const TraceReport::Marks*>> all;
  for (const auto& [text, marks] : report.marks()) all.emplace_back(text, &marks);
  std::stable_sort(all.begin(), all.end(), [](const auto& one, const auto& other) {
    return one.second->ns > other.second->ns;
  });
  json rows = json::array();
  std::uint64_t width = kFirstBinNs;
  for (const auto& [text, marks] : all) {
    width = marks->by_time.width();
    json shares = json::array();
    std::uint64_t begin = 0;
    for (const double ns : marks->by_time.bins()) {
      // The last bin is mostly not full.
      const std::uint64_t until = std::min(begin + width, std::max(report.end_time(), begin + 1));
      const double share = ns / static_cast<double>(until - begin) * 100;
      shares.push_back(std::min<std::uint64_t>(100, rounded(share)));
      begin += width;
    }
    rows.push_back({{"name", short_name(report.all_names().text(text))},
                    {"ranges", marks->ranges},
                    {"points", marks->points},
                    {"ns", marks->ns},
                    {"shares", std::move(shares)}});
  }
  return {{"rows", std::move(rows)}, {"width_ns", width}, {"others", report.counts().other_marks}};
}

json trace_of(const ReportedTrace& trace) {
  const TraceReport& report = *trace.report;
  SitePlaces places;
  json said = {{"file", as_utf8(trace.file)},          {"about", about_of(report.properties())},
               {"complete", trace.ending.is_complete}, {"events", trace.ending.events},
               {"dropped", trace.ending.dropped},      {"other_files", as_utf8(trace.other_files)},
               {"end_ns", report.end_time()},          {"counts", counts_of(report.counts())},
               {"bin_ns", report.device().width()},    {"passes", passes_of(report)},
               {"kernels", kernels_of(report)},        {"kernels_in_all", report.kernels().size()},
               {"sites", sites_of(report, places)},    {"sites_in_all", report.sites().size()},
               {"no_layers", trace.no_layers},         {"no_what_if", trace.no_what_if}};
  said["memory"] = {{"device_most", most_of(report.device())},
                    {"device_least", least_of(report.device())},
                    {"live", most_of(report.live())},
                    {"passthrough", most_of(report.passthrough())},
                    {"pinned_host", most_of(report.pinned_host())},
                    {"budget", most_of(report.budget())},
                    {"device_peak_bytes", report.device().peak()},
                    {"device_peak_ns", report.device().peak_time()},
                    {"pages_peak_bytes", report.pages().peak()},
                    {"pinned_host_peak_bytes", report.pinned_host().peak()},
                    {"pinned_host_peak_ns", report.pinned_host().peak_time()}};
  said["link"] = {{"to_device", sums_of(report.to_device().carried())},
                  {"to_host", sums_of(report.to_host().carried())},
                  {"to_device_bytes", report.to_device().bytes().count()},
                  {"to_host_bytes", report.to_host().bytes().count()},
                  {"to_device_busy_ns", report.to_device().busy()},
                  {"to_host_busy_ns", report.to_host().busy()}};
  said["stalls"] = {{"ns", sums_of(report.stalls())},
                    {"all_ns", report.stall_ns()},
                    {"unexplained_ns", rounded(report.unexplained_stall_ns())}};
  said["waits"] = waits_of(report);
  said["marks"] = marks_of(report);
  said["groups"] = groups_of(report, places);
  said["residency_bin_ns"] =
      report.groups().empty() ? kFirstBinNs : report.groups().front().residency.width();
  said["what_if"] = trace.what_if ? what_if_of(*trace.what_if) : json();
  return said;
}

}  // namespace

std::string report_json(std::span<const ReportedTrace> traces) {
  json all = {{"format", 1}, {"superpipe", SUPERPIPE_VERSION}, {"traces", json::array()}};
  for (const ReportedTrace& trace : traces) all["traces"].push_back(trace_of(trace));
  return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace superpipe::cli
