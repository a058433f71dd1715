#include "tools/superpipe/planner/landmarks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "policy/units.h"

namespace superpipe::cli {
namespace {

// The share of distances that have to be even, and how far those may be off the one in the middle.
constexpr double kLeastEven = 0.9;
constexpr double kMostUneven = 0.3;
// As many times at least something has to come back.
constexpr std::size_t kLeastPlaces = 3;
// The share of the bytes that live long which a kernel has to work on each time that it comes, if
// its period is to count.
constexpr double kLeastShare = 0.25;
constexpr double kMostPeriods = 64;

using Places = std::vector<std::size_t>;  // launches, ascending

/// The distance from one of `places` to the next; nullopt: it is not even, or there are few.
std::optional<double> period_of(const Places& places) {
  if (places.size() < kLeastPlaces) return std::nullopt;
  std::vector<std::size_t> distances;
  for (std::size_t i = 1; i < places.size(); ++i) distances.push_back(places[i] - places[i - 1]);
  const auto middle = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2);
  std::nth_element(distances.begin(), middle, distances.end());
  const auto period = static_cast<double>(*middle);
  const auto even = std::ranges::count_if(distances, [period](std::size_t distance) {
    return std::abs(static_cast<double>(distance) - period) <= kMostUneven * period;
  });
  if (static_cast<double>(even) < kLeastEven * static_cast<double>(distances.size())) {
    return std::nullopt;
  }
  return period;
}

/// Those of `places` that are more than `distance` behind the one before.
Places without_close(const Places& places, double distance) {
  Places kept;
  std::optional<std::size_t> last;
  for (const std::size_t place : places) {
    if (!last || static_cast<double>(place - *last) > distance) kept.push_back(place);
    last = place;
  }
  return kept;
}

/// `begins` of passes without those at both ends that are further from all others than a pass is
/// long: what was done there is none.
Places without_strays(Places begins) {
  const auto period = period_of(begins);
  if (!period) return {};
  const auto is_far = [&](std::size_t at) {
    return static_cast<double>(begins[at + 1] - begins[at]) > (1 + kMostUneven) * *period;
  };
  std::size_t first = 0;
  while (is_far(first)) ++first;
  begins.erase(begins.begin(), begins.begin() + static_cast<std::ptrdiff_t>(first));
  while (is_far(begins.size() - 2)) begins.pop_back();
  return begins;
}

class Landmarks {
 public:
  Landmarks(const TracedProgram& program, std::size_t launches)
      : program_(program), launches_(launches) {
    find_persistent();
    std::unordered_map<std::uint64_t, std::size_t> known;
    for (std::size_t launch = 0; launch < launches_; ++launch) {
      const auto rarest = rarest_of(launch);
      if (!rarest) continue;
      const std::uint32_t kernel = step_of(launch).kernel;
      of_kernel_[kernel].push_back(launch);
      const std::uint64_t mark = std::uint64_t{kernel} << 32 | *rarest;
      const auto [index, is_new] = known.try_emplace(mark, marks_.size());
      if (is_new) marks_.push_back({*rarest, {}});
      marks_[index->second].places.push_back(launch);
    }
  }

  [[nodiscard]] Places passes() const {
    const auto period = main_period();
    if (!period) return {};
    const Places& marks = first_mark(*period)->places;
    const auto ends = longer_pass(*period);
    return without_strays(ends ? marks_after(marks, *ends) : marks);
  }

 private:
  struct Mark {
    std::uint32_t buffer;
    Places places;
  };

  [[nodiscard]] const TracedStep& step_of(std::size_t launch) const {
    return program_.steps()[program_.step_of_launch(launch)];
  }
  [[nodiscard]] std::span<const std::uint32_t> names(std::size_t launch) const {
    return program_.names(step_of(launch));
  }

  void find_persistent() {
    std::vector<std::size_t> first(program_.buffers(), launches_);
    std::vector<std::size_t> last(program_.buffers(), 0);
    uses_.resize(program_.buffers());
    for (std::size_t launch = 0; launch < launches_; ++launch) {
      for (const std::uint32_t buffer : names(launch)) {
        first[buffer] = std::min(first[buffer], launch);
        last[buffer] = launch;
        ++uses_[buffer];
      }
    }
    for (std::size_t buffer = 0; buffer < uses_.size(); ++buffer) {
      if (uses_[buffer] == 0) continue;
      if (2 * (last[buffer] - first[buffer]) < launches_) {
        uses_[buffer] = 0;
      } else {
        persistent_bytes_ += program_.footprint(static_cast<std::uint32_t>(buffer));
      }
    }
  }

  [[nodiscard]] std::optional<std::uint32_t> rarest_of(std::size_t launch) const {
    std::optional<std::uint32_t> rarest;
    for (const std::uint32_t buffer : names(launch)) {
      if (uses_[buffer] == 0) continue;
      if (!rarest || uses_[buffer] < uses_[*rarest]) rarest = buffer;
    }
    return rarest;
  }

  /// The period that half of the bytes do not exceed, each with that of what is launched with it
  /// most often; nullopt if most of what lives long has none. What all layers share comes back with
  /// each of them, but is little.
  [[nodiscard]] std::optional<double> main_period() const {
    constexpr double kNone = std::numeric_limits<double>::infinity();
    std::vector<double> period_of_buffer(uses_.size(), kNone);
    std::vector<std::size_t> launches(uses_.size());
    for (const Mark& mark : marks_) {
      const auto period = period_of(mark.places);
      if (!period || mark.places.size() <= launches[mark.buffer]) continue;
      launches[mark.buffer] = mark.places.size();
      period_of_buffer[mark.buffer] = *period;
    }
    std::vector<std::pair<double, Bytes>> periods;
    for (std::uint32_t buffer = 0; buffer < uses_.size(); ++buffer) {
      if (uses_[buffer] == 0) continue;
      periods.emplace_back(period_of_buffer[buffer], program_.footprint(buffer));
    }
    std::ranges::sort(periods);
    Bytes counted;
    for (const auto& [period, bytes] : periods) {
      counted += bytes;
      if (2 * counted >= persistent_bytes_) {
        return period == kNone ? std::nullopt : std::optional(period);
      }
    }
    return std::nullopt;
  }

  /// The landmark of about that period that comes first in the program. REQUIRES: there is one.
  [[nodiscard]] const Mark* first_mark(double period) const {
    const Mark* first = nullptr;
    for (const Mark& mark : marks_) {
      const auto own = period_of(mark.places);
      if (!own || std::abs(*own - period) > kMostUneven * period) continue;
      if (first == nullptr || mark.places.front() < first->places.front()) first = &mark;
    }
    return first;
  }

  /// Where the kernel comes that works on much and only in every so manyth period; nullopt: there
  /// is none. Of several, the one with the longest period.
  [[nodiscard]] std::optional<Places> longer_pass(double period) const {
    std::optional<Places> found;
    double longest = (2 - kMostUneven) * period;
    for (const auto& [kernel, launches] : of_kernel_) {
      Places places = without_close(launches, period / 2);
      const auto own = period_of(places);
      if (!own || *own < longest || *own > kMostPeriods * period) continue;
      const double named =
          static_cast<double>(bytes_of(launches).count()) / static_cast<double>(places.size());
      if (named < kLeastShare * static_cast<double>(persistent_bytes_.count())) continue;
      longest = *own;
      found = std::move(places);
    }
    return found;
  }

  /// What these launches name of persistent buffers, in all.
  [[nodiscard]] Bytes bytes_of(const Places& launches) const {
    Bytes bytes;
    for (const std::size_t launch : launches) {
      for (const std::uint32_t buffer : names(launch)) {
        if (uses_[buffer] > 0) bytes += program_.footprint(buffer);
      }
    }
    return bytes;
  }

  /// The first of `marks` behind each of `ends`, and the one before the first of these.
  static Places marks_after(const Places& marks, const Places& ends) {
    Places begins;
    if (marks.front() < ends.front()) begins.push_back(marks.front());
    for (const std::size_t end : ends) {
      const auto next = std::ranges::upper_bound(marks, end);
      if (next != marks.end() && (begins.empty() || *next != begins.back())) {
        begins.push_back(*next);
      }
    }
    return begins;
  }

  const TracedProgram& program_;
  const std::size_t launches_;
  std::vector<std::size_t> uses_;  // by buffer: launches that name it; 0: it does not live long
  Bytes persistent_bytes_;
  std::vector<Mark> marks_;
  std::unordered_map<std::uint32_t, Places> of_kernel_;  // of launches that have a landmark
};

}  // namespace

std::vector<std::size_t> passes_by_landmarks(const TracedProgram& program, std::size_t launches) {
  return Landmarks(program, std::min(launches, program.launches())).passes();
}

}  // namespace superpipe::cli
