#include "tools/superpipe/plan_text.h"

#include <cmath>
#include <cstddef>
#include <iomanip>
#include <ostream>
#include <sstream>
#include <string>

#include "policy/budget.h"
#include "policy/policy_engine.h"
#include "tools/superpipe/plain_text.h"
#include "tools/superpipe/plan_recommendation.h"

namespace superpipe::cli {
namespace {

// Names of kernels may have all of their parameters' types in them.
constexpr std::size_t kShownKernel = 60;

std::string percent_text(double share) {
  std::ostringstream text;
  text << std::showpos << std::fixed << std::setprecision(1) << share * 100 << " %";
  return text.str();
}

void write_titles(std::ostream& out) {
  out << "  GPU memory  policy               pass       x all  x bound  stalled    moved in   "
         "moved out  "
         "first pass  loading    peak       host\n";
}

void write_row(std::ostream& out, const Prediction& row, double resident_ms) {
  out << std::right << std::setw(12)
      << (row.question.k ? "k=" + std::to_string(*row.question.k)
                         : format_bytes(row.question.gpu_mem))
      << "  " << std::left << std::setw(21) << name_of(row.question.policy);
  if (!row.problem.empty()) {
    out << "does not run: " << row.problem << '\n';
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
  out << std::setw(11) << milliseconds_text(row.pass_ms) << std::setw(7)
      << factor(row.pass_ms / resident_ms) << std::setw(9)
      << (row.bound_ms && *row.bound_ms > 0 ? factor(row.pass_ms / *row.bound_ms) : "-")
      << std::setw(11) << milliseconds_text(row.stall_ms) << std::setw(11)
      << bytes(row.to_device_bytes) << std::setw(11) << bytes(row.to_host_bytes) << std::setw(12)
      << milliseconds_text(row.first_pass_ms) << std::setw(11) << milliseconds_text(row.load_ms)
      << std::setw(11) << format_bytes(row.peak) << format_bytes(row.pinned_host) << '\n'
      << std::right;
}

// What may be wrong where a prediction of the traced run is.
std::string reasons_for_doubt(const TracedProgram& program, const PlanAccuracy& accuracy) {
  constexpr double kMostlyMeasured = 0.9;
  constexpr std::size_t kFewPasses = 3;
  std::string reasons;
  if (program.measured_share() < kMostlyMeasured) {
    reasons += "only " + std::to_string(std::lround(program.measured_share() * 100)) +
               " % of the kernels' time was measured, ";
  }
  if (accuracy.passes < kFewPasses) {
    reasons += "only " + std::to_string(accuracy.passes) +
               (accuracy.passes == 1 ? " pass was" : " passes were") + " measured, ";
  }
  if (!accuracy.has_own_link && program.run().to_device > Bytes{}) {
    reasons += "the trace does not tell the speed of its link, ";
  }
  return reasons + "the machine may have done something else meanwhile";
}

// How far the answers can be trusted.
void write_confidence(std::ostream& out, const TracedProgram& program, const Planner& planner) {
  if (!program.ending().is_complete) {
    out << "The traced process died, or the disk was full: what follows is about what it did "
           "until then.\n";
  }
  if (program.ending().dropped > 0) {
    out << program.ending().dropped
        << " events are missing from the trace (the disk was too slow): less may be moved "
           "than would be.\n";
  }
  if (program.refusals() > 0) {
    out << "Operations that found no room on the device in the traced run: " << program.refusals()
        << ". They are not in the trace, so the program needs more than what follows says: its "
           "summary names the least budget. Trace it with that.\n";
  }
  if (program.graph_launches() > 0) {
    out << "Launches of graphs: " << program.graph_launches()
        << ". What they do is not in the trace; the buffers that they name stay on the device, "
           "and their time is missing.\n";
  }
  if (program.measured_share() < 0.5) {
    out << "Kernel times: " << std::lround(program.measured_share() * 100)
        << " % measured; the others are estimates, by "
        << (program.times_are_fitted() ? "the trace's length" : "those of the same kernel")
        << " and the bytes that launches name.\n";
  }
  if (program.run().to_host == Bytes{}) {
    out << "Nothing left the device in the traced run, so it does not tell what kernels write: "
           "what the program copied in is taken to stay as it is. Trace training with a "
           "budget (--gpu-mem).\n";
  }
  const bool is_fitted = program.times_are_fitted();
  std::string problem;
  if (const auto accuracy = planner.accuracy(&problem)) {
    out << "The traced run itself, run again: pass "
        << milliseconds_text(accuracy->predicted_pass_ms) << " against "
        << milliseconds_text(accuracy->measured_pass_ms) << " measured ("
        << percent_text(accuracy->pass_error()) << ")";
    if (accuracy->measured_peak > Bytes{}) {
      out << ", peak " << format_bytes(accuracy->predicted_peak) << " against "
          << format_bytes(accuracy->measured_peak) << " (" << percent_text(accuracy->peak_error())
          << ")";
    }
    out << ".\n";
    if (!accuracy->is_near()) {
      out << "That is more than " << PlanAccuracy::kMostPassError * 100 << " % of a pass or "
          << PlanAccuracy::kMostPeakError * 100
          << " % of the peak, and what follows may be as far off: "
          << reasons_for_doubt(program, *accuracy) << ".\n";
    }
    if (is_fitted) {
      out << "That the passes agree says little: the estimates come from the same run's "
             "length.\n";
    }
  } else {
    out << problem << '\n';
  }
}

}  // namespace

void write_facts(std::ostream& out, const TracedProgram& program, const Planner& planner,
                 const AssumedLink& link) {
  out << program.run().command << (program.run().command.empty() ? "" : ": ") << program.launches()
      << " launches";
  if (planner.passes().size() > 0) {
    out << "; a pass has " << planner.launches_of_pass() << " and takes "
        << milliseconds_text(planner.resident_pass_ms()) << " with all on the device";
  }
  out << ".\nIt needs " << format_bytes(planner.needed()) << " of the device for all of it, "
      << format_bytes(planner.overhead()) << " of them not superpipe's to move, and runs with "
      << format_bytes(planner.least()) << " at least (kernel "
      << shortened(program.largest_kernel(), kShownKernel) << ").\n";
  write_confidence(out, program, planner);
  out << "Link: " << link.text()
      << ". Figures are predictions in virtual time, no measurements.\n\n";
}

void write_table(std::ostream& out, std::span<const Prediction> rows, double resident_ms) {
  write_titles(out);
  for (const Prediction& row : rows) write_row(out, row, resident_ms);
}

}  // namespace superpipe::cli
