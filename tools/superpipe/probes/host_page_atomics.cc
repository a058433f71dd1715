// H32: are atomics of 8 and of 16 bytes right on pages that lie on the host?

#include <array>
#include <string>

#include "tools/superpipe/probes/host_pages.h"
#include "tools/superpipe/probes/kernels.h"

namespace superpipe::cli {
namespace {

constexpr unsigned kAtomicThreads = 2048;  // kAtomicWords divides it

/// What a kernel did to kAtomicWords words of one or two halves.
struct AtomicCount {
  unsigned long long lost = 0;  ///< additions that did not arrive, or arrived in one half only
  double per_us = 0;            ///< additions
};

/// `halves`: of 8 bytes, in each word.
AtomicCount count_additions(Session& session, Measurement& measure, const char* kernel,
                            CUdeviceptr address, unsigned times, std::size_t halves) {
  std::array<unsigned long long, 2 * kAtomicWords> words{};
  const std::size_t bytes = halves * kAtomicWords * sizeof(words[0]);
  const auto add = [&] {
    session.launch(kernel, measure.stream(), kAtomicThreads, address, times);
  };
  session.cu().cuMemsetD8Async.must(address, 0, bytes, measure.stream());
  add();
  measure.wait();
  session.cu().cuMemcpyDtoH.must(words.data(), address, bytes);
  const unsigned long long expected = kAtomicThreads / kAtomicWords * times;
  AtomicCount counted;
  for (std::size_t i = 0; i < kAtomicWords * halves; ++i) {
    const unsigned long long wanted = i % halves == 0 ? expected : expected * kUpperStep;
    counted.lost += words[i] > wanted ? words[i] - wanted : wanted - words[i];
  }
  const double seconds = measure.seconds(add);
  counted.per_us = seconds > 0 ? static_cast<double>(kAtomicThreads) * times / seconds / 1e6 : 0;
  return counted;
}

}  // namespace

void probe_host_page_atomics(const ProbeSetting& setting, const ProbeReport& report) {
  const auto times = setting.pick<unsigned>(32, 16, 8);
  report.step("opening the device");
  Session session(setting);
  const HostPlace place = find_host_place(session, setting, report);
  const std::size_t bytes = page_bytes(session, place.location, kGranule);
  need_host_memory(setting, bytes);
  session.need_device_memory(2 * kGranule);
  Measurement measure(session);
  const Window host(session, bytes, place.location);
  const DeviceMemory device(session, kGranule);
  report.figure("additions", kAtomicThreads * times);

  struct Kind {
    const char* kernel;
    const char* name;
    std::size_t halves;
  };
  // The widest last: where a device cannot do it, its context may be lost.
  constexpr std::array<Kind, 3> kKinds{{{"probe_add64", "add_of_8_bytes", 1},
                                        {"probe_cas64", "swap_of_8_bytes", 1},
                                        {"probe_cas128", "swap_of_16_bytes", 2}}};
  std::string wrong, text;
  for (const Kind& kind : kKinds) {
    const std::string name = kind.name;
    report.step(name + " on a page of the device");
    const AtomicCount alone =
        count_additions(session, measure, kind.kernel, device.address(), times, kind.halves);
    if (alone.lost != 0) {
      // A device below compute capability 9.0, or text that was compiled for one.
      report.figure(name, "not of this device");
      continue;
    }
    report.step(name + " on a page on the host");
    const AtomicCount counted =
        count_additions(session, measure, kind.kernel, host.address(), times, kind.halves);
    report.figure(name + "_lost", counted.lost);
    report.figure(name + "_per_us", counted.per_us);
    report.figure(name + "_on_device_per_us", alone.per_us);
    if (counted.lost != 0) wrong += (wrong.empty() ? "no: lost by " : ", ") + name;
    text +=
        (text.empty() ? "yes: " : ", ") + name + " " + with_digits(counted.per_us, 1) + " per us";
    report.answer(wrong.empty() ? text : wrong, wrong.empty());
  }
}

}  // namespace superpipe::cli
