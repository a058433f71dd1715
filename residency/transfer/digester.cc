#include "residency/transfer/digester.h"

#include <algorithm>
#include <exception>
#include <span>
#include <utility>

namespace superpipe {

Digester::~Digester() {
  // Work that did not end may still write to it: better leaked than torn.
  if (pinned_) (void)results_.release();
}

bool Digester::prepare() noexcept {
  try {
    ready_ = get_ready();
  } catch (const std::exception&) {
    ready_ = false;  // no host memory, or no random numbers
  }
  return ready_;
}

bool Digester::get_ready() {
  results_ = std::make_unique<Results>();
  free_.reserve(kSlots);
  for (std::size_t slot = kSlots; slot-- > 0;) free_.push_back(static_cast<Slot>(slot));
  key_ = draw_digest_key();
  if (device_.prepare_digests(key_) != Status::kOk) return false;
  if (device_.pin(results_.get(), Bytes{sizeof(Results)}) != Status::kOk) return false;
  pinned_ = true;
  const auto stream = device_.create_stream();
  if (stream.ok()) stream_ = *stream;
  return stream.ok();
}

ContentDigest Digester::of_zeros(Bytes size) const { return digest_of_zeros(key_, size.count()); }

Digester::Enqueued Digester::enqueue(Address window, Bytes size) {
  if (free_.empty()) return {Status::kNotYet, nullptr, false, 0};
  auto done = events_.prepare();
  if (!done.ok()) return {done.status(), nullptr, false, 0};
  const Slot slot = free_.back();
  free_.pop_back();
  // What no digest is: so that a result which was never written does not pass for one.
  results_->parts[slot].fill({~std::uint64_t{0}, ~std::uint64_t{0}});
  const auto parts = device_.digest(window, size, &results_->parts[slot], stream_);
  // What the device refused may still have been enqueued, so its end is marked too.
  const Status recorded = events_.record(*done, stream_);
  if (recorded != Status::kOk) {
    // Its result may still come: the slot serves no other digest any more.
    ready_ = false;
    return {recorded, nullptr, true, slot};
  }
  if (parts.ok()) {
    counts_[slot] = *parts;
  } else {
    ready_ = false;
  }
  return {parts.status(), std::move(*done), false, slot};
}

std::optional<ContentDigest> Digester::result(Slot slot) const {
  const auto parts = std::span(results_->parts[slot]).first(counts_[slot]);
  const auto is_part = [](const ContentDigest& part) {
    return part.first < kDigestPrime && part.second < kDigestPrime;
  };
  if (!std::ranges::all_of(parts, is_part)) return std::nullopt;
  return sum_of(parts);
}

Status Digester::stop(std::chrono::milliseconds limit) {
  if (stream_ != StreamHandle{}) {
    auto end = events_.record(stream_, 0);
    Status status = end.ok() ? events_.wait(*end, limit) : end.status();
    if (status == Status::kOk) status = device_.destroy_stream(stream_);
    if (status != Status::kOk) return status;
    stream_ = StreamHandle{};
  }
  if (pinned_) {
    pinned_ = false;
    (void)device_.unpin(results_.get());
  }
  ready_ = false;
  return Status::kOk;
}

}  // namespace superpipe
