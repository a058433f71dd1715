#include "policy/launch_log.h"

#include <algorithm>

namespace superpipe {
namespace {

// How many names of a launch, and how many earlier launches of each, are tried as places.
constexpr std::size_t kMostNamesTried = 4;
constexpr std::size_t kMostPlacesTried = 4;
constexpr double kLikelihoodStep = 1.0 / 16;

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

LaunchLog::LaunchLog(std::size_t capacity)
    : capacity_(std::max<std::size_t>(capacity, 4)), most_buffers_(2 * capacity_) {}

void LaunchLog::await(std::span<const Bytes> footprints) {
  for (const Bytes footprint : footprints) {
    const auto name = static_cast<Name>(buffers_.size());
    buffers_.emplace_back().bytes = footprint.count();
    awaited_[footprint.count()].push_back(name);
  }
  for (auto& [bytes, names] : awaited_) std::ranges::reverse(names);
}

void LaunchLog::on_allocate(BufferId id, Bytes bytes) {
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

void LaunchLog::on_free(BufferId id) {
  if (!knows(id)) return;
  buffers_[name_of(id)].exists = false;
  name_of_id_[index_of(id)] = kNoName;
}

LaunchLog::Name LaunchLog::today(Name name) const {
  while (name != kNoName && !buffers_[name].exists) name = buffers_[name].successor;
  return name;
}

std::span<const std::uint32_t> LaunchLog::uses_behind(std::size_t place, Name name) const {
  const Buffer& buffer = buffers_[name];
  buffer.sought = first_behind(place, buffer.uses, buffer.sought);
  return std::span(buffer.uses).subspan(buffer.sought);
}

void LaunchLog::append(KernelId kernel, std::span<const Name> names) {
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
  launches_.push_back(launch);
  if (launch.anchor != kNoName) anchor_first_use(launch.anchor);
}

void LaunchLog::note_use() {
  const std::size_t launch = launches_.size() - 1;
  for (const Name name : names_of(launch)) {
    buffers_[name].uses.push_back(static_cast<std::uint32_t>(launch));
  }
  contexts_[context_at(launch)] = static_cast<std::uint32_t>(launch);
  anchors_[anchors_at(launch)] = static_cast<std::uint32_t>(launch);
}

/// The kind of launches with that token, a new one where there was none.
std::uint32_t LaunchLog::kind_of(std::uint64_t token) {
  const auto [found, is_new] =
      kinds_.try_emplace(token, static_cast<std::uint32_t>(likelihoods_.size()));
  if (is_new) likelihoods_.push_back(1.0);
  return found->second;
}

void LaunchLog::learn(std::size_t launch, bool was_as_expected) {
  double& likelihood = likelihoods_[launches_[launch].kind];
  const bool was_likely = likelihood >= kLeastLikelihood;
  likelihood += kLikelihoodStep * ((was_as_expected ? 1.0 : 0.0) - likelihood);
  const bool is_likely = likelihood >= kLeastLikelihood;
  unlikely_kinds_ += static_cast<std::size_t>(was_likely) - static_cast<std::size_t>(is_likely);
}

/// Whether a buffer is persistent in the pass of `launches` launches that begins with launch
/// `first` of the log.
bool LaunchLog::is_persistent(const Buffer& buffer, std::size_t first, std::size_t launches) const {
  if (buffer.uses.empty() || buffer.uses.front() >= first) return false;
  // What is in use for less than a pass may still have been made before this one began.
  return buffer.uses.back() - buffer.uses.front() >= launches;
}

std::shared_ptr<const PassLaunches> LaunchLog::pass(std::size_t first, std::size_t count) const {
  std::vector<Bytes> persistent(buffers_.size());
  std::vector<Bytes> footprints(buffers_.size());
  for (std::size_t name = 0; name < buffers_.size(); ++name) {
    const Buffer& buffer = buffers_[name];
    footprints[name] = Bytes{buffer.bytes};
    if (is_persistent(buffer, first, count)) persistent[name] = footprints[name];
  }
  std::vector<BufferId> named;  // names serve as ids: unlike those they are not used again
  for (std::size_t launch = first; launch < first + count; ++launch) {
    for (const Name name : names_of(launch)) named.push_back(BufferId{name});
  }
  std::vector<LaunchRecord> records;
  records.reserve(count);
  std::size_t at = 0;
  for (const Launch& launch : std::span(launches_).subspan(first, count)) {
    records.push_back({launch.kernel, std::span(named).subspan(at, launch.count)});
    at += launch.count;
  }
  return std::make_shared<const PassLaunches>(records, persistent, footprints);
}

std::optional<LivePass> LaunchLog::live_pass(std::size_t first, std::size_t count) const {
  if (count > LivePass::kMostLaunches) return std::nullopt;
  const auto launches = std::span(launches_).subspan(first, count);
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
    if (!buffer.exists || !is_persistent(buffer, first, count)) continue;
    if (pass.buffers.size() == LivePass::kMostBuffers) return std::nullopt;
    pass.buffers.push_back({name, buffer.id, Bytes{buffer.bytes}});
  }
  return pass;
}

int LaunchLog::Likeness::score(int before) const {
  if (!kernel) return 0;
  return (all ? 16 : 0) + (token ? 8 : 0) + (same > 0 ? 4 : 0) + before;
}

/// Whether a buffer that launch `past` named is, or may be, what another is for the present launch.
bool LaunchLog::stands_for(Name one, std::size_t past, Name other) const {
  if (one == other) return true;
  if (buffers_[one].exists) return false;
  const Name now = today(one);
  if (now != kNoName) return now == other;
  // A buffer that is younger than the place may stand for any of its size that is gone.
  const Buffer& young = buffers_[other];
  return young.bytes == buffers_[one].bytes && (young.uses.empty() || young.uses.front() > past);
}

bool LaunchLog::is_as_expected(std::size_t expected, std::size_t present) const {
  const Likeness found = likeness(expected, present);
  return found.hoped || (found.kernel && agrees(expected, present).value_or(false));
}

/// Calls `visit` with each name of launch `past` and the one in its place in the present launch.
/// Where one of them names more, those of it that stand for nothing are skipped: a pointer that was
/// left over in a struct may lie before those that are used.
template <typename Visit>
void LaunchLog::for_each_pair(std::size_t past, std::size_t present, const Visit& visit) const {
  const std::span<const Name> names = names_of(past);
  const std::span<const Name> now = names_of(present);
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

LaunchLog::Likeness LaunchLog::likeness(std::size_t past, std::size_t present) const {
  const Launch& one = launches_[past];
  const Launch& other = launches_[present];
  Likeness found;
  found.kernel = one.kernel == other.kernel;
  found.token = one.token == other.token;
  if (!found.kernel) return found;
  const std::span<const Name> names = names_of(past);
  const std::span<const Name> now = names_of(present);
  for_each_pair(past, present, [&](Name name, Name today) {
    if (stands_for(name, past, today)) ++found.same;
  });
  found.hoped = found.same == names.size();
  found.all = found.token && found.same == now.size();
  return found;
}

std::optional<std::size_t> LaunchLog::most_like(std::size_t present,
                                                std::span<const std::size_t> tried) const {
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
  if (const Name anchor = launches_[present].anchor; anchor != kNoName) {
    consider(buffers_[anchor].uses.front());
  }
  std::ranges::for_each(tried, consider);
  const std::span<const Name> names = names_of(present);
  for (std::size_t i = 0; i < std::min(names.size(), kMostNamesTried); ++i) {
    const std::vector<std::uint32_t>& uses = buffers_[names[i]].uses;
    const std::size_t looked_at = std::min(uses.size(), kMostPlacesTried);
    for (std::size_t back = 1; back <= looked_at; ++back) consider(uses[uses.size() - back]);
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
int LaunchLog::likeness_before(std::size_t past, std::size_t present) const {
  if (past == 0 || present == 0) return 0;
  const Launch& one = launches_[past - 1];
  const Launch& other = launches_[present - 1];
  const bool tells = one.anchor != kNoName && other.anchor != kNoName;
  if (tells && one.anchor != other.anchor) return 0;
  return (tells ? 2 : 0) + (one.token == other.token ? 1 : 0);
}

std::uint64_t LaunchLog::context_at(std::size_t launch) const {
  return mixed(launch == 0 ? 0 : mixed(1, launches_[launch - 1].token), launches_[launch].token);
}

std::uint64_t LaunchLog::anchors_at(std::size_t launch) const {
  return mixed(launch == 0 ? 0 : mixed(1, launches_[launch - 1].anchor), launches_[launch].anchor);
}

LaunchLog::Name LaunchLog::anchor_of(std::span<const Name> names) const {
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
void LaunchLog::anchor_first_use(Name name) {
  if (buffers_[name].uses.size() != 1) return;
  const std::uint32_t first = buffers_[name].uses.front();
  if (launches_[first].anchor != kNoName) return;
  launches_[first].anchor = name;
  anchors_.try_emplace(anchors_at(first), first);
  if (first + 1 < launches_.size() - 1) anchors_.try_emplace(anchors_at(first + 1), first + 1);
}

std::optional<bool> LaunchLog::agrees(std::size_t past, std::size_t present) const {
  const std::span<const Name> names = names_of(past);
  const std::span<const Name> now = names_of(present);
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

void LaunchLog::link(std::size_t past, std::size_t present) {
  if (launches_[past].token != launches_[present].token) return;
  for (std::size_t i = 0; i < launches_[past].count; ++i) {
    const Name one = names_[launches_[past].first + i];
    const Name other = names_[launches_[present].first + i];
    if (one == other || buffers_[one].exists || !stands_for(one, past, other)) continue;
    if (today(one) == other) continue;
    buffers_[one].successor = other;
    buffers_[other].predecessor = one;
  }
}

std::size_t LaunchLog::forget_older_half() {
  const bool was_full_of_buffers = is_full_of_buffers();
  const std::size_t dropped = launches_.size() / 2;
  const std::uint32_t dropped_names = launches_.empty() ? 0 : launches_[dropped].first;
  const auto shift = [dropped](std::uint32_t at) {
    return at - static_cast<std::uint32_t>(dropped);
  };
  launches_.erase(launches_.begin(), launches_.begin() + static_cast<std::ptrdiff_t>(dropped));
  names_.erase(names_.begin(), names_.begin() + static_cast<std::ptrdiff_t>(dropped_names));
  awaited_.clear();
  forgotten_ += dropped;
  for (Launch& launch : launches_) launch.first -= dropped_names;
  std::erase_if(contexts_, [dropped](const auto& context) { return context.second < dropped; });
  for (auto& [context, launch] : contexts_) launch = shift(launch);
  for (Buffer& buffer : buffers_) {
    const auto kept = std::ranges::lower_bound(buffer.uses, dropped);
    buffer.uses.erase(buffer.uses.begin(), kept);
    std::ranges::transform(buffer.uses, buffer.uses.begin(), shift);
  }
  forget_kinds();
  forget_names();
  if (was_full_of_buffers) most_buffers_ = std::max(2 * capacity_, 2 * buffers_.size());
  return dropped;
}

/// Takes the kinds of which no launch is left out of the tables: sizes may be ever new ones.
void LaunchLog::forget_kinds() {
  kinds_.clear();
  const std::vector<double> former = std::move(likelihoods_);
  likelihoods_.clear();
  for (Launch& launch : launches_) {
    const double likelihood = former[launch.kind];
    launch.kind = kind_of(launch.token);
    likelihoods_[launch.kind] = likelihood;
  }
  const auto is_unlikely = [](double likelihood) { return likelihood < kLeastLikelihood; };
  unlikely_kinds_ = static_cast<std::size_t>(std::ranges::count_if(likelihoods_, is_unlikely));
}

/// Takes the names of buffers that are gone, and that no launch of the log names, out of the
/// tables.
void LaunchLog::forget_names() {
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
  for (Launch& launch : launches_) rename(launch.anchor);
  anchors_.clear();
  for (std::size_t launch = 0; launch < launches_.size(); ++launch) {
    anchors_[anchors_at(launch)] = static_cast<std::uint32_t>(launch);
  }
  std::ranges::for_each(name_of_id_, rename);
  buffers_ = std::move(kept);
}

}  // namespace superpipe
