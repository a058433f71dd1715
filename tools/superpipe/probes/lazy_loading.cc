// H21: what does lazy loading add to a kernel's first launch, and does that wait for other kernels?

#include <cstdlib>
#include <string>

#include "tools/superpipe/probes/busy_kernel.h"
#include "tools/superpipe/probes/session.h"

namespace superpipe::cli {

void probe_lazy_loading(const ProbeSetting& setting, const ProbeReport& report) {
  const auto kernel_limit_ns =
      setting.pick<unsigned long long>(1'000'000'000, 500'000'000, 300'000'000);
  constexpr unsigned long long kWords = 1024;

  report.step("opening the device");
  // Read by the driver when it is initialised. This process asks nothing else.
  (void)setenv("CUDA_MODULE_LOADING", "LAZY", 1);
  Session session(setting);
  session.need_device_memory(2 * kGranule);
  const DeviceMemory busy(session, kGranule);
  const DeviceMemory target(session, kGranule);
  const Stream stream(session);
  const Driver& cu = session.cu();
  const auto fill = [&] {
    session.launch("probe_fill", stream.get(), kWords, target.address(), kWords, 1U);
  };
  const auto advance = [&] {
    session.launch("probe_advance", stream.get(), kWords, target.address(), kWords, 1U);
  };

  report.step("launching a kernel for the first time");
  const double load = host_seconds([&] { session.load_again(); });
  const double first = host_seconds(fill);
  stream.wait();
  const double second = host_seconds(fill);
  stream.wait();

  report.step("launching another module's kernel for the first time beside a kernel that runs");
  session.kernel("probe_busy");
  double load_beside = 0;
  double beside = 0;
  bool waited = false;
  {
    const BusyKernel kernel(session, busy.address(), kGranule / 64, kernel_limit_ns);
    load_beside = host_seconds([&] { session.load_again(); });
    beside = host_seconds(advance);
    waited = !kernel.running();
  }
  cu.cuCtxSynchronize.must();
  report.figure("load_us", load * 1e6);
  report.figure("load_beside_a_kernel_us", load_beside * 1e6);
  report.figure("first_launch_us", first * 1e6);
  report.figure("second_launch_us", second * 1e6);
  report.figure("first_launch_beside_a_kernel_us", beside * 1e6);
  report.figure("kernel_limit_us", static_cast<double>(kernel_limit_ns) / 1e3);
  report.answer("a first launch took " + with_digits(first * 1e6, 0) + " us, the second " +
                    with_digits(second * 1e6, 0) + " us; beside a running kernel a module took " +
                    with_digits(load_beside * 1e6, 0) + " us to load, and its first launch " +
                    with_digits(beside * 1e6, 0) + " us" +
                    (waited ? ": it waited for the kernel" : ""),
                !waited);
}

}  // namespace superpipe::cli
