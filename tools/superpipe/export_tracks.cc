#include "tools/superpipe/export_tracks.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>

namespace superpipe::cli {
namespace {

/// Times beyond 146 years are damage, and would overflow sums.
constexpr std::uint64_t kLatest = std::uint64_t{1} << 62;

/// `time`, and `by` nanoseconds more or less, as a file that lies may say.
std::int64_t later(std::int64_t time, std::int64_t by) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(time, by, &sum)) return sum;
  return by < 0 ? std::numeric_limits<std::int64_t>::min()
                : std::numeric_limits<std::int64_t>::max();
}

std::uint64_t clamped(std::int64_t time) {
  return time < 0 ? 0 : std::min(static_cast<std::uint64_t>(time), kLatest);
}

TrackEvent event_on(std::uint64_t track, std::uint64_t time, std::string_view name,
                    std::span<const TrackArgument> arguments = {}) {
  TrackEvent event;
  event.track = track;
  event.time = time;
  event.name = name;
  event.arguments = arguments;
  return event;
}

std::uint64_t id_of(BufferId buffer) { return index_of(buffer); }

}  // namespace

void TrackExporter::begin(const TraceProperties& properties) {
  TracedProcess process;
  process.id = properties.number("process.id").value_or(0);
  for (const std::string& word : properties.texts("process.argument")) {
    process.command.push_back(as_utf8(word));
  }
  process.start_ns = properties.number("trace.start_ns").value_or(0);
  process.start_unix_ns = properties.number("trace.start_unix_ns").value_or(0);
  sink_.begin(process);
  using Kind = Track::Kind;
  using Unit = Track::Unit;
  program_ = define(Kind::kGroup, 0, "Program");
  passes_ = define(Kind::kSlices, program_, "passes");
  device_ = define(Kind::kGroup, 0, "Device");
  link_ = define(Kind::kGroup, 0, "Link");
  const auto define_direction = [&](Direction& direction, const std::string& name) {
    direction.track = define(Kind::kSlices, link_, name);
    direction.rate = define(Kind::kCounter, link_, name + ", use", Unit::kBytesPerSecond);
  };
  define_direction(fetches_, "host to device");
  define_direction(write_backs_, "device to host");
  fetches_.to_device = true;
  memory_ = define(Kind::kGroup, 0, "Memory");
  std::size_t next = 0;
  for (const char* const name : {"budget", "limit of pages", "device pages", "live buffers",
                                 "device memory of the driver", "pinned host memory"}) {
    counters_[next++] = define(Kind::kCounter, memory_, name, Unit::kBytes);
  }
  layers_.begin([this](Track track) {
    track.id = ++tracks_;
    sink_.define(track);
    return tracks_;
  });
}

void TrackExporter::finish() {
  for (Direction* const direction : {&fetches_, &write_backs_}) {
    draw_ended(*direction);
    for (const Transfer& transfer : direction->under_way) {
      const std::array<TrackArgument, 3> arguments = {
          TrackArgument{"transfer", transfer.number},
          TrackArgument{"buffer", id_of(transfer.buffer)},
          TrackArgument{"bytes", transfer.size.count()}};
      const auto time = std::max(transfer.enqueued, direction->free_from);
      sink_.instant(event_on(direction->track, time, "end was not recorded", arguments));
    }
  }
  for (const auto& entry : threads_) {
    for (std::uint32_t i = 0; i < entry.second.open_marks; ++i) {
      sink_.close_slice(entry.second.calls, last_time_);
    }
  }
  for (const auto& entry : open_ranges_) sink_.close_slice(entry.second, last_time_);
  layers_.finish(last_time_);
  if (passes_count_ > 0) {
    sink_.slice(event_on(passes_, pass_began_, "pass " + std::to_string(passes_count_)),
                last_time_ - std::min(last_time_, pass_began_));
  }
  sink_.finish();
}

std::uint64_t TrackExporter::define(Track::Kind kind, std::uint64_t group, std::string name,
                                    Track::Unit unit, std::uint32_t thread) {
  sink_.define({++tracks_, group, kind, unit, thread, std::move(name)});
  return tracks_;
}

std::uint64_t TrackExporter::moment(std::int64_t time) {
  const std::uint64_t at = clamped(time);
  last_time_ = std::max(last_time_, at);
  return at;
}

std::uint64_t TrackExporter::thread_track(std::uint32_t thread) {
  std::uint64_t& track = threads_[thread].calls;
  if (track == 0) {
    track = define(Track::Kind::kThread, program_, names().thread(thread), Track::Unit::kNone,
                   names().thread_id(thread));
  }
  return track;
}

TrackExporter::StreamTracks& TrackExporter::stream_tracks(TraceIndex stream) {
  StreamTracks& tracks = streams_[stream];
  if (tracks.kernels == 0) {
    const std::string& name = names().stream(stream);
    tracks.kernels = define(Track::Kind::kSlices, device_, name + ": kernels");
    tracks.launches = define(Track::Kind::kSlices, device_, name + ": launches");
    tracks.stalls.track = define(Track::Kind::kSlices, device_, name + ": stalls");
  }
  return tracks;
}

std::uint64_t TrackExporter::group_of(TraceIndex call_site) {
  std::uint64_t& track = groups_[call_site];
  if (track != 0) return track;
  if (residents_ == 0) {
    residents_ = define(Track::Kind::kGroup, 0, "Resident pages by call site");
  }
  const std::string name = site_title(names().frames(call_site));
  std::uint64_t& named = group_names_[name];
  if (named == 0) named = define(Track::Kind::kCounter, residents_, name, Track::Unit::kBytes);
  track = named;
  return track;
}

void TrackExporter::count_pages(std::uint64_t time, std::uint64_t group, std::uint64_t come,
                                std::uint64_t go) {
  if (group == 0 || come == go) return;
  std::uint64_t& bytes = group_bytes_[group];
  bytes += come;
  bytes -= std::min(bytes, go);
  sink_.count(group, time, bytes);
}

void TrackExporter::add_page(std::uint64_t time, const TraceFetch& event) {
  if (event.buffer == kNoBuffer) return;
  Residents& residents = buffers_[index_of(event.buffer)];
  // One that was there before has gone: no event tells when a freed buffer's pages are used for
  // another.
  Page& page = residents.pages[event.offset.count()];
  const std::uint64_t before = page.bytes;
  page = {event.footprint.count(), false};
  count_pages(time, residents.group, page.bytes, before);
}

void TrackExporter::remove_page(std::uint64_t time, const TraceEviction& event) {
  const auto place = buffers_.find(index_of(event.buffer));
  if (place == buffers_.end()) return;
  Residents& residents = place->second;
  const auto page = residents.pages.find(event.offset.count());
  if (page == residents.pages.end()) return;
  count_pages(time, residents.group, 0, page->second.bytes);
  residents.pages.erase(page);
  if (residents.pages.empty() && residents.group == 0) buffers_.erase(place);
}

void TrackExporter::begin_life(std::uint64_t time, const TraceAllocation& event) {
  if (event.buffer == kNoBuffer) return;
  const std::uint64_t layer = layers_.add_buffer(event.buffer);
  Residents& residents = buffers_[index_of(event.buffer)];
  residents.group = layer != 0 ? layer : group_of(event.call_site);
  // Pages may have come before, or have stayed of the buffer that had the id: of one with another
  // footprint, none do.
  if (std::exchange(residents.footprint, event.footprint.count()) != event.footprint.count()) {
    std::erase_if(residents.pages, [](const auto& page) { return page.second.is_left; });
  }
  count_pages(time, residents.group, residents.bytes(), 0);
}

void TrackExporter::on_allocation(const TraceMoment& when, const TraceAllocation& event) {
  const auto time = moment(when.time);
  if (const auto ended = live_.add(event)) end_life(time, *ended);
  begin_life(time, event);
  const auto& frames = names().frames(event.call_site);
  const std::string site = frames.empty() ? "" : site_title(frames);
  std::array<TrackArgument, 5> arguments = {TrackArgument{"bytes", event.size.count()},
                                            TrackArgument{"address", event.address}};
  std::size_t count = 2;
  if (event.buffer != kNoBuffer) arguments[count++] = {"buffer", id_of(event.buffer)};
  if (event.number != 0) arguments[count++] = {"number", event.number};
  if (!site.empty()) arguments[count++] = {"call site", site};
  sink_.instant(
      event_on(thread_track(when.thread), time, "allocation", std::span(arguments).first(count)));
}

void TrackExporter::end_life(std::uint64_t time, const LiveAllocation& allocation) {
  if (allocation.what.buffer == kNoBuffer) return;
  const auto place = buffers_.find(index_of(allocation.what.buffer));
  if (place == buffers_.end()) return;
  Residents& residents = place->second;
  count_pages(time, residents.group, 0, residents.bytes());
  residents.group = 0;
  residents.unused.clear();
  for (auto& entry : residents.pages) entry.second.is_left = true;
  if (residents.pages.empty()) buffers_.erase(place);
  layers_.remove_buffer(allocation.what.buffer);
}

void TrackExporter::on_free(const TraceMoment& when, const TraceFree& event) {
  const auto time = moment(when.time);
  const auto ended = live_.remove(event);
  if (ended) end_life(time, *ended);
  std::array<TrackArgument, 3> arguments = {
      TrackArgument{"address", ended ? ended->what.address : event.address}};
  std::size_t count = 1;
  if (ended) arguments[count++] = {"bytes", ended->what.size.count()};
  if (event.buffer != kNoBuffer) arguments[count++] = {"buffer", id_of(event.buffer)};
  sink_.instant(
      event_on(thread_track(when.thread), time, "free", std::span(arguments).first(count)));
}

void TrackExporter::on_launch(const TraceMoment& when, const TraceLaunch& event) {
  const auto time = moment(when.time);
  launches_.add(event);
  layers_.launch(time, event.buffers);
  // Ends that were seen by now are drawn first, so that an arrow begins before it ends.
  if (fetches_.look <= time) draw_ended(fetches_);
  std::vector<std::uint64_t> here;
  WaitingLaunch waiting{event.launch.value, event.kernel, 0, time, 0, {}};
  for (const BufferId buffer : event.buffers) {
    const auto place = buffers_.find(index_of(buffer));
    if (place == buffers_.end() || place->second.unused.empty()) continue;
    for (const std::uint64_t fetch : place->second.unused) {
      (has_ended(fetch) ? here : waiting.flows).push_back(fetch);
    }
    place->second.unused.clear();
  }
  const StreamTracks& tracks = stream_tracks(event.stream);
  const std::array<TrackArgument, 2> arguments = {TrackArgument{"launch", event.launch.value},
                                                  TrackArgument{"buffers", event.buffers.size()}};
  TrackEvent instant = event_on(tracks.launches, time, names().kernel(event.kernel), arguments);
  instant.flows_in = here;
  sink_.instant(instant);
  if (waiting.flows.empty() || waiting_.size() >= kMostUnderWay) return;
  waiting.track = tracks.launches;
  waiting.missing = waiting.flows.size();
  for (const std::uint64_t fetch : waiting.flows) waited_for_[fetch] = waiting.number;
  waiting_[waiting.number] = std::move(waiting);
}

void TrackExporter::on_copy(const TraceMoment& when, const TraceCopy& event) {
  const std::array<TrackArgument, 4> arguments = {
      TrackArgument{"buffer", id_of(event.buffer)}, TrackArgument{"offset", event.offset.count()},
      TrackArgument{"bytes", event.size.count()},
      TrackArgument{"held by", std::string_view(event.on_host ? "the host" : "the device")}};
  sink_.instant(event_on(thread_track(when.thread), moment(when.time),
                         event.to_device ? "copy to device" : "copy from device", arguments));
}

void TrackExporter::on_fetch(const TraceMoment& when, const TraceFetch& event) {
  const auto time = moment(when.time);
  add_page(time, event);
  if (event.size == Bytes{}) return;  // a new page: nothing crosses the link
  const auto place = buffers_.find(index_of(event.buffer));
  if (place != buffers_.end() && place->second.unused.size() < kMostUnderWay) {
    place->second.unused.push_back(event.transfer.value);
  }
  begin_transfer(
      fetches_, {event.transfer.value, time, event.buffer, event.offset, event.size, event.demand});
}

void TrackExporter::on_eviction(const TraceMoment& when, const TraceEviction& event) {
  const auto time = moment(when.time);
  if (event.footprint > Bytes{}) remove_page(time, event);
  if (event.size == Bytes{}) return;  // the host has the content: no transfer
  begin_transfer(write_backs_,
                 {event.transfer.value, time, event.buffer, event.offset, event.size, false});
}

void TrackExporter::begin_transfer(Direction& direction, const Transfer& transfer) {
  auto& under_way = direction.under_way;
  if (transfer.number < direction.last_ended) {
    // They run in their order: it has ended, though it is told only now.
    direction.ended.push_back(transfer);
    return;
  }
  if (under_way.size() >= kMostUnderWay) under_way.pop_front();
  // Transfers of several threads come nearly in their order.
  auto place = under_way.end();
  while (place != under_way.begin() && std::prev(place)->number > transfer.number) --place;
  under_way.insert(place, transfer);
  // Another thread may have seen the end before this one's events were written.
  const auto early = early_ends_.find(transfer.number);
  if (early == early_ends_.end()) return;
  const std::uint64_t end = early->second;
  early_ends_.erase(early);
  end_transfer(direction, transfer.number, end);
}

bool TrackExporter::has_ended(std::uint64_t fetch) const {
  const auto& ended = fetches_.ended;
  const auto& under_way = fetches_.under_way;
  return (ended.empty() || fetch < ended.front().number) &&
         (under_way.empty() || fetch < under_way.front().number);
}

void TrackExporter::on_transfer_end(const TraceMoment& when, const TraceTransferEnd& event) {
  const auto time = moment(when.time);
  if (end_transfer(fetches_, event.transfer.value, time) ||
      end_transfer(write_backs_, event.transfer.value, time)) {
    return;
  }
  early_ends_[event.transfer.value] = time;
  if (early_ends_.size() > kMostEarlyEnds) early_ends_.erase(early_ends_.begin());
}

bool TrackExporter::end_transfer(Direction& direction, std::uint64_t number, std::uint64_t time) {
  auto& under_way = direction.under_way;
  const auto place = std::lower_bound(
      under_way.begin(), under_way.end(), number,
      [](const Transfer& transfer, std::uint64_t wanted) { return transfer.number < wanted; });
  if (place == under_way.end() || place->number != number) return false;
  if (!direction.ended.empty() && time > direction.look + kLookNs) draw_ended(direction);
  // They run one after another: what came before it has ended too, though that was not recorded.
  direction.ended.insert(direction.ended.end(), under_way.begin(), place + 1);
  under_way.erase(under_way.begin(), place + 1);
  direction.last_ended = number;
  direction.look = std::max(direction.look, time);
  if (direction.ended.size() >= kMostUnderWay) draw_ended(direction);
  return true;
}

void TrackExporter::draw_ended(Direction& direction) {
  auto& ended = direction.ended;
  if (ended.empty()) return;
  std::uint64_t begin = std::max(direction.free_from, ended.front().enqueued);
  const std::uint64_t end = std::max(begin, direction.look);
  double bytes = 0;
  for (const Transfer& transfer : ended) bytes += static_cast<double>(transfer.size.count());
  const auto span = static_cast<double>(end - begin);
  const double rate = span > 0 ? bytes * 1e9 / span : 0;
  if (begin > direction.free_from || direction.free_from == 0) {
    sink_.count(direction.rate, direction.free_from, 0);
  }
  sink_.count(direction.rate, begin,
              static_cast<std::uint64_t>(std::min(rate, static_cast<double>(kLatest))));
  for (const Transfer& transfer : ended) {
    const double share = bytes > 0 ? static_cast<double>(transfer.size.count()) / bytes : 0;
    const bool is_last = &transfer == &ended.back();
    const std::uint64_t until =
        is_last ? end : std::min(end, begin + static_cast<std::uint64_t>(span * share));
    const std::array<TrackArgument, 4> arguments = {
        TrackArgument{"buffer", id_of(transfer.buffer)},
        TrackArgument{"offset", transfer.offset.count()},
        TrackArgument{"bytes", transfer.size.count()},
        TrackArgument{"waited_ns", begin - std::min(begin, transfer.enqueued)}};
    const std::string_view name =
        !direction.to_device ? "write-back" : (transfer.demand ? "demand fetch" : "prefetch");
    TrackEvent event = event_on(direction.track, begin, name, arguments);
    if (direction.to_device) event.flows_out = std::span(&transfer.number, 1);
    sink_.slice(event, until - begin);
    begin = until;
  }
  direction.free_from = std::max<std::uint64_t>(end, 1);
  if (direction.to_device) {
    for (const Transfer& transfer : ended) resolve_waiting(transfer.number, end);
  }
  ended.clear();
}

void TrackExporter::resolve_waiting(std::uint64_t fetch, std::uint64_t time) {
  const auto who = waited_for_.find(fetch);
  if (who == waited_for_.end()) return;
  const auto place = waiting_.find(who->second);
  waited_for_.erase(who);
  if (place == waiting_.end() || --place->second.missing > 0) return;
  const WaitingLaunch& launch = place->second;
  const std::array<TrackArgument, 1> arguments = {TrackArgument{"launch", launch.number}};
  TrackEvent event =
      event_on(launch.track, std::max(time, launch.time), "buffers arrived", arguments);
  event.flows_in = launch.flows;
  sink_.instant(event);
  waiting_.erase(place);
}

void TrackExporter::on_stall(const TraceMoment& when, const TraceStall& event) {
  moment(when.time);
  const RecentLaunches::Launch* const launch = launches_.find(event.launch);
  StallTrack& stalls = stall_track(event.launch.value, launch);
  const std::uint64_t end = clamped(later(when.time, event.ready));
  const std::uint64_t begin = std::max(stalls.until, end - std::min(end, event.duration_ns));
  const std::array<TrackArgument, 2> arguments = {TrackArgument{"launch", event.launch.value},
                                                  TrackArgument{"stall_ns", event.duration_ns}};
  const std::string_view name = event.launch.value == 0
                                    ? kNameOfUses
                                    : names().kernel(launch != nullptr ? launch->kernel : 0);
  sink_.slice(event_on(stalls.track, begin, name, arguments), std::max(begin, end) - begin);
  stalls.until = std::max(begin, end);
}

TrackExporter::StallTrack& TrackExporter::stall_track(std::uint64_t number,
                                                      const RecentLaunches::Launch* launch) {
  if (number != 0) return stream_tracks(launch != nullptr ? launch->stream : 0).stalls;
  if (stalls_of_uses_.track == 0) {
    stalls_of_uses_.track =
        define(Track::Kind::kSlices, device_, "memsets and copies on the device: stalls");
  }
  return stalls_of_uses_;
}

void TrackExporter::on_budget(const TraceMoment& when, const TraceBudget& event) {
  const auto time = moment(when.time);
  sink_.count(counters_[0], time, event.budget.count());
  sink_.count(counters_[1], time, event.limit.count());
}

void TrackExporter::on_memory(const TraceMoment& when, const TraceMemory& event) {
  const auto time = moment(when.time);
  sink_.count(counters_[2], time, event.pages.count());
  sink_.count(counters_[3], time, event.live.count());
  sink_.count(counters_[4], time, event.passthrough.count());
  sink_.count(counters_[5], time, event.pinned_host.count());
}

void TrackExporter::on_pass(const TraceMoment& when, const TracePass& /*event*/) {
  const auto time = std::max(moment(when.time), pass_began_);
  if (passes_count_ > 0) {
    sink_.slice(event_on(passes_, pass_began_, "pass " + std::to_string(passes_count_)),
                time - pass_began_);
  }
  ++passes_count_;
  pass_began_ = time;
}

void TrackExporter::on_kernel_time(const TraceMoment& when, const TraceKernelTime& event) {
  moment(when.time);
  const RecentLaunches::Launch* const launch = launches_.find(event.launch);
  const TraceIndex launched = launch != nullptr ? launch->kernel : 0;
  const TraceIndex kernel = event.kernel != 0 ? event.kernel : launched;
  StreamTracks& tracks = stream_tracks(launch != nullptr ? launch->stream : 0);
  const std::uint64_t told = clamped(later(when.time, event.begin));
  const std::uint64_t begin = std::max(tracks.kernels_until, told);
  const std::uint64_t end = std::max(begin, told + std::min(event.duration_ns, kLatest));
  const bool is_one = event.launches <= 1;
  const std::string& last = names().kernel(kernel);
  const std::string several = std::to_string(event.launches) + " launches";
  const std::array<TrackArgument, 3> arguments = {TrackArgument{"launch", event.launch.value},
                                                  TrackArgument{"duration_ns", event.duration_ns},
                                                  TrackArgument{"last kernel", last}};
  sink_.slice(event_on(tracks.kernels, begin, is_one ? last : several,
                       std::span(arguments).first(is_one ? 2 : 3)),
              end - begin);
  tracks.kernels_until = end;
}

void TrackExporter::on_mark(const TraceMoment& when, const TraceMark& event) {
  const auto time = moment(when.time);
  if (event.way == TraceMark::kPoint) {
    sink_.instant(event_on(thread_track(when.thread), time, names().text(event.text)));
    return;
  }
  if (event.range == 0) {
    const auto track = thread_track(when.thread);
    std::uint32_t& open = threads_[when.thread].open_marks;
    if (event.way == TraceMark::kBegin) {
      ++open;
      sink_.open_slice(event_on(track, time, names().text(event.text)));
    } else if (open > 0) {
      --open;
      sink_.close_slice(track, time);
    }
    return;
  }
  const auto open = open_ranges_.find(event.range);
  if (event.way == TraceMark::kEnd && open != open_ranges_.end()) {
    sink_.close_slice(open->second, time);
    free_lanes_.push_back(open->second);
    open_ranges_.erase(open);
  } else if (event.way == TraceMark::kBegin && open == open_ranges_.end()) {
    // Ranges overlap as they like: each has a row for itself while it lasts.
    if (free_lanes_.empty()) {
      free_lanes_.push_back(
          define(Track::Kind::kSlices, program_, "marked ranges " + std::to_string(++lanes_)));
    }
    const auto lane = free_lanes_.back();
    free_lanes_.pop_back();
    open_ranges_[event.range] = lane;
    sink_.open_slice(event_on(lane, time, names().text(event.text)));
  }
}

void TrackExporter::on_wait(const TraceMoment& when, const TraceWait& event) {
  const auto time = moment(when.time);
  ThreadTracks& tracks = threads_[when.thread];
  // A row of its own: the slices of marks begin and end while a call waits.
  if (tracks.waits == 0) {
    tracks.waits = define(Track::Kind::kSlices, program_, names().thread(when.thread) + ": waits");
  }
  const std::uint64_t begin =
      std::max(tracks.waits_until, time - std::min(time, event.duration_ns));
  const std::array<TrackArgument, 1> arguments = {TrackArgument{"wait_ns", event.duration_ns}};
  tracks.waits_until = std::max(begin, time);
  sink_.slice(event_on(tracks.waits, begin, name_of_wait(event.what), arguments),
              tracks.waits_until - begin);
}

void TrackExporter::on_dropped(const TraceMoment& when, const TraceDropped& event) {
  const std::array<TrackArgument, 1> arguments = {TrackArgument{"events", event.events}};
  sink_.instant(event_on(thread_track(when.thread), moment(when.time), "events were not recorded",
                         arguments));
}

}  // namespace superpipe::cli
