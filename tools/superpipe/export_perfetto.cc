#include "tools/superpipe/export_perfetto.h"

#include <protozero/pbf_writer.hpp>

namespace superpipe::cli {
namespace {

using protozero::pbf_writer;

// The numbers of messages' fields; Perfetto's reference (perfetto.dev/docs/reference/
// trace-packet-proto) names each.
namespace trace_field {
constexpr std::uint32_t kPacket = 1;
}
namespace packet_field {
constexpr std::uint32_t kClockSnapshot = 6;
constexpr std::uint32_t kTimestamp = 8;
constexpr std::uint32_t kSequenceId = 10;
constexpr std::uint32_t kTrackEvent = 11;
constexpr std::uint32_t kInternedData = 12;
constexpr std::uint32_t kSequenceFlags = 13;
constexpr std::uint32_t kTrackDescriptor = 60;
constexpr std::uint32_t kStateCleared = 1;  // values of sequence_flags
constexpr std::uint32_t kNeedsState = 2;
}  // namespace packet_field
namespace clock_field {
constexpr std::uint32_t kClocks = 1;
constexpr std::uint32_t kClockId = 1;
constexpr std::uint32_t kClockTime = 2;
constexpr std::uint32_t kRealtime = 1;  // values of clock_id
constexpr std::uint32_t kMonotonic = 3;
constexpr std::uint32_t kBoottime = 6;
}  // namespace clock_field
namespace track_field {
constexpr std::uint32_t kUuid = 1;
constexpr std::uint32_t kName = 2;
constexpr std::uint32_t kProcess = 3;
constexpr std::uint32_t kThread = 4;
constexpr std::uint32_t kParent = 5;
constexpr std::uint32_t kCounter = 8;
constexpr std::uint32_t kChildOrdering = 11;
constexpr std::uint32_t kRank = 12;
constexpr std::uint32_t kExplicit = 3;  // a value of child_ordering
constexpr std::uint32_t kProcessId = 1;
constexpr std::uint32_t kProcessCommand = 2;
constexpr std::uint32_t kProcessName = 6;
constexpr std::uint32_t kThreadProcess = 1;
constexpr std::uint32_t kThreadId = 2;
constexpr std::uint32_t kThreadName = 5;
constexpr std::uint32_t kUnit = 3;  // of a counter
constexpr std::uint32_t kUnitName = 6;
constexpr std::uint32_t kBytes = 3;  // a value of unit
}  // namespace track_field
namespace event_field {
constexpr std::uint32_t kArguments = 4;
constexpr std::uint32_t kType = 9;
constexpr std::uint32_t kNameId = 10;
constexpr std::uint32_t kTrack = 11;
constexpr std::uint32_t kCounterValue = 30;
constexpr std::uint32_t kFlows = 47;
constexpr std::uint32_t kEndingFlows = 48;
constexpr std::uint32_t kSliceBegin = 1;  // values of type
constexpr std::uint32_t kSliceEnd = 2;
constexpr std::uint32_t kInstant = 3;
constexpr std::uint32_t kCounter = 4;
}  // namespace event_field
namespace argument_field {
constexpr std::uint32_t kNameId = 1;
constexpr std::uint32_t kNumber = 3;
constexpr std::uint32_t kText = 6;
}  // namespace argument_field
namespace interned_field {
constexpr std::uint32_t kEventNames = 2;
constexpr std::uint32_t kArgumentNames = 3;
constexpr std::uint32_t kId = 1;
constexpr std::uint32_t kText = 2;
}  // namespace interned_field

/// All packets are of one writer.
constexpr std::uint32_t kSequence = 1;
/// Ids of tracks have to differ from those of other traces that are looked at together.
constexpr std::uint64_t kTrackIds = 0x7370'0000'0000'0000;

std::uint64_t uuid_of(std::uint64_t track) { return kTrackIds + track; }

void add_clock(pbf_writer& clocks, std::uint32_t id, std::uint64_t time) {
  pbf_writer clock(clocks, clock_field::kClocks);
  clock.add_uint32(clock_field::kClockId, id);
  clock.add_uint64(clock_field::kClockTime, time);
}

}  // namespace

void PerfettoWriter::begin(const TracedProcess& process) {
  start_ = process.start_ns;
  process_id_ = static_cast<std::int32_t>(process.id);
  process_ = uuid_of(0);
  {
    pbf_writer packet(packet_);
    packet.add_uint64(packet_field::kTimestamp, start_);
    packet.add_uint32(packet_field::kSequenceId, kSequence);
    packet.add_uint32(packet_field::kSequenceFlags, packet_field::kStateCleared);
    pbf_writer clocks(packet, packet_field::kClockSnapshot);
    // Perfetto's own clock goes on while the machine sleeps; a program does not run then.
    add_clock(clocks, clock_field::kBoottime, start_);
    add_clock(clocks, clock_field::kMonotonic, start_);
    if (process.start_unix_ns != 0)
      add_clock(clocks, clock_field::kRealtime, process.start_unix_ns);
  }
  send();
  {
    pbf_writer packet(packet_);
    packet.add_uint32(packet_field::kSequenceId, kSequence);
    pbf_writer descriptor(packet, packet_field::kTrackDescriptor);
    descriptor.add_uint64(track_field::kUuid, process_);
    descriptor.add_enum(track_field::kChildOrdering, track_field::kExplicit);
    pbf_writer named(descriptor, track_field::kProcess);
    named.add_int32(track_field::kProcessId, process_id_);
    for (const std::string& word : process.command) {
      named.add_string(track_field::kProcessCommand, word);
    }
    named.add_string(track_field::kProcessName,
                     process.command.empty() ? "traced by superpipe" : process.command.front());
  }
  send();
}

void PerfettoWriter::define(const Track& defined) {
  {
    pbf_writer packet(packet_);
    packet.add_uint32(packet_field::kSequenceId, kSequence);
    pbf_writer descriptor(packet, packet_field::kTrackDescriptor);
    descriptor.add_uint64(track_field::kUuid, uuid_of(defined.id));
    descriptor.add_int32(track_field::kRank, static_cast<std::int32_t>(defined.id));
    if (defined.kind == Track::Kind::kThread && defined.thread != 0) {
      pbf_writer thread(descriptor, track_field::kThread);
      thread.add_int32(track_field::kThreadProcess, process_id_);
      thread.add_int64(track_field::kThreadId, defined.thread);
      thread.add_string(track_field::kThreadName, defined.name);
    } else {
      descriptor.add_string(track_field::kName, defined.name);
      descriptor.add_uint64(track_field::kParent,
                            defined.group == 0 ? process_ : uuid_of(defined.group));
    }
    if (defined.kind == Track::Kind::kGroup) {
      descriptor.add_enum(track_field::kChildOrdering, track_field::kExplicit);
    }
    if (defined.kind == Track::Kind::kCounter) {
      pbf_writer counter(descriptor, track_field::kCounter);
      if (defined.unit == Track::Unit::kBytes)
        counter.add_enum(track_field::kUnit, track_field::kBytes);
      if (defined.unit == Track::Unit::kBytesPerSecond) {
        counter.add_string(track_field::kUnitName, "bytes/s");
      }
    }
  }
  send();
}

void PerfettoWriter::slice(const TrackEvent& event, std::uint64_t duration_ns) {
  open_slice(event);
  close_slice(event.track, event.time + duration_ns);
}

void PerfettoWriter::open_slice(const TrackEvent& event) {
  write_event(event_field::kSliceBegin, event);
}

void PerfettoWriter::instant(const TrackEvent& event) { write_event(event_field::kInstant, event); }

void PerfettoWriter::close_slice(std::uint64_t track, std::uint64_t time) {
  {
    pbf_writer packet(packet_);
    packet.add_uint64(packet_field::kTimestamp, start_ + time);
    packet.add_uint32(packet_field::kSequenceId, kSequence);
    pbf_writer body(packet, packet_field::kTrackEvent);
    body.add_enum(event_field::kType, event_field::kSliceEnd);
    body.add_uint64(event_field::kTrack, uuid_of(track));
  }
  send();
}

void PerfettoWriter::count(std::uint64_t track, std::uint64_t time, std::uint64_t value) {
  {
    pbf_writer packet(packet_);
    packet.add_uint64(packet_field::kTimestamp, start_ + time);
    packet.add_uint32(packet_field::kSequenceId, kSequence);
    pbf_writer body(packet, packet_field::kTrackEvent);
    body.add_enum(event_field::kType, event_field::kCounter);
    body.add_uint64(event_field::kTrack, uuid_of(track));
    body.add_int64(event_field::kCounterValue, static_cast<std::int64_t>(value));
  }
  send();
}

void PerfettoWriter::write_event(std::uint32_t type, const TrackEvent& event) {
  body_.clear();
  {
    pbf_writer body(body_);
    body.add_enum(event_field::kType, static_cast<std::int32_t>(type));
    body.add_uint64(event_field::kTrack, uuid_of(event.track));
    body.add_uint64(event_field::kNameId, intern(names_, event.name, interned_field::kEventNames));
    for (const TrackArgument& told : event.arguments) {
      pbf_writer annotation(body, event_field::kArguments);
      annotation.add_uint64(argument_field::kNameId,
                            intern(argument_names_, told.name, interned_field::kArgumentNames));
      if (const auto* const number = std::get_if<std::uint64_t>(&told.value)) {
        annotation.add_uint64(argument_field::kNumber, *number);
      } else {
        annotation.add_string(argument_field::kText,
                              std::string(std::get<std::string_view>(told.value)));
      }
    }
    for (const std::uint64_t flow : event.flows_out) body.add_fixed64(event_field::kFlows, flow);
    for (const std::uint64_t flow : event.flows_in) {
      body.add_fixed64(event_field::kEndingFlows, flow);
    }
  }
  {
    pbf_writer packet(packet_);
    packet.add_uint64(packet_field::kTimestamp, start_ + event.time);
    packet.add_uint32(packet_field::kSequenceId, kSequence);
    packet.add_uint32(packet_field::kSequenceFlags, packet_field::kNeedsState);
    if (!interned_.empty()) packet.add_message(packet_field::kInternedData, interned_);
    packet.add_message(packet_field::kTrackEvent, body_);
  }
  interned_.clear();
  send();
}

std::uint64_t PerfettoWriter::intern(Interned& known, std::string_view name, std::uint32_t field) {
  std::string key(name);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  const std::uint64_t id = known.size() + 1;
  {
    pbf_writer data(interned_);
    pbf_writer entry(data, field);
    entry.add_uint64(interned_field::kId, id);
    entry.add_string(interned_field::kText, key);
  }
  known.emplace(std::move(key), id);
  return id;
}

void PerfettoWriter::send() {
  frame_.clear();
  pbf_writer(frame_).add_message(trace_field::kPacket, packet_);
  out_.write(frame_);
  packet_.clear();
}

}  // namespace superpipe::cli
