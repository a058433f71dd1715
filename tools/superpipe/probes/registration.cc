// H18: how fast is host memory pinned, of ordinary and of large memory pages?

#include <sys/mman.h>

#include <cstring>
#include <string>
#include <vector>

#include "tools/superpipe/probes/session.h"

namespace superpipe::cli {

void probe_registration(const ProbeSetting& setting, const ProbeReport& report) {
  const std::size_t bytes = setting.pick(256, 128, 8) * kMiB;
  const int repeats = setting.pick(8, 4, 2);
  need_host_memory(setting, bytes);

  report.step("opening the device");
  Session session(setting);
  report.figure("bytes", bytes);
  std::string text;
  for (const bool large : {false, true}) {
    const std::string name = large ? "large" : "ordinary";
    report.step("pinning " + name + " pages");
    std::vector<double> touching, pinning, unpinning;
    bool advised = true;
    for (int i = 0; i < repeats; ++i) {
      const UnpinnedMemory host(bytes);
      advised = madvise(host.data(), bytes, large ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) == 0;
      touching.push_back(host_seconds([&] { std::memset(host.data(), 0x5a, bytes); }));
      pinning.push_back(
          host_seconds([&] { session.cu().cuMemHostRegister.must(host.data(), bytes, 0); }));
      unpinning.push_back(
          host_seconds([&] { session.cu().cuMemHostUnregister.must(host.data()); }));
    }
    const auto rate = [&](const std::vector<double>& seconds) {
      return gigabytes_per_second(static_cast<double>(bytes), quantile(seconds, 0.5));
    };
    report.figure(name + "_advised", advised);
    report.figure(name + "_touch_gbps", rate(touching));
    report.figure(name + "_pin_gbps", rate(pinning));
    report.figure(name + "_unpin_gbps", rate(unpinning));
    text += (large ? ", of large ones with " : "of ordinary pages with ") +
            with_digits(rate(pinning), 1) + " GB/s";
  }
  report.answer(text);
}

}  // namespace superpipe::cli
