// What every format of `superpipe export` is, and what all of them need of a trace.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "policy/units.h"
#include "profiler/trace_event.h"
#include "profiler/trace_reader.h"

namespace superpipe::cli {

/// One line of a call site.
struct CallFrame {
  std::string function;    ///< readable; the module and offset where it has no name
  std::string place;       ///< "MODULE+0xOFFSET"; of Python, "FILE:LINE"
  std::uint64_t line = 0;  ///< in a file of Python; 0: it is native code

  [[nodiscard]] bool is_python() const { return line != 0; }
  /// `place` without the line.
  [[nodiscard]] std::string file() const {
    return is_python() ? place.substr(0, place.rfind(':')) : place;
  }
};

/// `text` with U+FFFD for what is no UTF-8 in it: formats allow nothing else. Pure.
[[nodiscard]] std::string as_utf8(std::string_view text);

/// Takes a call site's line "FUNCTION+0xOFFSET MODULE+0xOFFSET" or "FUNCTION FILE:LINE" apart;
/// without a function, or with a question mark for it, the second half stands for both. Pure.
[[nodiscard]] CallFrame parse_frame(std::string_view line);

/// The innermost frame outside the CUDA runtime, whose functions are the innermost of nearly all
/// call sites. @return frames.size() if there is none. Pure.
[[nodiscard]] std::size_t first_frame_of_program(std::span<const CallFrame> frames);

/// What a call site is called in a list: of Python its innermost function outside the framework's
/// own modules, with file and line. Else its innermost function that has a name, and is neither
/// the CUDA runtime's nor one through which a framework makes every tensor, nor one that starts
/// threads; where the program has no names, its two innermost places. Pure.
[[nodiscard]] std::string site_title(const std::vector<CallFrame>& frames);

/// What stands for the kernel of a stall without a launch: such a use has no kernel.
inline constexpr std::string_view kNameOfUses = "(memset, or copy on the device)";

/// What a call of the program waited for (TraceWait::what), in words. Pure.
[[nodiscard]] std::string_view name_of_wait(std::uint64_t what);

/// Names as people read them, in UTF-8, by the index that events have. What was never defined has a
/// name that says so. References are valid until the next definition of the same index.
class TraceNames {
 public:
  void add(const TraceKernel& kernel);
  void add(const TraceStream& stream);
  void add(const TraceCallSite& site);
  void add(const TraceText& text);
  void add(const TraceThread& thread);

  [[nodiscard]] const std::string& kernel(TraceIndex index) const;
  [[nodiscard]] const std::string& stream(TraceIndex index) const;
  [[nodiscard]] const std::string& text(TraceIndex index) const;
  [[nodiscard]] std::string thread(TraceIndex index) const;
  /// As the system counts threads; 0: not known.
  [[nodiscard]] std::uint32_t thread_id(TraceIndex index) const;
  /// Innermost first; empty where it is not known.
  [[nodiscard]] const std::vector<CallFrame>& frames(TraceIndex index) const;

 private:
  using Names = std::unordered_map<TraceIndex, std::string>;
  Names kernels_;
  Names streams_;
  Names texts_;
  std::unordered_map<TraceIndex, std::uint32_t> threads_;
  std::unordered_map<TraceIndex, std::vector<CallFrame>> sites_;
};

/// A trace in another format. Events come through TraceVisitor; names() knows what they refer to.
class TraceExporter : public TraceVisitor {
 public:
  /// Before any event, and once. `properties` are the trace's, all of them.
  virtual void begin(const TraceProperties& properties) = 0;
  /// After all events.
  virtual void finish() = 0;
  /// After finish(): why there is nothing in what was written; empty: there is something.
  [[nodiscard]] virtual std::string why_empty() const { return {}; }

  void on_kernel(const TraceKernel& event) override { names_.add(event); }
  void on_stream(const TraceStream& event) override { names_.add(event); }
  void on_call_site(const TraceCallSite& event) override { names_.add(event); }
  void on_text(const TraceText& event) override { names_.add(event); }
  void on_thread(const TraceThread& event) override { names_.add(event); }

 protected:
  [[nodiscard]] const TraceNames& names() const { return names_; }

 private:
  TraceNames names_;
};

/// An allocation that was not freed yet.
struct LiveAllocation {
  std::uint64_t number = 0;  ///< counts the allocations of the trace, from 1
  TraceAllocation what;
};

/// The allocations that there are, by buffer, or by address where the driver made them.
class LiveAllocations {
 public:
  /// @return the allocation that was there before: its free was not recorded.
  std::optional<LiveAllocation> add(const TraceAllocation& event);
  /// @return nullopt: its allocation was not recorded.
  std::optional<LiveAllocation> remove(const TraceFree& event);
  /// nullptr: there is none.
  [[nodiscard]] const LiveAllocation* find(BufferId buffer) const;

  /// Calls `use` with each, in no order.
  template <typename Use>
  void for_each(Use&& use) const {
    for (const auto& entry : by_buffer_) use(entry.second);
    for (const auto& entry : by_address_) use(entry.second);
  }

 private:
  std::uint64_t count_ = 0;
  std::unordered_map<std::uint32_t, LiveAllocation> by_buffer_;
  std::unordered_map<std::uint64_t, LiveAllocation> by_address_;
};

/// What launches were of late, by their number: later events name a launch only by that.
class RecentLaunches {
 public:
  struct Launch {
    std::uint64_t number = 0;
    TraceIndex kernel = 0;
    TraceIndex stream = 0;
  };

  RecentLaunches() : launches_(kKept) {}
  void add(const TraceLaunch& event);
  /// nullptr: it is too long ago, or was not recorded.
  [[nodiscard]] const Launch* find(TraceCount launch) const;

  /// Seconds of launches at the rate at which a driver takes them.
  static constexpr std::size_t kKept = std::size_t{1} << 18;

 private:
  struct Slot : Launch {
    bool is_used = false;
  };
  std::vector<Slot> launches_;
};

}  // namespace superpipe::cli
