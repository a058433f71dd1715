// H3: is it safe to map and unmap while other kernels and copies run?

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "tools/superpipe/probes/kernels.h"
#include "tools/superpipe/probes/session.h"

namespace superpipe::cli {
namespace {

// The sequence of advanced(), `steps` times, as one multiplication and one addition.
unsigned advanced_by(unsigned word, unsigned long long steps) {
  unsigned factor = 1, addend = 0;
  unsigned step_factor = 1664525U, step_addend = 1013904223U;
  for (; steps != 0; steps /= 2) {
    if (steps % 2 == 1) {
      factor *= step_factor;
      addend = addend * step_factor + step_addend;
    }
    step_addend = step_addend * step_factor + step_addend;
    step_factor *= step_factor;
  }
  return word * factor + addend;
}

// A kernel and a copy that run while chunks come and go between the pages that they use.
class Traffic {
 public:
  // The kernel gets the first `bytes` of `range`, the copy as many at `copied_at`.
  Traffic(Session& session, Range& range, std::size_t bytes, std::size_t copied_at)
      : session_(session),
        bytes_(bytes),
        words_(bytes / sizeof(unsigned)),
        work_(range.address()),
        copied_(range.address() + copied_at),
        worked_on_(session, bytes),
        copied_to_(session, bytes),
        source_(session, bytes),
        result_(session, bytes),
        compute_(session),
        copies_(session) {
    range.map(worked_on_);
    range.map(copied_to_, copied_at);
    for (unsigned long long i = 0; i < words_; ++i) {
      source_.as<unsigned>()[i] = pattern_word(kCopySeed, i);
    }
    session_.launch("probe_fill", compute_.get(), words_, work_, words_, kWorkSeed);
    compute_.wait();
  }

  // Finds out how long a launch has to be. REQUIRES: nothing runs.
  void time_kernel() {
    advance(1);
    compute_.wait();
    const double once = host_seconds([&] {
      advance(1);
      compute_.wait();
    });
    // Long enough that many calls fall into one launch, short enough for a device with a display.
    rounds_ = static_cast<unsigned>(std::clamp(0.1 / std::max(once, 1e-7), 1.0, 20000.0));
  }

  // Submits again what has ended.
  void keep_running() {
    if (!compute_.busy()) advance(rounds_);
    if (!copies_.busy()) {
      session_.cu().cuMemcpyHtoDAsync.must(copied_, source_.data(), bytes_, copies_.get());
      ++copies_made_;
    }
  }
  [[nodiscard]] bool busy() const { return compute_.busy() || copies_.busy(); }
  void wait() const {
    compute_.wait();
    copies_.wait();
  }

  [[nodiscard]] unsigned long long steps() const { return steps_; }
  [[nodiscard]] unsigned long long copies_made() const { return copies_made_; }
  // REQUIRES: nothing runs.
  [[nodiscard]] unsigned long long wrong_words_of_kernel() const {
    return wrong_words(work_, [this](unsigned long long at) {
      return advanced_by(pattern_word(kWorkSeed, at), steps_);
    });
  }
  // REQUIRES: nothing runs.
  [[nodiscard]] unsigned long long wrong_words_of_copies() const {
    return wrong_words(copied_, [](unsigned long long at) { return pattern_word(kCopySeed, at); });
  }

 private:
  static constexpr unsigned kWorkSeed = 1;
  static constexpr unsigned kCopySeed = 77;

  void advance(unsigned rounds) {
    // Few threads, so that the device has room for the other kernels while this one runs.
    constexpr unsigned long long kThreads = 16384;
    session_.launch("probe_advance", compute_.get(), kThreads, work_, words_, rounds);
    steps_ += rounds;
  }

  // How many of the words at `address` are not what `expected` says of their index.
  template <typename Expected>
  [[nodiscard]] unsigned long long wrong_words(CUdeviceptr address,
                                               const Expected& expected) const {
    session_.cu().cuMemcpyDtoH.must(result_.data(), address, bytes_);
    unsigned long long wrong = 0;
    for (unsigned long long i = 0; i < words_; ++i) {
      wrong += result_.as<unsigned>()[i] != expected(i) ? 1 : 0;
    }
    return wrong;
  }

  Session& session_;
  const std::size_t bytes_;
  const unsigned long long words_;
  const CUdeviceptr work_;
  const CUdeviceptr copied_;
  const Pages worked_on_;
  const Pages copied_to_;
  const PinnedMemory source_;
  const PinnedMemory result_;
  const Stream compute_;
  const Stream copies_;
  unsigned rounds_ = 1;
  unsigned long long steps_ = 0;
  unsigned long long copies_made_ = 0;
};

// Chunks that are mapped, used and unmapped, one after the other.
class Churn {
 public:
  static constexpr std::size_t kPlaces = 4;

  // The chunks come and go at kPlaces places in `range`, the first at `offset`.
  Churn(Session& session, Range& range, std::size_t offset, std::size_t chunk)
      : session_(session),
        range_(range),
        offset_(offset),
        chunk_(chunk),
        counter_(session, kGranule),
        stream_(session) {
    session_.cu().cuMemsetD8Async.must(counter_.address(), 0, 64, stream_.get());
  }

  // One chunk comes and goes.
  void remap(const Traffic& load) {
    const std::size_t offset = offset_ + (remapped_ % kPlaces) * chunk_;
    const CUdeviceptr address = range_.address() + offset;
    const Pages pages(session_, chunk_);
    map_us_.push_back(host_seconds([&] { range_.map(pages, offset); }) * 1e6);
    // What was just mapped works, and is not in use any more when it goes.
    const unsigned long long words = chunk_ / sizeof(unsigned);
    const auto seed = static_cast<unsigned>(remapped_);
    session_.launch("probe_fill", stream_.get(), words, address, words, seed);
    session_.launch("probe_check", stream_.get(), words, address, words, seed, counter_.address());
    stream_.wait();
    const bool was_busy = load.busy();
    unmap_us_.push_back(host_seconds([&] { range_.unmap(offset, chunk_); }) * 1e6);
    unmapped_while_running_ += was_busy && load.busy() ? 1 : 0;
    ++remapped_;
  }

  [[nodiscard]] unsigned long long remapped() const { return remapped_; }
  // Of them, those that went while the load ran before and after.
  [[nodiscard]] unsigned long long unmapped_while_running() const {
    return unmapped_while_running_;
  }
  [[nodiscard]] const std::vector<double>& map_us() const { return map_us_; }
  [[nodiscard]] const std::vector<double>& unmap_us() const { return unmap_us_; }
  [[nodiscard]] unsigned long long wrong_words() const {
    unsigned long long wrong = 0;
    session_.cu().cuMemcpyDtoH.must(&wrong, counter_.address(), sizeof(wrong));
    return wrong;
  }

 private:
  Session& session_;
  Range& range_;
  const std::size_t offset_;
  const std::size_t chunk_;
  const DeviceMemory counter_;
  const Stream stream_;
  unsigned long long remapped_ = 0;
  unsigned long long unmapped_while_running_ = 0;
  std::vector<double> map_us_;
  std::vector<double> unmap_us_;
};

}  // namespace

void probe_unmap_under_load(const ProbeSetting& setting, const ProbeReport& report) {
  const std::size_t bytes = setting.pick(64, 64, 2) * kMiB;
  const std::size_t chunk = setting.pick(16, 16, 2) * kMiB;
  const double duration = setting.pick(5.0, 1.5, 0.4);
  need_host_memory(setting, 2 * bytes);

  report.step("opening the device");
  Session session(setting);
  session.need_device_memory(3 * bytes + Churn::kPlaces * chunk);
  // One reservation: what a kernel works on, what comes and goes, what a copy fills.
  const std::size_t copied_at = bytes + Churn::kPlaces * chunk;
  Range range(session, copied_at + bytes);
  Traffic load(session, range, bytes, copied_at);
  Churn churn(session, range, bytes, chunk);

  report.step("timing the kernel");
  load.time_kernel();
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(duration);
  try {
    report.step("mapping and unmapping while kernels and copies run");
    // On a busy machine nothing may happen to run at any of the moments looked at: some more
    // follow.
    const auto latest = end + std::chrono::seconds(4);
    for (auto now = std::chrono::steady_clock::now();
         now < end || (churn.unmapped_while_running() == 0 && now < latest);
         now = std::chrono::steady_clock::now()) {
      load.keep_running();
      churn.remap(load);
    }
    report.step("waiting for kernels and copies");
    load.wait();
  } catch (const CallFailed& failed) {
    report.figure("remapped", churn.remapped());
    report.figure("error", failed.what());
    report.answer(std::string("no: ") + failed.what() + " after " +
                      std::to_string(churn.remapped()) + " chunks came and went",
                  false);
    return;
  }

  report.step("checking contents");
  const unsigned long long churn_wrong = churn.wrong_words();
  const unsigned long long work_wrong = load.wrong_words_of_kernel();
  const unsigned long long copy_wrong = load.wrong_words_of_copies();
  report.figure("chunk_bytes", chunk);
  report.figure("remapped", churn.remapped());
  report.figure("unmapped_while_running", churn.unmapped_while_running());
  report.figure("kernel_steps", load.steps());
  report.figure("copies", load.copies_made());
  report.figure("wrong_words_of_the_kernel", work_wrong);
  report.figure("wrong_words_of_the_copies", copy_wrong);
  report.figure("wrong_words_of_what_came_and_went", churn_wrong);
  report.figure("map_and_set_access_median_us", quantile(churn.map_us(), 0.5));
  report.figure("unmap_median_us", quantile(churn.unmap_us(), 0.5));
  report.figure("unmap_max_us", quantile(churn.unmap_us(), 1));
  const unsigned long long wrong = work_wrong + copy_wrong + churn_wrong;
  if (churn.unmapped_while_running() == 0 && wrong == 0) {
    throw Skipped("the driver let nothing run while it unmapped, so nothing was seen");
  }
  report.answer((wrong == 0 ? "yes: " : "no: ") + std::to_string(churn.unmapped_while_running()) +
                    " of " + std::to_string(churn.remapped()) + " chunks went while work ran, " +
                    std::to_string(wrong) + " wrong words",
                wrong == 0);
}

}  // namespace superpipe::cli
