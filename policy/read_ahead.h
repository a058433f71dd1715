// Which buffers a program names next for the first time: those that it allocated next.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "policy/units.h"

namespace superpipe {

/// Finds out where launches name buffers in the order in which they were allocated, and tells when
/// the ones to come are due.
///
/// A program loads its weights in about the order in which its first pass uses them. Where launches
/// have named buffers for the first time in that order for a while, the rest is expected to follow.
/// Several such sequences go on at once (weights, and caches that were allocated behind them all).
/// What was named once is of no concern any more. Pure, not thread-safe. Memory: O(buffers).
class ReadAhead {
 public:
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
  /// Buffers that have to be named in order before the next one is expected.
  static constexpr std::uint32_t kTrusted = 16;
  /// A launch may name the second to the fourth in order before the first.
  static constexpr std::size_t kWindow = 4;

  /// A buffer exists from now on.
  void on_allocate(BufferId id);
  /// The buffer is gone. Does nothing if there is none.
  void on_free(BufferId id);
  /// A launch names buffers, each once. O(buffers).
  void on_launch(std::span<const BufferId> buffers);

  /// In how many launches from the present one the buffer is expected to be named, at least 1;
  /// kNever: it is not known. O(1).
  [[nodiscard]] std::uint64_t due_in(BufferId id) const;

  /// How many buffers were allocated after this one. REQUIRES: it exists, and no launch has named
  /// it.
  [[nodiscard]] std::uint64_t allocated_after(BufferId id) const {
    return allocated_ - buffers_[index_of(id)].number;
  }

  /// The buffer that is due first of those that are not there, as `is_there` tells. Looks at a
  /// bounded number of buffers, and goes on behind them the next time.
  struct Due {
    BufferId id{};
    std::uint64_t in = 0;  ///< launches from the present one, at least 1
  };
  template <typename IsThere>
  [[nodiscard]] std::optional<Due> next(const IsThere& is_there);
  /// Whether the last next() has left some out, because no call takes long.
  [[nodiscard]] bool is_looking() const { return is_looking_; }
  /// A buffer that was there is not there any more.
  void look_again_for(BufferId id);

 private:
  static constexpr std::size_t kSequences = 4;
  static constexpr std::size_t kMostLookedAt = 256;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Buffer {
    std::uint64_t number = 0;  ///< in the order of allocation
    std::uint32_t before = kNone;
    std::uint32_t behind = kNone;
    bool waits = false;  ///< it exists, and no launch has named it
  };
  struct Sequence {
    std::uint32_t next = kNone;  ///< the one that is named next; kNone: all have been
    std::uint32_t seen = kNone;  ///< from `next` up to here all are there
    std::uint32_t hits = 0;
    std::uint64_t last_hit = 0;  ///< the launch
    double interval = 1.0;       ///< launches from one hit to the next: an exponential mean over 8
  };

  [[nodiscard]] bool is_trusted(const Sequence& sequence) const;
  [[nodiscard]] const Sequence* sequence_of(std::uint64_t number) const;
  [[nodiscard]] std::uint64_t due_in(const Sequence& sequence, std::uint64_t number) const;
  [[nodiscard]] bool is_near(const Sequence& sequence, std::uint32_t id) const;
  void name(std::uint32_t id);
  void hit(Sequence& sequence, std::uint32_t id);
  void remove(std::uint32_t id);

  std::vector<Buffer> buffers_;  ///< by id; those that wait are a list
  std::uint32_t last_ = kNone;   ///< of the list
  std::uint64_t allocated_ = 0;
  std::uint64_t launches_ = 0;
  std::uint64_t allocated_before_ = 0;  ///< up to the launch before
  std::array<Sequence, kSequences> sequences_{};
  bool is_looking_ = false;
};

template <typename IsThere>
std::optional<ReadAhead::Due> ReadAhead::next(const IsThere& is_there) {
  std::optional<Due> first;
  is_looking_ = false;
  for (Sequence& sequence : sequences_) {
    if (!is_trusted(sequence)) continue;
    std::size_t looked = 0;
    while (sequence.seen != kNone && looked++ < kMostLookedAt &&
           is_there(BufferId{sequence.seen})) {
      sequence.seen = buffers_[sequence.seen].behind;
    }
    if (looked > kMostLookedAt) is_looking_ = true;
    if (sequence.seen == kNone || looked > kMostLookedAt) continue;
    const std::uint64_t number = buffers_[sequence.seen].number;
    if (sequence_of(number) != &sequence) continue;  // another one has come to there
    const std::uint64_t in = due_in(sequence, number);
    if (!first || in < first->in) first = Due{BufferId{sequence.seen}, in};
  }
  return first;
}

}  // namespace superpipe
