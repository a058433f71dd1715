// The order of accesses, learned as it happens: how predictable it is, and where it repeats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace superpipe {

/// Predicts each symbol from the two before it (a second-order successor table), and tells how
/// often it was right.
///
/// One symbol of context does not tell the way up from the way down in the palindromic order of
/// training; two do. Each context remembers its last successor, and drops it only when it was wrong
/// twice in a row, so that one deviation is not learned. Memory is bounded: at `capacity` contexts
/// the table starts anew. Not thread-safe. No allocation for a context that is known.
class SuccessorTable {
 public:
  using Symbol = std::uint32_t;

  explicit SuccessorTable(std::size_t capacity = 1 << 16) : capacity_(capacity) {}

  /// `symbol` has happened. Amortised O(1).
  void observe(Symbol symbol);

  /// The share of recent predictions that were right, in [0, 1]: an exponential mean over about 16.
  [[nodiscard]] double confidence() const { return confidence_; }

  /// Forgets everything.
  void clear();

 private:
  struct Successor {
    Symbol symbol = 0;
    bool doubted = false;  // its last prediction was wrong
  };

  static std::uint64_t context_of(Symbol before, Symbol last) {
    return (std::uint64_t{before} << 32) | last;
  }

  std::size_t capacity_;
  std::unordered_map<std::uint64_t, Successor> successors_;
  Symbol before_ = 0;
  Symbol last_ = 0;
  int seen_ = 0;  // how many of before_ and last_ are known: last_ first
  double confidence_ = 0.0;
};

/// Finds the period of a sequence of tokens that may begin with a one-off part.
///
/// A period P is accepted when the last min(P, 16) tokens are those that stood P before; the
/// nearest earlier occurrences of a token are tried first. Consecutive equal tokens count as one.
/// Memory is bounded: at `capacity` tokens it starts anew. Not thread-safe.
class PeriodDetector {
 public:
  explicit PeriodDetector(std::size_t capacity = 1 << 16) : capacity_(capacity) {}

  /// Tokens [first, first + period) are one period, and what came since repeats them.
  struct Period {
    std::size_t first;
    std::size_t period;
  };

  /// Whether `token` would be counted, that is, differs from the last.
  [[nodiscard]] bool would_count(std::uint64_t token) const {
    return tokens_.empty() || tokens_.back() != token;
  }

  /// The next token. Amortised O(1): at most 8 candidates, compared until they differ.
  /// @return the period, with its earliest start in what is remembered, when one is accepted.
  [[nodiscard]] std::optional<Period> observe(std::uint64_t token);

  /// From now on a period needs a recurrence twice as long: an accepted one proved wrong.
  void require_longer_match();

  /// Forgets the tokens, not what require_longer_match() asked for.
  void clear();

 private:
  [[nodiscard]] bool recurs(std::size_t period, std::size_t length) const;
  std::uint32_t& slot_of(std::uint64_t token);
  void grow();

  std::size_t capacity_;
  std::size_t match_factor_ = 1;
  std::vector<std::uint64_t> tokens_;
  std::vector<std::uint32_t> previous_;  // 1 + the previous index of the same token; 0: none
  // 1 + the last index of a token, by its hash, with linear probing: a node per token would cost
  // each launch an allocation while the order is being learned.
  std::vector<std::uint32_t> latest_;
  std::size_t distinct_ = 0;  // tokens in latest_
};

}  // namespace superpipe
