#include "tools/superpipe/diff/pass_report.h"

#include <algorithm>
#include <utility>

namespace superpipe::cli {

PassReport::PassReport(TracedLayers layers, std::vector<std::int64_t> begins, std::size_t first)
    : TraceReport(std::move(layers)),
      begins_(std::move(begins)),
      first_(first),
      passes_(begins_.empty() ? 0 : begins_.size() - 1) {
  // Launches of several threads come nearly in the order of time.
  for (std::size_t i = 1; i < begins_.size(); ++i) {
    begins_[i] = std::max(begins_[i], begins_[i - 1]);
  }
}

std::size_t PassReport::pass_at(std::int64_t time) {
  if (passes_.empty() || time < begins_.front() || time >= begins_.back()) return passes_.size();
  if (time < begins_[current_] || time >= begins_[current_ + 1]) {
    const auto next = std::upper_bound(begins_.begin(), begins_.end(), time);
    current_ = static_cast<std::size_t>(next - begins_.begin()) - 1;
  }
  return current_;
}

PassReport::Sums& PassReport::sums_at(std::int64_t time) {
  const std::size_t pass = pass_at(time);
  return pass < passes_.size() ? passes_[pass] : outside_;
}

std::size_t PassReport::pass_of_launch(std::uint64_t number) const {
  const auto next = std::upper_bound(first_launch_.begin(), first_launch_.end(), number);
  return next == first_launch_.begin() ? passes_.size()
                                       : static_cast<std::size_t>(next - first_launch_.begin()) - 1;
}

PassReport::Snapshot PassReport::snapshot() const {
  Snapshot now;
  now.groups.reserve(groups().size());
  for (const Group& group : groups()) now.groups.push_back({group.fetched, group.written_back});
  for (const auto& [index, kernel] : kernels()) {
    now.kernels[index] = {kernel.launches, kernel.timed_launches, kernel.device_ns};
  }
  return now;
}

void PassReport::on_allocation(const TraceMoment& when, const TraceAllocation& event) {
  TraceReport::on_allocation(when, event);
  for (Sums* const sums : {&sums_at(when.time), &whole_}) ++sums->allocations;
}

void PassReport::on_launch(const TraceMoment& when, const TraceLaunch& event) {
  if (!passes_.empty() && when.time >= begins_.front()) {
    const std::size_t pass = pass_at(when.time);
    if (pass >= first_ && !before_) before_ = snapshot();
    if (pass == passes_.size() && !after_) after_ = snapshot();
    const std::uint64_t number = first_launch_.empty()
                                     ? event.launch.value
                                     : std::max(event.launch.value, first_launch_.back());
    if (pass >= first_launch_.size()) first_launch_.resize(pass + 1, number);
  }
  TraceReport::on_launch(when, event);
  for (Sums* const sums : {&sums_at(when.time), &whole_}) ++sums->launches;
}

void PassReport::on_copy(const TraceMoment& when, const TraceCopy& event) {
  TraceReport::on_copy(when, event);
  for (Sums* const sums : {&sums_at(when.time), &whole_}) {
    (event.to_device ? sums->copied_in : sums->copied_out) += event.size.count();
  }
}

void PassReport::on_fetch(const TraceMoment& when, const TraceFetch& event) {
  TraceReport::on_fetch(when, event);
  if (event.buffer == kNoBuffer || event.size == Bytes{}) return;
  for (Sums* const sums : {&sums_at(when.time), &whole_}) {
    ++sums->fetches;
    sums->demand_fetches += event.demand ? 1 : 0;
    sums->to_device += event.size.count();
  }
}

void PassReport::on_eviction(const TraceMoment& when, const TraceEviction& event) {
  TraceReport::on_eviction(when, event);
  if (event.buffer == kNoBuffer) return;
  for (Sums* const sums : {&sums_at(when.time), &whole_}) {
    if (event.footprint > Bytes{}) {
      ++sums->evictions;
      sums->write_backs += event.size > Bytes{} ? 1 : 0;
    }
    sums->to_host += event.size.count();
  }
}

void PassReport::on_stall(const TraceMoment& when, const TraceStall& event) {
  const std::uint64_t duration = std::min(event.duration_ns, kLatestBinNs);
  whole_.stall_ns += duration;
  if (!passes_.empty()) {
    const std::size_t pass = pass_of_launch(event.launch.value);
    if (pass >= passes_.size()) return;
    passes_[pass].stall_ns += duration;
    if (pass < first_) return;
  }
  TraceReport::on_stall(when, event);
}

void PassReport::on_kernel_time(const TraceMoment& when, const TraceKernelTime& event) {
  TraceReport::on_kernel_time(when, event);
  // A trace may say what it likes: these sums may be larger than 64 bits hold.
  device_end_ =
      std::max(device_end_, static_cast<double>(when.time) + static_cast<double>(event.begin) +
                                static_cast<double>(event.duration_ns));
  last_timed_launch_ = std::max(last_timed_launch_, event.launch.value);
}

void PassReport::on_wait(const TraceMoment& when, const TraceWait& event) {
  TraceReport::on_wait(when, event);
  if (event.what >= whole_.wait_ns.size()) return;
  for (Sums* const sums : {&sums_at(when.time), &whole_}) {
    sums->wait_ns[event.what] += std::min(event.duration_ns, kLatestBinNs);
  }
}

std::optional<double> PassReport::device_end() const {
  // Launches that nobody timed may have ended later than the last one that somebody did.
  if (passes_.empty() || first_launch_.size() < passes_.size() ||
      last_timed_launch_ < first_launch_[passes_.size() - 1]) {
    return std::nullopt;
  }
  return device_end_;
}

void PassReport::finish() {
  TraceReport::finish();
  if (!after_) after_ = snapshot();
  // Where the trace has no launch of these passes, nothing of it is theirs.
  if (!before_) before_ = passes_.empty() ? Snapshot{} : *after_;
}

PassReport::Moved PassReport::moved(std::size_t group) const {
  // Groups come up as time goes on, so there may be fewer before.
  if (group >= after_->groups.size()) return {};
  Moved moved = after_->groups[group];
  if (group < before_->groups.size()) {
    moved.fetched -= before_->groups[group].fetched;
    moved.written_back -= before_->groups[group].written_back;
  }
  return moved;
}

PassReport::KernelUse PassReport::use_of(TraceIndex kernel) const {
  const auto after = after_->kernels.find(kernel);
  if (after == after_->kernels.end()) return {};
  KernelUse use = after->second;
  const auto before = before_->kernels.find(kernel);
  if (before != before_->kernels.end()) {
    use.launches -= before->second.launches;
    use.timed_launches -= before->second.timed_launches;
    use.device_ns -= before->second.device_ns;
  }
  return use;
}

}  // namespace superpipe::cli
