// H9: how fast can the device compute a digest of its memory?

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "residency/content_digest.h"
#include "tools/superpipe/probes/digest_launch.h"
#include "tools/superpipe/probes/kernels.h"
#include "tools/superpipe/probes/session.h"

namespace superpipe::cli {
namespace {

constexpr unsigned kSeed = 21;

// Device memory with a known content, and its digests by superpipe's own kernel.
class DigestedMemory {
 public:
  DigestedMemory(Session& session, const Stream& stream, std::size_t bytes)
      : session_(session), stream_(stream), data_(session, bytes), kernel_(session) {
    const unsigned long long words = bytes / sizeof(unsigned);
    session_.launch("probe_fill", stream_.get(), words, data_.address(), words, kSeed);
    stream_.wait();
  }

  [[nodiscard]] CUdeviceptr address() const { return data_.address(); }
  [[nodiscard]] const DigestKey& key() const { return kernel_.key(); }

  // Enqueues the digest of the first `size` bytes, which leaves it in pinned memory.
  void enqueue_digest(std::size_t size) const {
    kernel_.enqueue(data_.address(), size, stream_.get());
  }
  // Waits for it. Returns the digest of the first `size` bytes.
  [[nodiscard]] ContentDigest digest_of_first(std::size_t size) const {
    enqueue_digest(size);
    stream_.wait();
    return kernel_.digest(size);
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
  const ProbeDigestKernel kernel_;
};

struct DigestVerdict {
  bool equals_the_hosts = false;
  bool sees_one_flipped_bit = false;
};

// Compares digests of the first `bytes` of `memory` with the host's. Leaves one bit flipped.
DigestVerdict check_digests(const DigestedMemory& memory, std::size_t bytes) {
  std::vector<unsigned> words(bytes / sizeof(unsigned));
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = pattern_word(kSeed, i);
  const auto on_host = [&](std::size_t size) {
    return digest_of(memory.key(), std::as_bytes(std::span(words)).first(size));
  };
  const ContentDigest whole = memory.digest_of_first(bytes);
  DigestVerdict verdict{whole == on_host(bytes), true};
  // Some that end in the middle of a word, of a read and of a chunk.
  for (const std::size_t less : {std::size_t{1}, std::size_t{20}, std::size_t{5000}}) {
    if (memory.digest_of_first(bytes - less) != on_host(bytes - less)) {
      verdict.equals_the_hosts = false;
    }
  }
  for (const std::size_t at : {std::size_t{0}, words.size() / 2 + 1, words.size() - 1}) {
    memory.change(at, words[at] ^ 1U);
    if (memory.digest_of_first(bytes) == whole) verdict.sees_one_flipped_bit = false;
    memory.change(at, words[at]);
  }
  words[5] ^= 1U;
  memory.change(5, words[5]);
  if (memory.digest_of_first(bytes) != on_host(bytes)) verdict.equals_the_hosts = false;
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
  const DeviceMemory sum(session, kGranule);  // where a kernel adds up what it reads
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
    session.launch("probe_read", stream.get(), reads, data.address(), reads, sum.address());
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
