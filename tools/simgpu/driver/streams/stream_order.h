// What comes before what: points in the orders of streams, as far as events make them known.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

namespace simgpu {

/// A point in one stream's order: the operation that was enqueued as the `position`th, from 1 on.
struct StreamPoint {
  std::uint64_t stream = 0;  ///< Stream::number
  std::uint64_t position = 0;
};

/// For each stream, the last point that is known to come before something. By Stream::number.
using PointsBefore = std::map<std::uint64_t, std::uint64_t>;

/// The place of an operation among those of all streams: itself, and what comes before it besides
/// the earlier operations of its own stream.
struct StreamMark {
  StreamPoint point;
  std::shared_ptr<const PointsBefore> before;  ///< null: nothing

  /// Whether the marked operation is `other`, or comes after it.
  [[nodiscard]] bool covers(StreamPoint other) const {
    if (other.stream == point.stream) return other.position <= point.position;
    if (before == nullptr) return false;
    const auto found = before->find(other.stream);
    return found != before->end() && other.position <= found->second;
  }
};

}  // namespace simgpu
