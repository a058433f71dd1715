#include "tools/superpipe/export_stacks.h"

#include <algorithm>
#include <utility>

#include "tools/superpipe/export_json.h"

namespace superpipe::cli {
namespace {

// What stands between frames would end one, and a line break the stack.
std::string collapsed_frame(std::string text) {
  std::replace(text.begin(), text.end(), ';', ':');
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::replace(text.begin(), text.end(), '\r', ' ');
  return text;
}

std::string collapsed_stack(const std::vector<CallFrame>& frames) {
  std::string line;
  for (const CallFrame& frame : frames) {
    line.append(line.empty() ? "" : ";").append(collapsed_frame(frame.function));
  }
  return line;
}

std::vector<CallFrame> outermost_first(const std::vector<CallFrame>& frames) {
  if (frames.empty()) return {{"call site not known", ""}};
  return {frames.rbegin(), frames.rend()};
}

// The stacks by what they read as.
class MergedStacks {
 public:
  void add(std::vector<CallFrame> frames, std::uint64_t weight) {
    if (weight == 0) return;
    std::string name = collapsed_stack(frames);
    WeightedStack& stack = stacks_[std::move(name)];
    if (stack.frames.empty()) stack.frames = std::move(frames);
    stack.weight += weight;
  }

  [[nodiscard]] std::vector<WeightedStack> heaviest_first() && {
    std::vector<WeightedStack> sorted;
    sorted.reserve(stacks_.size());
    for (auto& entry : stacks_) sorted.push_back(std::move(entry.second));
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const WeightedStack& one, const WeightedStack& other) {
                       return one.weight > other.weight;
                     });
    return sorted;
  }

 private:
  std::map<std::string, WeightedStack> stacks_;
};

}  // namespace

std::string_view name_of(StackWeight weight) {
  switch (weight) {
    case StackWeight::kAllocated:
      return "allocated";
    case StackWeight::kPeak:
      return "peak";
    case StackWeight::kStalls:
      return "stalls";
    case StackWeight::kWaits:
      return "waits";
  }
  return "";
}

std::optional<StackWeight> stack_weight_named(std::string_view name) {
  for (const StackWeight weight : kStackWeights) {
    if (name_of(weight) == name) return weight;
  }
  return std::nullopt;
}

void StackTotals::allocate(const TraceAllocation& event) {
  if (const auto ended = live_.add(event)) change(ended->what.call_site, ended->what.size, false);
  allocated_[event.call_site] += event.size.count();
  change(event.call_site, event.size, true);
}

void StackTotals::free(const TraceFree& event) {
  if (const auto ended = live_.remove(event)) {
    change(ended->what.call_site, ended->what.size, false);
  }
}

void StackTotals::change(TraceIndex call_site, Bytes size, bool come) {
  const auto by = come ? size.count() : 0 - size.count();
  Held& held = held_[call_site];
  if (held.peak != peaks_) held = {held.bytes, 0, peaks_};
  held.bytes += by;
  held.since_peak += static_cast<std::int64_t>(by);
  held_bytes_ += by;
  if (held_bytes_ <= peak_bytes_) return;
  peak_bytes_ = held_bytes_;
  ++peaks_;
}

void StackTotals::stall(const TraceStall& event) {
  const RecentLaunches::Launch* const launch = launches_.find(event.launch);
  Stalled who{event.launch.value != 0, 0, 0};
  if (who.is_launch && launch != nullptr) who = {true, launch->stream, launch->kernel};
  stalls_[who] += event.duration_ns;
}

void StackTotals::wait(std::uint32_t thread, const TraceWait& event) {
  waits_[{thread, std::min(event.what, TraceWait::kCopy + 1)}] += event.duration_ns;
}

std::vector<WeightedStack> StackTotals::stacks(StackWeight weight, const TraceNames& names) const {
  MergedStacks merged;
  switch (weight) {
    case StackWeight::kAllocated:
      for (const auto& [site, bytes] : allocated_) {
        merged.add(outermost_first(names.frames(site)), bytes);
      }
      break;
    case StackWeight::kPeak:
      for (const auto& [site, held] : held_) {
        const auto since = held.peak == peaks_ ? static_cast<std::uint64_t>(held.since_peak) : 0;
        merged.add(outermost_first(names.frames(site)), held.bytes - since);
      }
      break;
    case StackWeight::kStalls:
      for (const auto& [who, ns] : stalls_) {
        if (who.is_launch) {
          merged.add({{names.stream(who.stream), ""}, {names.kernel(who.kernel), ""}}, ns);
        } else {
          merged.add({{std::string(kNameOfUses), ""}}, ns);
        }
      }
      break;
    case StackWeight::kWaits:
      for (const auto& [who, ns] : waits_) {
        merged.add({{names.thread(who.thread), ""}, {std::string(name_of_wait(who.what)), ""}}, ns);
      }
      break;
  }
  return std::move(merged).heaviest_first();
}

void CollapsedWriter::finish() {
  for (const WeightedStack& stack : stacks(weight_)) {
    out_.write(collapsed_stack(stack.frames) + " " + std::to_string(stack.weight) + "\n");
    is_empty_ = false;
  }
}

std::string CollapsedWriter::why_empty() const {
  if (!is_empty_) return {};
  switch (weight_) {
    case StackWeight::kAllocated:
    case StackWeight::kPeak:
      return "the trace tells of no allocation";
    case StackWeight::kStalls:
      return "nothing in the trace waited on the device for its buffers";
    case StackWeight::kWaits:
      break;
  }
  return "the trace tells of no wait of the program";
}

void SpeedscopeWriter::begin(const TraceProperties& properties) {
  for (const std::string& word : properties.texts("process.argument")) {
    name_.append(name_.empty() ? "" : " ").append(word);
  }
}

void SpeedscopeWriter::finish() {
  std::map<std::pair<std::string, std::string>, std::size_t> frames;
  std::vector<const std::pair<std::string, std::string>*> in_order;
  std::string profiles;
  for (const StackWeight weight : kStackWeights) {
    std::string samples;
    std::string weights;
    std::uint64_t total = 0;
    for (const WeightedStack& stack : stacks(weight)) {
      std::string sample;
      for (const CallFrame& frame : stack.frames) {
        const auto [place, is_new] =
            frames.try_emplace({frame.function, frame.place}, frames.size());
        if (is_new) in_order.push_back(&place->first);
        sample.append(sample.empty() ? "" : ",").append(std::to_string(place->second));
      }
      samples.append(samples.empty() ? "[" : ",[").append(sample).append("]");
      weights.append(weights.empty() ? "" : ",").append(std::to_string(stack.weight));
      total += stack.weight;
    }
    const bool is_time = weight == StackWeight::kStalls || weight == StackWeight::kWaits;
    profiles.append(profiles.empty() ? "" : ",\n")
        .append(R"({"type":"sampled","name":")")
        .append(name_of(weight))
        .append(R"(","unit":")")
        .append(is_time ? "nanoseconds" : "bytes")
        .append(R"(","startValue":0,"endValue":)")
        .append(std::to_string(total))
        .append(R"(,"samples":[)")
        .append(samples)
        .append(R"(],"weights":[)")
        .append(weights)
        .append("]}");
  }
  std::string shared;
  for (const auto* const frame : in_order) {
    shared.append(shared.empty() ? "" : ",\n").append("{\"name\":" + json_text(frame->first));
    if (!frame->second.empty()) shared += ",\"file\":" + json_text(frame->second);
    shared += '}';
  }
  out_.write(R"({"$schema":"https://www.speedscope.app/file-format-schema.json",)");
  out_.write("\n\"exporter\":\"superpipe\",\"activeProfileIndex\":0,\"name\":");
  out_.write(json_text(name_) + ",\n\"shared\":{\"frames\":[" + shared + "]},\n\"profiles\":[");
  out_.write(profiles + "]}\n");
}

}  // namespace superpipe::cli
