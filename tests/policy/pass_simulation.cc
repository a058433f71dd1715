#include "tests/policy/pass_simulation.h"

#include <algorithm>
#include <cstddef>
#include <deque>

#include "policy/budget.h"

namespace superpipe::testing {
namespace {

constexpr std::uint64_t kWarmUpPasses = 6;
constexpr std::uint64_t kMaxMeasuredPasses = 64;

class Simulation {
 public:
  Simulation(const PassModel& model, const WindowSchedule& schedule)
      : model_(model),
        schedule_(schedule),
        resident_(model.layer_bytes.size(), false),
        in_window_(model.layer_bytes.size(), 0),
        arrived_(model.layer_bytes.size(), Seconds{}),
        last_used_(model.layer_bytes.size(), Seconds{}) {
    VisitNeeds needs;
    for (const VisitCost& visit : model.visits) needs.push_back({visit.layer});
    capacity_ = max_window_bytes(needs, model.layer_bytes, schedule.k);
    free_ = capacity_;
  }

  // `visit` of the endless sequence begins and ends.
  void run(std::uint64_t visit) {
    if (const auto window = window_at(schedule_, visit)) move(*window);
    const VisitCost& cost = model_.visits[visit % model_.visits.size()];
    const Seconds ready = std::max(arrived_[cost.layer], must_have_arrived_);
    if (ready > computed_) stalled_ += ready - computed_;
    computed_ = std::max(computed_, ready) + cost.compute;
    last_used_[cost.layer] = computed_;
  }

  Seconds computed() const { return computed_; }
  Seconds stalled() const { return stalled_; }
  std::uint64_t fetched() const { return fetched_; }
  Bytes peak() const { return peak_; }

 private:
  struct Release {
    Seconds at{};
    Bytes bytes;
  };

  void move(const Window& window) {
    ++stamp_;
    for (std::uint64_t at = 0; at < window.count; ++at) {
      in_window_[layer_at(window.begin + at)] = stamp_;
    }
    for (std::uint32_t layer = 0; layer < resident_.size(); ++layer) {
      if (resident_[layer] && in_window_[layer] != stamp_) evict(layer);
    }
    for (std::uint64_t at = 0; at < window.count; ++at) {
      const std::uint32_t layer = layer_at(window.begin + at);
      if (!resident_[layer]) fetch(layer, window.wait ? computed_ : Seconds{});
      if (window.wait) must_have_arrived_ = std::max(must_have_arrived_, arrived_[layer]);
    }
  }

  std::uint32_t layer_at(std::uint64_t visit) const {
    return model_.visits[visit % model_.visits.size()].layer;
  }

  void evict(std::uint32_t layer) {
    resident_[layer] = false;
    // Evictions are enqueued in order, so their pages come free in order.
    Seconds free_at = std::max(last_used_[layer], last_release_);
    if (model_.write_back) {
      free_at =
          std::max(free_at, d2h_free_) + model_.device_to_host.time_for(model_.layer_bytes[layer]);
      d2h_free_ = free_at;
    }
    last_release_ = free_at;
    releases_.push_back({free_at, model_.layer_bytes[layer]});
  }

  void fetch(std::uint32_t layer, Seconds not_before) {
    const Bytes bytes = model_.layer_bytes[layer];
    Seconds start = std::max(h2d_free_, not_before);
    while (free_ < bytes && !releases_.empty()) {
      start = std::max(start, releases_.front().at);
      free_ += releases_.front().bytes;
      releases_.pop_front();
    }
    free_ = saturating_subtract(free_, bytes);
    peak_ = std::max(peak_, capacity_ - free_);
    h2d_free_ = start + model_.per_fetch + model_.host_to_device.time_for(bytes);
    arrived_[layer] = h2d_free_;
    resident_[layer] = true;
    fetched_ += bytes.count();
  }

  const PassModel& model_;
  const WindowSchedule& schedule_;
  std::vector<bool> resident_;
  std::vector<std::uint64_t> in_window_;
  std::vector<Seconds> arrived_;
  std::vector<Seconds> last_used_;
  std::deque<Release> releases_;
  std::uint64_t stamp_ = 0;
  Bytes capacity_;
  Bytes free_;
  Bytes peak_;
  Seconds computed_{};
  Seconds stalled_{};
  Seconds h2d_free_{};
  Seconds d2h_free_{};
  Seconds last_release_{};
  Seconds must_have_arrived_{};
  std::uint64_t fetched_ = 0;
};

}  // namespace

PassCost cost_of(const PassModel& model) {
  PassCost cost;
  cost.host_to_device = model.host_to_device;
  std::vector<bool> counted(model.layer_bytes.size(), false);
  for (const VisitCost& visit : model.visits) {
    cost.compute += visit.compute;
    if (!counted[visit.layer]) cost.persistent += model.layer_bytes[visit.layer];
    counted[visit.layer] = true;
  }
  return cost;
}

PassPrediction simulate_pass(const PassModel& model, const WindowSchedule& schedule) {
  PassPrediction prediction;
  const PassCost cost = cost_of(model);
  std::vector<bool> visited(model.layer_bytes.size(), false);
  for (const VisitCost& visit : model.visits) visited[visit.layer] = true;
  const auto layers = static_cast<std::size_t>(std::count(visited.begin(), visited.end(), true));
  if (schedule.k >= layers) {
    prediction.pass = cost.compute;
    prediction.peak = cost.persistent;
    return prediction;
  }
  // Windows fall on the same visits again after k' passes at the latest.
  const std::uint64_t measured = schedule.kind == WindowKind::kSuperpipeline
                                     ? std::min<std::uint64_t>(schedule.k_prime, kMaxMeasuredPasses)
                                     : 1;
  const std::uint64_t warm_up = std::max(kWarmUpPasses, measured);
  const std::uint64_t visits = model.visits.size();
  Simulation simulation(model, schedule);
  for (std::uint64_t visit = 0; visit < warm_up * visits; ++visit) simulation.run(visit);
  const Seconds began = simulation.computed();
  const Seconds stalled = simulation.stalled();
  const std::uint64_t fetched = simulation.fetched();
  for (std::uint64_t visit = 0; visit < measured * visits; ++visit) {
    simulation.run(warm_up * visits + visit);
  }
  const auto passes = static_cast<double>(measured);
  prediction.pass = (simulation.computed() - began) / passes;
  prediction.stall = (simulation.stalled() - stalled) / passes;
  prediction.fetched = Bytes{(simulation.fetched() - fetched) / measured};
  prediction.peak = simulation.peak();
  return prediction;
}

}  // namespace superpipe::testing
