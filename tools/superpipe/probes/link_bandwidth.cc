// H1: how fast is the link for pinned memory, each way and both ways at once?

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "tools/superpipe/probes/session.h"

namespace superpipe::cli {
namespace {

using Json = ProbeReport::Json;

struct Link {
  Session& session;
  PinnedMemory& to_device;
  PinnedMemory& from_device;
  DeviceMemory& arriving;
  DeviceMemory& leaving;
  Stream in, out;
  Event start, in_end, out_end, both_end;

  Link(Session& s, PinnedMemory& to, PinnedMemory& from, DeviceMemory& arrive, DeviceMemory& leave)
      : session(s),
        to_device(to),
        from_device(from),
        arriving(arrive),
        leaving(leave),
        in(s),
        out(s),
        start(s),
        in_end(s),
        out_end(s),
        both_end(s) {}

  void copy_in(std::size_t bytes) {
    session.cu().cuMemcpyHtoDAsync.must(arriving.address(), to_device.data(), bytes, in.get());
  }
  void copy_out(std::size_t bytes) {
    session.cu().cuMemcpyDtoHAsync.must(from_device.data(), leaving.address(), bytes, out.get());
  }

  double seconds_in(std::size_t bytes) {
    start.record(in);
    copy_in(bytes);
    in_end.record(in);
    in.wait();
    return in_end.seconds_since(start);
  }
  double seconds_out(std::size_t bytes) {
    start.record(out);
    copy_out(bytes);
    out_end.record(out);
    out.wait();
    return out_end.seconds_since(start);
  }
  // From the moment at which both may start to the later one's end.
  double seconds_both(std::size_t bytes) {
    start.record(in);
    session.cu().cuStreamWaitEvent.must(out.get(), start.get(), 0);
    copy_in(bytes);
    copy_out(bytes);
    in_end.record(in);
    out_end.record(out);
    in.wait();
    out.wait();
    return std::max(in_end.seconds_since(start), out_end.seconds_since(start));
  }
};

}  // namespace

void probe_link_bandwidth(const ProbeSetting& setting, const ProbeReport& report) {
  const auto sizes = setting.pick<std::vector<std::size_t>>(
      {kMiB, 16 * kMiB, 64 * kMiB, 256 * kMiB}, {16 * kMiB, 128 * kMiB}, {kMiB, 8 * kMiB});
  const int repeats = setting.pick(12, 6, 4);
  const std::size_t largest = sizes.back();
  need_host_memory(setting, 2 * largest);

  report.step("opening the device");
  Session session(setting);
  session.need_device_memory(2 * largest);
  report.step("pinning host memory");
  PinnedMemory to_device(session, largest);
  PinnedMemory from_device(session, largest);
  report.figure("pin_gbps", gigabytes_per_second(
                                2.0 * static_cast<double>(largest),
                                to_device.register_seconds() + from_device.register_seconds()));
  DeviceMemory arriving(session, largest);
  DeviceMemory leaving(session, largest);
  Link link(session, to_device, from_device, arriving, leaving);

  report.step("the first copies");
  link.seconds_in(largest);
  link.seconds_out(largest);

  struct Direction {
    const char* name;
    double (Link::*seconds)(std::size_t);
    double bytes_moved;  // for each byte of size
    double best = 0;
  };
  std::array<Direction, 3> directions{{{"h2d", &Link::seconds_in, 1},
                                       {"d2h", &Link::seconds_out, 1},
                                       {"both", &Link::seconds_both, 2}}};
  Json rows = Json::array();
  for (const std::size_t bytes : sizes) {
    for (Direction& direction : directions) {
      report.step("copies of " + std::to_string(bytes) + " bytes, " + direction.name);
      std::vector<double> gbps;
      gbps.reserve(static_cast<std::size_t>(repeats));
      for (int i = 0; i < repeats; ++i) {
        gbps.push_back(gigabytes_per_second(direction.bytes_moved * static_cast<double>(bytes),
                                            (link.*direction.seconds)(bytes)));
      }
      const double best = quantile(gbps, 1);
      direction.best = std::max(direction.best, best);
      rows.push_back({{"direction", direction.name},
                      {"bytes_each_way", bytes},
                      {"best_gbps", best},
                      {"median_gbps", quantile(gbps, 0.5)},
                      {"copies", repeats}});
    }
  }
  report.figure("transfers", rows);
  report.figure("h2d_best_gbps", directions[0].best);
  report.figure("d2h_best_gbps", directions[1].best);
  report.figure("both_ways_sum_best_gbps", directions[2].best);
  report.answer(with_digits(directions[0].best, 1) + " GB/s to the device, " +
                with_digits(directions[1].best, 1) + " GB/s from it, " +
                with_digits(directions[2].best, 1) + " GB/s in sum when both run");
}

}  // namespace superpipe::cli
