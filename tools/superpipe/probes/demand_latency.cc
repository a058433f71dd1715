// H16: how long does a copy that a launch waits for take, behind copies that were asked for
// earlier?

#include <string>
#include <vector>

#include "tools/superpipe/probes/session.h"

namespace superpipe::cli {

void probe_demand_latency(const ProbeSetting& setting, const ProbeReport& report) {
  const std::size_t piece = setting.pick(32, 32, 2) * kMiB;
  const std::size_t demand = setting.pick(2, 2, 1) * kMiB;
  const int repeats = setting.pick(16, 8, 4);
  constexpr int kPieces = 8;  // one after another, to see what lies between two
  need_host_memory(setting, kPieces * piece);

  report.step("opening the device");
  Session session(setting);
  session.need_device_memory(kPieces * piece + demand);
  report.step("pinning host memory");
  const PinnedMemory source(session, kPieces * piece);
  const DeviceMemory pieces(session, kPieces * piece);
  const DeviceMemory wanted(session, demand);
  const Stream prefetches(session);
  const Stream demands(session);
  const Driver& cu = session.cu();
  const auto enqueue = [&](int count) {
    for (int i = 0; i < count; ++i) {
      const std::size_t offset = i * piece;
      cu.cuMemcpyHtoDAsync.must(pieces.address() + offset, source.as<char>() + offset, piece,
                                prefetches.get());
    }
  };
  // The median time, in microseconds, of a demand behind so many prefetches that have just begun.
  const auto behind = [&](int count) {
    std::vector<double> microseconds;
    for (int i = 0; i < repeats; ++i) {
      enqueue(count);
      microseconds.push_back(1e6 * host_seconds([&] {
                               cu.cuMemcpyHtoDAsync.must(wanted.address(), source.data(), demand,
                                                         demands.get());
                               demands.wait();
                             }));
      prefetches.wait();
    }
    return quantile(microseconds, 0.5);
  };
  report.step("copying on demand");
  (void)behind(1);
  const double alone = behind(0);
  const double behind_one = behind(1);
  const double behind_all = behind(kPieces);

  report.step("copying pieces one after another");
  const Event start(session);
  const Event end(session);
  std::vector<double> apart, together;
  for (int i = 0; i < repeats; ++i) {
    start.record(prefetches);
    enqueue(kPieces);
    end.record(prefetches);
    prefetches.wait();
    apart.push_back(end.seconds_since(start));
    start.record(prefetches);
    cu.cuMemcpyHtoDAsync.must(pieces.address(), source.data(), kPieces * piece, prefetches.get());
    end.record(prefetches);
    prefetches.wait();
    together.push_back(end.seconds_since(start));
  }
  const double gap = 1e6 * (quantile(apart, 0.5) - quantile(together, 0.5)) / (kPieces - 1);
  const double piece_us = 1e6 * quantile(together, 0.5) / kPieces;
  report.figure("piece_bytes", piece);
  report.figure("demand_bytes", demand);
  report.figure("piece_us", piece_us);
  report.figure("alone_us", alone);
  report.figure("behind_one_us", behind_one);
  report.figure("behind_eight_us", behind_all);
  report.figure("gap_between_pieces_us", gap);
  report.answer("alone " + with_digits(alone, 0) + " us, behind one piece of " +
                std::to_string(piece / kMiB) + " MiB " + with_digits(behind_one, 0) +
                " us, behind eight " + with_digits(behind_all, 0) + " us; between two pieces " +
                with_digits(gap, 1) + " us pass");
}

}  // namespace superpipe::cli
