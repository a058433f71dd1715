#include "policy/read_ahead.h"

#include <algorithm>
#include <utility>

namespace superpipe {
namespace {

// A sequence is expected to go on for so many times its interval, and some launches.
constexpr double kIntervals = 16.0;
constexpr double kLaunches = 64.0;
constexpr double kIntervalStep = 1.0 / 8;

}  // namespace

void ReadAhead::on_allocate(BufferId id) {
  const auto at = static_cast<std::uint32_t>(index_of(id));
  if (at >= buffers_.size()) buffers_.resize(at + 1);
  buffers_[at] = {.number = ++allocated_, .before = last_, .waits = true};
  if (last_ != kNone) buffers_[last_].behind = at;
  last_ = at;
  for (Sequence& sequence : sequences_) {
    // It had come to the end of what there was.
    if (sequence.hits > 0 && sequence.next == kNone) sequence.next = at;
    if (sequence.hits > 0 && sequence.seen == kNone) sequence.seen = at;
  }
}

void ReadAhead::on_free(BufferId id) {
  const auto at = static_cast<std::uint32_t>(index_of(id));
  if (at < buffers_.size() && buffers_[at].waits) remove(at);
}

void ReadAhead::on_launch(std::span<const BufferId> buffers) {
  ++launches_;
  for (const BufferId id : buffers) {
    const auto at = static_cast<std::uint32_t>(index_of(id));
    if (buffers_[at].waits) name(at);
  }
  allocated_before_ = allocated_;
}

/// A launch names a buffer for the first time.
void ReadAhead::name(std::uint32_t id) {
  // What was made for this launch follows nothing, and nothing follows it.
  const bool is_young = launches_ > 1 && buffers_[id].number > allocated_before_;
  const auto near = std::ranges::find_if(
      sequences_, [&](const Sequence& sequence) { return is_near(sequence, id); });
  if (!is_young && near != sequences_.end()) {
    hit(*near, id);
  } else if (!is_young && buffers_[id].behind != kNone) {
    // One that has come about by chance gives way to another before one that was confirmed.
    Sequence& weakest = *std::ranges::min_element(sequences_, {}, [&](const Sequence& sequence) {
      return std::pair(is_trusted(sequence), sequence.last_hit);
    });
    const std::uint32_t behind = buffers_[id].behind;
    weakest = {.next = behind, .seen = behind, .hits = 1, .last_hit = launches_};
  }
  remove(id);
}

/// Whether the buffer is one of the next of the sequence, or was passed over by it just before.
bool ReadAhead::is_near(const Sequence& sequence, std::uint32_t id) const {
  if (sequence.hits == 0) return false;
  std::uint32_t at = sequence.next;
  for (std::size_t i = 0; i < kWindow && at != kNone; ++i, at = buffers_[at].behind) {
    if (at == id) return true;
  }
  at = sequence.next == kNone ? last_ : buffers_[sequence.next].before;
  for (std::size_t i = 0; i + 1 < kWindow && at != kNone; ++i, at = buffers_[at].before) {
    if (at == id) return true;
  }
  return false;
}

void ReadAhead::hit(Sequence& sequence, std::uint32_t id) {
  const auto passed = static_cast<double>(launches_ - sequence.last_hit);
  sequence.interval += kIntervalStep * (passed - sequence.interval);
  sequence.last_hit = launches_;
  sequence.hits = std::min(sequence.hits + 1, kTrusted);
  if (sequence.next == kNone || buffers_[id].number < buffers_[sequence.next].number) return;
  sequence.next = buffers_[id].behind;
  const bool is_seen = sequence.seen == kNone || sequence.next == kNone ||
                       buffers_[sequence.seen].number >= buffers_[sequence.next].number;
  if (!is_seen || sequence.next == kNone) sequence.seen = sequence.next;
}

/// The buffer is not waiting any more.
void ReadAhead::remove(std::uint32_t id) {
  Buffer& buffer = buffers_[id];
  for (Sequence& sequence : sequences_) {
    if (sequence.next == id) sequence.next = buffer.behind;
    if (sequence.seen == id) sequence.seen = buffer.behind;
  }
  if (buffer.before != kNone) buffers_[buffer.before].behind = buffer.behind;
  if (buffer.behind != kNone) buffers_[buffer.behind].before = buffer.before;
  if (last_ == id) last_ = buffer.before;
  buffer = {};
}

bool ReadAhead::is_trusted(const Sequence& sequence) const {
  const auto passed = static_cast<double>(launches_ - sequence.last_hit);
  return sequence.hits >= kTrusted && passed <= kIntervals * sequence.interval + kLaunches;
}

/// The sequence that comes to the buffer of that number first; null: none that is trusted does.
const ReadAhead::Sequence* ReadAhead::sequence_of(std::uint64_t number) const {
  const Sequence* nearest = nullptr;
  for (const Sequence& sequence : sequences_) {
    if (sequence.next == kNone || buffers_[sequence.next].number > number) continue;
    if (!is_trusted(sequence)) continue;
    if (nearest == nullptr || buffers_[sequence.next].number > buffers_[nearest->next].number) {
      nearest = &sequence;
    }
  }
  return nearest;
}

std::uint64_t ReadAhead::due_in(const Sequence& sequence, std::uint64_t number) const {
  const auto ahead = static_cast<double>(number - buffers_[sequence.next].number);
  return 1 + static_cast<std::uint64_t>(ahead * sequence.interval);
}

std::uint64_t ReadAhead::due_in(BufferId id) const {
  const std::size_t at = index_of(id);
  if (at >= buffers_.size() || !buffers_[at].waits) return kNever;
  const Sequence* const sequence = sequence_of(buffers_[at].number);
  return sequence == nullptr ? kNever : due_in(*sequence, buffers_[at].number);
}

void ReadAhead::look_again_for(BufferId id) {
  const std::size_t at = index_of(id);
  if (at >= buffers_.size() || !buffers_[at].waits) return;
  for (Sequence& sequence : sequences_) {
    if (sequence.next == kNone || buffers_[sequence.next].number > buffers_[at].number) continue;
    if (sequence.seen == kNone || buffers_[sequence.seen].number > buffers_[at].number) {
      sequence.seen = static_cast<std::uint32_t>(at);
    }
  }
}

}  // namespace superpipe
