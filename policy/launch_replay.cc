#include "policy/launch_replay.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace superpipe {
namespace {

// Launches in a row that may fit nowhere before the place is given up.
constexpr int kMostPassedOver = 16;
// How many launches are looked at to find one that is likely to name a buffer again.
constexpr std::size_t kMostUsesTried = 4;
constexpr int kMostTrust = 3;
constexpr double kConfidenceStep = 1.0 / 16;
constexpr double kSurenessStep = 1.0 / 4;

}  // namespace

LaunchReplay::LaunchReplay(std::size_t capacity) : log_(capacity) {}

void LaunchReplay::on_allocate(BufferId id, Bytes bytes) {
  if (log_.is_full_of_buffers()) forget_older_half();
  log_.on_allocate(id, bytes);
}

void LaunchReplay::on_free(BufferId id) { log_.on_free(id); }

void LaunchReplay::on_launch(KernelId kernel, std::span<const BufferId> buffers) {
  if (log_.is_full()) forget_older_half();
  named_.clear();
  for (const BufferId id : buffers) named_.push_back(log_.name_of(id));
  log_.append(kernel, named_);
  const std::size_t present = log_.size() - 1;

  const std::optional<std::size_t> expected = place_ ? after(*place_) : std::nullopt;
  const bool was_sure = is_sure();
  const bool as_expected = expected && log_.is_as_expected(*expected, present);
  // What fits only because the place was moved just before was not foreseen in time for anything.
  if (abandoned_) ++*abandoned_;
  const bool foreseen = as_expected && (since_moved_ >= kForesight ||
                                        (abandoned_ && log_.is_as_expected(*abandoned_, present)));
  if (expected) log_.learn(*expected, foreseen);
  if (is_sure() && expected) {
    const int trust = log_[*expected].trust + (foreseen ? 1 : -1);
    log_.set_trust(present, std::clamp(trust, -kMostTrust, kMostTrust));
  }
  place_ = as_expected ? expected : find_place();
  if (place_) {
    passed_over_ = 0;
    log_.link(*place_, present);
  } else if (expected && ++passed_over_ <= kMostPassedOver) {
    place_ = expected;  // a launch took the place of another, or so it is assumed
  }
  if (const std::optional<bool> agreed = place_ ? log_.agrees(*place_, present) : false) {
    sureness_ += kSurenessStep * ((*agreed ? 1.0 : 0.0) - sureness_);
    // Elsewhere the same buffer was found: that is more than a launch that fits by the way.
    if (*agreed && place_ != expected) sureness_ = std::max(sureness_, 0.5);
  }
  since_moved_ = place_ == expected ? since_moved_ + 1 : 0;
  if (since_moved_ == 0) abandoned_ = expected;
  if (since_moved_ >= kForesight || !place_) abandoned_.reset();
  if (place_ != expected || is_sure() != was_sure) ++jumps_;
  confidence_ += kConfidenceStep * ((as_expected ? 1.0 : 0.0) - confidence_);
  foresaw_present_ = foreseen && was_sure;

  follow_repetitions();
  follow_passes();
  add_bytes_of_pass();
  log_.note_use();
  if (following_.goes_on()) follow_recorded(as_expected);
}

void LaunchReplay::begin_with(const RecordedRun& recorded) {
  log_.await(recorded.footprints);
  log_.append(KernelId{}, {});  // where the program has not begun
  for (const RecordedRun::Launch& launch : recorded.launches) {
    log_.append(launch.kernel, recorded.names_of(launch));
    log_.note_use();
  }
  recorded_ = log_.size();
  recorded_pass_ = 1 + recorded.pass_begin;
  following_.recorded = recorded.launches.size();
  place_ = 0;
  sureness_ = 1.0;
  since_moved_ = kForesight;
}

/// Counts how far the run follows the recorded one, and notices when it does something else.
void LaunchReplay::follow_recorded(bool as_expected) {
  if (place_ && is_recorded(*place_)) {
    if (as_expected) ++following_.followed;
    if (log_.forgotten() + *place_ == recorded_pass_) own_pass_ = log_.size() - 1;
    // A launch of another program may fit the last one by chance. Whether it does is seen later.
    const bool is_at_end = log_.forgotten() + *place_ + 1 == recorded_;
    const bool was_followed = 2 * following_.followed >= following_.recorded;
    const bool was_long = present() + 1 >= following_.recorded;
    following_.is_over = is_at_end && passed_over_ == 0 && was_followed;
    following_.is_left = is_at_end && !following_.is_over && (passed_over_ > 0 || was_long);
  } else {
    following_.is_left = true;
  }
  if (following_.is_left) following_.left_at = present();
  if (!following_.goes_on()) log_.await_nothing();
}

/// The launch that followed an earlier one. Behind the recorded pass comes this run's own first
/// pass, and not what it did to load. nullopt: nothing is known to have followed.
std::optional<std::size_t> LaunchReplay::after(std::size_t launch) const {
  std::size_t next = launch + 1;
  if (next + log_.forgotten() == recorded_) {
    if (!own_pass_) return std::nullopt;
    next = *own_pass_;
  }
  return next + 1 < log_.size() ? std::optional(next) : std::nullopt;
}

/// How many launches after the place an earlier one stands. nullopt: it does not follow the place.
std::optional<std::size_t> LaunchReplay::distance_to(std::size_t launch) const {
  if (launch <= *place_) return std::nullopt;
  if (!is_recorded(*place_) || is_recorded(launch)) return launch - *place_;
  if (!own_pass_ || launch < *own_pass_) return std::nullopt;
  return static_cast<std::size_t>(recorded_ - log_.forgotten()) - *place_ + (launch - *own_pass_);
}

/// The launch before the present one that is most like it; nullopt if none is.
std::optional<std::size_t> LaunchReplay::find_place() const {
  std::array<std::size_t, 2> tried{};
  std::size_t count = 0;
  if (place_) tried[count++] = *place_ + 1;
  if (place_ && passed_over_ > 0) tried[count++] = *place_;  // the last launch was one too many
  return log_.most_like(log_.size() - 1, std::span(tried).first(count));
}

/// A pass ends when the place comes to the launch that opened it, or soon after it left that behind
/// in a jump: launches among which it jumps about repeat nothing. Nor does a launch that is the
/// same as the one before it open a pass, or a kernel that is launched a thousand times would open
/// as many, each of which costs an event.
void LaunchReplay::follow_passes() {
  const bool repeats_a_launch = place_ && *place_ + 2 == log_.size();
  at_pass_start_ = is_sure() && since_moved_ >= kForesight && !repeats_a_launch &&
                   log_.forgotten() + *place_ >= pass_began_.value_or(recorded_pass_);
  if (!at_pass_start_) return;
  if (pass_began_) {
    ++passes_;
    pass_bytes_ = bytes_of_pass_;
  }
  bytes_of_pass_ = Bytes{};
  pass_began_ = log_.forgotten() + log_.size() - 1;
}

/// Counts what the present launch is the first of its pass to name. Before its use is noted.
void LaunchReplay::add_bytes_of_pass() {
  if (!pass_began_) return;
  for (const Name name : log_.names_of(log_.size() - 1)) {
    const LaunchLog::Buffer& buffer = log_.buffer(name);
    const bool is_first_of_pass =
        !buffer.uses.empty() && log_.forgotten() + buffer.uses.back() < *pass_began_;
    if (is_first_of_pass) bytes_of_pass_ += Bytes{buffer.bytes};
  }
}

/// Where launches [begin, end), by their numbers, begin in the log; nullopt if it lacks one of
/// them, or of as many before them.
std::optional<std::size_t> LaunchReplay::remembered(std::uint64_t begin, std::uint64_t end) const {
  begin += recorded_;
  end += recorded_;
  if (begin < log_.forgotten() || end <= begin || end - log_.forgotten() > log_.size())
    return std::nullopt;
  if (begin - log_.forgotten() < end - begin) return std::nullopt;
  return static_cast<std::size_t>(begin - log_.forgotten());
}

/// A program repeats itself from the launch that moves the place back before where it did so far,
/// and then from each launch that repeats that one. A place that is moved to an earlier repetition
/// of the same launch begins none.
void LaunchReplay::follow_repetitions() {
  if (!place_ || recorded_ > 0) return;
  const std::uint64_t place = log_.forgotten() + *place_;
  const std::uint64_t present = log_.forgotten() + log_.size() - 1;
  const bool repeats_a_launch = place + 1 == present;
  bool begins = repetitions_.empty() || place >= repetitions_.back();
  if (!begins && since_moved_ == 0) {
    const auto behind = std::ranges::upper_bound(repetitions_, place);
    begins = behind == repetitions_.begin();
    if (!begins) {
      const auto there = static_cast<std::int64_t>(place - *(behind - 1));
      const auto here = static_cast<std::int64_t>(present - repetitions_.back());
      begins = std::abs(here - there) > kMostPassedOver;
    }
  }
  if (begins && !repeats_a_launch) repetitions_.push_back(present);
}

LaunchReplay::Launches LaunchReplay::aligned(Launches pass) const {
  const auto end = std::ranges::upper_bound(repetitions_, pass.begin);
  if (end == repetitions_.begin() || end == repetitions_.end()) return pass;
  const Launches own{*(end - 1), *end};
  return own.end - own.begin == pass.end - pass.begin ? own : pass;
}

std::shared_ptr<const PassLaunches> LaunchReplay::pass(std::uint64_t begin,
                                                       std::uint64_t end) const {
  const auto first = remembered(begin, end);
  return first ? log_.pass(*first, static_cast<std::size_t>(end - begin)) : nullptr;
}

std::optional<LivePass> LaunchReplay::live_pass(std::uint64_t begin, std::uint64_t end) const {
  const auto first = remembered(begin, end);
  return first ? log_.live_pass(*first, static_cast<std::size_t>(end - begin)) : std::nullopt;
}

std::uint64_t LaunchReplay::next_use(BufferId id) const {
  if (!is_sure()) return kNever;
  std::size_t next = log_.size();
  const auto look = [&](Name name) {
    const std::span<const std::uint32_t> uses = log_.uses_behind(*place_, name);
    auto found = uses.begin();
    for (std::size_t i = 0; i < kMostUsesTried && found != uses.end(); ++i, ++found) {
      if (is_recorded(*place_) && !is_recorded(*found) && own_pass_ && *found < *own_pass_) {
        found = std::lower_bound(found, uses.end(), *own_pass_);
        if (found == uses.end()) break;
      }
      if (!log_.is_likely(*found)) continue;
      if (const auto distance = distance_to(*found)) next = std::min(next, *distance);
      break;
    }
  };
  const Name name = log_.name_of(id);
  look(name);
  const Name predecessor = log_.buffer(name).predecessor;
  if (predecessor != LaunchLog::kNoName) look(predecessor);
  return next == log_.size() ? kNever : present() + next;
}

std::size_t LaunchReplay::horizon() const {
  if (!is_sure()) return 0;
  if (!is_recorded(*place_)) return log_.size() - 1 - *place_;
  const auto recorded = static_cast<std::size_t>(recorded_ - log_.forgotten()) - 1 - *place_;
  return recorded + (own_pass_ ? log_.size() - *own_pass_ : 0);
}

void LaunchReplay::expect(std::size_t ahead, Expected& expected) const {
  std::size_t at = *place_ + ahead;
  if (is_recorded(*place_) && !is_recorded(at)) at += *own_pass_ - (recorded_ - log_.forgotten());
  expected.buffers.clear();
  expected.trust = log_[at].trust;
  expected.likelihood = log_.likelihood(at);
  for (const Name past : log_.names_of(at)) {
    const Name name = log_.today(past);
    if (name == LaunchLog::kNoName) continue;
    const BufferId id = log_.buffer(name).id;
    if (std::find(expected.buffers.begin(), expected.buffers.end(), id) == expected.buffers.end()) {
      expected.buffers.push_back(id);
    }
  }
}

void LaunchReplay::forget_older_half() {
  const std::size_t dropped = log_.forget_older_half();
  const auto shift = [dropped](std::optional<std::size_t>& launch) {
    if (launch) launch = *launch >= dropped ? std::optional(*launch - dropped) : std::nullopt;
  };
  abandoned_.reset();
  std::erase_if(repetitions_, [&](std::uint64_t begin) { return begin < log_.forgotten(); });
  shift(own_pass_);
  shift(place_);
}

}  // namespace superpipe
