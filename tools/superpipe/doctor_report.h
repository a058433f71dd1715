// All that `superpipe doctor` found out, before it is written down.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "tools/superpipe/driver_probe.h"
#include "tools/superpipe/host_description.h"
#include "tools/superpipe/installation.h"
#include "tools/superpipe/probes/probe_runner.h"

namespace superpipe::cli {

/// How a question is called: in JSON by its code, which never changes, in text for people by its
/// name.
enum class ProbeCalled : std::uint8_t { kByCode, kByName };

/// What to call the question with the code `id`.
[[nodiscard]] std::string name_of_probe(const std::string& id, ProbeCalled called);

/// The question that `word` stands for: its code or its name, whatever the case, with a space, - or
/// _ between the words of the name. Null if there is none.
[[nodiscard]] const Probe* probe_called(std::string_view word);

/// Something that stands in the way (a problem) or that is good to know (a note), and what to do
/// about it.
struct Finding {
  bool problem;
  std::string what;
  std::string advice;
  std::string probe{};  ///< the code of the question whose name goes before `what`; empty: none

  [[nodiscard]] std::string says(ProbeCalled called) const;
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
  std::string name;      ///< "evicted_addresses"
  std::string choice;    ///< what this version does
  std::string why;       ///< what of the machine bears on it
  std::string probe{};   ///< the code of the question whose answer bears on it; empty: none
  std::string answer{};  ///< what goes behind the question's name: ": yes", " was not asked"

  [[nodiscard]] std::string reason(ProbeCalled called) const;
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
