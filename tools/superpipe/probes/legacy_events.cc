// H22: does an event on the legacy stream make blocking streams wait for each other? And does one
// on a blocking stream come behind the legacy stream's work without that?

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
  kOnThird,   ///< on a third blocking stream, behind a word that is set
};

/// A word of pinned memory.
class PinnedWord {
 public:
  explicit PinnedWord(Session& session) : session_(session) {
    session_.cu().cuMemHostAlloc.must(&memory_, sizeof(unsigned), CU_MEMHOSTALLOC_DEVICEMAP);
  }
  ~PinnedWord() { session_.cu().cuMemFreeHost(memory_); }
  PinnedWord(const PinnedWord&) = delete;
  PinnedWord& operator=(const PinnedWord&) = delete;
  // Under unified addressing the device knows such memory by the host's address.
  void set_on(const Stream& stream) const {
    session_.cu().cuMemsetD32Async.must(reinterpret_cast<CUdeviceptr>(memory_), 0U, 1U,
                                        stream.get());
  }

 private:
  Session& session_;
  void* memory_ = nullptr;
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
    const Stream third(session_, flags);
    const Event between(session_);
    BusyKernel first(session_, busy_.address(), kGranule / 64, limit_ns_, flags);
    if (where == Where::kOnLegacy)
      session_.cu().cuEventRecord.must(between.get(), CU_STREAM_LEGACY);
    if (where == Where::kOnFirst) between.record(first.stream());
    if (where == Where::kOnThird) {
      word_.set_on(third);
      between.record(third);
    }
    session_.launch("probe_fill", second.get(), kWords, target_.address(), kWords, 1U);
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::nanoseconds(limit_ns_ / 2);
    while (second.busy() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    const bool beside = !second.busy() && first.running();
    first.stop();
    second.wait();
    third.wait();
    return beside;
  }

  /// Whether an event on a blocking stream completes only when work of the legacy stream has that
  /// was submitted before. `behind_a_word`: a word is set on the stream before it.
  bool comes_behind_legacy(bool behind_a_word) {
    const Stream marked(session_, CU_STREAM_DEFAULT);
    const Event mark(session_);
    BusyKernel first(session_, busy_.address(), kGranule / 64, limit_ns_, CU_STREAM_DEFAULT);
    session_.launch("probe_fill", CU_STREAM_LEGACY, kWords, target_.address(), kWords, 1U);
    if (behind_a_word) word_.set_on(marked);
    mark.record(marked);
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::nanoseconds(limit_ns_ / 4);
    bool comes_behind = true;
    while (first.running() && std::chrono::steady_clock::now() < deadline) {
      if (session_.cu().cuEventQuery(mark.get()) == CUDA_SUCCESS && first.running()) {
        comes_behind = false;
        break;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    first.stop();
    session_.cu().cuCtxSynchronize.must();
    return comes_behind;
  }

 private:
  static constexpr unsigned long long kWords = 1024;
  Session& session_;
  unsigned long long limit_ns_;
  DeviceMemory busy_;
  DeviceMemory target_;
  PinnedWord word_{session_};
};

}  // namespace

void probe_legacy_events(const ProbeSetting& setting, const ProbeReport& report) {
  report.step("opening the device");
  Session session(setting);
  session.need_device_memory(2 * kGranule);
  Asker asker(session, setting.pick<unsigned long long>(1'000'000'000, 500'000'000, 2'000'000'000));

  report.step("launching on two streams");
  const bool blocking = asker.runs_beside(CU_STREAM_DEFAULT, Where::kNowhere);
  const bool with_own_event = asker.runs_beside(CU_STREAM_DEFAULT, Where::kOnFirst);
  report.step("launching on two streams with an event on the legacy stream in between");
  const bool with_legacy_event = asker.runs_beside(CU_STREAM_DEFAULT, Where::kOnLegacy);
  const bool others = asker.runs_beside(CU_STREAM_NON_BLOCKING, Where::kOnLegacy);
  report.step("launching on two streams with an event on a third one in between");
  const bool with_event_on_third = asker.runs_beside(CU_STREAM_DEFAULT, Where::kOnThird);
  report.step("recording an event behind the legacy stream");
  const bool behind_with_word = asker.comes_behind_legacy(true);
  const bool behind_alone = asker.comes_behind_legacy(false);
  report.figure("blocking_streams_run_side_by_side", blocking);
  report.figure("with_an_event_on_one_of_them", with_own_event);
  report.figure("with_an_event_on_the_legacy_stream", with_legacy_event);
  report.figure("non_blocking_streams_with_an_event_on_the_legacy_stream", others);
  report.figure("with_an_event_on_a_third_one", with_event_on_third);
  report.figure("event_behind_a_word_follows_the_legacy_stream", behind_with_word);
  report.figure("event_alone_follows_the_legacy_stream", behind_alone);
  if (!blocking || !with_own_event || !others) {
    throw Skipped("kernels of two streams did not run side by side without it either");
  }
  report.answer(with_legacy_event
                    ? "it does not: kernels of two blocking streams still ran side by side"
                    : "it does: the second blocking stream waited for the first one's kernel",
                with_legacy_event);
}

}  // namespace superpipe::cli
