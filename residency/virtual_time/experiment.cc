#include "residency/virtual_time/experiment.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <utility>

#include "policy/budget.h"
#include "residency/residency_manager.h"

namespace superpipe::virtual_time {
namespace {

/// Ends a workload whose call failed.
class CallFailed : public std::runtime_error {
 public:
  CallFailed(const char* call, Status status, const std::string& warning)
      : std::runtime_error(std::string(call) + " failed (status " +
                           std::to_string(static_cast<int>(status)) + ")" +
                           (warning.empty() ? "" : ": " + warning)) {}
};

/// The program's thread: what hooks and driver do at each call of it.
///
/// Before each call the worker does what it began until then. So the two threads never see each
/// other's future, except what one call or one round changes while it lasts.
class VirtualProgram : public Program {
 public:
  explicit VirtualProgram(const Experiment& experiment)
      : experiment_(experiment), clock_(experiment.threads), device_(experiment.device, clock_) {
    ResidencyOptions options;
    options.policy.kind = experiment.policy;
    options.policy.k = experiment.k;
    options.policy.k_prime = experiment.k_prime;
    options.policy.recorded = experiment.recorded;
    if (has_budget()) options.policy.budget = experiment.budget;
    options.headroom = experiment.headroom;
    options.piece_size = experiment.piece_size;
    options.compares_digests = experiment.compares_digests;
    options.maps_early = experiment.maps_early;
    options.host_limit = experiment.host_limit;
    if (experiment.kernel_name) options.kernel_name = experiment.kernel_name;
    options.now = [this] { return clock_.time_point(); };
    options.worker_thread = false;
    options.worker_clock = &clock_;
    options.stocker_clock = &clock_.stocker();
    options.warn = [this](const std::string& text) { warning_ = text; };
    auto created = ResidencyManager::create(device_, options);
    if (!created.ok()) throw CallFailed("creating the manager", created.status(), warning_);
    manager_ = std::move(*created);
    run_round_ = [this] { (void)manager_->run_worker_once(); };
    run_stocker_ = [this] { (void)manager_->run_stocker_once(); };
  }

  void on_stream(std::uint32_t stream) override {
    while (streams_.size() <= stream) streams_.push_back(device_.create_program_stream());
    stream_ = streams_[stream];
  }

  Handle allocate(Bytes size) override {
    begin_call();
    const auto address = manager_->allocate(size, stream());
    if (!address.ok()) throw CallFailed("an allocation", address.status(), warning_);
    buffers_.push_back({*address, size, false});
    if (records_) recorded_.footprints.push_back(round_up(size, experiment_.device.granularity));
    return Handle{static_cast<std::uint32_t>(buffers_.size() - 1)};
  }

  void free(Handle buffer) override {
    begin_call();
    const Status status = manager_->free_async(buffers_[index_of(buffer)].address, stream());
    if (status != Status::kOk) throw CallFailed("a free", status, warning_);
  }

  void upload(Handle buffer) override { copy_in(buffer, Bytes{}, buffers_[index_of(buffer)].size); }

  void copy_in(Handle buffer, Bytes offset, Bytes size) override {
    begin_call();
    if (is_loading_ && experiment_.load_rate) {
      sleep_until(clock_.now() + std::chrono::round<Time>(experiment_.load_rate->time_for(size)));
    }
    const Address begin = buffers_[index_of(buffer)].address + offset.count();
    for (Bytes done; done < size;) {
      const Address address = begin + done.count();
      UseToken token;
      const auto route = manager_->begin_copy_in(address, size - done, stream(), token);
      if (!route.ok()) throw CallFailed("a copy from the host", route.status(), warning_);
      if (route->host == nullptr) {
        device_.upload(stream(), address, route->size);
      } else {
        sleep_until(device_.end_of(stream()));
        copy_on_host(route->size);
        device_.note_host_write(route->host);
      }
      manager_->end_use(token, stream(), route->host == nullptr);
      done += route->size;
    }
  }

  void copy_out(Handle buffer, Bytes offset, Bytes size) override {
    begin_call();
    const Address begin = buffers_[index_of(buffer)].address + offset.count();
    for (Bytes done; done < size;) {
      const Address address = begin + done.count();
      UseToken token;
      const auto route = manager_->begin_copy_out(address, size - done, stream(), token);
      if (!route.ok()) throw CallFailed("a copy to the host", route.status(), warning_);
      if (route->host == nullptr) {
        sleep_until(device_.download(stream(), address, route->size));
      } else {
        sleep_until(device_.end_of(stream()));
        copy_on_host(route->size);
      }
      manager_->end_use(token, stream(), route->host == nullptr);
      done += route->size;
    }
  }

  void use(std::span<const Named> buffers, Seconds time) override {
    begin_call();
    const bool writes = list_operands(buffers);
    const Time idle_from = std::max(clock_.now(), device_.computing_until());
    UseToken token;
    const Status status = manager_->begin_use(words_, writes, stream(), token);
    if (status != Status::kOk) throw CallFailed("a memset or a copy", status, warning_);
    sleep_until(device_.may_launch_at());
    const Time submitting = clock_.now();
    note_stall(device_.launch(stream(), operands_, std::chrono::round<Time>(time)), submitting,
               idle_from);
    manager_->end_use(token, stream(), true);
  }

  void work(Seconds time) override { clock_.charge(std::chrono::round<Time>(time)); }

  void hold_besides(Bytes bytes) override {
    if (bytes == besides_) return;
    begin_call();
    if (bytes > besides_) {
      grow_besides(bytes);
    } else {
      manager_->begin_passthrough_change(PassthroughChange::kFree);
      device_.set_besides(bytes);
      manager_->end_passthrough_change(PassthroughChange::kFree);
    }
    besides_ = bytes;
  }

  void launch(KernelId kernel, std::span<const Named> buffers, Seconds compute) override {
    begin_call();
    if (buffers.empty()) {
      sleep_until(device_.may_launch_at());
      (void)device_.launch(stream(), {}, std::chrono::round<Time>(compute));
      pass_.compute += std::chrono::round<Time>(compute);
      return;
    }
    (void)list_operands(buffers);
    if (records_) record_launch(kernel, buffers);
    const Time asked = clock_.now();
    const Time idle_from = std::max(asked, device_.computing_until());
    UseToken token;
    const Status status = manager_->begin_launch(kernel, words_, stream(), token);
    if (status != Status::kOk) throw CallFailed("a launch", status, warning_);
    const Time prepared = clock_.now();
    // A driver whose queue is full blocks the launch, with its buffers pinned.
    sleep_until(device_.may_launch_at());
    const Time submitting = clock_.now();
    const auto compute_time = std::chrono::round<Time>(compute);
    const VirtualDevice::Launched launched = device_.launch(stream(), operands_, compute_time);
    manager_->end_use(token, stream(), true);

    const Time mapping = launched.enqueued - submitting - experiment_.device.costs.launch;
    const bool waited_for_rounds = clock_.waited_in_call();
    ++pass_.launches;
    pass_.accesses += buffers.size();
    pass_.compute += compute_time;
    pass_.device_wait += launched.stall;
    if (waited_for_rounds) pass_.host_wait += prepared - asked;
    pass_.host_wait += mapping;
    note_stall(launched, submitting, idle_from);
    if (waited_for_rounds || mapping > Time{0} || launched.stall > Time{0}) ++pass_.stalls;
    ++launches_;
    if (!learned_at_ && knows_order()) learned_at_ = launches_;
  }

  void synchronize() override {
    begin_call();
    sleep_until(device_.end_of_program());
  }

  /// Whether policy knows the layers, or, where it learns none, has seen a pass begin.
  [[nodiscard]] bool knows_order() const {
    const PolicyEngine::Learned learned = manager_->stats().learned;
    return counts_layers(experiment_.policy) ? learned.layers_known : learned.at_pass_start;
  }

  /// Comes from outside: it takes no time of the program's thread.
  void disturb(const Disturbance& disturbance) {
    begin_call();
    if (disturbance.others) device_.set_others(*disturbance.others);
    if (!disturbance.budget) return;
    if (manager_->set_budget(*disturbance.budget) != BudgetAnswer::kChanged) {
      throw CallFailed("another budget", Status::kInvalidValue, warning_);
    }
  }

  /// All that happened since the last call of this.
  PassFigures take_pass() {
    const ResidencyStats stats = manager_->stats();
    const Time end = std::max(device_.end_of_program(), begun_);
    PassFigures pass = std::exchange(pass_, {});
    pass.time = end - begun_;
    pass.to_device = device_.to_device_bytes() - to_device_;
    pass.to_host = device_.to_host_bytes() - to_host_;
    pass.calls = device_.calls().since(calls_);
    pass.demand_fetches = stats.demand_fetches - counters_.demand_fetches;
    pass.prefetches = stats.prefetches - counters_.prefetches;
    pass.clean_evictions = stats.clean_evictions - counters_.clean_evictions;
    pass.write_backs = stats.write_backs - counters_.write_backs;
    begun_ = end;
    to_device_ = device_.to_device_bytes();
    to_host_ = device_.to_host_bytes();
    calls_ = device_.calls();
    counters_ = stats;
    return pass;
  }

  /// Loading is over: launches are counted from here on.
  void end_load(Outcome& outcome) {
    is_loading_ = false;
    synchronize();
    begun_ = clock_.now();
    outcome.load = begun_;
    outcome.since_launch = begun_ - std::min(begun_, device_.computing_until());
    (void)take_pass();
    begun_ = outcome.load;
    launches_ = 0;
    learned_at_.reset();
    recorded_.pass_begin = recorded_.launches.size();
    written_while_loading_ = std::ssize(manager_->write_backs());
  }

  /// The first pass is over.
  void end_recording() {
    if (!std::exchange(records_, false)) return;
    recorded_.slabs = manager_->slabs_for_evictions();
    const auto written = manager_->write_backs();
    recorded_.write_backs.assign(written.begin() + written_while_loading_, written.end());
  }

  void finish(Outcome& outcome) {
    outcome.stats = manager_->stats();
    if (auto pass = manager_->foreseen_pass()) outcome.stats.learned.launches = std::move(pass);
    outcome.learned_at = learned_at_;
    outcome.recorded = std::move(recorded_);
    outcome.pinned = outcome.stats.pinned_host_bytes;
    outcome.peak_pages = device_.peak_page_bytes();
    outcome.peak_device = device_.peak_bytes();
    outcome.violations = device_.violations();
  }

 private:
  [[nodiscard]] StreamHandle stream() const { return stream_; }
  [[nodiscard]] bool has_budget() const {
    return experiment_.policy != PolicyKind::kResident && !experiment_.k;
  }

  /// What is told to have grown at once came bit by bit, each of which the headroom had room for.
  /// So under a budget pages make room first for what is more than the headroom. What the manager
  /// does not know to be free is no growth.
  void grow_besides(Bytes bytes) {
    const Bytes known = std::max(besides_, device_.besides_when_asked());
    const Bytes grown = saturating_subtract(bytes, known);
    const bool exceeds_headroom =
        has_budget() && bytes > device_.besides_when_asked() + experiment_.headroom;
    const bool admitted = exceeds_headroom ? manager_->begin_foreseen_growth(grown)
                                           : manager_->begin_passthrough_allocation(grown);
    if (!admitted) {
      throw CallFailed("memory of the driver's own", Status::kOutOfDeviceMemory, warning_);
    }
    manager_->begin_passthrough_change(PassthroughChange::kGrowth);
    device_.set_besides(bytes);
    manager_->end_passthrough_change(PassthroughChange::kGrowth);
    if (exceeds_headroom) {
      manager_->end_foreseen_growth(grown, true);
    } else {
      manager_->end_passthrough_allocation(grown, true);
    }
  }

  // Fills words_ and operands_. @return whether any of them is written.
  bool list_operands(std::span<const Named> buffers) {
    words_.clear();
    operands_.clear();
    bool writes = false;
    for (const Named& named : buffers) {
      const VirtualDevice::Operand& memory = buffers_[index_of(named.buffer)];
      words_.push_back(memory.address);
      operands_.push_back({memory.address, memory.size, named.is_written});
      writes = writes || named.is_written;
    }
    return writes;
  }

  // From `idle_from` on the device had nothing to compute until `launched` began, which was
  // submitted at `submitting`.
  void note_stall(const VirtualDevice::Launched& launched, Time submitting, Time idle_from) {
    pass_.stalled += launched.stall;
    const Time in_place = launched.enqueued - experiment_.device.costs.launch;
    // What the calls of a launch cost that waits for nothing is no stall.
    if (!clock_.waited_in_call() && in_place <= submitting) return;
    pass_.stalled += std::max(Time{0}, in_place - idle_from);
  }

  void record_launch(KernelId kernel, std::span<const Named> buffers) {
    RecordedRun::Launch launch{kernel, static_cast<std::uint32_t>(recorded_.names.size()), 0};
    for (const Named& named : buffers) {
      const auto begin = recorded_.names.begin() + launch.first;
      const std::uint32_t number = index_of(named.buffer);
      if (std::find(begin, recorded_.names.end(), number) != recorded_.names.end()) continue;
      recorded_.names.push_back(number);
    }
    launch.count = static_cast<std::uint32_t>(recorded_.names.size()) - launch.first;
    recorded_.launches.push_back(launch);
  }

  void begin_call() {
    clock_.run_rounds(clock_.time(Thread::kProgram), run_round_, run_stocker_);
    clock_.begin_call();
  }

  void sleep_until(Time moment) {
    if (moment <= clock_.now()) return;
    clock_.run_rounds(moment, run_round_, run_stocker_);
    clock_.advance_to(moment);
  }

  /// The program's thread copies `size` bytes, while the worker goes on.
  void copy_on_host(Bytes size) {
    sleep_until(clock_.now() + std::chrono::round<Time>(experiment_.host_copies.time_for(size)));
  }

  const Experiment experiment_;
  VirtualClock clock_;
  VirtualDevice device_;
  std::vector<StreamHandle> streams_{device_.program_stream()};  // by number
  StreamHandle stream_ = device_.program_stream();               // the present one
  std::string warning_;                                          // the last
  std::unique_ptr<ResidencyManager> manager_;
  std::function<void()> run_round_;
  std::function<void()> run_stocker_;
  std::vector<VirtualDevice::Operand> buffers_;  // by handle
  std::vector<std::uint64_t> words_;
  std::vector<VirtualDevice::Operand> operands_;
  Bytes besides_;
  bool is_loading_ = true;
  bool records_ = true;
  RecordedRun recorded_;
  std::ptrdiff_t written_while_loading_ = 0;
  std::uint64_t launches_ = 0;
  std::optional<std::uint64_t> learned_at_;

  // of the pass under way
  PassFigures pass_;
  Time begun_{0};
  Bytes to_device_;
  Bytes to_host_;
  CallCounts calls_;
  ResidencyCounters counters_;
};

}  // namespace

Outcome run(Workload& workload, const Experiment& experiment) {
  Outcome outcome;
  std::unique_ptr<VirtualProgram> program;
  try {
    program = std::make_unique<VirtualProgram>(experiment);
    workload.load(*program);
    program->end_load(outcome);
    auto next = experiment.disturbances.begin();
    for (int number = 0; number < experiment.passes; ++number) {
      for (; next != experiment.disturbances.end() && next->pass <= number; ++next) {
        program->disturb(*next);
      }
      workload.run_pass(*program, number);
      outcome.passes.push_back(program->take_pass());
      program->end_recording();
    }
  } catch (const CallFailed& failure) {
    outcome.error = failure.what();
  }
  if (program != nullptr) program->finish(outcome);
  return outcome;
}

}  // namespace superpipe::virtual_time
