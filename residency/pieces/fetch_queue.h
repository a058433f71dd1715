// The pieces that are to be brought in: those that something waits for, and those to come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "policy/units.h"

namespace superpipe {

/// What wants a piece that is out.
enum class Want : std::uint8_t { kNobody, kPrefetch, kDemand };

/// A piece of a buffer as it was when it was asked for: the id may have come to name another buffer
/// since.
struct WantedPiece {
  BufferId id;
  std::uint32_t index;
  std::uint64_t generation;
};

/// Demands before prefetches, each in the order in which they were asked for.
///
/// Entries are not taken out when they become void: the caller that takes one checks the buffer's
/// own generation and the `want` of the piece. Not thread-safe: under the manager's mutex.
class FetchQueue {
 public:
  struct Entry {
    WantedPiece piece;
    Want want = Want::kNobody;
  };

  /// REQUIRES: `want` is kDemand or kPrefetch. Throws std::bad_alloc, with nothing changed.
  void push(Want want, const WantedPiece& piece) { queue_of(want).push_back(piece); }

  [[nodiscard]] bool empty() const { return demands_.empty() && prefetches_.empty(); }
  /// The entry that has `place` others before it; nullopt if there are not so many.
  [[nodiscard]] std::optional<Entry> at(std::size_t place) const {
    if (place < demands_.size()) return Entry{demands_[place], Want::kDemand};
    place -= demands_.size();
    if (place < prefetches_.size()) return Entry{prefetches_[place], Want::kPrefetch};
    return std::nullopt;
  }
  /// Takes it out. REQUIRES: there is one. Allocates nothing.
  void erase(std::size_t place) noexcept {
    const bool is_demand = place < demands_.size();
    auto& queue = is_demand ? demands_ : prefetches_;
    const std::size_t before = is_demand ? place : place - demands_.size();
    queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(before));
  }

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
