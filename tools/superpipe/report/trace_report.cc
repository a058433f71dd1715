#include "tools/superpipe/report/trace_report.h"

#include <algorithm>
#include <iterator>

#include "policy/layer_grouping.h"

namespace superpipe::cli {
namespace {

constexpr std::size_t kMostEarlyReportEnds = 4'096;

std::uint64_t clamped_time(std::int64_t time) {
  return time < 0 ? 0 : std::min(static_cast<std::uint64_t>(time), kLatestBinNs);
}

}  // namespace

TraceReport::TraceReport(TracedLayers layers) : layers_(std::move(layers)) {}

void TraceReport::finish() {
  for (const auto& [thread, ranges] : nested_ranges_) {
    for (const OpenRange& range : ranges) end_range(range, end_time_);
  }
  for (const auto& [number, range] : open_ranges_) end_range(range, end_time_);
  for (auto& [text, marks] : marks_) marks.by_time.cover(end_time_);
  for (BinnedLevel* const level :
       {&device_, &pages_, &live_, &passthrough_, &pinned_host_, &budget_}) {
    level->cover(end_time_);
  }
  for (Group& group : groups_) group.residency.cover(end_time_);
  stalls_.cover(end_time_);
  for (Waits& waits : waits_) waits.by_time.cover(end_time_);
  to_device_.finish(end_time_);
  to_host_.finish(end_time_);
  // The last pass has no next one that would say when it ended, so its time is not known.
  passes_.shrink_to_fit();
}

std::uint64_t TraceReport::moment(std::int64_t time) {
  const std::uint64_t at = clamped_time(time);
  end_time_ = std::max(end_time_, at);
  ++counts_.events;
  return at;
}

std::string TraceReport::kernel_name(TraceIndex index) const {
  return index == kUses ? std::string(kNameOfUses) : names().kernel(index);
}

std::uint32_t TraceReport::named_group(const std::string& name, std::uint32_t layer) {
  const auto [place, is_new] =
      group_names_.try_emplace(name, static_cast<std::uint32_t>(groups_.size()));
  if (is_new) {
    Group& group = groups_.emplace_back();
    group.name = name;
    group.layer = layer;
  }
  return place->second;
}

std::uint32_t TraceReport::group_of(std::uint64_t number, TraceIndex call_site) {
  const std::uint32_t layer = layers_.of(number);
  if (layer != kNoLayer) return named_group(layers_.row_of(layer, kMostLayerGroups), layer);
  const auto known = site_group_.find(call_site);
  if (known != site_group_.end()) return known->second;
  const std::string title = site_title(names().frames(call_site));
  const bool is_named = group_names_.find(title) != group_names_.end();
  std::uint32_t group = 0;
  if (is_named || site_groups_ < kMostSiteGroups) {
    site_groups_ += is_named ? 0 : 1;
    group = named_group(title, kNoLayer);
  } else {
    group = named_group("other call sites", kNoLayer);
  }
  site_group_[call_site] = group;
  return group;
}

void TraceReport::change_residency(std::uint32_t group, std::uint64_t time, std::uint64_t bytes,
                                   bool come) {
  if (group == kNoGroup || bytes == 0) return;
  BinnedLevel& level = groups_[group].residency;
  const std::uint64_t now = level.value();
  level.set(time, come ? now + bytes : now - std::min(now, bytes));
}

void TraceReport::on_allocation(const TraceMoment& when, const TraceAllocation& event) {
  const std::uint64_t time = moment(when.time);
  ++counts_.allocations;
  if (const auto ended = live_allocations_.add(event)) end_life(time, *ended);
  Site& site = sites_[event.call_site];
  ++site.allocations;
  site.bytes += event.size.count();
  site.live += event.size.count();
  site.most_live = std::max(site.most_live, site.live);
  if (event.buffer == kNoBuffer) return;
  ++site.managed;
  const std::uint32_t number = group_of(managed_++, event.call_site);
  Group& group = groups_[number];
  ++group.buffers;
  group.bytes += event.footprint.count();
  group.most_bytes = std::max(group.most_bytes, group.bytes);
  Holder& holder = holders_[index_of(event.buffer)];
  holder.group = number;
  holder.kind = {event.call_site, event.size.count()};
  const auto kind = group.kinds.find(holder.kind);
  if (kind != group.kinds.end() || group.kinds.size() < kMostKinds) {
    ++group.kinds[holder.kind].buffers;
  } else {
    ++group.other_kinds;
  }
  // Pages may have come before, or have stayed of the buffer that had the id.
  for (const Unused& unused : holder.unused) {
    const auto fetch = fetches_.find(unused.fetch);
    if (fetch != fetches_.end()) fetch->second.group = number;
  }
  change_residency(number, time, holder.resident, true);
}

void TraceReport::end_life(std::uint64_t time, const LiveAllocation& allocation) {
  Site& site = sites_[allocation.what.call_site];
  site.live -= std::min(site.live, allocation.what.size.count());
  if (allocation.what.buffer == kNoBuffer) return;
  const auto place = holders_.find(index_of(allocation.what.buffer));
  if (place == holders_.end()) return;
  Holder& holder = place->second;
  if (holder.group != kNoGroup) {
    change_residency(holder.group, time, holder.resident, false);
    Group& group = groups_[holder.group];
    group.bytes -= std::min(group.bytes, allocation.what.footprint.count());
  }
  for (const Unused& unused : holder.unused) fetches_.erase(unused.fetch);
  holder.unused.clear();
  holder.group = kNoGroup;
  if (holder.resident == 0) holders_.erase(place);
}

void TraceReport::on_free(const TraceMoment& when, const TraceFree& event) {
  const std::uint64_t time = moment(when.time);
  ++counts_.frees;
  if (const auto ended = live_allocations_.remove(event)) end_life(time, *ended);
}

void TraceReport::on_launch(const TraceMoment& when, const TraceLaunch& event) {
  moment(when.time);
  ++counts_.launches;
  launches_.add(event);
  ++kernels_[event.kernel].launches;
  for (const BufferId buffer : event.buffers) {
    const auto place = holders_.find(index_of(buffer));
    if (place == holders_.end() || place->second.group == kNoGroup) continue;
    auto& kinds = groups_[place->second.group].kinds;
    const auto kind = kinds.find(place->second.kind);
    if (kind != kinds.end()) ++kind->second.uses;
  }
  add_waiting(waiting_, {event.launch.value, take_unused(event.buffers)});
}

std::vector<std::uint64_t> TraceReport::take_unused(std::span<const BufferId> buffers) {
  std::vector<std::uint64_t> fetches;
  for (const BufferId buffer : buffers) {
    const auto place = holders_.find(index_of(buffer));
    if (place == holders_.end()) continue;
    for (const Unused& unused : place->second.unused) fetches.push_back(unused.fetch);
    place->second.unused.clear();
  }
  return fetches;
}

void TraceReport::add_waiting(std::deque<Waiting>& waiting, Waiting one) {
  if (one.fetches.empty()) return;
  // Launches of several threads come nearly in their order.
  auto place = waiting.end();
  while (place != waiting.begin() && std::prev(place)->launch > one.launch) --place;
  waiting.insert(place, std::move(one));
  if (waiting.size() <= kMostWaiting) return;
  forget(waiting.front());
  waiting.pop_front();
}

// What stalled since `begin`: a launch by its number; another use, which has none, as the first
// that had to wait for fetches then.
TraceReport::Waiting* TraceReport::find_waiting(std::uint64_t launch, std::uint64_t begin) {
  if (launch != 0) {
    const auto place = std::lower_bound(
        waiting_.begin(), waiting_.end(), launch,
        [](const Waiting& one, std::uint64_t wanted) { return one.launch < wanted; });
    return place != waiting_.end() && place->launch == launch ? &*place : nullptr;
  }
  const auto end_of = [this](std::uint64_t number) {
    const auto fetch = fetches_.find(number);
    return fetch == fetches_.end() ? 0 : fetch->second.end;
  };
  // What had all of its fetches by then has not stalled since, and will not any more.
  const auto is_over = [&](const Waiting& one) {
    return std::ranges::all_of(one.fetches,
                               [&](std::uint64_t number) { return end_of(number) <= begin; });
  };
  while (!waiting_uses_.empty() && is_over(waiting_uses_.front())) {
    forget(waiting_uses_.front());
    waiting_uses_.pop_front();
  }
  return waiting_uses_.empty() ? nullptr : &waiting_uses_.front();
}

void TraceReport::forget(Waiting& waiting) {
  for (const std::uint64_t fetch : waiting.fetches) fetches_.erase(fetch);
  waiting.fetches = {};
}

void TraceReport::on_use(const TraceMoment& when, const TraceUse& event) {
  moment(when.time);
  ++counts_.uses;
  add_waiting(waiting_uses_, {0, take_unused(event.buffers)});
}

void TraceReport::on_copy(const TraceMoment& when, const TraceCopy& event) {
  moment(when.time);
  (event.to_device ? counts_.copied_in : counts_.copied_out) += event.size.count();
}

void TraceReport::on_fetch(const TraceMoment& when, const TraceFetch& event) {
  const std::uint64_t time = moment(when.time);
  if (event.buffer == kNoBuffer) return;
  Holder& holder = holders_[index_of(event.buffer)];
  holder.resident += event.footprint.count();
  change_residency(holder.group, time, event.footprint.count(), true);
  const bool is_moved = event.size > Bytes{};  // a new page has no content that could be
  counts_.fetches += is_moved ? 1 : 0;
  counts_.demand_fetches += is_moved && event.demand ? 1 : 0;
  if (is_moved) to_device_.enqueue(event.transfer.value, time, event.size);
  Fetch fetch{event.size.count(), is_moved ? 0 : event.footprint.count(), holder.group, kNotEnded};
  // Another thread may have seen the end before this one's events were written.
  const auto early = early_ends_.find(event.transfer.value);
  if (early != early_ends_.end()) {
    fetch.end = early->second;
    (void)to_device_.end(event.transfer.value, early->second);
    early_ends_.erase(early);
  }
  if (holder.group != kNoGroup) {
    Group& group = groups_[holder.group];
    group.fetched += event.size.count();
    group.demanded += event.demand ? event.size.count() : 0;
  }
  if (holder.unused.size() >= kMostUnused) return;
  holder.unused.push_back({event.transfer.value, event.offset.count()});
  fetches_[event.transfer.value] = fetch;
}

void TraceReport::on_eviction(const TraceMoment& when, const TraceEviction& event) {
  const std::uint64_t time = moment(when.time);
  if (event.buffer == kNoBuffer) return;
  if (event.footprint > Bytes{}) ++counts_.evictions;
  const auto place = holders_.find(index_of(event.buffer));
  if (place != holders_.end()) {
    Holder& holder = place->second;
    const std::uint64_t gone = std::min(holder.resident, event.footprint.count());
    holder.resident -= gone;
    change_residency(holder.group, time, gone, false);
    if (holder.group != kNoGroup) {
      groups_[holder.group].evicted += event.footprint.count();
      groups_[holder.group].written_back += event.size.count();
    }
    // What leaves without having been used has made no launch wait.
    auto& unused = holder.unused;
    const auto kept = std::remove_if(unused.begin(), unused.end(), [&](const Unused& fetch) {
      if (event.footprint == Bytes{} || fetch.offset != event.offset.count()) return false;
      fetches_.erase(fetch.fetch);
      return true;
    });
    unused.erase(kept, unused.end());
    if (holder.resident == 0 && holder.group == kNoGroup) holders_.erase(place);
  }
  if (event.size == Bytes{}) return;  // the host has the content: no transfer
  if (event.footprint > Bytes{}) ++counts_.write_backs;
  to_host_.enqueue(event.transfer.value, time, event.size);
  const auto early = early_ends_.find(event.transfer.value);
  if (early == early_ends_.end()) return;
  (void)to_host_.end(event.transfer.value, early->second);
  early_ends_.erase(early);
}

void TraceReport::on_transfer_end(const TraceMoment& when, const TraceTransferEnd& event) {
  const std::uint64_t time = moment(when.time);
  const std::uint64_t number = event.transfer.value;
  const auto fetch = fetches_.find(number);
  const bool is_known = fetch != fetches_.end();
  if (is_known) fetch->second.end = time;
  if (to_device_.end(number, time) || to_host_.end(number, time) || is_known) return;
  early_ends_[number] = time;
  if (early_ends_.size() > kMostEarlyReportEnds) early_ends_.erase(early_ends_.begin());
}

void TraceReport::on_stall(const TraceMoment& when, const TraceStall& event) {
  const std::uint64_t told = moment(when.time);
  ++counts_.stalls;
  // It is told later than it happened, never before.
  const std::int64_t ago = std::min<std::int64_t>(event.ready, 0);
  const std::uint64_t end = clamped_time(static_cast<std::int64_t>(told) + ago);
  const std::uint64_t duration = std::min(event.duration_ns, kLatestBinNs);
  const std::uint64_t begin = end - std::min(end, duration);
  stall_ns_ += duration;
  stalls_.spread(begin, end, static_cast<double>(duration));
  const RecentLaunches::Launch* const launch = launches_.find(event.launch);
  const TraceIndex launched = launch != nullptr ? launch->kernel : 0;
  Kernel& kernel = kernels_[event.launch.value == 0 ? kUses : launched];
  ++kernel.stalls;
  kernel.stall_ns += duration;
  Late late;
  std::map<std::uint32_t, Late> late_of;
  if (Waiting* const waiting = find_waiting(event.launch.value, begin)) {
    for (const std::uint64_t number : waiting->fetches) {
      const auto fetch = fetches_.find(number);
      if (fetch == fetches_.end() || fetch->second.group == kNoGroup) continue;
      if (fetch->second.end <= begin) continue;  // it was there when the wait began
      for (Late* const sum : {&late, &late_of[fetch->second.group]}) {
        sum->bytes += static_cast<double>(fetch->second.bytes);
        sum->new_pages += static_cast<double>(fetch->second.new_page);
      }
    }
    forget(*waiting);
  }
  kernel.late_bytes += late.bytes;
  kernel.late_new_pages += late.new_pages;
  // Room for new pages is what a launch waited for only where no content came.
  const double whole = late.bytes > 0 ? late.bytes : late.new_pages;
  if (whole <= 0) {
    unexplained_stall_ns_ += static_cast<double>(duration);
    return;
  }
  for (const auto& [number, part] : late_of) {
    Group& group = groups_[number];
    group.stall_ns +=
        static_cast<double>(duration) * ((late.bytes > 0 ? part.bytes : part.new_pages) / whole);
    group.late_bytes += part.bytes;
    group.late_new_pages += part.new_pages;
  }
}

void TraceReport::on_budget(const TraceMoment& when, const TraceBudget& event) {
  budget_.set(moment(when.time), event.budget.count());
}

void TraceReport::on_memory(const TraceMoment& when, const TraceMemory& event) {
  const std::uint64_t time = moment(when.time);
  device_.set(time, event.pages.count() + event.passthrough.count());
  pages_.set(time, event.pages.count());
  live_.set(time, event.live.count());
  passthrough_.set(time, event.passthrough.count());
  pinned_host_.set(time, event.pinned_host.count());
}

void TraceReport::on_pass(const TraceMoment& when, const TracePass& /*event*/) {
  const std::uint64_t time = std::max(moment(when.time), pass_began_);
  if (has_pass_) add_pass(static_cast<double>(time - pass_began_) * 1e-6);
  has_pass_ = true;
  ++counts_.passes;
  pass_began_ = time;
}

void TraceReport::add_pass(double ms) {
  if (passes_.empty() || passes_.back().passes >= passes_per_point_) {
    if (passes_.size() >= kMostPassPoints) {
      for (std::size_t i = 0; i < kMostPassPoints; i += 2) {
        PassPoint both = passes_[i];
        both.sum_ms += passes_[i + 1].sum_ms;
        both.most_ms = std::max(both.most_ms, passes_[i + 1].most_ms);
        both.passes += passes_[i + 1].passes;
        passes_[i / 2] = both;
      }
      passes_.resize(kMostPassPoints / 2);
      passes_per_point_ *= 2;
    }
    passes_.emplace_back();
  }
  PassPoint& point = passes_.back();
  point.sum_ms += ms;
  point.most_ms = std::max(point.most_ms, ms);
  ++point.passes;
}

void TraceReport::on_kernel_time(const TraceMoment& when, const TraceKernelTime& event) {
  moment(when.time);
  const RecentLaunches::Launch* const launch = launches_.find(event.launch);
  const TraceIndex launched = launch != nullptr ? launch->kernel : 0;
  Kernel& kernel = kernels_[event.kernel != 0 ? event.kernel : launched];
  kernel.timed_launches += std::max<std::uint64_t>(event.launches, 1);
  kernel.device_ns += std::min(event.duration_ns, kLatestBinNs);
}

TraceReport::Marks* TraceReport::marks_of(TraceIndex text) {
  const auto known = marks_.find(text);
  if (known != marks_.end()) return &known->second;
  if (marks_.size() < kMostMarks) return &marks_[text];
  ++counts_.other_marks;
  return nullptr;
}

void TraceReport::end_range(const OpenRange& range, std::uint64_t end) {
  Marks* const marks = marks_of(range.text);
  if (marks == nullptr) return;
  // Another thread may end a range at a time that is a little before its beginning.
  const std::uint64_t duration = std::max(end, range.begin) - range.begin;
  ++marks->ranges;
  marks->ns += duration;
  marks->by_time.spread(range.begin, range.begin + duration, static_cast<double>(duration));
}

void TraceReport::on_mark(const TraceMoment& when, const TraceMark& event) {
  const std::uint64_t time = moment(when.time);
  if (event.way == TraceMark::kPoint) {
    if (Marks* const marks = marks_of(event.text)) ++marks->points;
    return;
  }
  const bool begins = event.way == TraceMark::kBegin;
  if (event.range != 0) {
    const auto open = open_ranges_.find(event.range);
    if (begins && open == open_ranges_.end() && open_ranges_.size() < kMostOpenRanges) {
      open_ranges_[event.range] = {event.text, time};
    } else if (!begins && open != open_ranges_.end()) {
      end_range(open->second, time);
      open_ranges_.erase(open);
    }
    return;
  }
  std::vector<OpenRange>& ranges = nested_ranges_[when.thread];
  if (begins) {
    // Of a file that lies, ranges may nest for ever.
    if (ranges.size() < kMostOpenRanges) ranges.push_back({event.text, time});
  } else if (!ranges.empty()) {
    end_range(ranges.back(), time);
    ranges.pop_back();
  }
}

void TraceReport::on_wait(const TraceMoment& when, const TraceWait& event) {
  const std::uint64_t end = moment(when.time);
  const std::uint64_t duration = std::min(event.duration_ns, end);
  Waits& waits = waits_[std::min<std::uint64_t>(event.what, waits_.size() - 1)];
  ++waits.calls;
  waits.ns += duration;
  waits.by_time.spread(end - duration, end, static_cast<double>(duration));
}

void TraceReport::on_dropped(const TraceMoment& when, const TraceDropped& event) {
  moment(when.time);
  counts_.dropped += event.events;
}

}  // namespace superpipe::cli
