#include "residency/virtual_time/pass_trace.h"

#include <algorithm>
#include <cstdint>
#include <span>

#include "policy/budget.h"
#include "policy/launch_sequence.h"
#include "policy/reference_traffic.h"
#include "policy/windowed_bound.h"

namespace superpipe::virtual_time {
namespace {

class Recorder : public Program {
 public:
  explicit Recorder(Bytes granule) { trace_.granule = granule; }

  void on_stream(std::uint32_t /*stream*/) override {}
  Handle allocate(Bytes size) override {
    const Handle handle{static_cast<std::uint32_t>(buffers_.size())};
    const Bytes footprint = round_up(size, trace_.granule);
    trace_.sizes.push_back(size);
    trace_.footprints.push_back(footprint);
    buffers_.push_back({trace_.passes.size(), 0, false});
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
    if (!trace_.passes.empty()) lives_.push_back({buffer, false});
  }
  void upload(Handle buffer) override { buffers_[index_of(buffer)].has_content = true; }
  void launch(KernelId kernel, std::span<const Named> buffers, Seconds compute) override {
    note_writes(buffers);
    if (trace_.passes.empty()) return;  // still loading
    TracedPass& pass = trace_.passes.back();
    TracedLaunch& launch = pass.launches.emplace_back();
    launch.kernel = kernel;
    launch.compute = compute;
    for (const Named& named : buffers) {
      launch.buffers.push_back(named.buffer);
      if (named.is_written) launch.writes.push_back(named.buffer);
    }
    pass.compute += compute;
    const std::size_t number = trace_.passes.size();
    for (const Handle handle : launch.buffers) {
      Known& known = buffers_[index_of(handle)];
      if (known.made_in > 0 && known.named_in == 0) launch.makes.push_back(handle);
      if (known.made_in != number && known.named_in != number) {
        pass.persistent += trace_.sizes[index_of(handle)];
      }
      known.named_in = number;
    }
  }
  void synchronize() override {}
  void copy_in(Handle buffer, Bytes /*offset*/, Bytes /*size*/) override { upload(buffer); }
  void copy_out(Handle /*buffer*/, Bytes /*offset*/, Bytes /*size*/) override {}
  void use(std::span<const Named> buffers, Seconds /*time*/) override { note_writes(buffers); }
  void work(Seconds /*time*/) override {}

  void begin_pass() {
    if (trace_.passes.empty()) {
      for (std::size_t index = 0; index < buffers_.size(); ++index) {
        if (buffers_[index].has_content) continue;
        trace_.without_content.push_back(Handle{static_cast<std::uint32_t>(index)});
      }
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
    std::size_t named_in;  // the last pass that named it
    bool has_content;      // something was copied to it, or a kernel wrote it
  };
  struct Change {
    Handle handle{};
    bool begins = false;
  };

  void note_writes(std::span<const Named> buffers) {
    for (const Named& named : buffers) {
      if (named.is_written) buffers_[index_of(named.buffer)].has_content = true;
    }
  }

  PassTrace trace_;
  std::vector<Known> buffers_;
  std::vector<Change> lives_;  // that began or ended in this pass
  Bytes live_;
};

/// The launches of some passes, of whose buffers only those count whose bytes are given.
class CountedLaunches {
 public:
  /// Passes [first, last) of `trace`. `bytes`: by handle, of those that count.
  CountedLaunches(const PassTrace& trace, std::size_t first, std::size_t last,
                  std::span<const Bytes> bytes)
      : bytes_(bytes.begin(), bytes.end()) {
    for (std::size_t pass = first; pass < last; ++pass) {
      for (const TracedLaunch& launch : trace.passes[pass].launches) {
        std::vector<BufferId>& buffers = buffers_.emplace_back();
        for (const Handle handle : launch.buffers) buffers.push_back(BufferId{index_of(handle)});
        std::vector<BufferId>& made = made_.emplace_back();
        for (const Handle handle : launch.makes) made.push_back(BufferId{index_of(handle)});
        launches_.push_back({launch.compute, {}});
      }
    }
    for (std::size_t i = 0; i < launches_.size(); ++i) {
      launches_[i].buffers = buffers_[i];
      launches_[i].makes = made_[i];
    }
  }

  /// Valid as long as this object.
  [[nodiscard]] LaunchSequence sequence() const { return {launches_, bytes_}; }

 private:
  std::vector<Bytes> bytes_;
  std::vector<std::vector<BufferId>> buffers_;
  std::vector<std::vector<BufferId>> made_;
  std::vector<TimedLaunch> launches_;
};

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

Seconds bound_of_pass(const PassTrace& trace, std::size_t pass, Bytes budget,
                      Bandwidth host_to_device) {
  const CountedLaunches one(trace, pass, pass + 1, trace.sizes);
  return windowed_bound(one.sequence(), budget, host_to_device);
}

Bounds bounds_of(const PassTrace& trace, std::size_t first, Bytes budget,
                 Bandwidth host_to_device) {
  Bounds bounds;
  for (std::size_t i = first; i < trace.passes.size(); ++i) {
    const TracedPass& pass = trace.passes[i];
    const PassCost cost{pass.compute, pass.persistent, host_to_device};
    bounds.compute += pass.compute;
    bounds.physical += physical_bound(cost, budget);
  }
  const auto passes = static_cast<double>(trace.passes.size() - first);
  bounds.compute /= passes;
  bounds.physical /= passes;
  Bytes transients = trace.passes[first].transients;
  for (std::size_t i = first; i < trace.passes.size(); ++i) {
    transients = std::min(transients, trace.passes[i].transients);
  }
  const Bytes fit = saturating_subtract(budget, transients);
  const CountedLaunches counted(trace, first, trace.passes.size(), trace.sizes);
  bounds.windowed = std::max(bounds.physical,
                             windowed_bound(counted.sequence(), budget, host_to_device) / passes);
  const std::size_t last = trace.passes.size() - 1;
  const CountedLaunches one(trace, last, last + 1, trace.sizes);
  bounds.repeated = windowed_bound_per_pass(one.sequence(), budget, host_to_device);
  const auto earlier = std::span(trace.footprints).first(trace.passes[first].earlier);
  const CountedLaunches before(trace, 0, first, earlier);
  const CountedLaunches all(trace, 0, trace.passes.size(), earlier);
  const auto mean_of = [&](Replacement replacement) {
    const Bytes fetched = saturating_subtract(fetched_bytes(all.sequence(), fit, replacement),
                                              fetched_bytes(before.sequence(), fit, replacement));
    return Bytes{fetched.count() / (trace.passes.size() - first)};
  };
  bounds.min_bytes = mean_of(Replacement::kMin);
  bounds.lru_bytes = mean_of(Replacement::kLru);
  bounds.bip_bytes = mean_of(Replacement::kBip);
  return bounds;
}

}  // namespace superpipe::virtual_time
