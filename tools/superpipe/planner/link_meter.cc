#include "tools/superpipe/planner/link_meter.h"

#include <algorithm>
#include <iterator>
#include <span>

namespace superpipe::cli {
namespace {

// So many of the speeds that lie closest together are not thinned out any more.
constexpr std::size_t kFewestOfMode = 8;

// No link's speed, in bytes per second, is outside of these.
constexpr double kSlowest = 1e6;
constexpr double kFastest = 1e13;

// Times of a damaged trace may be anything.
double nanoseconds_between(std::int64_t begin, std::int64_t end) {
  return static_cast<double>(end) - static_cast<double>(begin);
}

// The middle of where `sorted`, which are above 0, lie closest together, by their ratios.
double half_sample_mode(std::span<const double> sorted) {
  while (sorted.size() > kFewestOfMode) {
    const std::size_t half = (sorted.size() + 1) / 2;
    std::size_t closest = 0;
    for (std::size_t i = 1; i + half <= sorted.size(); ++i) {
      const double spread = sorted[i + half - 1] / sorted[i];
      if (spread < sorted[closest + half - 1] / sorted[closest]) closest = i;
    }
    sorted = sorted.subspan(closest, half);
  }
  return sorted[sorted.size() / 2];
}

}  // namespace

void LinkMeter::enqueue(std::uint64_t number, std::int64_t time, Bytes size) {
  if (under_way_.size() >= kMostUnderWay) under_way_.pop_front();  // it has ended unseen
  // Transfers of several threads come nearly in their order.
  auto place = under_way_.end();
  while (place != under_way_.begin() && std::prev(place)->number > number) --place;
  under_way_.insert(place, {number, time, size});
}

void LinkMeter::end(std::uint64_t number, std::int64_t time) {
  const auto place = std::lower_bound(
      under_way_.begin(), under_way_.end(), number,
      [](const Transfer& transfer, std::uint64_t wanted) { return transfer.number < wanted; });
  if (place == under_way_.end() || place->number != number) return;
  if (look_ && nanoseconds_between(look_->end, time) > kLookNs) take_sample();
  if (!look_) look_ = Look{std::max(free_from_, under_way_.front().enqueued), time, {}, {}};
  for (auto ended = under_way_.begin(); ended != std::next(place); ++ended) {
    look_->largest = std::max(look_->largest, ended->size);
    look_->bytes += ended->size;
  }
  under_way_.erase(under_way_.begin(), std::next(place));
  look_->end = std::max(look_->end, time);
}

void LinkMeter::take_sample() {
  const double taken = nanoseconds_between(look_->begin, look_->end);
  if (taken > 0 && samples_.size() < kMost) {
    const double speed = static_cast<double>(look_->bytes.count()) / (taken * 1e-9);
    if (speed >= kSlowest && speed <= kFastest) samples_.push_back({look_->largest, speed});
  }
  free_from_ = look_->end;
  look_.reset();
}

std::optional<Bandwidth> LinkMeter::speed() const {
  Bytes largest;
  for (const Sample& sample : samples_) largest = std::max(largest, sample.largest);
  std::vector<double> speeds;
  for (const Sample& sample : samples_) {
    if (2 * sample.largest.count() >= largest.count()) speeds.push_back(sample.bytes_per_second);
  }
  if (speeds.size() < kFewest) return std::nullopt;
  std::sort(speeds.begin(), speeds.end());
  return Bandwidth{half_sample_mode(speeds)};
}

}  // namespace superpipe::cli
