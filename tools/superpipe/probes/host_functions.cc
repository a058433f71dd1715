// H29: do host functions of two streams run at once, or one after the other?

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tools/superpipe/probes/session.h"

namespace superpipe::cli {
namespace {

using HostClock = std::chrono::steady_clock;

/// Two host functions that wait for each other.
struct Meeting {
  std::chrono::milliseconds patience;
  std::atomic<int> inside{0};
  std::atomic<int> most_inside{0};
};

void CUDA_CB meet(void* data) {
  auto& meeting = *static_cast<Meeting*>(data);
  const auto end = HostClock::now() + meeting.patience;
  const int inside = ++meeting.inside;
  if (inside > meeting.most_inside) meeting.most_inside = inside;
  while (meeting.most_inside < 2 && HostClock::now() < end) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  --meeting.inside;
}

void CUDA_CB note_the_time(void* data) {
  *static_cast<HostClock::time_point*>(data) = HostClock::now();
}

}  // namespace

void probe_host_functions(const ProbeSetting& setting, const ProbeReport& report) {
  const int rounds = setting.pick(3, 2, 1);
  const int samples = setting.pick(200, 50, 10);
  report.step("opening the device");
  Session session(setting);
  const Driver& cu = session.cu();
  const Stream first(session), second(session);

  report.step("host functions of one stream");
  std::vector<double> delays_us;
  for (int i = 0; i < samples; ++i) {
    HostClock::time_point ran;
    const auto asked = HostClock::now();
    cu.cuLaunchHostFunc.must(first.get(), note_the_time, &ran);
    first.wait();
    delays_us.push_back(std::chrono::duration<double, std::micro>(ran - asked).count());
  }
  report.figure("delay_median_us", quantile(delays_us, 0.5));
  report.figure("delay_p99_us", quantile(delays_us, 0.99));

  report.step("host functions of two streams");
  int at_once = 0;
  for (int round = 0; round < rounds; ++round) {
    Meeting meeting{.patience = std::chrono::milliseconds(500)};
    cu.cuLaunchHostFunc.must(first.get(), meet, &meeting);
    cu.cuLaunchHostFunc.must(second.get(), meet, &meeting);
    first.wait();
    second.wait();
    at_once += meeting.most_inside == 2 ? 1 : 0;
  }
  report.figure("rounds", rounds);
  report.figure("rounds_at_once", at_once);
  report.answer(at_once == rounds ? "at once: that of one stream does not wait for another one's"
                : at_once == 0    ? "one after the other, also those of different streams"
                                  : "at once in " + std::to_string(at_once) + " of " +
                                     std::to_string(rounds) + " rounds",
                at_once == rounds);
}

}  // namespace superpipe::cli
