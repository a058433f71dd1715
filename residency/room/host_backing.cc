#include "residency/room/host_backing.h"

#include <algorithm>
#include <utility>

namespace superpipe {

bool HostBacking::shrink_to(Bytes limit) {
  if (!has_begun_) return begin(most_staying(limit));
  const Bytes most = most_staying(limit);
  // Host memory for what can leave then makes room on the device.
  for (const bool pinned : {false, true}) back_until(most, pinned);
  return staying_ <= most;
}

void HostBacking::back_until(Bytes most, bool pinned) {
  Bytes refused = kNeverRefused;
  for (std::uint32_t i = 0; i < buffers_.end() && staying_ > most; ++i) {
    Buffer& buffer = buffers_[BufferId{i}];
    if (buffer.live && buffer.stays && buffer.pinned_forever == pinned) {
      (void)back_below(refused, buffer);
    }
  }
}

// @return false if more than `most` bytes of pages would stay: then all is as it was.
bool HostBacking::begin(Bytes most) {
  Bytes refused = kNeverRefused;
  for (std::uint32_t i = 0; i < buffers_.end(); ++i) {
    Buffer& buffer = buffers_[BufferId{i}];
    if (!buffer.live) continue;
    const bool is_needless = buffer.pinned_forever && buffer.host.backing == Bytes{} &&
                             staying_ + buffer.footprint <= most;
    if (!is_needless && back_below(refused, buffer)) continue;
    was_short_ = was_short_ || !is_needless;
    keep(buffer);
  }
  // Others may need the room of those that need no host memory.
  back_until(most, /*pinned=*/true);
  has_begun_ = staying_ <= most;
  if (!has_begun_) take_all_back();
  return has_begun_;
}

// To be refused takes long where processes share host memory, so what is as large as what was
// `refused` before is not asked for.
bool HostBacking::back_below(Bytes& refused, Buffer& buffer) {
  const Bytes size{buffer.size.load()};
  if (buffer.host.backing == Bytes{} && size >= refused) return false;
  if (back(buffer)) return true;
  refused = size;
  return false;
}

void HostBacking::keep(Buffer& buffer) {
  buffer.stays = true;
  staying_ += buffer.footprint;
}

void HostBacking::take_all_back() noexcept {
  for (std::uint32_t i = 0; i < buffers_.end(); ++i) {
    Buffer& buffer = buffers_[BufferId{i}];
    buffer.stays = false;
    // What has a home on the host, or is getting one, stays backed.
    if (!buffer.live || buffer.host.has_or_gets_home()) continue;
    host_.unreserve(std::exchange(buffer.host.backing, Bytes{}));
  }
  staying_ = Bytes{};
  was_short_ = false;
}

std::optional<HostBacking::Share> HostBacking::reserve(Bytes size, Bytes footprint, Bytes limit) {
  Share share{HostStore::backing_of(size), false};
  if (!host_.reserve(share.backing)) share = {Bytes{}, true};
  const Bytes largest_before = std::exchange(largest_, std::max(largest_, footprint));
  const Bytes own = share.stays ? footprint : Bytes{};
  const Bytes most = most_staying(limit);
  const bool others_have_room = has_begun_ || (own <= most && begin(most - own));
  if (has_begun_ && own <= most) back_until(most - own, /*pinned=*/true);
  if (others_have_room && (!share.stays || staying_ + own <= most)) {
    staying_ += own;
    was_short_ = was_short_ || share.stays;
    return share;
  }
  host_.unreserve(share.backing);
  largest_ = largest_before;
  return std::nullopt;
}

void HostBacking::give_back(const Share& share, Bytes footprint) noexcept {
  host_.unreserve(share.backing);
  if (share.stays) staying_ -= footprint;
}

void HostBacking::begin_life(Buffer& buffer, const Share& share) {
  buffer.host.backing = share.backing;
  buffer.stays = share.stays;
  largest_ = std::max(largest_, buffer.footprint);
  // It may have begun since the share was reserved.
  const bool has_share = share.stays || share.backing > Bytes{};
  if (has_begun_ && !has_share && !back(buffer)) {
    was_short_ = true;
    keep(buffer);
  }
}

void HostBacking::keep_pinned(Buffer& buffer, Bytes limit) noexcept {
  if (!has_begun_ || buffer.stays || buffer.host.has_or_gets_home()) return;
  if (staying_ + buffer.footprint > most_staying(limit)) return;
  host_.unreserve(std::exchange(buffer.host.backing, Bytes{}));
  keep(buffer);
}

void HostBacking::end_life(Buffer& buffer) noexcept {
  const Bytes backing = std::exchange(buffer.host.backing, Bytes{});
  give_back({backing, std::exchange(buffer.stays, false)}, buffer.footprint);
}

bool HostBacking::back(Buffer& buffer) {
  if (buffer.host.backing > Bytes{}) return true;
  const Bytes backing = HostStore::backing_of(Bytes{buffer.size.load()});
  if (!host_.reserve(backing)) return false;
  buffer.host.backing = backing;
  if (std::exchange(buffer.stays, false)) staying_ -= buffer.footprint;
  return true;
}

Bytes HostBacking::obtainable(Bytes live, Bytes limit) const {
  const Bytes most = most_staying(limit);
  const Bytes host = host_.reachable();
  if (has_begun_) {
    return saturating_subtract(host, host_.reserved()) + saturating_subtract(most, staying_);
  }
  return saturating_subtract(std::max(limit, host + most), live);
}

}  // namespace superpipe
