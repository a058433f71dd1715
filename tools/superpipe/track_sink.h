// A timeline as formats that draw one take it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace superpipe::cli {

/// A row of a timeline, or a group of rows.
struct Track {
  enum class Kind : std::uint8_t { kGroup, kThread, kSlices, kCounter };
  enum class Unit : std::uint8_t { kNone, kBytes, kBytesPerSecond };
  std::uint64_t id = 0;     ///< from 1
  std::uint64_t group = 0;  ///< the group's id; 0 for groups
  Kind kind = Kind::kSlices;
  Unit unit = Unit::kNone;   ///< of kCounter
  std::uint32_t thread = 0;  ///< of kThread: the system's id, 0 if it is not known
  std::string name;
};

/// What the process was.
struct TracedProcess {
  std::uint64_t id = 0;
  std::vector<std::string> command;
  std::uint64_t start_ns = 0;       ///< by the steady clock; times count from it
  std::uint64_t start_unix_ns = 0;  ///< the same moment since 1970; 0: not known
};

/// A fact about an event; `name` outlives all events.
struct TrackArgument {
  std::string_view name;
  std::variant<std::uint64_t, std::string_view> value;
};

/// Something on a track. Views are valid during the call that they are given to.
struct TrackEvent {
  std::uint64_t track = 0;
  std::uint64_t time = 0;  ///< nanoseconds since the trace's start
  std::string_view name;
  std::span<const TrackArgument> arguments;
  std::span<const std::uint64_t> flows_out;  ///< arrows that begin here, each with a number
  std::span<const std::uint64_t> flows_in;   ///< arrows that end here
};

/// Takes a timeline. Tracks are defined before their use; groups before their tracks. The events of
/// a track come in the order of time, those of different tracks do not.
class TrackSink {
 public:
  virtual ~TrackSink() = default;
  virtual void begin(const TracedProcess& process) = 0;
  virtual void define(const Track& track) = 0;
  virtual void slice(const TrackEvent& event, std::uint64_t duration_ns) = 0;
  virtual void open_slice(const TrackEvent& event) = 0;
  /// Ends the slice that was opened last on this track.
  virtual void close_slice(std::uint64_t track, std::uint64_t time) = 0;
  virtual void instant(const TrackEvent& event) = 0;
  virtual void count(std::uint64_t track, std::uint64_t time, std::uint64_t value) = 0;
  virtual void finish() = 0;
};

}  // namespace superpipe::cli
