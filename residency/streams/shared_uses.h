// Uses on streams that have no slot of their own, each with an event behind it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "residency/device_memory.h"
#include "residency/streams/event_pool.h"

namespace superpipe {

/// The uses of streams beyond those that StreamTable has slots for, of one buffer or of all. A
/// stream whose work is not known to be over has one entry, or one for each thread where several
/// threads use it at once.
///
/// Not thread-safe: under the manager's mutex. Calls no device function.
class SharedUses {
 public:
  /// More are not kept: then it is not known what is over (is_lost()).
  static constexpr std::size_t kMost = 1024;

  struct Use {
    StreamHandle stream{};
    std::uint64_t thread = 0;  ///< for kPerThreadStream: its thread; else 0
    std::uint64_t noted = 0;   ///< the sequence of the use
    EventRef event;            ///< null: none could be recorded behind it
  };

  /// Makes sure that one more can be noted. Throws std::bad_alloc.
  void reserve() {
    if (uses_.size() < kMost && uses_.size() == uses_.capacity()) {
      uses_.reserve(2 * uses_.size() + 4);
    }
  }
  /// Notes a use that was submitted. Without memory for it, what is over is not known any more
  /// before clear(). Allocates only where reserve() was not called.
  void note(Use use) noexcept;

  /// Whether each use has an event; if so, appends those that are not known to be complete.
  bool covered(std::vector<EventRef>& events) const;
  /// Whether all uses are known to have completed.
  [[nodiscard]] bool is_over() const {
    return !is_lost_ && std::ranges::all_of(uses_, is_complete);
  }
  /// The last use before all those that are not known to have completed; `seq` where there are
  /// none. REQUIRES: !is_lost().
  [[nodiscard]] std::uint64_t completed_to(std::uint64_t seq) const;
  /// Whether a use could not be noted.
  [[nodiscard]] bool is_lost() const { return is_lost_; }

  /// Whether a use of `stream`, or of any, has no event.
  [[nodiscard]] bool lacks_event(StreamHandle stream) const;
  [[nodiscard]] bool lacks_event() const;
  /// `stream` is destroyed: gives `end`, recorded behind all of them (null: there is none), to its
  /// uses that have no event. A later stream may have its handle.
  void retire(StreamHandle stream, const EventRef& end) noexcept;
  /// Whether there are some whose events are not known to be complete.
  [[nodiscard]] bool can_be_asked() const {
    return std::ranges::any_of(
        uses_, [](const Use& use) { return use.event != nullptr && !is_complete(use); });
  }
  /// How many there are.
  [[nodiscard]] std::size_t size() const { return uses_.size(); }

  /// Up to `most` events of uses that are not known to have completed: others at each call, until
  /// all had their turn. Throws std::bad_alloc.
  [[nodiscard]] std::vector<EventRef> next_to_ask(std::size_t most);

  /// All uses are over.
  void clear() noexcept {
    uses_.clear();
    is_lost_ = false;
  }

 private:
  static bool is_complete(const Use& use) { return use.event != nullptr && use.event->is_known(); }

  std::vector<Use> uses_;  ///< in the order in which they were noted
  std::size_t next_ = 0;   ///< to be asked about
  bool is_lost_ = false;
};

}  // namespace superpipe
