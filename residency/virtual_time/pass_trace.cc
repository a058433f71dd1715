#include "residency/virtual_time/pass_trace.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "policy/budget.h"
#include "policy/launch_sequence.h"
#include "policy/reference_traffic.h"
#include "policy/windowed_bound.h"

namespace superpipe::virtual_time {
namespace {

class Recorder : public Program {
 public:
  explicit Recorder(Bytes granule) { trace_.granule = granule; }

  void on_stream(std::uint32_t stream) override { has_streams_ = has_streams_ || stream != 0; }
  Handle allocate(Bytes size) override {
    const Handle handle{static_cast<std::uint32_t>(buffers_.size())};
    const Bytes footprint = round_up(size, trace_.granule);
    trace_.sizes.push_back(size);
    trace_.footprints.push_back(footprint);
    buffers_.push_back({trace_.passes.size(), 0, 0, Bytes{}});
    live_ += footprint;
    if (!trace_.passes.empty()) {
      TracedPass& pass = trace_.passes.back();
      pass.peak = std::max(pass.peak, live_);
      lives_.push_back({handle, true});
    }
    return handle;
  }
  void free(Handle buffer) override {
    live_ -= trace_.footprints[index_of(buffer)];
    if (trace_.passes.empty()) return;
    lives_.push_back({buffer, false});
    const Known& known = buffers_[index_of(buffer)];
    if (known.named_in == 0) return;
    trace_.passes[known.named_in - 1].launches[known.named_by].ends.push_back(buffer);
  }
  void upload(Handle buffer) override { copy_in(buffer, Bytes{}, trace_.sizes[index_of(buffer)]); }
  void launch(KernelId kernel, std::span<const Named> buffers, Seconds compute) override {
    TracedLaunch launch;
    launch.kernel = kernel;
    launch.compute = compute;
    for (const Named& named : buffers) {
      launch.buffers.push_back(named.buffer);
      if (named.is_written) launch.writes.push_back(named.buffer);
    }
    launch.follows_wait = std::exchange(has_waited_, false);
    is_behind_launch_ = true;
    if (trace_.passes.empty()) {
      trace_.last_of_load = std::move(launch);
    } else {
      add(std::move(launch));
    }
    note_writes(buffers);
  }
  void synchronize() override {
    has_waited_ = true;
    is_behind_launch_ = false;
  }
  void copy_in(Handle buffer, Bytes /*offset*/, Bytes size) override {
    if (size == Bytes{}) return;
    buffers_[index_of(buffer)].filled += size;
    note_wait();
  }
  void copy_out(Handle buffer, Bytes /*offset*/, Bytes size) override {
    if (size == Bytes{}) return;
    note_copy_out(buffer, size);
    note_wait();
  }
  void use(std::span<const Named> buffers, Seconds /*time*/) override {
    // What it fills in a pass comes from nowhere there.
    if (trace_.passes.empty()) {
      note_writes(buffers);
      trace_.last_of_load.reset();
    }
    has_waited_ = is_behind_launch_ = false;
  }
  void work(Seconds /*time*/) override { is_behind_launch_ = false; }

  void begin_pass() {
    if (trace_.passes.empty()) {
      for (std::size_t index = 0; index < buffers_.size(); ++index) {
        if (has_content(index)) continue;
        trace_.without_content.push_back(Handle{static_cast<std::uint32_t>(index)});
      }
      has_waited_ = true;
    }
    trace_.passes.emplace_back();
    trace_.passes.back().earlier = buffers_.size();
    trace_.passes.back().peak = live_;
    lives_.clear();
  }
  void end_pass() {
    // Only now is it known which of the pass's buffers it has freed.
    std::vector<bool> ends(buffers_.size(), false);
    for (const auto& [handle, begins] : lives_) {
      if (!begins) ends[index_of(handle)] = true;
    }
    Bytes transients;
    TracedPass& pass = trace_.passes.back();
    for (const auto& [handle, begins] : lives_) {
      const std::uint32_t index = index_of(handle);
      if (buffers_[index].made_in != trace_.passes.size() || !ends[index]) continue;
      if (begins) {
        transients += trace_.footprints[index];
      } else {
        transients -= trace_.footprints[index];
      }
      pass.transients = std::max(pass.transients, transients);
    }
  }
  PassTrace take() { return std::move(trace_); }

 private:
  struct Known {
    std::size_t made_in;   // the number of the pass, from 1 on; 0: while loading
    std::size_t named_in;  // the last pass that named it; 0: none
    std::size_t named_by;  // its last launch that did
    Bytes filled;          // by copies, or all of it by a kernel
  };
  struct Change {
    Handle handle{};
    bool begins = false;
  };

  void add(TracedLaunch launch) {
    TracedPass& pass = trace_.passes.back();
    const std::size_t number = trace_.passes.size();
    for (const Handle handle : launch.buffers) {
      Known& known = buffers_[index_of(handle)];
      const bool is_first = known.named_in == 0 && known.made_in > 0;
      const bool makes = is_first || !has_content(index_of(handle));
      if (makes) launch.makes.push_back(handle);
      if (!makes && known.made_in != number && known.named_in != number) {
        pass.persistent += trace_.sizes[index_of(handle)];
      }
      known.named_in = number;
      known.named_by = pass.launches.size();
    }
    pass.compute += launch.compute;
    pass.launches.push_back(std::move(launch));
  }

  // Of what has none, nothing crosses the link: it reads as zero, or as anything.
  [[nodiscard]] bool has_content(std::size_t index) const {
    return buffers_[index].filled >= trace_.sizes[index];
  }

  // What the launch before did not write, or wrote some time ago, may be on the host.
  void note_copy_out(Handle buffer, Bytes size) {
    if (has_streams_ || !is_behind_launch_ || trace_.passes.empty()) return;
    if (trace_.passes.back().launches.empty()) return;
    TracedLaunch& last = trace_.passes.back().launches.back();
    if (std::find(last.writes.begin(), last.writes.end(), buffer) == last.writes.end()) return;
    last.copied_out = size;
  }

  // A copy waits for its stream alone.
  void note_wait() {
    has_waited_ = has_waited_ || !has_streams_;
    is_behind_launch_ = false;
  }

  void note_writes(std::span<const Named> buffers) {
    for (const Named& named : buffers) {
      const std::uint32_t index = index_of(named.buffer);
      if (named.is_written) buffers_[index].filled = trace_.sizes[index];
    }
  }

  PassTrace trace_;
  std::vector<Known> buffers_;
  std::vector<Change> lives_;  // that began or ended in this pass
  Bytes live_;
  bool has_streams_ = false;       // more than one
  bool has_waited_ = false;        // for all that it submitted
  bool is_behind_launch_ = false;  // it has done nothing else since the last
};

/// Launches one after another, of whose buffers only those count whose bytes are given.
class CountedLaunches {
 public:
  /// `bytes`: by handle, of those that count.
  explicit CountedLaunches(std::span<const Bytes> bytes) : bytes_(bytes.begin(), bytes.end()) {}

  void add(std::span<const Handle> buffers, std::span<const Handle> makes, Seconds compute) {
    launches_.push_back({compute, numbers_of(buffers), numbers_of(makes)});
  }
  /// For so long the device has nothing to compute.
  void add_idle(Seconds time) {
    if (time > Seconds{}) launches_.push_back({time, {}, {}});
  }

  /// Valid as long as this object, until something is added.
  [[nodiscard]] LaunchSequence sequence() const { return {launches_, bytes_}; }

 private:
  std::span<const BufferId> numbers_of(std::span<const Handle> handles) {
    std::vector<BufferId>& numbers = numbers_.emplace_back();
    for (const Handle handle : handles) numbers.push_back(BufferId{index_of(handle)});
    return numbers;
  }

  std::vector<Bytes> bytes_;
  std::deque<std::vector<BufferId>> numbers_;
  std::vector<TimedLaunch> launches_;
};

/// Adds passes [first, last) of `trace`.
void add_passes(CountedLaunches& counted, const PassTrace& trace, std::size_t first,
                std::size_t last, const Speeds& speeds) {
  for (std::size_t pass = first; pass < last; ++pass) {
    for (const TracedLaunch& launch : trace.passes[pass].launches) {
      if (launch.follows_wait) counted.add_idle(speeds.launch);
      counted.add(launch.buffers, launch.makes, launch.compute);
      counted.add_idle(speeds.to_host.time_for(launch.copied_out));
    }
  }
}

/// Passes [first, last) of `trace`, for what they fetch. `bytes`: as for CountedLaunches.
CountedLaunches in_order(const PassTrace& trace, std::size_t first, std::size_t last,
                         std::span<const Bytes> bytes, const Speeds& speeds) {
  CountedLaunches counted(bytes);
  add_passes(counted, trace, first, last, speeds);
  return counted;
}

/// The same for what they write back, backwards in time. What a launch changes can go to the host
/// only when it has ended, as what a launch names has to be there before it begins; and as nothing
/// crosses for what a launch makes, nothing does for what is freed behind it.
CountedLaunches in_reverse(const PassTrace& trace, std::size_t first, std::size_t last,
                           const Speeds& speeds) {
  CountedLaunches counted(trace.sizes);
  for (std::size_t pass = last; pass-- > first;) {
    const std::vector<TracedLaunch>& launches = trace.passes[pass].launches;
    for (auto launch = launches.rbegin(); launch != launches.rend(); ++launch) {
      counted.add_idle(speeds.to_host.time_for(launch->copied_out));
      std::vector<Handle> there = launch->writes;
      there.insert(there.end(), launch->ends.begin(), launch->ends.end());
      counted.add(there, launch->ends, launch->compute);
      if (launch->follows_wait) counted.add_idle(speeds.launch);
    }
  }
  return counted;
}

Seconds bound_of_fetches(const PassTrace& trace, std::size_t first, std::size_t last, Bytes budget,
                         const Speeds& speeds) {
  const CountedLaunches counted = in_order(trace, first, last, trace.sizes, speeds);
  return windowed_bound(counted.sequence(), budget, speeds.to_device);
}

Seconds bound_of_write_backs(const PassTrace& trace, std::size_t first, std::size_t last,
                             Bytes budget, const Speeds& speeds) {
  const CountedLaunches counted = in_reverse(trace, first, last, speeds);
  return windowed_bound(counted.sequence(), budget, speeds.to_host);
}

}  // namespace

Bytes PassTrace::peak() const {
  Bytes most;
  for (const TracedPass& pass : passes) most = std::max(most, pass.peak);
  return most;
}

PassTrace record_passes(Workload& workload, int passes, Bytes granule) {
  Recorder recorder(granule);
  workload.load(recorder);
  for (int number = 0; number < passes; ++number) {
    recorder.begin_pass();
    workload.run_pass(recorder, number);
    recorder.end_pass();
  }
  return recorder.take();
}

Speeds speeds_of(const VirtualDeviceOptions& device) {
  return {device.to_device, device.to_host, device.costs.launch};
}

Seconds bound_of_pass(const PassTrace& trace, std::size_t pass, Bytes budget,
                      const Speeds& speeds) {
  return std::max(bound_of_fetches(trace, pass, pass + 1, budget, speeds),
                  bound_of_write_backs(trace, pass, pass + 1, budget, speeds));
}

Seconds bound_of_first_pass(const PassTrace& trace, Bytes budget, const Speeds& speeds,
                            Seconds since_launch) {
  const Seconds alone = bound_of_pass(trace, 0, budget, speeds);
  if (!trace.last_of_load) return alone;
  CountedLaunches counted(trace.sizes);
  counted.add(trace.last_of_load->buffers, {}, Seconds{});
  add_passes(counted, trace, 0, 1, speeds);
  const Seconds behind = windowed_bound(counted.sequence(), budget, speeds.to_device);
  return std::max(alone, behind - since_launch);
}

Bounds bounds_of(const PassTrace& trace, std::size_t first, Bytes budget, const Speeds& speeds) {
  Bounds bounds;
  for (std::size_t i = first; i < trace.passes.size(); ++i) {
    const TracedPass& pass = trace.passes[i];
    const PassCost cost{pass.compute, pass.persistent, speeds.to_device};
    bounds.compute += pass.compute;
    bounds.physical += physical_bound(cost, budget);
  }
  const std::size_t end = trace.passes.size();
  const auto passes = static_cast<double>(end - first);
  bounds.compute /= passes;
  bounds.physical /= passes;
  Bytes transients = trace.passes[first].transients;
  for (std::size_t i = first; i < end; ++i) {
    transients = std::min(transients, trace.passes[i].transients);
  }
  const Bytes fit = saturating_subtract(budget, transients);
  bounds.fetches = bound_of_fetches(trace, first, end, budget, speeds) / passes;
  bounds.write_backs = bound_of_write_backs(trace, first, end, budget, speeds) / passes;
  bounds.windowed = std::max({bounds.physical, bounds.fetches, bounds.write_backs});
  const CountedLaunches one = in_order(trace, end - 1, end, trace.sizes, speeds);
  bounds.repeated = windowed_bound_per_pass(one.sequence(), budget, speeds.to_device);
  const auto earlier = std::span(trace.footprints).first(trace.passes[first].earlier);
  const CountedLaunches before = in_order(trace, 0, first, earlier, speeds);
  const CountedLaunches all = in_order(trace, 0, end, earlier, speeds);
  const auto mean_of = [&](Replacement replacement) {
    const Bytes fetched = saturating_subtract(fetched_bytes(all.sequence(), fit, replacement),
                                              fetched_bytes(before.sequence(), fit, replacement));
    return Bytes{fetched.count() / (end - first)};
  };
  bounds.min_bytes = mean_of(Replacement::kMin);
  bounds.lru_bytes = mean_of(Replacement::kLru);
  bounds.bip_bytes = mean_of(Replacement::kBip);
  return bounds;
}

}  // namespace superpipe::virtual_time
