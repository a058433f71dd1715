// H17: how many launches may a program be ahead of the device before one waits?

#include <algorithm>
#include <string>
#include <vector>

#include "tools/superpipe/probes/busy_kernel.h"
#include "tools/superpipe/probes/session.h"

namespace superpipe::cli {

void probe_launch_queue(const ProbeSetting& setting, const ProbeReport& report) {
  constexpr std::size_t kLaunches = 10'000;
  constexpr double kWaited = 1e-3;  // seconds: no launch takes that long by itself
  // Who waits for room in the queue waits for the kernel, which ends by itself.
  const auto kernel_limit_ns =
      setting.pick<unsigned long long>(2'000'000'000, 1'000'000'000, 500'000'000);

  report.step("opening the device");
  Session session(setting);
  session.need_device_memory(2 * kGranule);
  const DeviceMemory busy(session, kGranule);
  const DeviceMemory target(session, kGranule);
  session.kernel("probe_busy");
  session.launch("probe_fill", nullptr, 32, target.address(), 32ULL, 1U);
  session.cu().cuCtxSynchronize.must();

  report.step("launching behind a kernel that runs");
  std::size_t queued = 0;
  double longest = 0;
  std::vector<double> seconds;
  {
    const BusyKernel kernel(session, busy.address(), kGranule / 64, kernel_limit_ns);
    while (queued < kLaunches) {
      const double took = host_seconds([&] {
        session.launch("probe_fill", kernel.stream().get(), 32, target.address(), 32ULL, 1U);
      });
      longest = std::max(longest, took);
      if (took > kWaited) break;
      seconds.push_back(took);
      ++queued;
    }
  }
  const bool all = queued == kLaunches;
  report.figure("launches_queued", queued);
  report.figure("asked_for", kLaunches);
  report.figure("longest_us", longest * 1e6);
  report.figure("median_us", seconds.empty() ? 0 : quantile(seconds, 0.5) * 1e6);
  report.answer((all ? "all of " : "the launch after ") + std::to_string(queued) +
                (all ? " launches were queued behind a running kernel"
                     : " queued ones waited: the queue is full, or the machine was elsewhere"));
}

}  // namespace superpipe::cli
