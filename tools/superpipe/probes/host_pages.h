// Pages that lie on the host: where they can be created, and with what questions about them
// measure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tools/superpipe/probes/session.h"

namespace superpipe::cli {

/// Where pages on the host may be created.
struct HostPlace {
  const char* name;  ///< "HOST_NUMA" or "HOST"
  CUmemLocation location;
};

/// The places that the device's attributes name, the one to try first in front. Reports the figures
/// `supported_host_numa` and `supported_host`. Throws NotSupported if the device names none.
[[nodiscard]] std::vector<HostPlace> host_places(Session& session, const ProbeSetting& setting,
                                                 const ProbeReport& report);

/// The first of host_places() where the driver creates a page. Reports the figure `location` before
/// it tries, since that may end the process. Throws NotSupported if the driver refuses all of them.
[[nodiscard]] HostPlace find_host_place(Session& session, const ProbeSetting& setting,
                                        const ProbeReport& report);

/// `bytes`, rounded up to what pages at `location` and pages of the device can have.
[[nodiscard]] std::size_t page_bytes(Session& session, CUmemLocation location, std::size_t bytes);

/// Pages at one place with an address of their own, which device 0 may use.
class Window {
 public:
  /// REQUIRES `bytes` from page_bytes().
  Window(Session& session, std::size_t bytes, CUmemLocation location)
      : pages_(session, bytes, location), range_(session, bytes) {
    range_.map(pages_);
  }
  [[nodiscard]] CUdeviceptr address() const { return range_.address(); }

 private:
  Pages pages_;
  Range range_;
};

/// Fills, checks and times memory, on a stream of its own.
class Measurement {
 public:
  explicit Measurement(Session& session)
      : session_(session), counter_(session, kGranule), start_(session), end_(session) {}

  [[nodiscard]] CUstream stream() const { return stream_.get(); }
  /// 64 bytes of device memory for what a kernel counts.
  [[nodiscard]] CUdeviceptr counter() const { return counter_.address(); }
  void wait() const { stream_.wait(); }

  /// Writes the pattern `seed` to `bytes` bytes, without waiting for that.
  void fill(CUdeviceptr address, std::size_t bytes, unsigned seed);
  /// How many words there are not that pattern's. Waits.
  [[nodiscard]] unsigned long long wrong_words(CUdeviceptr address, std::size_t bytes,
                                               unsigned seed);
  /// What the counter has after `enqueue`, which gets it as 0. Waits.
  template <typename Enqueue>
  [[nodiscard]] unsigned long long counted(const Enqueue& enqueue) {
    session_.cu().cuMemsetD8Async.must(counter(), 0, 64, stream());
    enqueue();
    return read_counter();
  }
  /// Seconds of device time that `enqueue` takes on the stream: the median of three, after one that
  /// warms up. Waits.
  template <typename Enqueue>
  [[nodiscard]] double seconds(const Enqueue& enqueue) {
    constexpr int kRepeats = 3;
    std::vector<double> samples;
    for (int i = 0; i <= kRepeats; ++i) {
      start_.record(stream_);
      enqueue();
      end_.record(stream_);
      stream_.wait();
      if (i > 0) samples.push_back(end_.seconds_since(start_));
    }
    return quantile(samples, 0.5);
  }
  /// GB/s of `enqueue`, which moves `bytes` bytes.
  template <typename Enqueue>
  [[nodiscard]] double gbps(std::size_t bytes, const Enqueue& enqueue) {
    return gigabytes_per_second(static_cast<double>(bytes), seconds(enqueue));
  }

 private:
  [[nodiscard]] unsigned long long read_counter() const;

  Session& session_;
  Stream stream_{session_};
  DeviceMemory counter_;
  Event start_, end_;
};

}  // namespace superpipe::cli
