#include "policy/auto_policy.h"

#include <algorithm>
#include <utility>

namespace superpipe {
namespace {

// Launches that may be looked at for one target, so that no call takes long.
constexpr std::size_t kMostLookedAt = 256;
// What is brought for a launch that was less often as expected than not is mostly in vain, and so
// it is where launches of its kind often are not.
constexpr int kLeastTrust = 0;
// Buffers whose next use is looked up anew at each launch, in turn: after a jump all are out of
// date.
constexpr std::size_t kRefreshedPerLaunch = 4;
// Buffers that are counted anew in one call after a jump.
constexpr std::size_t kCountedPerCall = 256;
// So many entries of candidates_ there may be for each buffer, most of them out of date.
constexpr std::size_t kMostCandidates = 4;
// One in so many buffers that come without a next use is kept as if it had been used.
constexpr std::uint64_t kKeptOneIn = 32;
// The weight of a launch that lacks something in the share of those that were foreseen.
constexpr double kForesightStep = 1.0 / 16;
// A program that loads fills a buffer before it has allocated so many more.
constexpr std::uint64_t kFilledWithin = 8;
// Orders above it are of buffers that were not used since they came, those below of buffers that
// were.
constexpr std::uint64_t kNoOrder = std::uint64_t{1} << 63;

}  // namespace

void AutoPolicy::on_allocate(BufferId id, Bytes bytes, std::uint32_t pieces) {
  if (index_of(id) >= buffers_.size()) buffers_.resize(index_of(id) + 1);
  Buffer& buffer = buffers_[index_of(id)];
  missing_.remove(buffer.counted_at, buffer.counted);
  buffer = {.bytes = bytes, .pieces = pieces};
  if (foresight_ != Foresight::kReplay) return;
  replay_.on_allocate(id, bytes);
  read_ahead_.on_allocate(id);
  // What was recorded may tell when it is used.
  const std::uint64_t next_use = replay_.next_use(id);
  look_again_for(id, next_use);
  count_missing(id, next_use);
}

void AutoPolicy::on_filled(BufferId id) {
  if (index_of(id) >= buffers_.size()) return;
  Buffer& buffer = buffers_[index_of(id)];
  if (std::exchange(buffer.has_content, true) || buffer.brought == buffer.pieces) return;
  look_again_for(id, next_use(id));
}

void AutoPolicy::on_free(BufferId id) {
  if (index_of(id) >= buffers_.size()) return;
  Buffer& buffer = buffers_[index_of(id)];
  missing_.remove(buffer.counted_at, buffer.counted);
  buffer = {};
  if (foresight_ != Foresight::kReplay) return;
  replay_.on_free(id);
  read_ahead_.on_free(id);
}

void AutoPolicy::on_launch(KernelId kernel, std::span<const BufferId> buffers,
                           std::uint8_t stream) {
  ++launches_;
  if (foresight_ == Foresight::kReplay) {
    replay_.on_launch(kernel, buffers, stream);
    read_ahead_.on_launch(buffers);
  }
  if (replay_.jumps() != jumps_seen_) {
    jumps_seen_ = replay_.jumps();
    looked_to_ = present();
    counted_ = 0;
    for (; !empties_.empty(); empties_.pop()) buffers_[index_of(empties_.top().id)].listed = 0;
  }
  looked_to_ = std::max(looked_to_, present());
  missing_.advance(present());
  note_foresight(buffers);
  for (const BufferId id : buffers) {
    Buffer& buffer = buffers_[index_of(id)];
    // Without a next use the order of the last uses counts, for those that were used twice.
    if (buffer.was_used) buffer.order = kNoOrder - present();
    buffer.was_used = true;
    buffer.has_content = true;  // the launch may write to it
    const std::uint64_t next = next_use(id);
    if (buffer.brought > 0) offer(id, next);
    if (buffer.brought < buffer.pieces) count_missing(id, next);
  }
  refresh_in_turn();
  if (candidates_.size() > kMostCandidates * buffers_.size() + 64) drop_old_candidates();
}

/// What is missing of these buffers was or was not counted for the present launch.
void AutoPolicy::note_foresight(std::span<const BufferId> buffers) {
  const auto is_missing = [this](BufferId id) {
    return buffers_[index_of(id)].brought < buffers_[index_of(id)].pieces;
  };
  const auto is_foreseen = [&](BufferId id) {
    const Buffer& buffer = buffers_[index_of(id)];
    return !is_missing(id) || (buffer.counted > Bytes{} && buffer.counted_at == present());
  };
  foresaw_present_ = std::ranges::all_of(buffers, is_foreseen);
  if (std::ranges::none_of(buffers, is_missing)) return;
  foreseen_ += kForesightStep * ((foresaw_present_ ? 1.0 : 0.0) - foreseen_);
}

/// A buffer that was not named may be used later than it was when it became a candidate: it would
/// not come to the top by itself. What is missing may be used by another launch than before.
void AutoPolicy::refresh_in_turn() {
  for (std::size_t i = 0; i < std::min(kRefreshedPerLaunch, buffers_.size()); ++i) {
    refreshed_ = refreshed_ + 1 < buffers_.size() ? refreshed_ + 1 : 0;
    const BufferId id{static_cast<std::uint32_t>(refreshed_)};
    const Buffer& buffer = buffers_[refreshed_];
    if (buffer.pieces == 0) continue;  // there is no such buffer
    const std::uint64_t next = next_use(id);
    if (buffer.brought < buffer.pieces) count_missing(id, next);
    if (buffer.brought > 0 && next != buffer.next_use) offer(id, next);
  }
}

void AutoPolicy::on_brought(BufferId id) {
  Buffer& buffer = buffers_[index_of(id)];
  if (buffer.brought++ == 0) {
    ++arrivals_;
    buffer.was_used = foresight_ == Foresight::kNone || arrivals_ % kKeptOneIn == 0;
    buffer.order = buffer.was_used ? kNoOrder - present() : kNoOrder + arrivals_;
  }
  if (buffer.stamp == 0) offer(id, next_use(id));
  count_missing(id, buffer.counted_at);
}

void AutoPolicy::on_left(BufferId id) {
  Buffer& buffer = buffers_[index_of(id)];
  --buffer.brought;
  if (buffer.brought == 0) buffer.stamp = 0;
  look_again_for(id, buffer.next_use);
  count_missing(id, next_use(id));
  if (foresight_ == Foresight::kReplay) read_ahead_.look_again_for(id);
}

/// A buffer is missing: a launch that was looked at already may need it.
void AutoPolicy::look_again_for(BufferId id, std::uint64_t next_use) {
  if (replay_.are_apart()) return replay_.streams().look_again_for(id);
  looked_to_ = std::min(looked_to_, std::max(present(), next_use - 1));
}

/// What is missing of the buffer is counted for the launch that is expected to use it.
void AutoPolicy::count_missing(BufferId id, std::uint64_t next_use) {
  Buffer& buffer = buffers_[index_of(id)];
  missing_.remove(buffer.counted_at, buffer.counted);
  buffer.counted = {};
  if (next_use == LaunchReplay::kNever || buffer.brought >= buffer.pieces) return;
  buffer.counted_at = next_use;
  buffer.counted = Bytes{buffer.bytes.count() / buffer.pieces * (buffer.pieces - buffer.brought)};
  missing_.add(next_use, buffer.counted);
}

/// After a jump all buffers are expected to be used by other launches. Counts some of them.
void AutoPolicy::count_missing_anew() {
  if (counted_ == 0) {
    missing_.clear();
    for (Buffer& buffer : buffers_) buffer.counted = {};
  }
  for (std::size_t i = 0; i < kCountedPerCall && counted_ < buffers_.size(); ++i, ++counted_) {
    const BufferId id{static_cast<std::uint32_t>(counted_)};
    if (buffers_[counted_].brought < buffers_[counted_].pieces) count_missing(id, next_use(id));
  }
}

const MissingBytes* AutoPolicy::missing() {
  if (counted_ < buffers_.size()) count_missing_anew();
  return counted_ < buffers_.size() ? nullptr : &missing_;
}

AutoPolicy::Target AutoPolicy::target(BufferId id, std::uint64_t next_use) {
  count_missing(id, next_use);
  return {.id = id, .next_use = next_use, .keeps_to = next_use};
}

std::optional<AutoPolicy::Target> AutoPolicy::next_target() {
  if (const auto with_content = next_with_content()) return with_content;
  if (expects_more()) return std::nullopt;
  if (const auto empty = next_empty_target()) return empty;
  return next_due();
}

std::optional<AutoPolicy::Target> AutoPolicy::next_with_content() {
  if (replay_.are_apart()) return next_with_content_of_streams();
  const std::uint64_t last = last_expected();
  const std::uint64_t ahead_of_first = launches_ == 0 ? 1 : 0;
  for (std::size_t looked = 0; looked_to_ < last && looked < kMostLookedAt; ++looked) {
    replay_.expect(static_cast<std::size_t>(looked_to_ + 1 + ahead_of_first - present()),
                   expected_);
    const std::uint64_t number = looked_to_ + 1;
    if (const auto missing = missing_of_expected(number)) return target(*missing, number);
    ++looked_to_;
  }
  return std::nullopt;
}

std::optional<AutoPolicy::Target> AutoPolicy::next_with_content_of_streams() {
  MergedReplays& streams = replay_.streams();
  for (std::size_t looked = 0; streams.is_looking() && looked < kMostLookedAt; ++looked) {
    const std::uint64_t number = streams.look(expected_);
    if (const auto missing = missing_of_expected(number)) return target(*missing, number);
    streams.look_on();
  }
  return std::nullopt;
}

std::optional<AutoPolicy::Target> AutoPolicy::next_empty_target() {
  while (!empties_.empty()) {
    const Empty first = empties_.top();
    Buffer& buffer = buffers_[index_of(first.id)];
    const bool is_listed = buffer.listed == first.stamp;
    const bool is_missing = is_listed && !buffer.has_content && buffer.brought < buffer.pieces;
    if (is_missing && first.next_use > present()) {
      Target empty = target(first.id, first.next_use);
      empty.keeps_to = std::max(empty.next_use, last_expected());
      return empty;
    }
    empties_.pop();
    if (is_listed) buffer.listed = 0;
    // A launch that was expected to name it did not, and another one is.
    if (!is_missing) continue;
    const std::uint64_t next = replay_.next_use(first.id);
    if (next != LaunchReplay::kNever && next > present()) list_empty(first.id, next);
  }
  return std::nullopt;
}

/// What a program allocates while it loads is about to be filled, and better at once on the device.
/// What is still empty some allocations later is a cache, or room for results.
bool AutoPolicy::is_about_to_be_filled(BufferId id) const {
  return launches_ == 0 && read_ahead_.allocated_after(id) < kFilledWithin;
}

/// next_target() has found the buffer missing, and looks for one with content.
void AutoPolicy::list_empty(BufferId id, std::uint64_t next_use) {
  Buffer& buffer = buffers_[index_of(id)];
  if (buffer.listed != 0) return;
  empties_.push({next_use, stamps_ + 1, id});
  buffer.listed = ++stamps_;
}

/// What comes next where no earlier launch tells: what the program has loaded next.
std::optional<AutoPolicy::Target> AutoPolicy::next_due() {
  if (launches_ == 0) return std::nullopt;
  const auto due = read_ahead_.next([this](BufferId id) {
    return buffers_[index_of(id)].brought == buffers_[index_of(id)].pieces;
  });
  if (!due) return std::nullopt;
  const std::uint64_t next_use = present() + due->in;
  return Target{.id = due->id, .next_use = next_use, .keeps_to = next_use, .is_supposed = true};
}

std::uint64_t AutoPolicy::next_use(BufferId id) const {
  const std::uint64_t replayed = replay_.next_use(id);
  if (replayed != LaunchReplay::kNever || launches_ == 0) return replayed;
  const std::uint64_t due = read_ahead_.due_in(id);
  return due == ReadAhead::kNever ? LaunchReplay::kNever : present() + due;
}

/// The first buffer with content of the launch just looked at, which is expected to be `number`, of
/// which a piece is missing, if it is worthwhile to bring any for that launch. Lists the empty ones
/// before it.
std::optional<BufferId> AutoPolicy::missing_of_expected(std::uint64_t number) {
  if (expected_.trust < kLeastTrust) return std::nullopt;
  if (expected_.likelihood < LaunchReplay::kLeastLikelihood) return std::nullopt;
  for (const BufferId id : expected_.buffers) {
    const Buffer& buffer = buffers_[index_of(id)];
    if (buffer.brought == buffer.pieces) continue;
    if (buffer.has_content || is_about_to_be_filled(id)) return id;
    list_empty(id, number);
  }
  return std::nullopt;
}

/// Makes the buffer, of which there is something to go, a candidate with its present next use.
void AutoPolicy::offer(BufferId id, std::uint64_t next_use) {
  Buffer& buffer = buffers_[index_of(id)];
  buffer.next_use = next_use;
  buffer.stamp = ++stamps_;
  candidates_.push({buffer.next_use, buffer.order, buffer.stamp, id});
}

/// Candidates that are out of date do not come to the top by themselves if they are not to go soon.
void AutoPolicy::drop_old_candidates() {
  std::vector<Candidate> latest;
  for (std::size_t at = 0; at < buffers_.size(); ++at) {
    const Buffer& buffer = buffers_[at];
    if (buffer.stamp == 0) continue;
    latest.push_back(
        {buffer.next_use, buffer.order, buffer.stamp, BufferId{static_cast<std::uint32_t>(at)}});
  }
  candidates_ = std::priority_queue<Candidate>({}, std::move(latest));
}

/// Brings a candidate up to date. @return false if it is none any more.
bool AutoPolicy::refresh(Candidate& candidate) {
  Buffer& buffer = buffers_[index_of(candidate.id)];
  if (buffer.stamp != candidate.stamp || buffer.brought == 0) return false;
  buffer.next_use = candidate.next_use = next_use(candidate.id);
  candidate.order = buffer.order;
  return true;
}

}  // namespace superpipe
