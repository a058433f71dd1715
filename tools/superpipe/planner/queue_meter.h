// How far a traced program could be ahead of its device, by the launches that the driver held up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "profiler/trace_event.h"

namespace superpipe::cli {

/// Estimates how many operations of a stream may be under way before the driver holds up the next.
///
/// Drivers have room for about a thousand, but not only what is replayed takes it: events, small
/// allocations and the program's own frees may be in the same queue. So what counts is how many
/// operations were submitted and had not ended whenever a launch took long to be submitted, which
/// the times of some kernels tell. A launch may also take long because the machine was elsewhere.
/// Where those are most, other launches were further ahead without being held up, and the meter
/// says nothing. Times are in ns since the trace's start. Not thread-safe; memory does not grow
/// with the trace.
class QueueMeter {
 public:
  /// Fewer launches that were held up tell nothing.
  static constexpr std::size_t kFewest = 32;
  /// No driver's queue is known to hold less.
  static constexpr std::size_t kLeastDepth = 64;
  /// How much further ahead than when they were held up launches may have been, and how many.
  static constexpr double kMostAhead = 1.5;
  static constexpr double kMostShareAhead = 0.1;
  /// The share of all operations that one stream has to have.
  static constexpr double kLeastShareOfStream = 0.9;
  /// No more streams and threads are looked at.
  static constexpr std::size_t kMostStreams = 64;

  /// A thread submitted an operation to a stream at `time`. Times mostly ascend.
  /// @return its place in the stream, counted from 1; 0: the stream is not looked at.
  std::uint64_t submit(TraceIndex stream, std::uint32_t thread, double time);
  /// A call of the thread waited for `duration_ns` until `end`. Only those count that began when
  /// the thread's last operation was submitted: a launch waits for its buffers before.
  void wait(std::uint32_t thread, double end, double duration_ns);
  /// What has `place` in the stream, and all before it, had ended at `time`. Out of order nothing
  /// is noted.
  void end(TraceIndex stream, std::uint64_t place, double time);

  /// The middle of what was under way when a launch was held up, by how long it was. nullopt: that
  /// says nothing.
  [[nodiscard]] std::optional<std::size_t> depth() const;

 private:
  /// What is not known yet: how much of what had been submitted by `time` had not ended.
  struct Question {
    double time = 0;
    std::uint64_t submitted = 0;
    double waited_ns = 0;  ///< until then; 0: it was submitted without a wait
  };
  struct Stream {
    std::uint64_t submitted = 0;
    std::uint64_t ended = 0;  ///< of them, at ended_at
    double ended_at = 0;
    std::deque<Question> questions;  ///< in the order of their times, nearly
  };
  struct Submission {
    TraceIndex stream = 0;
    double time = 0;
  };
  /// Times of kernels come within seconds. What is older stays unknown.
  static constexpr std::size_t kMostQuestions = 65'536;
  /// More are never under way.
  static constexpr std::size_t kMostUnderWay = 8'192;

  void ask(Stream& stream, const Question& question);
  void answer(const Stream& stream, const Question& question, std::uint64_t ended, double ended_at);

  std::unordered_map<TraceIndex, Stream> streams_;
  std::uint64_t submitted_ = 0;                         ///< to all streams
  std::unordered_map<std::uint32_t, Submission> last_;  ///< by thread
  std::size_t waits_ = 0;                               ///< that are in waited_ns_
  /// By how many were under way, at most kMostUnderWay: how long launches were held up, and how
  /// many operations were submitted.
  std::vector<double> waited_ns_ = std::vector<double>(kMostUnderWay + 1);
  std::vector<std::uint64_t> submissions_ = std::vector<std::uint64_t>(kMostUnderWay + 1);
};

}  // namespace superpipe::cli
