// H9: how fast can the device compute a digest of its memory?

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "tools/superpipe/probes/kernels.h"
#include "tools/superpipe/probes/session.h"

namespace superpipe::cli {
namespace {

using DigestWords = std::array<unsigned long long, 2>;

DigestWords digest_on_host(unsigned seed, unsigned long long words, unsigned long long flipped) {
  Digest digest;
  for (unsigned long long i = 0; i < words / 2; ++i) {
    const auto word = [&](unsigned long long at) {
      return pattern_word(seed, at) ^ (at == flipped ? 1U : 0U);
    };
    add_to_digest(digest, word(2 * i), word(2 * i + 1), i);
  }
  return {digest.first, digest.second};
}

}  // namespace

void probe_digest_bandwidth(const ProbeSetting& setting, const ProbeReport& report) {
  constexpr unsigned kSeed = 21;
  constexpr unsigned long long kNone = ~0ULL;
  const std::size_t bytes = setting.pick(1024, 256, 8) * kMiB;
  const std::size_t checked = setting.pick(64, 16, 4) * kMiB;
  const int repeats = setting.pick(10, 5, 3);
  report.step("opening the device");
  Session session(setting);
  session.need_device_memory(2 * bytes + kGranule);
  const Driver& cu = session.cu();
  const DeviceMemory data(session, bytes);
  const DeviceMemory target(session, bytes);
  const DeviceMemory sums(session, kGranule);
  const Stream stream(session);
  const Event start(session), end(session);
  const unsigned long long words = bytes / sizeof(unsigned);
  session.launch("probe_fill", stream.get(), words, data.address(), words, kSeed);

  const auto digest = [&](std::size_t size) {
    session.launch("probe_digest", stream.get(), size / 16, data.address(),
                   static_cast<unsigned long long>(size / 16), sums.address());
  };
  const auto digest_of = [&](std::size_t size) {
    DigestWords result{};
    cu.cuMemsetD8Async.must(sums.address(), 0, 64, stream.get());
    digest(size);
    stream.wait();
    cu.cuMemcpyDtoH.must(result.data(), sums.address(), sizeof(result));
    return result;
  };
  // In the stream's order: a synchronous copy may return before it has arrived.
  const auto change = [&](unsigned long long at, unsigned word) {
    cu.cuMemcpyHtoDAsync.must(data.address() + at * sizeof(word), &word, sizeof(word),
                              stream.get());
    stream.wait();
  };
  report.step("comparing digests with the host's");
  const unsigned long long checked_words = checked / sizeof(unsigned);
  bool right = digest_of(checked) == digest_on_host(kSeed, checked_words, kNone);
  bool sees_a_bit = true;
  const DigestWords whole = digest_of(checked);
  for (const unsigned long long at : {0ULL, checked_words / 2 + 1, checked_words - 1}) {
    change(at, pattern_word(kSeed, at) ^ 1U);
    sees_a_bit = sees_a_bit && digest_of(checked) != whole;
    change(at, pattern_word(kSeed, at));
  }
  change(5, pattern_word(kSeed, 5) ^ 1U);
  right = right && digest_of(checked) == digest_on_host(kSeed, checked_words, 5);

  const auto best_gbps = [&](double bytes_moved, const auto& enqueue) {
    double best = 0;
    for (int i = 0; i <= repeats; ++i) {  // the first one warms up
      start.record(stream);
      enqueue();
      end.record(stream);
      stream.wait();
      if (i > 0) {
        best = std::max(best, gigabytes_per_second(bytes_moved, end.seconds_since(start)));
      }
    }
    return best;
  };
  const auto all = static_cast<double>(bytes);
  report.step("timing digests");
  const double digest_gbps = best_gbps(all, [&] { digest(bytes); });
  report.step("timing plain reads");
  const double read_gbps = best_gbps(all, [&] {
    session.launch("probe_read", stream.get(), words / 4, data.address(), words / 4,
                   sums.address());
  });
  report.step("timing copies on the device");
  const double copy_gbps = best_gbps(2 * all, [&] {
    cu.cuMemcpyDtoDAsync.must(target.address(), data.address(), bytes, stream.get());
  });
  report.figure("bytes", bytes);
  report.figure("digest_gbps", digest_gbps);
  report.figure("read_gbps", read_gbps);
  report.figure("device_copy_read_and_write_gbps", copy_gbps);
  report.figure("digest_share_of_read", read_gbps > 0 ? digest_gbps / read_gbps : 0);
  report.figure("equals_the_hosts", right);
  report.figure("sees_one_flipped_bit", sees_a_bit);
  const bool holds = right && sees_a_bit;
  report.answer(with_digits(digest_gbps, 0) + " GB/s, where plain reads reach " +
                    with_digits(read_gbps, 0) + " GB/s" + (holds ? "" : "; but its value is wrong"),
                holds);
}

}  // namespace superpipe::cli
