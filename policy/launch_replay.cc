#include "policy/launch_replay.h"

#include <algorithm>

namespace superpipe {
namespace {

// Launches in a row that may fit nowhere before the place is given up.
constexpr int kMostPassedOver = 16;
// How many names of a launch, and how many earlier launches of each, are tried as places.
constexpr std::size_t kMostNamesTried = 4;
constexpr std::size_t kMostUsesTried = 4;
constexpr int kMostTrust = 3;
constexpr double kConfidenceStep = 1.0 / 16;
constexpr double kLikelihoodStep = 1.0 / 16;
// Launches for which the place has to have stayed before one that fits counts as foreseen.
constexpr std::uint64_t kForesight = 4;
constexpr double kSurenessStep = 1.0 / 4;

// Where the first of `uses`, which ascend, is that is greater than `place`: the end if none is.
// Sought from `start` on in steps that double, so that it costs little if it is near.
std::size_t first_behind(std::size_t place, std::span<const std::uint32_t> uses,
                         std::size_t start) {
  std::size_t low = 0;             // all before it are at or before the place
  std::size_t high = uses.size();  // it, and all behind it, are behind the place
  std::size_t at = std::min(start, high);
  if (at < high && uses[at] <= place) {
    for (std::size_t step = 1; at < high && uses[at] <= place; step *= 2) {
      low = at + 1;
      at += step;
    }
    high = std::min(at, high);
  } else {
    for (std::size_t step = 1; at > 0 && uses[at - 1] > place; step *= 2) {
      high = at - 1;
      at -= std::min(step, at);
    }
    low = at;
  }
  const auto found = std::upper_bound(uses.begin() + static_cast<std::ptrdiff_t>(low),
                                      uses.begin() + static_cast<std::ptrdiff_t>(high), place);
  return static_cast<std::size_t>(found - uses.begin());
}

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 29);
}

}  // namespace

LaunchReplay::LaunchReplay(std::size_t capacity)
    : capacity_(std::max<std::size_t>(capacity, 4)), most_buffers_(2 * capacity_) {}

void LaunchReplay::on_allocate(BufferId id, Bytes bytes) {
  if (buffers_.size() >= most_buffers_) {
    forget_older_half();
    most_buffers_ = std::max(2 * capacity_, 2 * buffers_.size());
  }
  if (index_of(id) >= name_of_id_.size()) name_of_id_.resize(index_of(id) + 1, kNoName);
  Name name = static_cast<Name>(buffers_.size());
  if (const auto awaited = awaited_.find(bytes.count()); awaited != awaited_.end()) {
    name = awaited->second.back();
    awaited->second.pop_back();
    if (awaited->second.empty()) awaited_.erase(awaited);
  } else {
    buffers_.emplace_back();
  }
  Buffer& buffer = buffers_[name];
  name_of_id_[index_of(id)] = name;
  buffer.id = id;
  buffer.exists = true;
  buffer.bytes = bytes.count();
}

void LaunchReplay::on_free(BufferId id) {
  if (!knows(id)) return;
  buffers_[name_of_id_[index_of(id)]].exists = false;
  name_of_id_[index_of(id)] = kNoName;
}

void LaunchReplay::on_launch(KernelId kernel, std::span<const BufferId> buffers) {
  if (log_.size() == capacity_) forget_older_half();
  named_.clear();
  for (const BufferId id : buffers) named_.push_back(name_of_id_[index_of(id)]);
  append(kernel, named_);
  const std::size_t present = log_.size() - 1;

  const std::optional<std::size_t> expected = place_ ? after(*place_) : std::nullopt;
  const bool was_sure = is_sure();
  const bool as_expected = expected && is_as_expected(*expected, present);
  // What fits only because the place was moved just before was not foreseen in time for anything.
  if (abandoned_) ++*abandoned_;
  const bool foreseen = as_expected && (since_moved_ >= kForesight ||
                                        (abandoned_ && is_as_expected(*abandoned_, present)));
  if (expected) {
    double& likelihood = likelihoods_[log_[*expected].kind];
    const bool was_likely = likelihood >= kLeastLikelihood;
    likelihood += kLikelihoodStep * ((foreseen ? 1.0 : 0.0) - likelihood);
    const bool is_likely = likelihood >= kLeastLikelihood;
    unlikely_kinds_ += static_cast<std::size_t>(was_likely) - static_cast<std::size_t>(is_likely);
  }
  if (is_sure() && expected) {
    const int trust = log_[*expected].trust + (foreseen ? 1 : -1);
    log_[present].trust = std::clamp(trust, -kMostTrust, kMostTrust);
  }
  place_ = as_expected ? expected : find_place(present);
  if (place_) {
    passed_over_ = 0;
    link(*place_, present);
  } else if (expected && ++passed_over_ <= kMostPassedOver) {
    place_ = expected;  // a launch took the place of another, or so it is assumed
  }
  if (const std::optional<bool> agreed = place_ ? agrees(*place_, present) : false) {
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

  follow_passes();
  for (const Name name : names_of(log_[present])) {
    const Buffer& buffer = buffers_[name];
    const bool is_first_of_pass =
        pass_began_ && !buffer.uses.empty() && forgotten_ + buffer.uses.back() < *pass_began_;
    if (is_first_of_pass) bytes_of_pass_ += Bytes{buffer.bytes};
  }
  note_use(present);
  if (following_.goes_on()) follow_recorded(as_expected);
}

void LaunchReplay::begin_with(const RecordedRun& recorded) {
  for (const Bytes footprint : recorded.footprints) {
    const auto name = static_cast<Name>(buffers_.size());
    buffers_.emplace_back().bytes = footprint.count();
    awaited_[footprint.count()].push_back(name);
  }
  for (auto& [bytes, names] : awaited_) std::ranges::reverse(names);
  append(KernelId{}, {});  // where the program has not begun
  for (const RecordedRun::Launch& launch : recorded.launches) {
    append(launch.kernel, recorded.names_of(launch));
    note_use(log_.size() - 1);
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
    if (forgotten_ + *place_ == recorded_pass_) own_pass_ = log_.size() - 1;
    // A launch of another program may fit the last one by chance. Whether it does is seen later.
    const bool is_at_end = forgotten_ + *place_ + 1 == recorded_;
    const bool was_followed = 2 * following_.followed >= following_.recorded;
    const bool was_long = present() + 1 >= following_.recorded;
    following_.is_over = is_at_end && passed_over_ == 0 && was_followed;
    following_.is_left = is_at_end && !following_.is_over && (passed_over_ > 0 || was_long);
  } else {
    following_.is_left = true;
  }
  if (following_.is_left) following_.left_at = present();
  if (!following_.goes_on()) awaited_.clear();
}

/// Puts a launch behind the others.
void LaunchReplay::append(KernelId kernel, std::span<const Name> names) {
  Launch launch{.kernel = kernel,
                .token = mixed(0, static_cast<std::uint64_t>(kernel)),
                .kind = 0,
                .first = static_cast<std::uint32_t>(names_.size()),
                .count = static_cast<std::uint32_t>(names.size()),
                .trust = 0,
                .anchor = anchor_of(names)};
  for (const Name name : names) launch.token = mixed(launch.token, buffers_[name].bytes);
  names_.insert(names_.end(), names.begin(), names.end());
  launch.kind = kind_of(launch.token);
  log_.push_back(launch);
  if (launch.anchor != kNoName) anchor_first_use(launch.anchor);
}

/// Notes who is named by the latest launch, for later ones.
void LaunchReplay::note_use(std::size_t launch) {
  for (const Name name : names_of(log_[launch])) {
    buffers_[name].uses.push_back(static_cast<std::uint32_t>(launch));
  }
  contexts_[context_at(launch)] = static_cast<std::uint32_t>(launch);
  anchors_[anchors_at(launch)] = static_cast<std::uint32_t>(launch);
}

/// The launch that followed an earlier one. Behind the recorded pass comes this run's own first
/// pass, and not what it did to load. nullopt: nothing is known to have followed.
std::optional<std::size_t> LaunchReplay::after(std::size_t launch) const {
  std::size_t next = launch + 1;
  if (next + forgotten_ == recorded_) {
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
  return static_cast<std::size_t>(recorded_ - forgotten_) - *place_ + (launch - *own_pass_);
}

/// A pass ends when the place comes to the launch that opened it, or soon after it left that behind
/// in a jump: launches among which it jumps about repeat nothing. Nor does a launch that is the
/// same as the one before it open a pass, or a kernel that is launched a thousand times would open
/// as many, each of which costs an event.
void LaunchReplay::follow_passes() {
  const bool repeats_a_launch = place_ && *place_ + 2 == log_.size();
  at_pass_start_ = is_sure() && since_moved_ >= kForesight && !repeats_a_launch &&
                   forgotten_ + *place_ >= pass_began_.value_or(recorded_pass_);
  if (!at_pass_start_) return;
  if (pass_began_) {
    ++passes_;
    pass_bytes_ = bytes_of_pass_;
  }
  bytes_of_pass_ = Bytes{};
  pass_began_ = forgotten_ + log_.size() - 1;
}

/// The kind of launches with that token, a new one where there was none.
std::uint32_t LaunchReplay::kind_of(std::uint64_t token) {
  const auto [found, is_new] =
      kinds_.try_emplace(token, static_cast<std::uint32_t>(likelihoods_.size()));
  if (is_new) likelihoods_.push_back(1.0);
  return found->second;
}

/// Where launches [begin, end), by their numbers, begin in the log; nullopt if it lacks one of
/// them, or of as many before them.
std::optional<std::size_t> LaunchReplay::remembered(std::uint64_t begin, std::uint64_t end) const {
  begin += recorded_;
  end += recorded_;
  if (begin < forgotten_ || end <= begin || end - forgotten_ > log_.size()) return std::nullopt;
  if (begin - forgotten_ < end - begin) return std::nullopt;
  return static_cast<std::size_t>(begin - forgotten_);
}

/// Whether a buffer is persistent in the pass of `launches` launches that begins with launch
/// `first` of the log.
bool LaunchReplay::is_persistent(const Buffer& buffer, std::size_t first,
                                 std::size_t launches) const {
  if (buffer.uses.empty() || buffer.uses.front() >= first) return false;
  // What is in use for less than a pass may still have been made before this one began.
  return buffer.uses.back() - buffer.uses.front() >= launches;
}

std::shared_ptr<const PassLaunches> LaunchReplay::pass(std::uint64_t begin,
                                                       std::uint64_t end) const {
  const auto first = remembered(begin, end);
  if (!first) return nullptr;
  const auto launches = std::span(log_).subspan(*first, static_cast<std::size_t>(end - begin));
  std::vector<Bytes> persistent(buffers_.size());
  std::vector<Bytes> footprints(buffers_.size());
  for (std::size_t name = 0; name < buffers_.size(); ++name) {
    const Buffer& buffer = buffers_[name];
    footprints[name] = Bytes{buffer.bytes};
    if (is_persistent(buffer, *first, launches.size())) persistent[name] = footprints[name];
  }
  std::vector<BufferId> named;  // names serve as ids: unlike those they are not used again
  for (const Launch& launch : launches) {
    for (const Name name : names_of(launch)) named.push_back(BufferId{name});
  }
  std::vector<LaunchRecord> records;
  records.reserve(launches.size());
  std::size_t at = 0;
  for (const Launch& launch : launches) {
    records.push_back({launch.kernel, std::span(named).subspan(at, launch.count)});
    at += launch.count;
  }
  return std::make_shared<const PassLaunches>(records, persistent, footprints);
}

std::optional<LivePass> LaunchReplay::live_pass(std::uint64_t begin, std::uint64_t end) const {
  const auto first = remembered(begin, end);
  if (!first || end - begin > LivePass::kMostLaunches) return std::nullopt;
  const auto launches = std::span(log_).subspan(*first, static_cast<std::size_t>(end - begin));
  const std::uint32_t first_name = launches.front().first;
  const std::uint32_t accesses = launches.back().first + launches.back().count - first_name;
  if (accesses > LivePass::kMostAccesses) return std::nullopt;
  LivePass pass;
  pass.launches.reserve(launches.size());
  for (const Launch& launch : launches) {
    pass.launches.push_back({launch.kernel, launch.first + launch.count - first_name});
  }
  const std::span<const Name> names = std::span(names_).subspan(first_name, accesses);
  pass.names.assign(names.begin(), names.end());
  std::vector<bool> is_known(buffers_.size(), false);
  for (const Name name : names) {
    if (is_known[name]) continue;
    is_known[name] = true;
    const Buffer& buffer = buffers_[name];
    if (!buffer.exists || !is_persistent(buffer, *first, launches.size())) continue;
    if (pass.buffers.size() == LivePass::kMostBuffers) return std::nullopt;
    pass.buffers.push_back({name, buffer.id, Bytes{buffer.bytes}});
  }
  return pass;
}

int LaunchReplay::Likeness::score(int before) const {
  if (!kernel) return 0;
  return (all ? 16 : 0) + (token ? 8 : 0) + (same > 0 ? 4 : 0) + before;
}

/// What a name of the log is called today: itself as long as it exists, else what is named in its
/// stead; kNoName if nothing is.
LaunchReplay::Name LaunchReplay::today(Name name) const {
  while (name != kNoName && !buffers_[name].exists) name = buffers_[name].successor;
  return name;
}

/// Whether a buffer that launch `past` named is, or may be, what another is for the present launch.
bool LaunchReplay::stands_for(Name one, std::size_t past, Name other) const {
  if (one == other) return true;
  if (buffers_[one].exists) return false;
  const Name now = today(one);
  if (now != kNoName) return now == other;
  // A buffer that is younger than the place may stand for any of its size that is gone.
  const Buffer& young = buffers_[other];
  return young.bytes == buffers_[one].bytes && (young.uses.empty() || young.uses.front() > past);
}

/// Whether the present launch is the one that was expected: it names all that this named, or has
/// the same kernel and the same rarest buffer.
bool LaunchReplay::is_as_expected(std::size_t expected, std::size_t present) const {
  const Likeness found = likeness(expected, present);
  return found.hoped || (found.kernel && agrees(expected, present).value_or(false));
}

/// Calls `visit` with each name of launch `past` and the one in its place in the present launch.
/// Where one of them names more, those of it that stand for nothing are skipped: a pointer that was
/// left over in a struct may lie before those that are used.
template <typename Visit>
void LaunchReplay::for_each_pair(std::size_t past, std::size_t present, const Visit& visit) const {
  const std::span<const Name> names = names_of(log_[past]);
  const std::span<const Name> now = names_of(log_[present]);
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < names.size() && j < now.size()) {
    const std::size_t names_left = names.size() - i;
    const std::size_t now_left = now.size() - j;
    if (names_left != now_left && !stands_for(names[i], past, now[j])) {
      ++(names_left > now_left ? i : j);
      continue;
    }
    visit(names[i++], now[j++]);
  }
}

LaunchReplay::Likeness LaunchReplay::likeness(std::size_t past, std::size_t present) const {
  const Launch& one = log_[past];
  const Launch& other = log_[present];
  Likeness found;
  found.kernel = one.kernel == other.kernel;
  found.token = one.token == other.token;
  if (!found.kernel) return found;
  const std::span<const Name> names = names_of(one);
  const std::span<const Name> now = names_of(other);
  for_each_pair(past, present, [&](Name name, Name today) {
    if (stands_for(name, past, today)) ++found.same;
  });
  found.hoped = found.same == names.size();
  found.all = found.token && found.same == now.size();
  return found;
}

/// The launch before `present` that is most like it, of equals the first one that named its anchor,
/// else the latest; nullopt if none is like it. Tried are the one that was expected, the last ones
/// with the same two anchors and the same two tokens, and the last ones that named the same
/// buffers.
std::optional<std::size_t> LaunchReplay::find_place(std::size_t present) const {
  std::optional<std::size_t> best;
  int best_score = 0;
  const auto consider = [&](std::size_t candidate) {
    if (candidate >= present) return;
    const int score = likeness(candidate, present).score(likeness_before(candidate, present));
    if (score > best_score) {
      best = candidate;
      best_score = score;
    }
  };
  // A start that is like no other is most like the first one: what follows it is all that ever
  // followed, while after the last launch of that kind may come what ended its turn.
  if (const Name anchor = log_[present].anchor; anchor != kNoName) {
    consider(buffers_[anchor].uses.front());
  }
  if (place_) consider(*place_ + 1);
  if (place_ && passed_over_ > 0) consider(*place_);  // the last launch was one too many
  const std::span<const Name> names = names_of(log_[present]);
  for (std::size_t i = 0; i < std::min(names.size(), kMostNamesTried); ++i) {
    const std::vector<std::uint32_t>& uses = buffers_[names[i]].uses;
    const std::size_t tried = std::min(uses.size(), kMostUsesTried);
    for (std::size_t back = 1; back <= tried; ++back) consider(uses[uses.size() - back]);
  }
  if (const auto found = contexts_.find(context_at(present)); found != contexts_.end()) {
    consider(found->second);
  }
  if (const auto found = anchors_.find(anchors_at(present)); found != anchors_.end()) {
    consider(found->second);
  }
  return best;
}

/// How much the launch before one is like the launch before the other, from 0 to 3. Where two
/// models take turns, it tells the first of their passes from the others.
int LaunchReplay::likeness_before(std::size_t past, std::size_t present) const {
  if (past == 0 || present == 0) return 0;
  const Launch& one = log_[past - 1];
  const Launch& other = log_[present - 1];
  const bool tells = one.anchor != kNoName && other.anchor != kNoName;
  if (tells && one.anchor != other.anchor) return 0;
  return (tells ? 2 : 0) + (one.token == other.token ? 1 : 0);
}

std::uint64_t LaunchReplay::context_at(std::size_t launch) const {
  return mixed(launch == 0 ? 0 : log_[launch - 1].token, log_[launch].token);
}

std::uint64_t LaunchReplay::anchors_at(std::size_t launch) const {
  return mixed(launch == 0 ? 0 : mixed(1, log_[launch - 1].anchor), log_[launch].anchor);
}

LaunchReplay::Name LaunchReplay::anchor_of(std::span<const Name> names) const {
  Name rarest = kNoName;
  for (const Name name : names) {
    const std::size_t uses = buffers_[name].uses.size();
    if (uses == 0) continue;
    if (rarest == kNoName || uses < buffers_[rarest].uses.size()) rarest = name;
  }
  return rarest;
}

/// A launch that names buffers for the first time does not know which of them will be named again:
/// the second launch that names one tells.
void LaunchReplay::anchor_first_use(Name name) {
  if (buffers_[name].uses.size() != 1) return;
  const std::uint32_t first = buffers_[name].uses.front();
  if (log_[first].anchor != kNoName) return;
  log_[first].anchor = name;
  anchors_.try_emplace(anchors_at(first), first);
  if (first + 1 < log_.size() - 1) anchors_.try_emplace(anchors_at(first + 1), first + 1);
}

/// Whether the buffers say that the present launch is the one of `past`: the rarest of those that
/// were named up to then, or else those that are named for the first time. nullopt if none can
/// tell.
std::optional<bool> LaunchReplay::agrees(std::size_t past, std::size_t present) const {
  const std::span<const Name> names = names_of(log_[past]);
  const std::span<const Name> now = names_of(log_[present]);
  Name rarest = kNoName;
  const auto consider = [&](Name name) {
    const std::vector<std::uint32_t>& uses = buffers_[name].uses;
    if (uses.empty() || uses.front() > past) return;
    if (rarest == kNoName || uses.size() < buffers_[rarest].uses.size()) rarest = name;
  };
  // What it names besides all that was named in the past is left over, or so it is assumed.
  if (now.size() > names.size() && !names.empty() && likeness(past, present).hoped) {
    for_each_pair(past, present, [&](Name, Name today) { consider(today); });
  } else {
    for (const Name name : now) consider(name);
  }
  if (rarest != kNoName) return std::ranges::find(names, rarest) != names.end();
  for (std::size_t i = 0; i < std::min(names.size(), now.size()); ++i) {
    if (buffers_[names[i]].exists && buffers_[now[i]].uses.empty()) return false;
  }
  return std::nullopt;
}

/// Notes which of today's buffers stand for buffers that are gone.
void LaunchReplay::link(std::size_t past, std::size_t present) {
  if (log_[past].token != log_[present].token) return;
  for (std::size_t i = 0; i < log_[past].count; ++i) {
    const Name one = names_[log_[past].first + i];
    const Name other = names_[log_[present].first + i];
    if (one == other || buffers_[one].exists || !stands_for(one, past, other)) continue;
    if (today(one) == other) continue;
    buffers_[one].successor = other;
    buffers_[other].predecessor = one;
  }
}

std::uint64_t LaunchReplay::next_use(BufferId id) const {
  if (!is_sure()) return kNever;
  std::size_t next = log_.size();
  const auto look = [&](Name name) {
    const std::vector<std::uint32_t>& uses = buffers_[name].uses;
    buffers_[name].sought = first_behind(*place_, uses, buffers_[name].sought);
    auto found = uses.begin() + static_cast<std::ptrdiff_t>(buffers_[name].sought);
    for (std::size_t i = 0; i < kMostUsesTried && found != uses.end(); ++i, ++found) {
      if (is_recorded(*place_) && !is_recorded(*found) && own_pass_ && *found < *own_pass_) {
        found = std::lower_bound(found, uses.end(), *own_pass_);
        if (found == uses.end()) break;
      }
      if (unlikely_kinds_ > 0 && likelihoods_[log_[*found].kind] < kLeastLikelihood) continue;
      if (const auto distance = distance_to(*found)) next = std::min(next, *distance);
      break;
    }
  };
  const Name name = name_of_id_[index_of(id)];
  look(name);
  if (buffers_[name].predecessor != kNoName) look(buffers_[name].predecessor);
  return next == log_.size() ? kNever : present() + next;
}

std::size_t LaunchReplay::horizon() const {
  if (!is_sure()) return 0;
  if (!is_recorded(*place_)) return log_.size() - 1 - *place_;
  const auto recorded = static_cast<std::size_t>(recorded_ - forgotten_) - 1 - *place_;
  return recorded + (own_pass_ ? log_.size() - *own_pass_ : 0);
}

void LaunchReplay::expect(std::size_t ahead, Expected& expected) const {
  std::size_t at = *place_ + ahead;
  if (is_recorded(*place_) && !is_recorded(at)) at += *own_pass_ - (recorded_ - forgotten_);
  const Launch& launch = log_[at];
  expected.buffers.clear();
  expected.trust = launch.trust;
  expected.likelihood = likelihoods_[launch.kind];
  for (const Name past : names_of(launch)) {
    const Name name = today(past);
    if (name == kNoName) continue;
    const BufferId id = buffers_[name].id;
    if (std::find(expected.buffers.begin(), expected.buffers.end(), id) == expected.buffers.end()) {
      expected.buffers.push_back(id);
    }
  }
}

void LaunchReplay::forget_older_half() {
  const std::size_t dropped = log_.size() / 2;
  const std::uint32_t dropped_names = log_.empty() ? 0 : log_[dropped].first;
  const auto shift = [dropped](std::uint32_t at) {
    return at - static_cast<std::uint32_t>(dropped);
  };
  log_.erase(log_.begin(), log_.begin() + static_cast<std::ptrdiff_t>(dropped));
  names_.erase(names_.begin(), names_.begin() + static_cast<std::ptrdiff_t>(dropped_names));
  awaited_.clear();
  forgotten_ += dropped;
  for (Launch& launch : log_) launch.first -= dropped_names;
  abandoned_.reset();
  if (own_pass_)
    own_pass_ = *own_pass_ >= dropped ? std::optional(*own_pass_ - dropped) : std::nullopt;
  if (place_) place_ = *place_ >= dropped ? std::optional(*place_ - dropped) : std::nullopt;
  std::erase_if(contexts_, [dropped](const auto& context) { return context.second < dropped; });
  for (auto& [context, launch] : contexts_) launch = shift(launch);
  for (Buffer& buffer : buffers_) {
    const auto kept = std::ranges::lower_bound(buffer.uses, dropped);
    buffer.uses.erase(buffer.uses.begin(), kept);
    std::ranges::transform(buffer.uses, buffer.uses.begin(), shift);
  }
  forget_kinds();
  forget_names();
}

/// Takes the kinds of which no launch is left out of the tables: sizes may be ever new ones.
void LaunchReplay::forget_kinds() {
  kinds_.clear();
  const std::vector<double> former = std::move(likelihoods_);
  likelihoods_.clear();
  for (Launch& launch : log_) {
    const double likelihood = former[launch.kind];
    launch.kind = kind_of(launch.token);
    likelihoods_[launch.kind] = likelihood;
  }
  const auto is_unlikely = [](double likelihood) { return likelihood < kLeastLikelihood; };
  unlikely_kinds_ = static_cast<std::size_t>(std::ranges::count_if(likelihoods_, is_unlikely));
}

/// Takes the names of buffers that are gone, and that no launch of the log names, out of the
/// tables.
void LaunchReplay::forget_names() {
  std::vector<Name> renamed(buffers_.size(), kNoName);
  std::vector<Buffer> kept;
  for (std::size_t name = 0; name < buffers_.size(); ++name) {
    if (!buffers_[name].exists && buffers_[name].uses.empty()) continue;
    renamed[name] = static_cast<Name>(kept.size());
    kept.push_back(std::move(buffers_[name]));
  }
  const auto rename = [&renamed](Name& name) {
    if (name != kNoName) name = renamed[name];
  };
  for (Buffer& buffer : kept) {
    rename(buffer.successor);
    rename(buffer.predecessor);
  }
  std::ranges::for_each(names_, rename);
  for (Launch& launch : log_) rename(launch.anchor);
  anchors_.clear();
  for (std::size_t launch = 0; launch < log_.size(); ++launch) {
    anchors_[anchors_at(launch)] = static_cast<std::uint32_t>(launch);
  }
  std::ranges::for_each(name_of_id_, rename);
  buffers_ = std::move(kept);
}

}  // namespace superpipe
