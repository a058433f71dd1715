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

}  // namespace

void probe_unmap_under_load(const ProbeSetting& setting, const ProbeReport& report) {
  constexpr unsigned kCopySeed = 77;
  constexpr std::size_t kChurned = 4;  // chunks that come and go between the neighbours
  const std::size_t bytes = setting.pick(64, 64, 2) * kMiB;
  const std::size_t chunk = setting.pick(16, 16, 2) * kMiB;
  const double duration = setting.pick(5.0, 1.5, 0.4);
  need_host_memory(setting, 2 * bytes);

  report.step("opening the device");
  Session session(setting);
  session.need_device_memory(3 * bytes + kChurned * chunk);
  const Driver& cu = session.cu();
  const unsigned long long words = bytes / sizeof(unsigned);

  // One reservation: what a kernel works on, what comes and goes, what a copy fills.
  const std::size_t copied_at = bytes + kChurned * chunk;
  Range range(session, copied_at + bytes);
  const Pages worked_on(session, bytes);
  const Pages copied_to(session, bytes);
  range.map(worked_on);
  range.map(copied_to, copied_at);
  const CUdeviceptr work = range.address();
  const CUdeviceptr churn = work + bytes;
  const CUdeviceptr copied = work + copied_at;

  PinnedMemory source(session, bytes);
  PinnedMemory result(session, bytes);
  for (unsigned long long i = 0; i < words; ++i) {
    source.as<unsigned>()[i] = pattern_word(kCopySeed, i);
  }
  DeviceMemory counter(session, kGranule);
  const Stream compute(session);
  const Stream copies(session);
  const Stream churning(session);
  cu.cuMemsetD8Async.must(counter.address(), 0, 64, churning.get());
  session.launch("probe_fill", compute.get(), words, work, words, 1U);
  compute.wait();

  report.step("timing the kernel");
  // Few threads, so that the device has room for the other kernels while this one runs.
  constexpr unsigned long long kThreads = 16384;
  const auto advance = [&](unsigned rounds) {
    session.launch("probe_advance", compute.get(), kThreads, work, words, rounds);
  };
  unsigned long long steps = 2;
  advance(1);
  compute.wait();
  const double once = host_seconds([&] {
    advance(1);
    compute.wait();
  });
  // Long enough that many calls fall into one launch, short enough for a device with a display.
  const auto rounds = static_cast<unsigned>(std::clamp(0.1 / std::max(once, 1e-7), 1.0, 20000.0));

  std::vector<double> unmap_us, map_us;
  unsigned long long remapped = 0, while_running = 0, copies_made = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(duration);
  try {
    report.step("mapping and unmapping while kernels and copies run");
    while (std::chrono::steady_clock::now() < end) {
      if (!compute.busy()) {
        advance(rounds);
        steps += rounds;
      }
      if (!copies.busy()) {
        cu.cuMemcpyHtoDAsync.must(copied, source.data(), bytes, copies.get());
        ++copies_made;
      }
      const std::size_t offset = bytes + (remapped % kChurned) * chunk;
      const CUdeviceptr address = churn + (remapped % kChurned) * chunk;
      const Pages pages(session, chunk);
      map_us.push_back(host_seconds([&] { range.map(pages, offset); }) * 1e6);
      // What was just mapped works, and is not in use any more when it goes.
      const unsigned long long chunk_words = chunk / sizeof(unsigned);
      const auto seed = static_cast<unsigned>(remapped);
      session.launch("probe_fill", churning.get(), chunk_words, address, chunk_words, seed);
      session.launch("probe_check", churning.get(), chunk_words, address, chunk_words, seed,
                     counter.address());
      churning.wait();
      const bool running = compute.busy() || copies.busy();
      unmap_us.push_back(host_seconds([&] { range.unmap(offset, chunk); }) * 1e6);
      while_running += running && (compute.busy() || copies.busy()) ? 1 : 0;
      ++remapped;
    }
    report.step("waiting for kernels and copies");
    compute.wait();
    copies.wait();
  } catch (const CallFailed& failed) {
    report.figure("remapped", remapped);
    report.figure("error", failed.what());
    report.answer(std::string("no: ") + failed.what() + " after " + std::to_string(remapped) +
                      " chunks came and went",
                  false);
    return;
  }

  report.step("checking contents");
  unsigned long long churn_wrong = 0;
  cu.cuMemcpyDtoH.must(&churn_wrong, counter.address(), sizeof(churn_wrong));
  unsigned long long work_wrong = 0, copy_wrong = 0;
  cu.cuMemcpyDtoH.must(result.data(), work, bytes);
  for (unsigned long long i = 0; i < words; ++i) {
    work_wrong += result.as<unsigned>()[i] != advanced_by(pattern_word(1, i), steps) ? 1 : 0;
  }
  cu.cuMemcpyDtoH.must(result.data(), copied, bytes);
  for (unsigned long long i = 0; i < words; ++i) {
    copy_wrong += result.as<unsigned>()[i] != pattern_word(kCopySeed, i) ? 1 : 0;
  }
  report.figure("chunk_bytes", chunk);
  report.figure("remapped", remapped);
  report.figure("unmapped_while_running", while_running);
  report.figure("kernel_steps", steps);
  report.figure("copies", copies_made);
  report.figure("wrong_words_of_the_kernel", work_wrong);
  report.figure("wrong_words_of_the_copies", copy_wrong);
  report.figure("wrong_words_of_what_came_and_went", churn_wrong);
  report.figure("map_and_set_access_median_us", quantile(map_us, 0.5));
  report.figure("unmap_median_us", quantile(unmap_us, 0.5));
  report.figure("unmap_max_us", quantile(unmap_us, 1));
  const unsigned long long wrong = work_wrong + copy_wrong + churn_wrong;
  if (while_running == 0 && wrong == 0) {
    throw Skipped("the driver let nothing run while it unmapped, so nothing was seen");
  }
  report.answer((wrong == 0 ? "yes: " : "no: ") + std::to_string(while_running) + " of " +
                    std::to_string(remapped) + " chunks went while work ran, " +
                    std::to_string(wrong) + " wrong words",
                wrong == 0);
}

}  // namespace superpipe::cli
