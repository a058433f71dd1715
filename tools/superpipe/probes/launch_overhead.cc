// H10: how much time does superpipe's library add to a launch?

#include <array>
#include <string>
#include <vector>

#include "tools/superpipe/probes/child_program.h"
#include "tools/superpipe/probes/session.h"
#include "tools/superpipe/run_environment.h"

namespace superpipe::cli {
namespace {

struct Way {
  const char* name;
  ChildLibrary library;
  std::vector<double> medians, p99s;
};

}  // namespace

void probe_launch_overhead(const ProbeSetting& setting, const ProbeReport& report) {
  const int rounds = setting.pick(3, 2, 1);
  const std::string launches = std::to_string(setting.pick(20000, 5000, 2000));
  std::array<Way, 3> ways{{{"without", ChildLibrary::kNone, {}, {}},
                           {"resident", ChildLibrary::kResident, {}, {}},
                           {"managing", ChildLibrary::kManaging, {}, {}}}};
  // In turns, so that a clock that rises or falls meets all of them.
  for (int round = 0; round < rounds; ++round) {
    for (Way& way : ways) {
      report.step(std::string("launching, ") + way.name);
      const bool plain = way.library == ChildLibrary::kNone;
      const ChildEnd end = run_child_program(
          setting, {"launch", plain ? setting.driver_path : kDriverLibrary, launches}, way.library);
      if (!end.failure.empty()) {
        throw std::runtime_error(std::string("launching, ") + way.name + ": " + end.failure);
      }
      if (end.figures.value("library_present", false) == plain) {
        throw std::runtime_error(std::string("launching, ") + way.name + ": superpipe's library " +
                                 (plain ? "was loaded all the same" : "was not loaded"));
      }
      way.medians.push_back(end.figures.value("median_ns", 0.0));
      way.p99s.push_back(end.figures.value("p99_ns", 0.0));
    }
  }
  const double plain = quantile(ways[0].medians, 0.5);
  const double plain_p99 = quantile(ways[0].p99s, 0.5);
  for (const Way& way : ways) {
    const std::string name = way.name;
    const double median = quantile(way.medians, 0.5);
    const double p99 = quantile(way.p99s, 0.5);
    report.figure(name + "_median_ns", median);
    report.figure(name + "_p99_ns", p99);
    if (way.library == ChildLibrary::kNone) continue;
    report.figure(name + "_added_median_ns", median - plain);
    report.figure(name + "_added_p99_ns", p99 - plain_p99);
  }
  report.figure("launches_of_each", std::stoi(launches) * rounds);
  const auto added = [&](const Way& way) {
    return with_digits(quantile(way.medians, 0.5) - plain, 0) + " ns (p99 " +
           with_digits(quantile(way.p99s, 0.5) - plain_p99, 0) + ")";
  };
  report.answer("adds " + added(ways[1]) + " while all is resident, " + added(ways[2]) +
                " with a budget; a launch without it takes " + with_digits(plain, 0) + " ns");
}

}  // namespace superpipe::cli
