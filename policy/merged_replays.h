// What comes next in a program of several streams, from a replay of each stream's own launches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "policy/launch_replay.h"
#include "policy/units.h"

namespace superpipe {

/// Replays the launches of each stream by themselves, and puts what is expected of all of them in
/// one order.
///
/// Streams that threads submit to interleave differently each time, while each repeats its own
/// launches. When a stream launches next is not known, but how often it does: its launches to come
/// are predicted to be as far apart as its recent ones were, counted in launches of the program. A
/// stream that is late is predicted to be late by as much again, so that one which has stopped
/// moves away from the present.
///
/// A stream's replay knows the buffers that the stream has named. The first kMostStreams - 1
/// streams have a replay each, and all further ones share the last. Bounded memory, as that of the
/// replays. Pure, not thread-safe.
class MergedReplays {
 public:
  static constexpr std::size_t kMostStreams = 8;

  /// Each replay remembers `capacity` launches at most.
  explicit MergedReplays(std::size_t capacity) : capacity_(capacity) { replay_of_.fill(kNone); }

  /// The buffer is gone.
  void on_free(BufferId id);
  /// Launch `number` of the program is announced, on `stream`. `all` knows the bytes of its
  /// buffers. Amortised O(buffers).
  void on_launch(std::uint8_t stream, std::uint64_t number, KernelId kernel,
                 std::span<const BufferId> buffers, const LaunchReplay& all);

  /// The replay of the stream that launched last. REQUIRES: there is one.
  [[nodiscard]] const LaunchReplay& latest() const { return streams_[latest_].replay; }
  /// Whether the last launch moved its stream's place: what was expected of it does not hold.
  [[nodiscard]] bool jumped() const { return jumped_; }
  /// Whether the last launch opened a pass of the stream whose passes name the most bytes.
  [[nodiscard]] bool at_pass_start() const;
  /// What the last whole passes of all streams named, one pass of each.
  [[nodiscard]] Bytes pass_bytes() const;

  /// The number of the launch that is predicted to name the buffer first; LaunchReplay::kNever if
  /// none is. O(streams * log launches that named it).
  [[nodiscard]] std::uint64_t next_use(BufferId id) const;

  /// Whether there are expected launches that were not looked at. O(streams), as all below.
  [[nodiscard]] bool is_looking() const { return next_stream().has_value(); }
  /// The first expected launch that was not looked at yet. `expected` is overwritten.
  /// @return the number that it is predicted to have. REQUIRES: is_looking().
  std::uint64_t look(LaunchReplay::Expected& expected) const;
  /// The launch of look() has been looked at. REQUIRES: is_looking().
  void look_on();
  /// The launches that name the buffer are to be looked at again.
  void look_again_for(BufferId id);
  /// All expected launches are to be looked at again.
  void look_again();

 private:
  static constexpr std::uint8_t kNone = 0xFF;

  struct Stream {
    explicit Stream(std::size_t capacity) : replay(capacity) {}
    LaunchReplay replay;
    std::uint64_t launches = 0;
    std::uint64_t last = 0;       ///< the number of its last launch
    double gap = 1.0;             ///< launches of the program for each of its own, lately
    std::uint64_t looked_to = 0;  ///< its launches up to this one were looked at, by its own count
  };

  Stream& at(std::uint8_t stream);
  [[nodiscard]] std::uint64_t predicted(const Stream& stream, std::uint64_t ahead) const;
  [[nodiscard]] std::optional<std::size_t> next_stream() const;

  std::size_t capacity_;
  std::vector<Stream> streams_;
  std::array<std::uint8_t, 256> replay_of_;  ///< by the number of the stream; kNone: none yet
  std::size_t latest_ = 0;
  std::uint64_t present_ = 0;
  bool jumped_ = false;
};

}  // namespace superpipe
