#include "tools/superpipe/doctor_report.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <utility>

#include "policy/budget.h"
#include "policy/requirements.h"
#include "settings/settings.h"
#include "tools/superpipe/run_environment.h"

namespace superpipe::cli {
namespace {

void judge_installation(Report& report) {
  if (!report.library_present) {
    report.findings.push_back(
        {true, "superpipe's own library is missing: " + report.parts.preload_library,
         "install superpipe again (cmake --install), or build all of it"});
  }
  if (switched_off()) {
    report.findings.push_back(
        {false,
         std::string(variable_of(SettingId::kOff)) + "=1 is set: programs run without superpipe",
         "unset it to use superpipe"});
  }
}

void judge_driver(Report& report) {
  using Outcome = DriverProbe::Outcome;
  const DriverProbe& driver = report.driver;
  const auto problem = [&report](std::string what, std::string advice) {
    report.findings.push_back({true, std::move(what), std::move(advice)});
  };
  const std::string variable = variable_of(SettingId::kDriver);
  const bool named = report.driver_source == variable;
  switch (driver.outcome) {
    case Outcome::kNotFound:
      if (report.simulated) {
        problem("simgpu's driver is missing: " + driver.path,
                "install superpipe again (cmake --install), or build all of it");
        return;
      }
      problem(named ? variable + "=" + driver.path + " does not exist"
                    : "no CUDA driver (libcuda.so.1) was found",
              named ? "unset it, or name the CUDA driver library"
                    : "install NVIDIA's driver, or use a simulated GPU: superpipe run --simulate");
      return;
    case Outcome::kNotADriver:
      problem(driver.path + " is not a CUDA driver: " + driver.detail,
              named ? "unset " + variable + ", or name the CUDA driver library"
                    : "reinstall NVIDIA's driver");
      return;
    case Outcome::kTooOld:
      problem("the driver is too old: " + driver.detail,
              "update NVIDIA's driver to " + std::string(kOldestDriverPackage) +
                  " or newer (580 for programs of CUDA 13)");
      return;
    case Outcome::kInitFailed:
      problem("the driver does not start: " + driver.detail,
              report.simulated ? "check the SIMGPU_* variables"
                               : "check that a GPU is visible here (nvidia-smi, "
                                 "CUDA_VISIBLE_DEVICES, the container's device access)");
      return;
    case Outcome::kCrashed:
    case Outcome::kHung:
      problem("the driver is not usable: " + driver.detail,
              "check that the driver's library and its kernel module have the same version");
      return;
    case Outcome::kUsable:
      break;
  }
  if (driver.devices.empty()) {
    problem("the driver has no device", "check that a GPU is visible (CUDA_VISIBLE_DEVICES)");
  }
  for (std::size_t i = 0; i < driver.devices.size(); ++i) {
    if (!driver.devices[i].virtual_memory) {
      problem("device " + std::to_string(i) + " has no virtual memory management",
              "superpipe needs it to move buffers without changing their addresses; use another "
              "device (CUDA_VISIBLE_DEVICES)");
    }
    if (driver.devices[i].capability("kernel_time_limit") != 0) {
      report.findings.push_back(
          {false, "device " + std::to_string(i) + " drives a display, which limits kernels' time",
           "measured times of map costs and unmap safety include the display's work"});
    }
  }
}

void judge_host(Report& report) {
  const auto usable = report.host.memory.usable();
  if (!usable) {
    report.findings.push_back({false, "how much host memory is free is not known",
                               "cap the host store yourself: --host-mem SIZE"});
    return;
  }
  Bytes device_bytes;
  for (const ProbedDevice& device : report.driver.devices)
    device_bytes += Bytes{device.total_bytes};
  if (*usable < device_bytes) {
    report.findings.push_back(
        {false,
         "host memory (" + format_bytes(*usable) + " usable) is smaller than device memory (" +
             format_bytes(device_bytes) + ")",
         "what is evicted lies in host memory: a model can be larger than the device only by what "
         "the host can hold"});
  }
  if (!report.simulated && report.host.lockable && *report.host.lockable < *usable) {
    report.findings.push_back(
        {false,
         "this process may lock only " + format_bytes(*report.host.lockable) + " (ulimit -l)",
         "NVIDIA's driver pins memory without this limit; in some containers it does count: raise "
         "it if pinning fails"});
  }
}

// An answer that superpipe does not expect of a device.
void judge_answers(Report& report) {
  const std::pair<const char*, const char*> kRelied[] = {
      {"H0", "programs that use NVIDIA's runtime library will not start under superpipe here"},
      {"H3", "do not rely on results under superpipe on this device"},
      {"H5", "functions found under another address are not seen by superpipe"},
      {"H8", "do not rely on results under superpipe on this device"}};
  for (const auto& [id, meaning] : kRelied) {
    const ProbeResult* const result = report.result_of(id);
    if (result == nullptr || result->outcome != ProbeResult::Outcome::kAnswered) continue;
    if (!result->holds || *result->holds) continue;
    report.findings.push_back({false, "was answered: " + result->answer,
                               std::string(meaning) + "; please report it", id});
  }
  for (const ProbeResult& result : report.probes) {
    using Outcome = ProbeResult::Outcome;
    if (result.outcome != Outcome::kFailed && result.outcome != Outcome::kCrashed &&
        result.outcome != Outcome::kTimedOut) {
      continue;
    }
    std::string word = result.probe->name;
    std::replace(word.begin(), word.end(), ' ', '-');
    std::string advice = "that question stays open; ask it alone: superpipe doctor --probe " + word;
    if (result.outcome == Outcome::kTimedOut) advice += " --probe-timeout 300";
    report.findings.push_back({false, std::string(name_of(result.outcome)) + ": " + result.reason,
                               advice, result.probe->id});
  }
}

/// `text` in small letters, with spaces between its words.
std::string plain_words(std::string_view text) {
  std::string words;
  for (const char c : text) {
    const bool is_gap = c == '-' || c == '_';
    words += is_gap ? ' ' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return words;
}

}  // namespace

const Probe* probe_called(std::string_view word) {
  if (const Probe* const probe = find_probe(word)) return probe;
  for (const Probe& probe : all_probes()) {
    if (plain_words(probe.name) == plain_words(word)) return &probe;
  }
  return nullptr;
}

std::string name_of_probe(const std::string& id, ProbeCalled called) {
  const Probe* const probe = find_probe(id);
  return called == ProbeCalled::kByName && probe != nullptr ? probe->name : id;
}

std::string Finding::says(ProbeCalled called) const {
  return probe.empty() ? what : name_of_probe(probe, called) + " " + what;
}

bool Report::ready() const {
  for (const Finding& finding : findings) {
    if (finding.problem) return false;
  }
  return true;
}

const ProbeResult* Report::result_of(const std::string& id) const {
  for (const ProbeResult& result : probes) {
    if (result.probe != nullptr && result.probe->id == id) return &result;
  }
  return nullptr;
}

void judge(Report& report) {
  judge_installation(report);
  judge_driver(report);
  judge_host(report);
  judge_answers(report);
}

}  // namespace superpipe::cli
