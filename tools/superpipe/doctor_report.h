// All that `superpipe doctor` found out, before it is written down.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "tools/superpipe/driver_probe.h"
#include "tools/superpipe/host_description.h"
#include "tools/superpipe/installation.h"
#include "tools/superpipe/probes/probe_runner.h"

namespace superpipe::cli {

/// Something that stands in the way (a problem) or that is good to know (a note), and what to do
/// about it.
struct Finding {
  bool problem;
  std::string what;
  std::string advice;
};

/// The report.
struct Report {
  bool simulated = false;  ///< it was asked for, or the driver in place is simgpu
  bool quick = false;
  Installation parts;
  bool library_present = false;
  std::string driver_source;  ///< how it was chosen
  DriverProbe driver;
  std::string kernel_module;  ///< in NVIDIA's words; empty if there is none
  HostDescription host;
  std::vector<ProbeResult> probes;  ///< in the order of all_probes(); empty if none was wanted
  std::vector<Finding> findings;

  /// Whether programs can run under superpipe here.
  [[nodiscard]] bool ready() const;
  /// The result of a question; null if it was not asked.
  [[nodiscard]] const ProbeResult* result_of(const std::string& id) const;
};

/// What superpipe does about one thing on this machine, and why.
struct Feature {
  std::string name;    ///< "evicted_addresses"
  std::string choice;  ///< what this version does
  std::string why;     ///< what of the machine or of the answers bears on it
};

/// What will be used here. Says of nothing that it is done unless this version does it.
[[nodiscard]] std::vector<Feature> features_of(const Report& report);

/// Appends what is wrong or remarkable about the driver, the devices, the host and the answers.
void judge(Report& report);

/// Writes the report as text for people.
void write_text(const Report& report, std::ostream& out);

/// Writes the report as one JSON object, as docs/doctor.md describes it.
void write_json(const Report& report, std::ostream& out);

}  // namespace superpipe::cli
