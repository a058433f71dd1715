#include "tools/superpipe/planner/nameless_times.h"

#include <numeric>

#include "tools/superpipe/planner/kernel_times.h"

namespace superpipe::cli {
namespace {

// The place as far as the last `depth` launches before it tell.
NamelessTimes::Place shortened(NamelessTimes::Place place, std::size_t depth) {
  for (std::size_t i = depth; i < place.behind.size(); ++i) place.behind[i] = {};
  return place;
}

}  // namespace

void NamelessTimes::add(const Place& place, std::size_t depth, float microseconds) {
  for (std::size_t known = 0; known <= depth; ++known) {
    auto& places = times_[known];
    const Place key = shortened(place, known);
    const auto found = places.find(key);
    if (found == places.end() && places.size() >= kMostPlaces) continue;
    std::vector<float>& measured =
        found == places.end() ? places[key].measured : found->second.measured;
    if (measured.size() < kMostOfPlace) measured.push_back(microseconds);
  }
}

void NamelessTimes::settle() {
  for (auto& places : times_) {
    for (auto& [place, times] : places) {
      replace_outliers(times.measured);
      times.mean = std::accumulate(times.measured.begin(), times.measured.end(), 0.0) /
                   static_cast<double>(times.measured.size());
    }
  }
}

std::optional<double> NamelessTimes::estimate(const Place& place) const {
  for (std::size_t depth = times_.size(); depth-- > 0;) {
    const auto found = times_[depth].find(shortened(place, depth));
    if (found == times_[depth].end()) continue;
    if (depth == 0 || found->second.measured.size() >= kFewest) return found->second.mean;
  }
  return std::nullopt;
}

}  // namespace superpipe::cli
