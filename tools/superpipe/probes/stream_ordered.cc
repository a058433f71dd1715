// H20: how many stream-ordered allocations does the driver serve in a second?

#include <algorithm>
#include <string>
#include <vector>

#include "tools/superpipe/probes/session.h"

namespace superpipe::cli {

void probe_stream_ordered_allocation(const ProbeSetting& setting, const ProbeReport& report) {
  const std::vector<std::size_t> sizes =
      setting.simulated ? std::vector<std::size_t>{1 * kMiB, 2 * kMiB, 3 * kMiB}
                        : std::vector<std::size_t>{2 * kMiB, 64 * kMiB, 5 * kMiB, 20 * kMiB};
  const int pairs = setting.pick(20'000, 5'000, 500);

  report.step("opening the device");
  Session session(setting);
  session.need_device_memory(2 * *std::max_element(sizes.begin(), sizes.end()));
  const Driver& cu = session.cu();
  CUmemoryPool pool = nullptr;
  cu.cuDeviceGetDefaultMemPool.must(&pool, 0);
  // As frameworks do: what was freed stays in the pool.
  cuuint64_t kept = ~cuuint64_t{0};
  cu.cuMemPoolSetAttribute.must(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &kept);
  const Stream stream(session);
  // The seconds that each pair of calls takes, the sizes in turn.
  const auto time_pairs = [&](const std::vector<std::size_t>& in_turn) {
    std::vector<double> seconds;
    seconds.reserve(static_cast<std::size_t>(pairs));
    for (int i = 0; i < pairs; ++i) {
      seconds.push_back(host_seconds([&] {
        CUdeviceptr address = 0;
        cu.cuMemAllocAsync.must(&address, in_turn[i % in_turn.size()], stream.get());
        cu.cuMemFreeAsync.must(address, stream.get());
      }));
    }
    stream.wait();
    return seconds;
  };
  const auto tell = [&](const std::string& name, const std::vector<double>& seconds) {
    double all = 0;
    for (const double one : seconds) all += one;
    const double rate = static_cast<double>(seconds.size()) / all;
    report.figure(name + "_pairs_per_second", rate);
    report.figure(name + "_median_us", quantile(seconds, 0.5) * 1e6);
    report.figure(name + "_p99_us", quantile(seconds, 0.99) * 1e6);
    return rate;
  };
  report.step("allocating and freeing one size");
  (void)time_pairs({sizes.front()});
  const double same = tell("same_size", time_pairs({sizes.front()}));
  report.step("allocating and freeing sizes in turn");
  (void)time_pairs(sizes);
  const double mixed = tell("sizes_in_turn", time_pairs(sizes));
  report.figure("pairs", pairs);
  report.answer(with_digits(same, 0) + " pairs of allocation and free in a second of one size, " +
                with_digits(mixed, 0) + " of sizes in turn");
}

}  // namespace superpipe::cli
