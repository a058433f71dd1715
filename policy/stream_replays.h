// What comes next: from one log of all launches, or from one for each stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "policy/launch_replay.h"
#include "policy/live_pass.h"
#include "policy/merged_replays.h"
#include "policy/pass_launches.h"
#include "policy/recorded_run.h"
#include "policy/units.h"

namespace superpipe {

/// Foresees launches by the replay of all of them in the order of their submission, and where that
/// does not tell, by the replays of single streams.
///
/// Streams that one thread submits to interleave in the same way each time, which the one log
/// describes exactly. Those of several threads do not: then the place in the one log moves with
/// every switch between them, and the streams are replayed *apart*. Both are asked of each launch
/// whether they foresaw it, and the streams are taken apart as soon as that foresees clearly more
/// launches, and put together again when the one log foresees as many. A program of one stream has
/// one log. Pure, not thread-safe.
class StreamReplays {
 public:
  /// The log of all launches remembers `capacity` of them at most, and those of the streams
  /// together as many.
  explicit StreamReplays(std::size_t capacity = std::size_t{1} << 19)
      : capacity_(capacity), all_(capacity) {}

  /// As LaunchReplay's: the streams of a recorded run are not told apart.
  void begin_with(const RecordedRun& recorded) { all_.begin_with(recorded); }
  [[nodiscard]] const PlanFollowing& following() const { return all_.following(); }

  /// As LaunchReplay's.
  void on_allocate(BufferId id, Bytes bytes) { all_.on_allocate(id, bytes); }
  void on_free(BufferId id);
  /// A launch is announced, on `stream`. Otherwise as LaunchReplay's.
  void on_launch(KernelId kernel, std::span<const BufferId> buffers, std::uint8_t stream) {
    all_.on_launch(kernel, buffers);
    if (streams_ == nullptr) {
      if (all_.present() == 0) first_stream_ = stream;
      if (stream == first_stream_) [[likely]]
        return;
    }
    follow_streams(kernel, buffers, stream);
  }

  /// Whether the streams are replayed apart.
  [[nodiscard]] bool are_apart() const { return is_apart_; }

  /// As LaunchReplay's, of whichever replay foresees.
  [[nodiscard]] std::uint64_t present() const { return all_.present(); }
  [[nodiscard]] std::uint64_t next_use(BufferId id) const {
    return is_apart_ ? streams_->next_use(id) : all_.next_use(id);
  }
  [[nodiscard]] bool at_pass_start() const {
    return is_apart_ ? streams_->at_pass_start() : all_.at_pass_start();
  }
  [[nodiscard]] Bytes pass_bytes() const {
    return is_apart_ ? streams_->pass_bytes() : all_.pass_bytes();
  }
  [[nodiscard]] std::size_t passes() const { return streams_ == nullptr ? all_.passes() : passes_; }
  /// Streams that are taken apart, or put together, move the place as well.
  [[nodiscard]] std::uint64_t jumps() const { return streams_ == nullptr ? all_.jumps() : jumps_; }

  /// @name As LaunchReplay's, of the log of all launches. Nothing is expected by it while the
  /// streams are replayed apart.
  /// @{
  [[nodiscard]] std::size_t horizon() const { return is_apart_ ? 0 : all_.horizon(); }
  [[nodiscard]] std::uint64_t followed() const { return is_apart_ ? 0 : all_.followed(); }
  void expect(std::size_t ahead, LaunchReplay::Expected& expected) const {
    all_.expect(ahead, expected);
  }
  [[nodiscard]] LaunchReplay::Launches aligned(LaunchReplay::Launches pass) const {
    return is_apart_ ? pass : all_.aligned(pass);
  }
  [[nodiscard]] std::uint64_t first_remembered() const { return all_.first_remembered(); }
  [[nodiscard]] std::shared_ptr<const PassLaunches> pass(std::uint64_t begin,
                                                         std::uint64_t end) const {
    return all_.pass(begin, end);
  }
  [[nodiscard]] std::optional<LivePass> live_pass(std::uint64_t begin, std::uint64_t end) const {
    return all_.live_pass(begin, end);
  }
  /// @}

  /// The streams' replays. REQUIRES: are_apart().
  [[nodiscard]] MergedReplays& streams() { return *streams_; }
  [[nodiscard]] const MergedReplays& streams() const { return *streams_; }

 private:
  void follow_streams(KernelId kernel, std::span<const BufferId> buffers, std::uint8_t stream);
  void choose();

  std::size_t capacity_;
  LaunchReplay all_;
  std::uint8_t first_stream_ = 0;
  std::unique_ptr<MergedReplays> streams_;  ///< null while there is one stream
  bool is_apart_ = false;
  double foreseen_by_all_ = 0.0;      ///< the share of recent launches that the one log foresaw
  double foreseen_by_streams_ = 0.0;  ///< and that their streams' replays did
  std::uint64_t jumps_ = 0;           ///< those below count once there are several streams
  std::uint64_t jumps_of_all_ = 0;
  std::size_t passes_ = 0;
  bool pass_began_ = false;
};

}  // namespace superpipe
