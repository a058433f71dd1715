// H30: what does a digest of each evicted piece cost beside copies in both directions?

#include <algorithm>
#include <string>

#include "tools/superpipe/probes/digest_launch.h"
#include "tools/superpipe/probes/session.h"

namespace superpipe::cli {
namespace {

/// Where the digest of a piece that leaves the device runs.
enum class Digests {
  kNone,
  kBeside,   ///< on a stream of its own, while the piece is copied
  kInFront,  ///< in front of the copy, which waits for it
};

/// Pieces that come to the device while others leave it, without a pause.
class DigestedTraffic {
 public:
  DigestedTraffic(Session& session, std::size_t piece, int pieces)
      : session_(session),
        piece_(piece),
        pieces_(pieces),
        from_host_(session, piece),
        to_host_(session, piece),
        arriving_(session, piece),
        leaving_(session, piece),
        kernel_(session),
        in_(session),
        out_(session),
        aside_(session),
        start_(session),
        in_end_(session),
        out_end_(session) {}

  /// GB/s of both directions together.
  double gbps(Digests digests) {
    start_.record(in_);
    for (const Stream* other : {&out_, &aside_}) {
      session_.cu().cuStreamWaitEvent.must(other->get(), start_.get(), 0);
    }
    for (int i = 0; i < pieces_; ++i) {
      session_.cu().cuMemcpyHtoDAsync.must(arriving_.address(), from_host_.data(), piece_,
                                           in_.get());
      if (digests != Digests::kNone) {
        const Stream& where = digests == Digests::kBeside ? aside_ : out_;
        kernel_.enqueue(leaving_.address(), piece_, where.get());
      }
      session_.cu().cuMemcpyDtoHAsync.must(to_host_.data(), leaving_.address(), piece_, out_.get());
    }
    in_end_.record(in_);
    out_end_.record(out_);
    in_.wait();
    out_.wait();
    aside_.wait();
    const double seconds = std::max(in_end_.seconds_since(start_), out_end_.seconds_since(start_));
    return gigabytes_per_second(2.0 * static_cast<double>(piece_) * pieces_, seconds);
  }

 private:
  Session& session_;
  const std::size_t piece_;
  const int pieces_;
  const PinnedMemory from_host_, to_host_;
  const DeviceMemory arriving_, leaving_;
  const ProbeDigestKernel kernel_;
  const Stream in_, out_, aside_;
  const Event start_, in_end_, out_end_;
};

}  // namespace

void probe_digests_beside_copies(const ProbeSetting& setting, const ProbeReport& report) {
  const std::size_t piece = setting.pick(32, 32, 2) * kMiB;
  const int pieces = setting.pick(32, 16, 4);
  const int repeats = setting.pick(5, 3, 2);
  need_host_memory(setting, 2 * piece);
  report.step("opening the device");
  Session session(setting);
  session.need_device_memory(2 * piece);
  DigestedTraffic traffic(session, piece, pieces);

  // In turns, so that a link whose speed changes changes it for all.
  double without = 0, beside = 0, in_front = 0;
  for (int i = 0; i <= repeats; ++i) {
    report.step("copies both ways, round " + std::to_string(i));
    const double first = traffic.gbps(Digests::kNone);
    const double second = traffic.gbps(Digests::kBeside);
    const double third = traffic.gbps(Digests::kInFront);
    if (i == 0) continue;  // warms up
    without = std::max(without, first);
    beside = std::max(beside, second);
    in_front = std::max(in_front, third);
  }
  report.figure("piece_bytes", piece);
  report.figure("without_digests_gbps", without);
  report.figure("digests_beside_gbps", beside);
  report.figure("digests_in_front_gbps", in_front);
  report.answer(with_digits(without, 1) +
                " GB/s in sum both ways; with a digest beside each piece " +
                with_digits(beside, 1) + ", with one in front of it " + with_digits(in_front, 1));
}

}  // namespace superpipe::cli
