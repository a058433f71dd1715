// The pieces that are to be brought in: those that somebody waits for, and those to come.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "policy/units.h"

namespace superpipe {

/// Who wants a piece that is out.
enum class Want : std::uint8_t { kNobody, kPrefetch, kDemand };

/// A piece of a buffer as it was when somebody asked for it: the id may have come to name another
/// buffer since.
struct WantedPiece {
  BufferId id;
  std::uint32_t index;
  std::uint64_t generation;
};

/// Demands before prefetches, each in the order in which they were asked for.
///
/// Entries are not taken out when they become void: whoever takes one checks the buffer's own
/// generation and the `want` of the piece. Not thread-safe: under the manager's mutex.
class FetchQueue {
 public:
  /// The first entry.
  struct Entry {
    WantedPiece piece;
    Want want = Want::kNobody;
  };

  /// REQUIRES: `want` is kDemand or kPrefetch. Throws std::bad_alloc, with nothing changed.
  void push(Want want, const WantedPiece& piece) { queue_of(want).push_back(piece); }

  [[nodiscard]] bool empty() const { return demands_.empty() && prefetches_.empty(); }
  /// nullopt if there is none.
  [[nodiscard]] std::optional<Entry> front() const {
    if (!demands_.empty()) return Entry{demands_.front(), Want::kDemand};
    if (!prefetches_.empty()) return Entry{prefetches_.front(), Want::kPrefetch};
    return std::nullopt;
  }
  /// REQUIRES: front() is of `want`.
  void pop(Want want) { queue_of(want).pop_front(); }

  /// Takes the first prefetch out; nullopt if there is none. Allocates nothing.
  std::optional<WantedPiece> take_prefetch() noexcept {
    if (prefetches_.empty()) return std::nullopt;
    const WantedPiece first = prefetches_.front();
    prefetches_.pop_front();
    return first;
  }

  void clear() {
    demands_.clear();
    prefetches_.clear();
  }

 private:
  std::deque<WantedPiece>& queue_of(Want want) {
    return want == Want::kDemand ? demands_ : prefetches_;
  }

  std::deque<WantedPiece> demands_;
  std::deque<WantedPiece> prefetches_;
};

}  // namespace superpipe
