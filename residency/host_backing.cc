#include "residency/host_backing.h"

#include <algorithm>
#include <utility>

namespace superpipe {

bool HostBacking::begin(Bytes most_staying) {
  if (has_begun_) return staying_ <= most_staying;
  for (std::uint32_t i = 0; i < buffers_.end(); ++i) {
    Buffer& buffer = buffers_[BufferId{i}];
    if (!buffer.live || back(buffer)) continue;
    buffer.stays = true;
    staying_ += buffer.footprint;
  }
  has_begun_ = staying_ <= most_staying;
  if (!has_begun_) take_all_back();
  return has_begun_;
}

void HostBacking::take_all_back() noexcept {
  for (std::uint32_t i = 0; i < buffers_.end(); ++i) {
    Buffer& buffer = buffers_[BufferId{i}];
    buffer.stays = false;
    // What has a slab, or is getting it, stays backed.
    if (!buffer.live || buffer.host.slab || buffer.host.is_mapping) continue;
    host_.unreserve(std::exchange(buffer.host.backing, Bytes{}));
  }
  staying_ = Bytes{};
}

std::optional<HostBacking::Share> HostBacking::reserve(Bytes size, Bytes footprint, Bytes limit) {
  Share share{HostStore::backing_of(size), false};
  if (!host_.reserve(share.backing)) share = {Bytes{}, true};
  const Bytes own = share.stays ? footprint : Bytes{};
  const Bytes most = most_staying(limit);
  if (own <= most && begin(most - own)) {
    staying_ += own;
    return share;
  }
  host_.unreserve(share.backing);
  return std::nullopt;
}

void HostBacking::give_back(const Share& share, Bytes footprint) noexcept {
  host_.unreserve(share.backing);
  if (share.stays) staying_ -= footprint;
}

void HostBacking::begin_life(Buffer& buffer, const Share& share) {
  buffer.host.backing = share.backing;
  buffer.stays = share.stays;
}

void HostBacking::end_life(Buffer& buffer) noexcept {
  const Bytes backing = std::exchange(buffer.host.backing, Bytes{});
  give_back({backing, std::exchange(buffer.stays, false)}, buffer.footprint);
  if (backing > Bytes{} && staying_ > Bytes{}) back_some();
}

// A free must not take longer the more buffers there are: the next ones are looked at by the next.
void HostBacking::back_some() noexcept {
  for (std::uint32_t n = std::min(kMostLookedAt, buffers_.end()); n > 0; --n) {
    if (next_ >= buffers_.end()) next_ = 0;
    Buffer& buffer = buffers_[BufferId{next_++}];
    if (buffer.live && buffer.stays) (void)back(buffer);
  }
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
  const Bytes may_stay = saturating_subtract(most, staying_);
  if (has_begun_) {
    return std::max(saturating_subtract(host_.limit(), host_.reserved()), may_stay);
  }
  // Of the live ones, so many can stay; the others leave the rest of the host store.
  const Bytes on_host = std::min(host_.limit(), saturating_subtract(host_.limit() + most, live));
  return std::max(saturating_subtract(limit, live), on_host);
}

}  // namespace superpipe
