#include "policy/pass_launches.h"

#include <algorithm>

namespace superpipe {
namespace {

// What a kernel takes at least from its launch to its end, whatever it does.
constexpr Seconds kLeastCompute{3e-6};

Bytes peak_of_transients(std::span<const LaunchRecord> pass, std::span<const Bytes> persistent,
                         std::span<const Bytes> footprints) {
  const auto is_transient = [&](BufferId id) {
    const std::size_t at = index_of(id);
    return at < footprints.size() && (at >= persistent.size() || persistent[at] == Bytes{});
  };
  std::vector<std::size_t> last_use(footprints.size());
  for (std::size_t launch = 0; launch < pass.size(); ++launch) {
    for (const BufferId id : pass[launch].buffers) {
      if (is_transient(id)) last_use[index_of(id)] = launch;
    }
  }
  std::vector<bool> is_there(footprints.size(), false);
  Bytes used;
  Bytes peak;
  for (std::size_t launch = 0; launch < pass.size(); ++launch) {
    for (const BufferId id : pass[launch].buffers) {
      if (!is_transient(id) || is_there[index_of(id)]) continue;
      is_there[index_of(id)] = true;
      used += footprints[index_of(id)];
    }
    peak = std::max(peak, used);
    for (const BufferId id : pass[launch].buffers) {
      if (!is_transient(id) || !is_there[index_of(id)] || last_use[index_of(id)] > launch) continue;
      is_there[index_of(id)] = false;
      used -= footprints[index_of(id)];
    }
  }
  return peak;
}

}  // namespace

PassLaunches::PassLaunches(std::span<const LaunchRecord> pass, std::span<const Bytes> persistent,
                           std::span<const Bytes> footprints) {
  constexpr std::uint32_t kNoNumber = ~std::uint32_t{0};
  std::vector<std::uint32_t> number_of(persistent.size(), kNoNumber);
  kernels_.reserve(pass.size());
  named_.reserve(pass.size());
  ends_.reserve(pass.size());
  for (const LaunchRecord& launch : pass) {
    Bytes named;
    for (const BufferId id : launch.buffers) {
      const std::size_t at = index_of(id);
      if (at < footprints.size()) named += footprints[at];
      if (at >= persistent.size() || persistent[at] == Bytes{}) continue;
      if (number_of[at] == kNoNumber) {
        number_of[at] = static_cast<std::uint32_t>(buffer_bytes_.size());
        buffer_bytes_.push_back(persistent[at]);
      }
      buffers_.push_back(BufferId{number_of[at]});
    }
    kernels_.push_back(launch.kernel);
    named_.push_back(named);
    ends_.push_back(static_cast<std::uint32_t>(buffers_.size()));
  }
  buffers_.shrink_to_fit();
  buffer_bytes_.shrink_to_fit();
  transient_peak_ = peak_of_transients(pass, persistent, footprints);
}

Bytes PassLaunches::persistent_bytes() const {
  Bytes sum;
  for (const Bytes bytes : buffer_bytes_) sum += bytes;
  return sum;
}

std::vector<Bytes> PassLaunches::layer_bytes() const {
  std::vector<LaunchRecord> launches;
  launches.reserve(kernels_.size());
  for (std::size_t at = 0; at < kernels_.size(); ++at) {
    launches.push_back({kernels_[at], buffers_of(at)});
  }
  std::vector<Bytes> bytes;
  for (const std::vector<BufferId>& layer : group_layers(launches, buffer_bytes_).layers) {
    Bytes& sum = bytes.emplace_back();
    for (const BufferId id : layer) sum += buffer_bytes_[index_of(id)];
  }
  return bytes;
}

std::vector<TimedLaunch> PassLaunches::estimated_launches(Seconds compute) const {
  std::vector<TimedLaunch> launches;
  if (named_.empty()) return launches;
  launches.reserve(named_.size());
  const auto count = static_cast<double>(named_.size());
  Bytes all;
  for (const Bytes named : named_) all += named;
  const Seconds least = all == Bytes{} ? compute / count : std::min(kLeastCompute, compute / count);
  const Seconds rest = compute - least * count;
  for (std::size_t at = 0; at < named_.size(); ++at) {
    const double share =
        all == Bytes{} ? 0.0
                       : static_cast<double>(named_[at].count()) / static_cast<double>(all.count());
    launches.push_back({least + rest * share, buffers_of(at)});
  }
  return launches;
}

}  // namespace superpipe
