#include "tools/superpipe/report/link_use.h"

#include <algorithm>
#include <iterator>

namespace superpipe::cli {

void LinkUse::enqueue(std::uint64_t number, std::uint64_t time, Bytes size) {
  bytes_ += size;
  if (under_way_.size() >= kMostUnderWay) {
    const Transfer& oldest = under_way_.front();
    carried_.add(oldest.enqueued, static_cast<double>(oldest.bytes));
    under_way_.pop_front();
  }
  // Transfers of several threads come nearly in their order.
  auto place = under_way_.end();
  while (place != under_way_.begin() && std::prev(place)->number > number) --place;
  under_way_.insert(place, {number, time, size.count()});
}

bool LinkUse::end(std::uint64_t number, std::uint64_t time) {
  const auto place = std::lower_bound(
      under_way_.begin(), under_way_.end(), number,
      [](const Transfer& transfer, std::uint64_t wanted) { return transfer.number < wanted; });
  if (place == under_way_.end() || place->number != number) return false;
  if (has_ended_ && time > look_ + kLookNs) spread_ended();
  if (!has_ended_) began_ = std::max(free_from_, under_way_.front().enqueued);
  has_ended_ = true;
  for (auto ended = under_way_.begin(); ended != std::next(place); ++ended) {
    ended_bytes_ += ended->bytes;
  }
  under_way_.erase(under_way_.begin(), std::next(place));
  look_ = std::max(look_, time);
  return true;
}

void LinkUse::spread_ended() {
  const std::uint64_t end = std::max(began_, look_);
  carried_.spread(began_, end, static_cast<double>(ended_bytes_));
  busy_ += end - began_;
  free_from_ = end;
  ended_bytes_ = 0;
  has_ended_ = false;
}

void LinkUse::finish(std::uint64_t time) {
  if (has_ended_) spread_ended();
  for (const Transfer& transfer : under_way_) {
    carried_.add(transfer.enqueued, static_cast<double>(transfer.bytes));
  }
  under_way_.clear();
  carried_.cover(time);
}

}  // namespace superpipe::cli
