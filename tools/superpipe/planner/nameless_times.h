// How long launches take that name no buffer which superpipe manages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "policy/units.h"

namespace superpipe::cli {

/// Estimates the time of a launch by those of its kernel that were measured at the like of its
/// place in the program.
///
/// Nobody tells on how much such a launch works. But a program comes to the same places again and
/// again, in each layer and each pass, and what its launches there work on mostly has the same
/// size. A place is told by the last launches before it that do name buffers: their kernels, and
/// how many bytes they name. Not thread-safe.
class NamelessTimes {
 public:
  /// So many launches before tell a place.
  static constexpr std::size_t kDepth = 2;
  /// Fewer times than that tell nothing of a place: a less exact one is asked.
  static constexpr std::size_t kFewest = 2;

  /// A launch that names buffers.
  struct Named {
    std::uint32_t kernel = std::numeric_limits<std::uint32_t>::max();
    Bytes bytes{};

    auto operator<=>(const Named&) const = default;
  };
  /// A launch that names none, and the last ones before it that do, the nearest first.
  struct Place {
    std::uint32_t kernel = 0;
    std::array<Named, kDepth> behind{};

    auto operator<=>(const Place&) const = default;
  };

  /// What is told of more places than that counts for less exact ones alone, and of more times at
  /// a place than that nothing: so many tell enough, and a trace may be anyone's.
  static constexpr std::size_t kMostPlaces = 65'536;
  static constexpr std::size_t kMostOfPlace = 64;

  /// The launch at `place` took so long. Throws std::bad_alloc.
  void add(const Place& place, float microseconds) { add(place, kDepth, microseconds); }
  /// The same of a launch of `kernel` at a place that nobody knows.
  void add(std::uint32_t kernel, float microseconds) { add(Place{kernel, {}}, 0, microseconds); }
  /// Takes the means of what was added, without outliers (kernel_times.h). To be called once,
  /// behind add() and before estimate(). O(n log n).
  void settle();
  /// In microseconds; nullopt: none of the kernel's was measured. O(log places).
  [[nodiscard]] std::optional<double> estimate(const Place& place) const;

 private:
  struct Times {
    std::vector<float> measured;
    double mean = 0;
  };

  void add(const Place& place, std::size_t depth, float microseconds);

  /// By how many of the launches before count: 0 to kDepth.
  std::array<std::map<Place, Times>, kDepth + 1> times_;
};

}  // namespace superpipe::cli
