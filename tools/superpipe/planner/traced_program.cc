#include "tools/superpipe/planner/traced_program.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "profiler/trace_event.h"
#include "profiler/trace_recorder.h"
#include "tools/superpipe/planner/kernel_times.h"
#include "tools/superpipe/planner/link_meter.h"
#include "tools/superpipe/planner/nameless_times.h"
#include "tools/superpipe/planner/queue_meter.h"

namespace superpipe::cli {
namespace {

// In a trace without waits, a longer time between two calls is a wait in the first of them, or for
// a user.
constexpr double kMostHostMicroseconds = 200;
constexpr std::uint16_t kFirstMinorWithWaits = 3;
// More steps or names than that are not a program: a plan would take more memory than it may.
constexpr std::size_t kMostSteps = 40'000'000;
constexpr std::size_t kMostNames = 200'000'000;

}  // namespace

/// Makes a program of what a reader finds.
class TracedProgramBuilder final : public TraceVisitor {
 public:
  explicit TracedProgramBuilder(const TraceReader& reader)
      : has_waits_(reader.version().minor >= kFirstMinorWithWaits) {
    read_properties(reader.properties());
  }

  void on_kernel(const TraceKernel& event) override {
    kernels_[event.index] = static_cast<std::uint32_t>(program_.kernels_.size());
    program_.kernels_.push_back(event.id);
    program_.kernel_names_.emplace_back(event.name);
  }

  void on_allocation(const TraceMoment& when, const TraceAllocation& event) override {
    if (event.buffer == kNoBuffer) return;
    end_life(event.buffer, when);
    const auto number = static_cast<std::uint32_t>(program_.footprints_.size());
    live_[event.buffer] = number;
    program_.footprints_.push_back(event.footprint);
    program_.sizes_.push_back(event.size);
    copied_in_.emplace_back();
    leavings_.emplace_back();
    live_bytes_ += event.footprint;
    program_.peak_ = std::max(program_.peak_, live_bytes_);
    TracedStep step;
    step.kind = TracedStep::Kind::kAllocate;
    step.buffer = number;
    add(when, step);
  }
  void on_free(const TraceMoment& when, const TraceFree& event) override {
    if (event.buffer != kNoBuffer) end_life(event.buffer, when);
  }
  void on_launch(const TraceMoment& when, const TraceLaunch& event) override {
    TracedStep step;
    step.kind = TracedStep::Kind::kLaunch;
    step.kernel = kernel_of(event.kernel);
    const Bytes bytes = name_all(event.buffers, step);
    if (bytes > program_.largest_launch_) {
      program_.largest_launch_ = bytes;
      program_.largest_kernel_ = program_.kernel_names_[step.kernel];
    }
    if (launches_.empty()) first_time_ = when.time;
    // One that names nothing has the number of the last that does.
    NumberedLaunch& recent = recent_[event.launch.value % kMostRecent];
    const std::uint64_t place =
        queue_.submit(event.stream, when.thread, static_cast<double>(when.time));
    if (!event.buffers.empty() || recent.number != event.launch.value) {
      const std::size_t named = program_.launch_steps_.size() + (step.names > 0 ? 1U : 0U);
      recent = {event.launch.value, launches_.size(), named, place};
    }
    launches_.push_back(static_cast<std::uint32_t>(program_.steps_.size()));
    if (step.names > 0) {
      program_.launch_steps_.push_back(launches_.back());
      named_launches_.push_back({step.kernel, bytes});
      program_.launch_times_.push_back(when.time);
    }
    streams_.push_back(event.stream);
    waited_until_.clear();
    add(when, step);
  }
  void on_use(const TraceMoment& when, const TraceUse& event) override {
    TracedStep step;
    step.kind = TracedStep::Kind::kUse;
    step.writes = event.writes;
    (void)name_all(event.buffers, step);
    (void)queue_.submit(event.stream, when.thread, static_cast<double>(when.time));
    add(when, step);
  }
  void on_copy(const TraceMoment& when, const TraceCopy& event) override {
    const auto buffer = live_.find(event.buffer);
    if (buffer == live_.end()) return;
    const Bytes whole = program_.sizes_[buffer->second];
    if (event.offset > whole || event.size > whole - event.offset) return;
    TracedStep step;
    step.kind = event.to_device ? TracedStep::Kind::kCopyIn : TracedStep::Kind::kCopyOut;
    step.buffer = buffer->second;
    step.part = static_cast<std::uint32_t>(program_.parts_.size());
    program_.parts_.push_back({event.offset, event.size});
    if (event.to_device) copied_in_[buffer->second] += event.size;
    add(when, step);
  }
  void on_fetch(const TraceMoment& when, const TraceFetch& event) override {
    program_.run_.to_device += event.size;
    if (event.size > Bytes{}) fetches_.enqueue(event.transfer.value, when.time, event.size);
  }
  void on_transfer_end(const TraceMoment& when, const TraceTransferEnd& event) override {
    fetches_.end(event.transfer.value, when.time);
    write_backs_.end(event.transfer.value, when.time);
  }
  void on_eviction(const TraceMoment& when, const TraceEviction& event) override {
    program_.run_.to_host += event.size;
    if (event.size > Bytes{}) write_backs_.enqueue(event.transfer.value, when.time, event.size);
    if (event.footprint == Bytes{}) return;  // copied ahead of need: nothing has left
    const auto buffer = live_.find(event.buffer);
    if (buffer == live_.end()) return;
    Leavings& leavings = leavings_[buffer->second];
    if (event.size == Bytes{}) {
      ++leavings.clean;
    } else if (!written_parts_.emplace(buffer->second, event.offset).second) {
      ++leavings.written;
    }
  }
  void on_stall(const TraceMoment& /*when*/, const TraceStall& event) override {
    program_.run_.stall_seconds += static_cast<double>(event.duration_ns) * 1e-9;
  }
  void on_budget(const TraceMoment& /*when*/, const TraceBudget& event) override {
    program_.run_.budget = event.budget;
  }
  void on_memory(const TraceMoment& /*when*/, const TraceMemory& event) override {
    constexpr Bytes kMost = 1024_GiB;  // no device has more
    const Bytes held = std::min(event.passthrough, kMost);
    TracedRun& run = program_.run_;
    run.peak_device = std::max(run.peak_device, std::min(event.pages, kMost) + held);
    const Bytes before = held_.empty() ? Bytes{} : held_.back().bytes;
    if (held == before) return;
    // Superpipe saw it, at whatever time: the program did nothing for that.
    held_.push_back({program_.steps_.size(), held});
    TracedStep step;
    step.kind = TracedStep::Kind::kHoldBesides;
    push(step);
  }
  void on_wait(const TraceMoment& when, const TraceWait& event) override {
    note_work(when, event.duration_ns);
    if (event.what == TraceWait::kLaunch) {
      queue_.wait(when.thread, static_cast<double>(when.time),
                  static_cast<double>(event.duration_ns));
    }
    if (event.what == TraceWait::kDevice || event.what == TraceWait::kCopy) {
      note_wait_behind(static_cast<double>(when.time), static_cast<double>(event.duration_ns));
    }
    // The replay waits where it does for superpipe, and in copies.
    if (event.what != TraceWait::kDevice) return;
    TracedStep step;
    step.kind = TracedStep::Kind::kSynchronize;
    add(when, step);
  }
  void on_text(const TraceText& event) override {
    if (event.text == kTraceGraphLaunch) graph_launch_ = event.index;
    if (event.text == kTraceRefusal) refusal_ = event.index;
  }

  void on_mark(const TraceMoment& /*when*/, const TraceMark& event) override {
    if (event.way != TraceMark::kPoint || event.text == 0) return;
    program_.graph_launches_ += event.text == graph_launch_ ? 1U : 0U;
    program_.refusals_ += event.text == refusal_ ? 1U : 0U;
  }

  void on_kernel_time(const TraceMoment& when, const TraceKernelTime& event) override {
    const NumberedLaunch& launch = recent_[event.launch.value % kMostRecent];
    if (event.launches == 0) {
      const auto microseconds = static_cast<float>(event.duration_ns) * 1e-3F;
      if (launch.number == event.launch.value) {
        of_nothing_.add(place_of(kernel_of(event.kernel), launch.named), microseconds);
      } else {
        of_nothing_.add(kernel_of(event.kernel), microseconds);
      }
      return;
    }
    if (launch.number != event.launch.value || event.launch.value == 0) return;
    times_.push_back({launch.index, event.launches, event.duration_ns});
    // It had ended when that was told, but times of a damaged trace may be anything.
    const auto told = static_cast<double>(when.time);
    const double end =
        told + static_cast<double>(event.begin) + static_cast<double>(event.duration_ns);
    if (end > told + static_cast<double>(TraceRecorder::kTimeStep.count())) return;
    queue_.end(streams_[launch.index], launch.place, end);
    if (end < last_kernel_end_) return;
    last_kernel_end_ = end;
    last_kernel_launch_ = launch.index;
  }

  std::variant<TracedProgram, std::string> finish(const TraceEnding& ending) {
    if (is_too_large_) return std::string("it has more steps than a plan can be made of");
    if (program_.launch_steps_.empty()) {
      const std::string none = "it has no launch of a kernel that names a managed buffer";
      return ending.is_complete ? none
                                : none + "; the traced process died before it wrote more of it";
    }
    program_.ending_ = ending;
    program_.end_time_ = last_time_;
    program_.launches_end_ = end_of_launches();
    give_held();
    program_.run_.link_to_device = fetches_.speed();
    program_.run_.link_to_host = write_backs_.speed();
    program_.run_.queue_depth = queue_.depth();
    program_.run_.seconds = static_cast<double>(last_time_ - first_time_) * 1e-9;
    for (std::size_t buffer = 0; buffer < program_.sizes_.size(); ++buffer) {
      const bool is_loaded = copied_in_[buffer].count() >= program_.sizes_[buffer].count() / 2;
      const Leavings& leavings = leavings_[buffer];
      program_.written_.push_back(leavings.written > leavings.clean ||
                                  (leavings.clean == 0 && !is_loaded));
    }
    give_times();
    return std::move(program_);
  }

 private:
  /// What the driver held beside pages from a step on.
  struct Held {
    std::size_t step;
    Bytes bytes;
  };
  /// How often parts of a buffer left the device. The first write-back of each says nothing: the
  /// host had no content before. Nor does a single later one: it may have been done because nobody
  /// knew in time that it was not needed.
  struct Leavings {
    std::uint32_t clean = 0;    ///< without a write-back
    std::uint32_t written = 0;  ///< with one
  };

  /// Launches whose times may still come: seconds of them.
  static constexpr std::size_t kMostRecent = std::size_t{1} << 18;
  struct NumberedLaunch {
    std::uint64_t number = 0;
    std::size_t index = 0;    ///< in launches_
    std::size_t named = 0;    ///< launches that name something, this one included
    std::uint64_t place = 0;  ///< in its stream's queue_
  };
  struct KernelTime {
    std::size_t launch;  ///< index in launches_
    std::uint64_t launches;
    std::uint64_t duration_ns;
  };
  struct Mean {
    double time = 0;
    double weight = 0;
  };

  void read_properties(const TraceProperties& properties) {
    TracedRun& run = program_.run_;
    const auto bytes = [&](const char* key) { return Bytes{properties.number(key).value_or(0)}; };
    run.policy = policy_from_name(properties.text("policy.name").value_or("resident"))
                     .value_or(PolicyKind::kResident);
    const auto layers = [&](const char* key) -> std::optional<int> {
      constexpr std::uint64_t kMost = 1'000'000;
      const auto number = properties.number(key);
      return number && *number <= kMost ? std::optional(static_cast<int>(*number)) : std::nullopt;
    };
    run.k = layers("policy.k");
    run.k_prime = layers("policy.k_prime");
    run.budget = bytes("budget.bytes");
    run.headroom = bytes("budget.headroom_bytes");
    run.context = bytes("device.context_bytes");
    run.device = bytes("device.total_bytes");
    run.device_name = properties.text("device.name").value_or("");
    // Another number is none of a device's: the usual one then stands.
    const std::uint64_t granule = bytes("buffer.granule_bytes").count();
    if (std::has_single_bit(granule) && granule >= 4096 && granule <= (std::uint64_t{1} << 30)) {
      run.granule = Bytes{granule};
    }
    // The same holds for less than any device's memory does.
    const std::uint64_t memory = bytes("device.memory_bytes_per_second").count();
    if (memory >= 100'000'000) run.memory = Bandwidth{static_cast<double>(memory)};
    for (const std::string& word : properties.texts("process.argument")) {
      run.command += (run.command.empty() ? "" : " ") + word;
    }
  }

  void end_life(BufferId buffer, const TraceMoment& when) {
    const auto live = live_.find(buffer);
    if (live == live_.end()) return;
    TracedStep step;
    step.kind = TracedStep::Kind::kFree;
    step.buffer = live->second;
    live_bytes_ -= program_.footprints_[live->second];
    live_.erase(live);
    add(when, step);
  }

  // Puts the live buffers among `buffers` into `step`. @return what they take.
  Bytes name_all(std::span<const BufferId> buffers, TracedStep& step) {
    Bytes bytes;
    step.buffer = static_cast<std::uint32_t>(program_.names_.size());
    for (const BufferId buffer : buffers) {
      const auto live = live_.find(buffer);
      if (live == live_.end() || program_.names_.size() >= kMostNames) continue;
      program_.names_.push_back(live->second);
      ++step.names;
      bytes += program_.footprints_[live->second];
    }
    return bytes;
  }

  std::uint32_t kernel_of(TraceIndex index) {
    if (const auto known = kernels_.find(index); known != kernels_.end()) return known->second;
    on_kernel({index, 0, ""});
    return kernels_.at(index);
  }

  // Tells the steps and the run what the driver held, in whole granules.
  void give_held() {
    TracedRun& run = program_.run_;
    for (const Held& held : held_) {
      const Bytes whole = round_up(held.bytes, run.granule);
      run.passthrough = std::max(run.passthrough, whole);
      program_.steps_[held.step].buffer =
          static_cast<std::uint32_t>(whole.count() / run.granule.count());
    }
  }

  void note_wait_behind(double end, double duration) {
    constexpr double kAtOnceNs = 1e6;
    constexpr std::size_t kMost = 4'096;
    const bool follows =
        !waited_until_.empty() && end - duration <= waited_until_.back() + kAtOnceNs;
    if (follows) {
      waited_until_.back() = std::max(waited_until_.back(), end);
    } else if (waited_until_.size() < kMost) {
      waited_until_.push_back(end);
    }
  }

  // A wait may have been for another stream, or for what was launched long before.
  [[nodiscard]] std::int64_t end_of_launches() const {
    constexpr double kLatest = 9e18;  // times of a damaged trace may be more than an integer holds
    if (last_kernel_end_ > 0 && last_kernel_launch_ + 1 == launches_.size()) {
      return static_cast<std::int64_t>(std::min(last_kernel_end_, kLatest));
    }
    const auto waited =
        std::ranges::find_if(waited_until_, [this](double end) { return end >= last_kernel_end_; });
    if (waited == waited_until_.end()) return last_time_;
    return static_cast<std::int64_t>(std::clamp(*waited, -kLatest, kLatest));
  }

  void add(const TraceMoment& when, TracedStep step) {
    note_work(when, 0);
    step.host_us = static_cast<float>(std::exchange(work_ns_, 0) * 1e-3);
    last_time_ = std::max(last_time_, when.time);
    push(step);
  }

  void push(const TracedStep& step) {
    if (program_.steps_.size() >= kMostSteps || program_.names_.size() >= kMostNames) {
      is_too_large_ = true;
      return;
    }
    program_.steps_.push_back(step);
  }

  // The program did something itself since its last call, but for the last `waited` nanoseconds.
  // Its threads wait for each other, which nobody sees: PyTorch's main thread does nothing while
  // another one launches the backward pass. So the time since the last call of any thread counts.
  void note_work(const TraceMoment& when, std::uint64_t waited) {
    const std::int64_t since = last_call_.value_or(when.time);
    last_call_ = std::max(since, when.time);
    const double gap = static_cast<double>(when.time - since) - static_cast<double>(waited);
    const double most = has_waits_ ? gap : kMostHostMicroseconds * 1e3;
    work_ns_ += std::max(0.0, std::min(gap, most));
  }

  Bytes named_bytes(const TracedStep& step) const {
    Bytes bytes;
    for (const std::uint32_t buffer : program_.names(step)) bytes += program_.footprints_[buffer];
    return std::max(bytes, Bytes{1});
  }

  // Gives each launch its compute time.
  void give_times() {
    std::vector<bool> is_known(launches_.size(), false);
    give_measured_times(is_known);
    replace_outliers_of(is_known);
    std::unordered_map<std::uint32_t, Mean> of_kernel;
    Mean of_all;
    for (std::size_t i = 0; i < launches_.size(); ++i) {
      if (!is_known[i]) continue;
      const TracedStep& step = program_.steps_[launches_[i]];
      Mean& mean = of_kernel[step.kernel];
      const auto bytes = static_cast<double>(named_bytes(step).count());
      mean.time += step.compute_us;
      mean.weight += bytes;
      of_all.time += step.compute_us;
      of_all.weight += bytes;
    }
    const double measured = of_all.time;
    of_nothing_.settle();
    if (of_all.weight <= 0) {
      of_all = mean_of_the_length();
      program_.times_are_fitted_ = true;
    }
    double all = measured;
    std::size_t named = 0;
    for (std::size_t i = 0; i < launches_.size(); ++i) {
      TracedStep& step = program_.steps_[launches_[i]];
      named += step.names > 0 ? 1U : 0U;
      if (is_known[i]) continue;
      const auto nothing =
          step.names == 0 ? of_nothing_.estimate(place_of(step.kernel, named)) : std::nullopt;
      const double time = nothing ? *nothing : estimated_time(step, of_kernel, of_all);
      step.compute_us = static_cast<float>(time);
      all += time;
    }
    program_.measured_share_ = all > 0 ? measured / all : 0;
  }

  // The place of a launch of `kernel` that names nothing, behind the first `named` that do.
  NamelessTimes::Place place_of(std::uint32_t kernel, std::size_t named) const {
    NamelessTimes::Place place{kernel, {}};
    for (std::size_t i = 0; i < std::min(named, place.behind.size()); ++i) {
      place.behind[i] = named_launches_[named - 1 - i];
    }
    return place;
  }

  // As long as the others of its kernel, by the bytes that they name.
  double estimated_time(const TracedStep& step,
                        const std::unordered_map<std::uint32_t, Mean>& of_kernel,
                        const Mean& of_all) const {
    const auto mean = of_kernel.find(step.kernel);
    const Mean& used = mean != of_kernel.end() ? mean->second : of_all;
    if (used.weight <= 0) return 0;
    return used.time / used.weight * static_cast<double>(named_bytes(step).count());
  }

  // Launches of a kernel that name as many bytes are alike.
  void replace_outliers_of(const std::vector<bool>& is_known) {
    std::map<std::pair<std::uint32_t, Bytes>, std::vector<std::uint32_t>> alike;
    for (std::size_t i = 0; i < launches_.size(); ++i) {
      if (!is_known[i]) continue;
      const TracedStep& step = program_.steps_[launches_[i]];
      alike[{step.kernel, named_bytes(step)}].push_back(launches_[i]);
    }
    std::vector<float> times;
    for (const auto& [what, steps] : alike) {
      times.clear();
      for (const std::uint32_t step : steps) times.push_back(program_.steps_[step].compute_us);
      replace_outliers(times);
      for (std::size_t i = 0; i < steps.size(); ++i) {
        program_.steps_[steps[i]].compute_us = times[i];
      }
    }
  }

  // Divides what was measured among the launches that each time is of.
  void give_measured_times(std::vector<bool>& is_known) {
    for (const KernelTime& time : times_) {
      const std::size_t last = time.launch;
      std::vector<std::size_t> group;
      for (std::size_t i = last + 1; i-- > 0 && group.size() < time.launches;) {
        if (streams_[i] == streams_[last]) group.push_back(i);
      }
      double bytes = 0;
      for (const std::size_t i : group) {
        bytes += static_cast<double>(named_bytes(program_.steps_[launches_[i]]).count());
      }
      const double microseconds = static_cast<double>(time.duration_ns) * 1e-3;
      for (const std::size_t i : group) {
        TracedStep& step = program_.steps_[launches_[i]];
        const double share = static_cast<double>(named_bytes(step).count()) / bytes;
        step.compute_us = static_cast<float>(microseconds * share);
        is_known[i] = true;
      }
    }
  }

  // No time was measured: all that the program did not stand still for fetches, and did nothing
  // itself, as far as that is known.
  Mean mean_of_the_length() const {
    Mean mean;
    mean.time = (program_.run_.seconds - program_.run_.stall_seconds) * 1e6;
    if (has_waits_) {
      for (std::size_t i = launches_.front(); i < program_.steps_.size(); ++i) {
        mean.time -= program_.steps_[i].host_us;
      }
    }
    mean.time = std::max(0.0, mean.time);
    for (const std::uint32_t launch : launches_) {
      mean.weight += static_cast<double>(named_bytes(program_.steps_[launch]).count());
    }
    return mean;
  }

  TracedProgram program_;
  std::unordered_map<TraceIndex, std::uint32_t> kernels_;  ///< by the trace's index
  std::unordered_map<BufferId, std::uint32_t> live_;
  std::vector<Bytes> copied_in_;    ///< by buffer: what the program copied to it
  std::vector<Leavings> leavings_;  ///< by buffer
  LinkMeter fetches_;
  LinkMeter write_backs_;
  QueueMeter queue_;
  std::set<std::pair<std::uint32_t, Bytes>> written_parts_;  ///< that were written back: offsets
  const bool has_waits_;
  std::optional<std::int64_t> last_call_;  ///< the time of the last step, or end of a wait
  double work_ns_ = 0;                     ///< what the program did itself since the last step
  /// The ends of waits behind the last launch: of those that follow each other at once, the last.
  std::vector<double> waited_until_;
  double last_kernel_end_ = 0;           ///< that is known
  std::size_t last_kernel_launch_ = 0;   ///< of which launch that is
  TraceIndex graph_launch_ = 0;          ///< the text of its marks
  TraceIndex refusal_ = 0;               ///< the text of theirs
  std::vector<std::uint32_t> launches_;  ///< steps, of those that name nothing, too
  std::vector<TraceIndex> streams_;      ///< by launch
  std::vector<KernelTime> times_;
  NamelessTimes of_nothing_;
  std::vector<NamelessTimes::Named> named_launches_;  ///< those that name something
  std::vector<NumberedLaunch> recent_ = std::vector<NumberedLaunch>(kMostRecent);
  std::int64_t first_time_ = 0;
  std::int64_t last_time_ = 0;
  Bytes live_bytes_;
  std::vector<Held> held_;
  bool is_too_large_ = false;
};

std::variant<TracedProgram, std::string> TracedProgram::read(TraceReader& reader) {
  TracedProgramBuilder builder(reader);
  if (const auto error = reader.read_all(builder)) return error->message;
  return builder.finish(reader.ending());
}

std::string TracedProgram::kernel_name(KernelId kernel) const {
  const auto place = std::ranges::find(kernels_, static_cast<std::uint64_t>(kernel));
  return place == kernels_.end()
             ? std::string()
             : kernel_names_[static_cast<std::size_t>(place - kernels_.begin())];
}

}  // namespace superpipe::cli
