// H27: how fast are copies between a page on the host and one of the device, alone and beside
// kernels, and do asynchronous calls that name a page on the host hold up their thread?

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tools/superpipe/probes/busy_kernel.h"
#include "tools/superpipe/probes/host_pages.h"

namespace superpipe::cli {
namespace {

using Json = ProbeReport::Json;

/// The windows of one buffer: its page on the host and its page of the device, and two more for the
/// copies that run the other way at the same time.
class BufferWindows {
 public:
  BufferWindows(Session& session, const HostPlace& place, std::size_t bytes)
      : session_(session),
        bytes_(bytes),
        host_(session, bytes, place.location),
        other_host_(session, bytes, place.location),
        device_(session, bytes, kOnDevice),
        other_device_(session, bytes, kOnDevice),
        measure_(session),
        leaving_(session),
        may_start_(session),
        left_(session) {}

  [[nodiscard]] CUdeviceptr host() const { return host_.address(); }
  [[nodiscard]] CUdeviceptr device() const { return device_.address(); }
  [[nodiscard]] unsigned long long wrong_words() const { return wrong_words_; }

  /// GB/s of copies each way, and in sum where both run at once.
  Json speeds(const std::string& beside) {
    const auto copy = [this](CUdeviceptr to, CUdeviceptr from, CUstream stream) {
      session_.cu().cuMemcpyDtoDAsync.must(to, from, bytes_, stream);
    };
    const CUstream stream = measure_.stream();
    measure_.fill(host(), bytes_, 81);
    const double in = measure_.gbps(bytes_, [&] { copy(device(), host(), stream); });
    wrong_words_ += measure_.wrong_words(device(), bytes_, 81);
    measure_.fill(device(), bytes_, 82);
    const double out = measure_.gbps(bytes_, [&] { copy(host(), device(), stream); });
    wrong_words_ += measure_.wrong_words(host(), bytes_, 82);
    const double both = measure_.gbps(2 * bytes_, [&] {
      session_.cu().cuEventRecord.must(may_start_.get(), stream);
      session_.cu().cuStreamWaitEvent.must(leaving_.get(), may_start_.get(), 0);
      copy(device(), host(), stream);
      copy(other_host_.address(), other_device_.address(), leaving_.get());
      left_.record(leaving_);
      session_.cu().cuStreamWaitEvent.must(stream, left_.get(), 0);
    });
    return {{"beside", beside},
            {"to_device_gbps", in},
            {"to_host_gbps", out},
            {"both_ways_sum_gbps", both}};
  }

 private:
  Session& session_;
  const std::size_t bytes_;
  const Window host_, other_host_, device_, other_device_;
  Measurement measure_;
  const Stream leaving_;
  const Event may_start_, left_;
  unsigned long long wrong_words_ = 0;
};

/// What the calls take that only have to enqueue something behind a kernel that runs.
class EnqueuingCalls {
 public:
  /// Microseconds from which on a call is taken to have waited: the kernel takes longer.
  static constexpr double kWaitedUs = 100'000;

  EnqueuingCalls(Session& session, std::size_t bytes)
      : session_(session), bytes_(bytes), pinned_(session, bytes), busy_(session, kGranule) {}

  /// Of calls that name `page`, and `other`, a page of the device.
  void time(const std::string& kind, CUdeviceptr page, CUdeviceptr other, Json& rows,
            std::string& waited) {
    const Driver& cu = session_.cu();
    struct Call {
      const char* name;
      std::function<void(CUstream)> enqueue;
    };
    const std::vector<Call> calls{
        {"cuMemcpyHtoDAsync",
         [&](CUstream on) { cu.cuMemcpyHtoDAsync.must(page, pinned_.data(), bytes_, on); }},
        {"cuMemcpyDtoHAsync",
         [&](CUstream on) { cu.cuMemcpyDtoHAsync.must(pinned_.data(), page, bytes_, on); }},
        {"cuMemcpyDtoDAsync to it",
         [&](CUstream on) { cu.cuMemcpyDtoDAsync.must(page, other, bytes_, on); }},
        {"cuMemcpyDtoDAsync from it",
         [&](CUstream on) { cu.cuMemcpyDtoDAsync.must(other, page, bytes_, on); }},
        {"cuMemcpyAsync from it",
         [&](CUstream on) { cu.cuMemcpyAsync.must(other, page, bytes_, on); }},
        {"cuMemsetD8Async", [&](CUstream on) { cu.cuMemsetD8Async.must(page, 0, bytes_, on); }},
    };
    for (const Call& call : calls) {
      double us = microseconds_of(call.enqueue);
      // A call that loads something at its first time, or a thread that had to wait for a
      // processor.
      if (us >= kWaitedUs) us = std::min(us, microseconds_of(call.enqueue));
      rows.push_back({{"call", call.name}, {"page", kind}, {"us", us}});
      if (us >= kWaitedUs) {
        waited += (waited.empty() ? "" : ", ") + std::string(call.name) + " (" + kind + ")";
      }
    }
  }

 private:
  static constexpr unsigned long long kKernelNs = 300'000'000;

  // Of host time that `enqueue` takes while a kernel runs on its stream.
  double microseconds_of(const std::function<void(CUstream)>& enqueue) {
    BusyKernel kernel(session_, busy_.address(), kGranule / 64, kKernelNs);
    const double us = host_seconds([&] { enqueue(kernel.stream().get()); }) * 1e6;
    kernel.stop();
    kernel.stream().wait();
    return us;
  }

  Session& session_;
  const std::size_t bytes_;
  const PinnedMemory pinned_;
  const DeviceMemory busy_;
};

}  // namespace

void probe_host_page_copies(const ProbeSetting& setting, const ProbeReport& report) {
  // A simulated device has one engine for kernels: those that check wait for this one to end.
  const auto kernel_ns =
      setting.pick<unsigned long long>(2'000'000'000, 2'000'000'000, 300'000'000);
  report.step("opening the device");
  Session session(setting);
  const HostPlace place = find_host_place(session, setting, report);
  const std::size_t bytes = page_bytes(session, place.location, setting.pick(128, 32, 2) * kMiB);
  need_host_memory(setting, 3 * bytes);
  session.need_device_memory(2 * bytes + 4 * kGranule);
  BufferWindows windows(session, place, bytes);
  const DeviceMemory busy(session, kGranule);
  session.kernel("probe_busy");
  report.figure("bytes", bytes);

  Json rows = Json::array();
  report.step("copies alone");
  rows.push_back(windows.speeds("nothing"));
  const auto beside = [&](const char* what, CUdeviceptr address, unsigned long long words) {
    report.step(std::string("copies beside ") + what);
    const BusyKernel kernel(session, address, words, kernel_ns);
    Json row = windows.speeds(what);
    row["kernel_ran_throughout"] = kernel.running();
    rows.push_back(row);
  };
  beside("a kernel on the device's memory", busy.address(), kGranule / sizeof(unsigned));
  const Window used(session, page_bytes(session, place.location, kGranule), place.location);
  beside("a kernel on a page on the host", used.address(), kGranule / sizeof(unsigned));
  report.figure("copies", rows);
  report.figure("wrong_words", windows.wrong_words());

  report.step("calls behind a kernel");
  Json calls = Json::array();
  std::string waited_on_device, waited;
  EnqueuingCalls timed(session, kGranule);
  const DeviceMemory other(session, kGranule);
  timed.time("device", windows.device(), other.address(), calls, waited_on_device);
  timed.time("host", windows.host(), other.address(), calls, waited);
  report.figure("calls", calls);
  report.figure("calls_that_waited", waited);
  report.figure("calls_on_the_device_that_waited", waited_on_device);
  const auto told = [&](const char* figure) {
    return with_digits(rows[0][figure].get<double>(), 1) + " GB/s";
  };
  const bool right = windows.wrong_words() == 0;
  report.answer((right ? "" : std::to_string(windows.wrong_words()) + " wrong words; ") +
                    told("to_device_gbps") + " to the device, " + told("to_host_gbps") + " back, " +
                    told("both_ways_sum_gbps") + " in sum; " +
                    (waited.empty() ? "no call waits for the kernel in front of it"
                                    : "these wait for the kernel in front of them: " + waited),
                right && waited.empty());
}

}  // namespace superpipe::cli
