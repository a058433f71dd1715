// What a trace tells: its events, each with the fields that are written to a file, in their order.
//
// docs/trace-format.md says the same for readers of other languages. A type's number and the order
// and kind of its fields never change; new fields are added at the end, with a new minor version.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "policy/units.h"

namespace superpipe {

/// When an event happened, and on which thread.
struct TraceMoment {
  std::int64_t time = 0;     ///< nanoseconds since the trace's start, by the host's steady clock
  std::uint32_t thread = 0;  ///< TraceThread::index; 0: not known

  bool operator==(const TraceMoment&) const = default;
};

/// Counts up from event to event, mostly by one, which is how it is written.
struct TraceCount {
  std::uint64_t value = 0;

  auto operator<=>(const TraceCount&) const = default;
};

/// Names a TraceStream, TraceKernel, TraceCallSite or TraceText by its index. 0: none, or not
/// known.
using TraceIndex = std::uint32_t;

/// Stands for a buffer that superpipe does not manage.
inline constexpr BufferId kNoBuffer{std::numeric_limits<std::uint32_t>::max()};

/// Events of this type and of higher ones have a TraceMoment; the others define and describe.
inline constexpr std::uint8_t kFirstTimedTraceType = 16;

// Each type has `kType`, its number in a file; `kName`; and `fields`, which calls `field` with the
// name and the place of each field. `Self` is the type, const where it is read.

/// A fact about the process, the device or the settings; docs/trace-format.md lists the keys. A key
/// may come more than once, and is then a list.
struct TraceProperty {
  static constexpr std::uint8_t kType = 1;
  static constexpr std::string_view kName = "property";
  std::string_view key;
  std::string_view value;

  template <typename Self, typename Field>
  static void fields(Self& self, Field&& field) {
    field("key", self.key);
    field("value", self.value);
  }
};

/// Describes a type of event, so that a reader that does not know it can still read it.
struct TraceSchema {
  static constexpr std::uint8_t kType = 2;
  static constexpr std::string_view kName = "schema";
  std::uint32_t type = 0;
  std::string_view name;
  std::string_view fields_text;  ///< "name:kind name:kind ...", kinds as in docs/trace-format.md

  template <typename Self, typename Field>
  static void fields(Self& self, Field&& field) {
    field("type", self.type);
    field("name", self.name);
    field("fields", self.fields_text);
  }
};

/// The events that follow in the chunk, until the next of these, happened on this thread.
struct TraceThread {
  static constexpr std::uint8_t kType = 3;
  static constexpr std::string_view kName = "thread";
  std::uint32_t index = 0;
  std::uint32_t id = 0;  ///< the system's, as gettid() says; 0: not told

  template <typename Self, typename Field>
  static void fields(Self& self, Field&& field) {
    field("index", self.index);
    field("id", self.id);
  }
};

/// Names a kernel. Comes before its first use, as the other definitions do.
struct TraceKernel {
  static constexpr std::uint8_t kType = 4;
  static constexpr std::string_view kName = "kernel";
  TraceIndex index = 0;
  std::uint64_t id = 0;   ///< KernelId: the same for the same kernel in each run
  std::string_view name;  ///< readable; empty if the driver does not tell

  template <typename Self, typename Field>
  static void fields(Self& self, Field&& field) {
    field("index", self.index);
    field("id", self.id);
    field("name", self.name);
  }
};

/// A stream of the program, by the handle that the driver gave it. A handle may come again for
/// another stream, once the first is destroyed.
struct TraceStream {
  static constexpr std::uint8_t kType = 5;
  static constexpr std::string_view kName = "stream";
  TraceIndex index = 0;
  std::uint64_t handle = 0;

  template <typename Self, typename Field>
  static void fields(Self& self, Field&& field) {
    field("index", self.index);
    field("handle", self.handle);
  }
};

/// Where in the program an allocation was made: one line a frame, innermost first.
struct TraceCallSite {
  static constexpr std::uint8_t kType = 6;
  static constexpr std::string_view kName = "call_site";
  TraceIndex index = 0;
  std::string_view frames;  ///< lines "FUNCTION+0xOFFSET MODULE+0xOFFSET"

  template <typename Self, typename Field>
  static void fields(Self& self, Field&& field) {
    field("index", self.index);
    field("frames", self.frames);
  }
};

/// A text that marks name.
struct TraceText {
  static constexpr std::uint8_t kType = 7;
  static constexpr std::string_view kName = "text";
  TraceIndex index = 0;
  std::string_view text;

  template <typename Self, typename Field>
  static void fields(Self& self, Field&& field) {
    field("index", self.index);
    field("text", self.text);
  }
};

/// The program allocated. A managed buffer's id is free for another one after its TraceFree; an
/// allocation with the id of a live buffer ends that buffer's life (its free was not recorded).
struct TraceAllocation {
  static constexpr std::uint8_t kType = 16;
  static constexpr std::string_view kName = "allocation";
  BufferId buffer = kNoBuffer;  ///< kNoBuffer: the driver's own, known by its address
  std::uint64_t address = 0;
  Bytes size;             ///< as the program asked
  Bytes footprint;        ///< what its pages take; 0 where it is the driver's own
  TraceIndex stream = 0;  ///< in whose order; 0: at once
  TraceIndex call_site = 0;
  /// Since minor version 2; of a buffer: counted from 1 in the process, as fault reports have it
  /// and SUPERPIPE_PIN takes it.
  std::uint64_t number = 0;

  template <typename Self, typename Field>
  static void fields(Self& self, Field&& field) {
    field("buffer", self.buffer);
    field("address", self.address);
    field("size", self.size);
    field("footprint", self.footprint);
    field("stream", self.stream);
    field("call_site", self.call_site);
    field("number", self.number);
  }
};

/// The program freed an allocation.
struct TraceFree {
  static constexpr std::uint8_t kType = 17;
  static constexpr std::string_view kName = "free";
  BufferId buffer = kNoBuffer;  ///< kNoBuffer: the driver's own, at `address`
  std::uint64_t address = 0;
  TraceIndex stream = 0;  ///< in whose order; 0: at once

  template <typename Self, typename Field>
  static void fields(Self& self, Field&& field) {
    field("buffer", self.buffer);
    field("address", self.address);
    field("stream", self.stream);
  }
};

/// A kernel was launched; its buffers are in place, or the stream waits for their arrival.
struct TraceLaunch {
  static constexpr std::uint8_t kType = 18;
  static constexpr std::string_view kName = "launch";
  TraceCount launch;  ///< counts the launches of the trace
  TraceIndex kernel = 0;
  TraceIndex stream = 0;
  std::span<const BufferId> buffers;  ///< managed ones that it names, each once

  template <typename Self, typename Field>
  static void fields(Self& self, Field&& field) {
    field("launch", self.launch);
    field("kernel", self.kernel);
    field("stream", self.stream);
    field("buffers", self.buffers);
  }
};

/// A memset or a copy on the device used buffers.
struct TraceUse {
  static constexpr std::uint8_t kType = 19;
  static constexpr std::string_view kName = "use";
  TraceIndex stream = 0;
  bool writes = false;  ///< at least one of them
  std::span<const BufferId> buffers;

  template <typename Self, typename Field>
  static void fields(Self& self, Field&& field) {
    field("stream", self.stream);
    field("writes", self.writes);
    field("buffers", self.buffers);
  }
};

/// The program copied between the host and a part of a managed buffer.
struct TraceCopy {
  static constexpr std::uint8_t kType = 20;
  static constexpr std::string_view kName = "copy";
  BufferId buffer = kNoBuffer;
  Bytes offset;  ///< of the first byte in the buffer
  Bytes size;
  bool to_device = false;  ///< else from it
  bool on_host = false;    ///< it went to or from the host copy: the part was not on the device
  TraceIndex stream = 0;

  template <typename Self, typename Field>
  static void fields(Self& self, Field&& field) {
    field("buffer", self.buffer);
    field("offset", self.offset);
    field("size", self.size);
    field("to_device", self.to_device);
    field("on_host", self.on_host);
    field("stream", self.stream);
  }
};

/// Superpipe enqueued the copy of a part of a buffer to the device. Fetches run in this order.
struct TraceFetch {
  static constexpr std::uint8_t kType = 21;
  static constexpr std::string_view kName = "fetch";
  TraceCount transfer;  ///< counts fetches and write-backs together, from 1
  BufferId buffer = kNoBuffer;
  Bytes offset;
  Bytes size;           ///< that cross the link; 0: it has no content yet
  Bytes footprint;      ///< of its page
  bool demand = false;  ///< a launch waits for it

  template <typename Self, typename Field>
  static void fields(Self& self, Field&& field) {
    field("transfer", self.transfer);
    field("buffer", self.buffer);
    field("offset", self.offset);
    field("size", self.size);
    field("footprint", self.footprint);
    field("demand", self.demand);
  }
};

/// Superpipe took a part of a buffer off the device.
struct TraceEviction {
  static constexpr std::uint8_t kType = 22;
  static constexpr std::string_view kName = "eviction";
  TraceCount transfer;  ///< of its write-back; that of the last transfer if it has none
  BufferId buffer = kNoBuffer;
  Bytes offset;
  Bytes size;       ///< that cross the link; 0: the host has its content, no write-back
  Bytes footprint;  ///< of its page; 0: that stays, and its content was copied ahead of need

  template <typename Self, typename Field>
  static void fields(Self& self, Field&& field) {
    field("transfer", self.transfer);
    field("buffer", self.buffer);
    field("offset", self.offset);
    field("size", self.size);
    field("footprint", self.footprint);
  }
};

/// A transfer was seen to have ended.
struct TraceTransferEnd {
  static constexpr std::uint8_t kType = 23;
  static constexpr std::string_view kName = "transfer_end";
  TraceCount transfer;

  template <typename Self, typename Field>
  static void fields(Self& self, Field&& field) {
    field("transfer", self.transfer);
  }
};

/// A launch began later on the device than it could have, because it waited for fetches. The event
/// comes when that is known.
struct TraceStall {
  static constexpr std::uint8_t kType = 24;
  static constexpr std::string_view kName = "stall";
  TraceCount launch;       ///< TraceLaunch::launch
  std::int64_t ready = 0;  ///< when its buffers had arrived: ns after the event, so 0 or less
  std::uint64_t duration_ns = 0;  ///< how long the stream did nothing before

  template <typename Self, typename Field>
  static void fields(Self& self, Field&& field) {
    field("launch", self.launch);
    field("ready", self.ready);
    field("duration_ns", self.duration_ns);
  }
};

/// What the process may use of the device from now on.
struct TraceBudget {
  static constexpr std::uint8_t kType = 25;
  static constexpr std::string_view kName = "budget";
  Bytes budget;  ///< without the context; 0: none
  Bytes limit;   ///< what pages of buffers may take of it

  template <typename Self, typename Field>
  static void fields(Self& self, Field&& field) {
    field("budget", self.budget);
    field("limit", self.limit);
  }
};

/// What memory is in use.
struct TraceMemory {
  static constexpr std::uint8_t kType = 26;
  static constexpr std::string_view kName = "memory";
  Bytes pages;        ///< of the device, held by superpipe
  Bytes live;         ///< footprints of the buffers that there are, wherever their content is
  Bytes passthrough;  ///< of the device, held by the driver for this process when last asked
  Bytes pinned_host;  ///< of the host, for content that is out

  template <typename Self, typename Field>
  static void fields(Self& self, Field&& field) {
    field("pages", self.pages);
    field("live", self.live);
    field("passthrough", self.passthrough);
    field("pinned_host", self.pinned_host);
  }
};

/// A launch was recognised as the first of a pass.
struct TracePass {
  static constexpr std::uint8_t kType = 27;
  static constexpr std::string_view kName = "pass";
  TraceCount launch;

  template <typename Self, typename Field>
  static void fields(Self& self, Field&& field) {
    field("launch", self.launch);
  }
};

/// How long a launch took on the device.
struct TraceKernelTime {
  static constexpr std::uint8_t kType = 28;
  static constexpr std::string_view kName = "kernel_time";
  TraceCount launch;
  std::int64_t begin = 0;  ///< ns after the event, so mostly less than 0
  std::uint64_t duration_ns = 0;
  /// Launches that it is the time of: `launch` and those before it on its stream. 0: one of
  /// `kernel` that names no buffer, for which `launch` is the last before it that does.
  std::uint64_t launches = 1;
  TraceIndex kernel = 0;  ///< since minor version 1; 0: that of `launch`

  template <typename Self, typename Field>
  static void fields(Self& self, Field&& field) {
    field("launch", self.launch);
    field("begin", self.begin);
    field("duration_ns", self.duration_ns);
    field("launches", self.launches);
    field("kernel", self.kernel);
  }
};

/// A range that the program marks begins (nvtxRangePush), or, with another way, ends or is a point.
struct TraceMark {
  static constexpr std::uint8_t kType = 29;
  static constexpr std::string_view kName = "mark";
  enum Way : std::uint32_t { kBegin = 0, kEnd = 1, kPoint = 2 };
  std::uint32_t way = kBegin;
  TraceIndex text = 0;      ///< of kBegin and kPoint
  std::uint64_t range = 0;  ///< joins begin and end on different threads; 0: they nest on one

  template <typename Self, typename Field>
  static void fields(Self& self, Field&& field) {
    field("way", self.way);
    field("text", self.text);
    field("range", self.range);
  }
};

/// The text of the mark (kPoint) that stands for the launch of a graph, whose kernels and copies no
/// event tells of.
inline constexpr std::string_view kTraceGraphLaunch = "graph launch (not recorded)";

/// The text of the mark (kPoint) that stands for a launch, copy or memset that superpipe refused
/// because its buffers found no room on the device.
inline constexpr std::string_view kTraceRefusal = "operation refused for lack of device memory";

/// Events were dropped, because the file could not be written fast enough.
struct TraceDropped {
  static constexpr std::uint8_t kType = 30;
  static constexpr std::string_view kName = "dropped";
  std::uint64_t events = 0;  ///< since the last of these

  template <typename Self, typename Field>
  static void fields(Self& self, Field&& field) {
    field("events", self.events);
  }
};

/// The trace ends as it should.
struct TraceEnd {
  static constexpr std::uint8_t kType = 31;
  static constexpr std::string_view kName = "end";
  std::uint64_t events = 0;   ///< that were recorded
  std::uint64_t dropped = 0;  ///< that were not

  template <typename Self, typename Field>
  static void fields(Self& self, Field&& field) {
    field("events", self.events);
    field("dropped", self.dropped);
  }
};

/// A call of the thread waited, up to the time of the event. Recorded if it took kLeast or longer.
/// Since minor version 3.
struct TraceWait {
  static constexpr std::uint8_t kType = 32;
  static constexpr std::string_view kName = "wait";
  static constexpr std::uint64_t kLaunch = 0;  ///< or another operation: for its buffers or for
                                               ///< room, or until its stream takes it
  static constexpr std::uint64_t kDevice = 1;  ///< the program waits for a stream or the device
  static constexpr std::uint64_t kCopy = 2;    ///< for a copy that is recorded before it
  static constexpr std::chrono::microseconds kLeast{20};
  std::uint64_t what = 0;  ///< one of these
  std::uint64_t duration_ns = 0;

  template <typename Self, typename Field>
  static void fields(Self& self, Field&& field) {
    field("what", self.what);
    field("duration_ns", self.duration_ns);
  }
};

/// Calls `use.template operator()<Event>()` for each type, by its number.
template <typename Use>
void for_each_trace_type(Use&& use) {
  const auto all = [&use]<typename... Events>() { (use.template operator()<Events>(), ...); };
  all.template
  operator()<TraceProperty, TraceSchema, TraceThread, TraceKernel, TraceStream, TraceCallSite,
             TraceText, TraceAllocation, TraceFree, TraceLaunch, TraceUse, TraceCopy, TraceFetch,
             TraceEviction, TraceTransferEnd, TraceStall, TraceBudget, TraceMemory, TracePass,
             TraceKernelTime, TraceMark, TraceDropped, TraceEnd, TraceWait>();
}

/// Takes what a reader finds, in the order of the file. Views into an event are valid during the
/// call only. What is not overridden is ignored.
class TraceVisitor {
 public:
  virtual ~TraceVisitor() = default;
  virtual void on_property(const TraceProperty& /*event*/) {}
  virtual void on_thread(const TraceThread& /*event*/) {}
  virtual void on_kernel(const TraceKernel& /*event*/) {}
  virtual void on_stream(const TraceStream& /*event*/) {}
  virtual void on_call_site(const TraceCallSite& /*event*/) {}
  virtual void on_text(const TraceText& /*event*/) {}
  virtual void on_allocation(const TraceMoment& /*when*/, const TraceAllocation& /*event*/) {}
  virtual void on_free(const TraceMoment& /*when*/, const TraceFree& /*event*/) {}
  virtual void on_launch(const TraceMoment& /*when*/, const TraceLaunch& /*event*/) {}
  virtual void on_use(const TraceMoment& /*when*/, const TraceUse& /*event*/) {}
  virtual void on_copy(const TraceMoment& /*when*/, const TraceCopy& /*event*/) {}
  virtual void on_fetch(const TraceMoment& /*when*/, const TraceFetch& /*event*/) {}
  virtual void on_eviction(const TraceMoment& /*when*/, const TraceEviction& /*event*/) {}
  virtual void on_transfer_end(const TraceMoment& /*when*/, const TraceTransferEnd& /*event*/) {}
  virtual void on_stall(const TraceMoment& /*when*/, const TraceStall& /*event*/) {}
  virtual void on_budget(const TraceMoment& /*when*/, const TraceBudget& /*event*/) {}
  virtual void on_memory(const TraceMoment& /*when*/, const TraceMemory& /*event*/) {}
  virtual void on_pass(const TraceMoment& /*when*/, const TracePass& /*event*/) {}
  virtual void on_kernel_time(const TraceMoment& /*when*/, const TraceKernelTime& /*event*/) {}
  virtual void on_mark(const TraceMoment& /*when*/, const TraceMark& /*event*/) {}
  virtual void on_dropped(const TraceMoment& /*when*/, const TraceDropped& /*event*/) {}
  virtual void on_wait(const TraceMoment& /*when*/, const TraceWait& /*event*/) {}
  /// An event of a type that a later minor version brought.
  virtual void on_unknown(std::uint32_t /*type*/) {}
};

}  // namespace superpipe
