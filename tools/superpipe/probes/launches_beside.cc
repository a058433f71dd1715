// H14: do the calls that bring and evict buffers hold up the launches of another thread?

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tools/superpipe/probes/busy_kernel.h"
#include "tools/superpipe/probes/session.h"

namespace superpipe::cli {
namespace {

/// What superpipe's own threads do, round after round on a thread: a page is created, mapped,
/// opened, unmapped and released, and a part of `host` is pinned.
class Upkeep {
 public:
  Upkeep(Session& session, CUcontext context, std::size_t page, const UnpinnedMemory& host,
         int rounds)
      : session_(session),
        range_(session, page),
        page_(page),
        host_(static_cast<char*>(host.data())),
        rounds_(rounds),
        thread_([this, context] { run(context); }) {}
  ~Upkeep() { thread_.join(); }
  Upkeep(const Upkeep&) = delete;
  Upkeep& operator=(const Upkeep&) = delete;

  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] int done() const { return done_; }

  /// By call, the most microseconds that one took. Throws what ended the thread early.
  /// REQUIRES: it has ended.
  [[nodiscard]] const std::map<std::string, double>& longest_us() const {
    if (!failure_.empty()) throw std::runtime_error(failure_);
    return longest_us_;
  }

 private:
  void run(CUcontext context) {
    try {
      session_.cu().cuCtxSetCurrent.must(context);
      while (done_ < rounds_) round();
      // Last, for these are known to wait for the device.
      for (int i = 0; i < rounds_; ++i) {
        timed("unregister", [&] { session_.cu().cuMemHostUnregister.must(host_ + i * page_); });
      }
    } catch (const std::exception& problem) {
      failure_ = problem.what();
    }
    ended_ = true;
  }
  void round() {
    const Driver& cu = session_.cu();
    const CUmemAllocationProp properties = properties_at(kOnDevice);
    CUmemAccessDesc access{};
    access.location = kOnDevice;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CUmemGenericAllocationHandle handle = 0;
    const CUdeviceptr at = range_.address();
    timed("create", [&] { cu.cuMemCreate.must(&handle, page_, &properties, 0); });
    timed("map", [&] { cu.cuMemMap.must(at, page_, 0, handle, 0); });
    timed("set_access", [&] { cu.cuMemSetAccess.must(at, page_, &access, 1); });
    timed("unmap", [&] { cu.cuMemUnmap.must(at, page_); });
    timed("release", [&] { cu.cuMemRelease.must(handle); });
    timed("register", [&] { cu.cuMemHostRegister.must(host_ + done_ * page_, page_, 0); });
    ++done_;
  }
  void timed(const std::string& name, const std::function<void()>& call) {
    double& longest = longest_us_[name];
    longest = std::max(longest, host_seconds(call) * 1e6);
  }

  Session& session_;
  Range range_;
  const std::size_t page_;
  char* const host_;
  const int rounds_;
  std::atomic<int> done_{0};
  std::atomic<bool> ended_{false};
  std::string failure_;
  std::map<std::string, double> longest_us_;
  std::thread thread_;  // last: it uses all of the above
};

/// What a launch takes, in microseconds of the host's time.
class Launches {
 public:
  explicit Launches(Session& session)
      : session_(session), target_(session, kGranule), stream_(session) {
    launch();  // loads the kernel
    stream_.wait();
  }
  /// Launches as long as `goes_on`.
  std::vector<double> measure(const std::function<bool(std::size_t)>& goes_on) {
    std::vector<double> microseconds;
    while (goes_on(microseconds.size())) {
      microseconds.push_back(host_seconds([this] { launch(); }) * 1e6);
      if (microseconds.size() % 64 == 0) stream_.wait();  // no launch waits for room in the queue
    }
    return microseconds;
  }

 private:
  void launch() { session_.launch("probe_fill", stream_.get(), 32, target_.address(), 32ULL, 1U); }

  Session& session_;
  DeviceMemory target_;
  Stream stream_;
};

void add_figures(const ProbeReport& report, const std::string& name,
                 const std::vector<double>& microseconds) {
  report.figure(name + "_median_us", quantile(microseconds, 0.5));
  report.figure(name + "_p99_us", quantile(microseconds, 0.99));
  report.figure(name + "_max_us", quantile(microseconds, 1));
}

std::string told(const std::vector<double>& microseconds) {
  return with_digits(quantile(microseconds, 0.5), 1) + " us (p99 " +
         with_digits(quantile(microseconds, 0.99), 1) + ")";
}

}  // namespace

void probe_launches_beside(const ProbeSetting& setting, const ProbeReport& report) {
  const std::size_t page = setting.pick(32, 16, 2) * kMiB;
  const int rounds = setting.pick(32, 16, 4);
  const auto launches = setting.pick<std::size_t>(4000, 1000, 200);
  constexpr unsigned long long kKernelNs = 1'000'000'000;
  constexpr double kWaited = 100'000;  // microseconds: less than a call that waits for the kernel
  need_host_memory(setting, rounds * page);

  report.step("opening the device");
  Session session(setting);
  session.need_device_memory(2 * page);
  CUcontext context = nullptr;
  session.cu().cuDevicePrimaryCtxRetain.must(&context, 0);
  const DeviceMemory busy(session, kGranule);
  session.kernel("probe_busy");
  const UnpinnedMemory host(rounds * page);
  std::memset(host.data(), 0x5a, rounds * page);
  Launches loop(session);

  report.step("launching beside a kernel");
  std::vector<double> alone, beside;
  {
    const BusyKernel kernel(session, busy.address(), kGranule / 64, kKernelNs);
    alone = loop.measure([&](std::size_t done) { return done < launches; });
  }
  report.step("launching beside a kernel and calls that move buffers");
  const BusyKernel kernel(session, busy.address(), kGranule / 64, kKernelNs);
  const Upkeep upkeep(session, context, page, host, rounds);
  beside = loop.measure([&](std::size_t done) { return done < launches || !upkeep.ended(); });
  std::string waits;
  for (const auto& [call, longest] : upkeep.longest_us()) {
    report.figure("longest_" + call + "_us", longest);
    if (longest >= kWaited) waits += (waits.empty() ? "" : ", ") + call;
  }
  report.figure("page_bytes", page);
  report.figure("rounds", upkeep.done());
  add_figures(report, "alone", alone);
  add_figures(report, "beside", beside);
  report.answer("a launch takes " + told(alone) + ", beside these calls " + told(beside) +
                (waits.empty()
                     ? "; none of these waits for the kernel"
                     : "; 100 ms and more, as if they waited for the kernel, take: " + waits));
}

}  // namespace superpipe::cli
