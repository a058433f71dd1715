// H8: do two mappings of the same pages agree across copies and kernels in stream order?

#include <string>
#include <vector>

#include "tools/superpipe/probes/kernels.h"
#include "tools/superpipe/probes/session.h"

namespace superpipe::cli {
namespace {

using Json = ProbeReport::Json;

void fill(unsigned* words, unsigned long long count, unsigned seed) {
  for (unsigned long long i = 0; i < count; ++i) words[i] = pattern_word(seed, i);
}

unsigned long long wrong_words(const unsigned* words, unsigned long long count, unsigned seed) {
  unsigned long long wrong = 0;
  for (unsigned long long i = 0; i < count; ++i) wrong += words[i] != pattern_word(seed, i) ? 1 : 0;
  return wrong;
}

}  // namespace

void probe_alias_coherence(const ProbeSetting& setting, const ProbeReport& report) {
  const auto sizes = setting.pick<std::vector<std::size_t>>(
      {4096, 256 * 1024, 2 * kMiB, 32 * kMiB}, {4096, 2 * kMiB, 16 * kMiB}, {4096, 2 * kMiB});
  const int rounds = setting.pick(100, 20, 5);
  const std::size_t largest = DeviceMemory::rounded(sizes.back());
  need_host_memory(setting, 2 * largest);

  report.step("opening the device");
  Session session(setting);
  session.need_device_memory(2 * largest);
  const Driver& cu = session.cu();
  const Pages pages(session, largest);
  Range one(session, largest);
  Range other(session, largest);
  one.map(pages);
  other.map(pages);
  DeviceMemory counter(session, kGranule);
  PinnedMemory to_device(session, largest);
  PinnedMemory from_device(session, largest);
  const Stream stream(session);
  const Stream second(session);
  const Event handed_over(session);
  cu.cuMemsetD8Async.must(counter.address(), 0, 8 * sizeof(unsigned long long), stream.get());
  // The count of each kind of check that a kernel makes.
  const CUdeviceptr after_copy = counter.address();
  const CUdeviceptr after_kernel = after_copy + 8;
  const CUdeviceptr across_streams = after_copy + 16;

  unsigned long long copied_out_wrong = 0;
  unsigned seed = 1;
  for (const std::size_t bytes : sizes) {
    const unsigned long long words = bytes / sizeof(unsigned);
    report.step("rounds of " + std::to_string(bytes) + " bytes");
    for (int round = 0; round < rounds; ++round) {
      // A kernel has read through `other` what is about to change: its caches hold it.
      session.launch("probe_read", stream.get(), words / 4, other.address(), words / 4,
                     across_streams + 8);
      fill(to_device.as<unsigned>(), words, ++seed);
      cu.cuMemcpyHtoDAsync.must(one.address(), to_device.data(), bytes, stream.get());
      session.launch("probe_check", stream.get(), words, other.address(), words, seed, after_copy);
      ++seed;
      session.launch("probe_fill", stream.get(), words, other.address(), words, seed);
      session.launch("probe_check", stream.get(), words, one.address(), words, seed, after_kernel);
      cu.cuMemcpyDtoHAsync.must(from_device.data(), one.address(), bytes, stream.get());
      stream.wait();
      copied_out_wrong += wrong_words(from_device.as<unsigned>(), words, seed);
      // And from one stream to another, ordered by an event.
      ++seed;
      session.launch("probe_fill", stream.get(), words, one.address(), words, seed);
      handed_over.record(stream);
      cu.cuStreamWaitEvent.must(second.get(), handed_over.get(), 0);
      session.launch("probe_check", second.get(), words, other.address(), words, seed,
                     across_streams);
      cu.cuMemcpyDtoHAsync.must(from_device.data(), other.address(), bytes, second.get());
      second.wait();
      copied_out_wrong += wrong_words(from_device.as<unsigned>(), words, seed);
    }
  }
  unsigned long long counts[3] = {};
  cu.cuMemcpyDtoH.must(counts, counter.address(), sizeof(counts));
  const unsigned long long wrong = counts[0] + counts[1] + counts[2] + copied_out_wrong;
  report.figure("sizes_bytes", Json(sizes));
  report.figure("rounds_of_each", rounds);
  report.figure("wrong_words_copy_then_kernel", counts[0]);
  report.figure("wrong_words_kernel_then_kernel", counts[1]);
  report.figure("wrong_words_kernel_then_copy", copied_out_wrong);
  report.figure("wrong_words_across_streams", counts[2]);
  report.answer((wrong == 0 ? "yes: no wrong word in "
                            : "no: " + std::to_string(wrong) + " wrong words in ") +
                    std::to_string(static_cast<std::size_t>(rounds) * sizes.size()) + " rounds",
                wrong == 0);
}

}  // namespace superpipe::cli
