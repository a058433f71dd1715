#include "tools/superpipe/planner/queue_meter.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "profiler/trace_recorder.h"

namespace superpipe::cli {

std::uint64_t QueueMeter::submit(TraceIndex stream, std::uint32_t thread, double time) {
  ++submitted_;
  const bool is_known = streams_.size() < kMostStreams || streams_.contains(stream);
  if (!is_known) return 0;
  Stream& queue = streams_[stream];
  ++queue.submitted;
  if (last_.size() < kMostStreams || last_.contains(thread)) last_[thread] = {stream, time};
  ask(queue, {time, queue.submitted, 0});
  return queue.submitted;
}

void QueueMeter::wait(std::uint32_t thread, double end, double duration_ns) {
  const auto last = last_.find(thread);
  if (last == last_.end()) return;
  const double begin = end - duration_ns;
  constexpr auto kStepNs = static_cast<double>(TraceRecorder::kTimeStep.count());
  if (std::abs(begin - last->second.time) > kStepNs) return;
  Stream& stream = streams_[last->second.stream];
  ask(stream, {end, stream.submitted, duration_ns});
}

void QueueMeter::end(TraceIndex stream, std::uint64_t place, double time) {
  const auto at = streams_.find(stream);
  if (at == streams_.end()) return;
  Stream& queue = at->second;
  if (place <= queue.ended || place > queue.submitted || time <= queue.ended_at) return;
  while (!queue.questions.empty() && queue.questions.front().time < time) {
    answer(queue, queue.questions.front(), place, time);
    queue.questions.pop_front();
  }
  queue.ended = place;
  queue.ended_at = time;
}

std::optional<std::size_t> QueueMeter::depth() const {
  if (waits_ < kFewest) return std::nullopt;
  std::uint64_t most_of_a_stream = 0;
  for (const auto& [index, stream] : streams_) {
    most_of_a_stream = std::max(most_of_a_stream, stream.submitted);
  }
  const double share = static_cast<double>(most_of_a_stream) / static_cast<double>(submitted_);
  if (share < kLeastShareOfStream) return std::nullopt;
  const double all = std::accumulate(waited_ns_.begin(), waited_ns_.end(), 0.0);
  double waited = 0;
  std::size_t depth = 0;
  for (; depth < kMostUnderWay; ++depth) {
    waited += waited_ns_[depth];
    if (2 * waited >= all) break;
  }
  if (depth < kLeastDepth) return std::nullopt;
  std::uint64_t submitted = 0;
  std::uint64_t ahead = 0;
  for (std::size_t under_way = 0; under_way <= kMostUnderWay; ++under_way) {
    submitted += submissions_[under_way];
    const bool is_ahead = static_cast<double>(under_way) > kMostAhead * static_cast<double>(depth);
    if (is_ahead) ahead += submissions_[under_way];
  }
  const double most_ahead = kMostShareAhead * static_cast<double>(submitted);
  return static_cast<double>(ahead) > most_ahead ? std::nullopt : std::optional(depth);
}

void QueueMeter::ask(Stream& stream, const Question& question) {
  if (stream.questions.size() >= kMostQuestions) stream.questions.pop_front();
  stream.questions.push_back(question);
}

// Between two ends that are known, operations ended one like the other.
void QueueMeter::answer(const Stream& stream, const Question& question, std::uint64_t ended,
                        double ended_at) {
  // The first end that is known does not tell when those before it ended.
  if (stream.ended == 0 || question.time < stream.ended_at) return;
  const double share = (question.time - stream.ended_at) / (ended_at - stream.ended_at);
  const double by_then =
      static_cast<double>(stream.ended) + share * static_cast<double>(ended - stream.ended);
  const double under_way = std::clamp(static_cast<double>(question.submitted) - by_then, 0.0,
                                      static_cast<double>(kMostUnderWay));
  const auto place = static_cast<std::size_t>(under_way);
  if (question.waited_ns == 0) {
    ++submissions_[place];
    return;
  }
  ++waits_;
  waited_ns_[place] += question.waited_ns;
}

}  // namespace superpipe::cli
