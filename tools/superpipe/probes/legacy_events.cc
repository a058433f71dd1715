// H22: does an event on the legacy stream make blocking streams wait for each other?

#include <chrono>
#include <string>
#include <thread>

#include "tools/superpipe/probes/busy_kernel.h"
#include "tools/superpipe/probes/session.h"

namespace superpipe::cli {
namespace {

/// Where an event is recorded between the kernels of two streams.
enum class Where {
  kNowhere,
  kOnLegacy,  ///< on the stream that all blocking streams wait for
  kOnFirst,   ///< on that of the first kernel
};

class Asker {
 public:
  Asker(Session& session, unsigned long long limit_ns)
      : session_(session),
        limit_ns_(limit_ns),
        busy_(session, kGranule),
        target_(session, kGranule) {
    session.kernel("probe_busy");
    session.launch("probe_fill", nullptr, kWords, target_.address(), kWords, 1U);
    session.cu().cuCtxSynchronize.must();
  }

  /// Whether a kernel of the second stream runs while one of the first does.
  bool runs_beside(unsigned flags, Where where) {
    const Stream second(session_, flags);
    const Event between(session_);
    BusyKernel first(session_, busy_.address(), kGranule / 64, limit_ns_, flags);
    if (where == Where::kOnLegacy)
      session_.cu().cuEventRecord.must(between.get(), CU_STREAM_LEGACY);
    if (where == Where::kOnFirst) between.record(first.stream());
    session_.launch("probe_fill", second.get(), kWords, target_.address(), kWords, 1U);
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::nanoseconds(limit_ns_ / 2);
    while (second.busy() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    const bool beside = !second.busy() && first.running();
    first.stop();
    second.wait();
    return beside;
  }

 private:
  static constexpr unsigned long long kWords = 1024;
  Session& session_;
  unsigned long long limit_ns_;
  DeviceMemory busy_;
  DeviceMemory target_;
};

}  // namespace

void probe_legacy_events(const ProbeSetting& setting, const ProbeReport& report) {
  report.step("opening the device");
  Session session(setting);
  session.need_device_memory(2 * kGranule);
  Asker asker(session, setting.pick<unsigned long long>(1'000'000'000, 500'000'000, 400'000'000));

  report.step("launching on two streams");
  const bool blocking = asker.runs_beside(CU_STREAM_DEFAULT, Where::kNowhere);
  const bool with_own_event = asker.runs_beside(CU_STREAM_DEFAULT, Where::kOnFirst);
  report.step("launching on two streams with an event on the legacy stream in between");
  const bool with_legacy_event = asker.runs_beside(CU_STREAM_DEFAULT, Where::kOnLegacy);
  const bool others = asker.runs_beside(CU_STREAM_NON_BLOCKING, Where::kOnLegacy);
  report.figure("blocking_streams_run_side_by_side", blocking);
  report.figure("with_an_event_on_one_of_them", with_own_event);
  report.figure("with_an_event_on_the_legacy_stream", with_legacy_event);
  report.figure("non_blocking_streams_with_an_event_on_the_legacy_stream", others);
  if (!blocking || !with_own_event || !others) {
    throw Skipped("kernels of two streams did not run side by side without it either");
  }
  report.answer(with_legacy_event
                    ? "it does not: kernels of two blocking streams still ran side by side"
                    : "it does: the second blocking stream waited for the first one's kernel",
                with_legacy_event);
}

}  // namespace superpipe::cli
