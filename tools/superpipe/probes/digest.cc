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

constexpr unsigned kSeed = 21;

// Device memory with a known content, and its digests.
class DigestedMemory {
 public:
  DigestedMemory(Session& session, const Stream& stream, std::size_t bytes)
      : session_(session), stream_(stream), data_(session, bytes), sums_(session, kGranule) {
    const unsigned long long words = bytes / sizeof(unsigned);
    session_.launch("probe_fill", stream_.get(), words, data_.address(), words, kSeed);
  }

  [[nodiscard]] CUdeviceptr address() const { return data_.address(); }
  // Where kernels add up what they read.
  [[nodiscard]] CUdeviceptr sums() const { return sums_.address(); }

  // Enqueues the digest of the first `size` bytes.
  void enqueue_digest(std::size_t size) const {
    session_.launch("probe_digest", stream_.get(), size / 16, data_.address(),
                    static_cast<unsigned long long>(size / 16), sums_.address());
  }
  // Waits for it. Returns the digest of the first `size` bytes.
  [[nodiscard]] DigestWords digest_of(std::size_t size) const {
    DigestWords result{};
    session_.cu().cuMemsetD8Async.must(sums_.address(), 0, 64, stream_.get());
    enqueue_digest(size);
    stream_.wait();
    session_.cu().cuMemcpyDtoH.must(result.data(), sums_.address(), sizeof(result));
    return result;
  }
  // Sets the word at index `at`.
  void change(unsigned long long at, unsigned word) const {
    // In the stream's order: a synchronous copy may return before it has arrived.
    session_.cu().cuMemcpyHtoDAsync.must(data_.address() + at * sizeof(word), &word, sizeof(word),
                                         stream_.get());
    stream_.wait();
  }

 private:
  Session& session_;
  const Stream& stream_;
  const DeviceMemory data_;
  const DeviceMemory sums_;
};

struct DigestVerdict {
  bool equals_the_hosts = false;
  bool sees_one_flipped_bit = false;
};

// Compares digests of the first `bytes` of `memory` with the host's. Leaves one bit flipped.
DigestVerdict check_digests(const DigestedMemory& memory, std::size_t bytes) {
  constexpr unsigned long long kNone = ~0ULL;
  const unsigned long long words = bytes / sizeof(unsigned);
  const DigestWords whole = memory.digest_of(bytes);
  DigestVerdict verdict{whole == digest_on_host(kSeed, words, kNone), true};
  for (const unsigned long long at : {0ULL, words / 2 + 1, words - 1}) {
    memory.change(at, pattern_word(kSeed, at) ^ 1U);
    if (memory.digest_of(bytes) == whole) verdict.sees_one_flipped_bit = false;
    memory.change(at, pattern_word(kSeed, at));
  }
  memory.change(5, pattern_word(kSeed, 5) ^ 1U);
  if (memory.digest_of(bytes) != digest_on_host(kSeed, words, 5)) verdict.equals_the_hosts = false;
  return verdict;
}

}  // namespace

void probe_digest_bandwidth(const ProbeSetting& setting, const ProbeReport& report) {
  const std::size_t bytes = setting.pick(1024, 256, 8) * kMiB;
  const std::size_t checked = setting.pick(64, 16, 4) * kMiB;
  const int repeats = setting.pick(10, 5, 3);
  report.step("opening the device");
  Session session(setting);
  session.need_device_memory(2 * bytes + kGranule);
  const Driver& cu = session.cu();
  const Stream stream(session);
  const DigestedMemory data(session, stream, bytes);
  const DeviceMemory target(session, bytes);
  const Event start(session), end(session);

  report.step("comparing digests with the host's");
  const DigestVerdict verdict = check_digests(data, checked);

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
  const double digest_gbps = best_gbps(all, [&] { data.enqueue_digest(bytes); });
  report.step("timing plain reads");
  const unsigned long long reads = bytes / sizeof(unsigned) / 4;
  const double read_gbps = best_gbps(all, [&] {
    session.launch("probe_read", stream.get(), reads, data.address(), reads, data.sums());
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
  report.figure("equals_the_hosts", verdict.equals_the_hosts);
  report.figure("sees_one_flipped_bit", verdict.sees_one_flipped_bit);
  const bool holds = verdict.equals_the_hosts && verdict.sees_one_flipped_bit;
  report.answer(with_digits(digest_gbps, 0) + " GB/s, where plain reads reach " +
                    with_digits(read_gbps, 0) + " GB/s" + (holds ? "" : "; but its value is wrong"),
                holds);
}

}  // namespace superpipe::cli
