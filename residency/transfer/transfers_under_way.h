// The fetches that have begun and are not known to have ended.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "policy/units.h"
#include "residency/streams/event_pool.h"
#include "residency/tuning.h"

namespace superpipe {

/// What the link has to do, in the order in which it does it.
///
/// Not thread-safe: under the manager's mutex.
class TransfersUnderWay {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // For tests; tuning.h says what they do.
  static constexpr std::size_t kEnoughTransfers = tuning::kLinkEnoughTransfers;
  static constexpr Bytes kEnoughBytes = tuning::kLinkEnoughBytes;
  static constexpr std::uint64_t kPartsOfRoom = tuning::kLinkPartsOfRoom;
  static constexpr std::size_t kLastEvictions = tuning::kLinkLastEvictions;

  /// By `now` a transfer of `bytes` has begun, behind all that began before; `done` completes with
  /// it. Null: it takes no time. Throws std::bad_alloc.
  void add(EventRef done, Bytes bytes, TimePoint now) {
    if (done == nullptr) return;
    if (transfers_.empty()) moved_ = now;
    transfers_.emplace_back(std::move(done), bytes);
    bytes_ += bytes;
  }

  /// Something has gone, of which `written` bytes had to be written back.
  void note_eviction(Bytes written) { written_[evictions_++ % kLastEvictions] = written; }

  /// Whether the link is busy for a while even if nothing more begins, where content may take
  /// `room` on the device, and the link brings `link` bytes a second (0: not known).
  [[nodiscard]] bool is_enough(Bytes room, double link, TimePoint now) const {
    if (is_followed_by_long(link)) return outlasts_write_back(link, now - moved_);
    const Bytes enough = std::min(kEnoughBytes, Bytes{room.count() / kPartsOfRoom});
    return transfers_.size() >= kEnoughTransfers && bytes_ >= enough;
  }

  /// The same, and it gets on with it: a transfer may wait for work of the program that does not
  /// end (I7).
  [[nodiscard]] bool is_busy(Bytes room, double link, TimePoint now) const {
    return is_enough(room, link, now) && now - moved_ < longest_for_one(link);
  }

  /// Whether what comes behind the oldest takes long: then it matters for how long that has been
  /// the oldest.
  [[nodiscard]] bool is_followed_by_long(double link) const {
    return has_next() && takes_long(bytes_ - oldest_bytes(), link);
  }

  /// What ends no sooner is stuck, where the link brings `link` bytes a second; 0: not known.
  /// REQUIRES: there is one.
  [[nodiscard]] std::chrono::nanoseconds longest_for_one(double link) const {
    constexpr auto kStuck = tuning::kLinkStuck;
    if (link <= 0) return kStuck;
    const double seconds =
        tuning::kLinkStuckTimes * static_cast<double>(oldest_bytes().count()) / link;
    return kStuck + std::chrono::duration_cast<std::chrono::nanoseconds>(
                        std::chrono::duration<double>(seconds));
  }

  /// Whether `bytes` alone keep the link busy for a while, where it brings `link` bytes a second;
  /// 0: that is not known, and they do not.
  [[nodiscard]] static bool takes_long(Bytes bytes, double link) {
    return link > 0 && static_cast<double>(bytes.count()) > tuning::kLinkLongSeconds * link;
  }

  /// Whether one transfer is on the link and another will follow at once.
  [[nodiscard]] bool has_next() const { return transfers_.size() >= 2; }
  [[nodiscard]] bool empty() const { return transfers_.empty(); }

  void clear() {
    transfers_.clear();
    bytes_ = Bytes{};
  }

  /// What began first. REQUIRES: there is one.
  [[nodiscard]] const EventRef& oldest() const { return transfers_.front().first; }
  /// It has ended by `now`. REQUIRES: there is one.
  void drop_oldest(TimePoint now) {
    moved_ = now;
    bytes_ -= transfers_.front().second;
    transfers_.pop_front();
  }

 private:
  [[nodiscard]] Bytes oldest_bytes() const { return transfers_.front().second; }

  /// Both directions of a link are taken to be as fast.
  [[nodiscard]] bool outlasts_write_back(double link, std::chrono::nanoseconds on_link) const {
    const double passed = link * std::chrono::duration<double>(on_link).count();
    const double left = static_cast<double>(bytes_.count()) -
                        std::min(passed, static_cast<double>(oldest_bytes().count()));
    const Bytes written = *std::ranges::max_element(written_);
    return left >= tuning::kLinkTimesWriteBack * static_cast<double>(written.count());
  }

  std::deque<std::pair<EventRef, Bytes>> transfers_;
  Bytes bytes_;
  /// When the last of them was seen to end, or began though nothing was under way.
  TimePoint moved_;
  std::array<Bytes, kLastEvictions> written_{};
  std::size_t evictions_ = 0;
};

}  // namespace superpipe
