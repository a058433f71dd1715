// How many launches the device is done with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace superpipe {

/// Turns uses that are known to have completed into launches: uses are numbered as they are
/// submitted, by all threads, launches as they are announced to policy.
///
/// Not thread-safe. Allocates nothing.
class DeviceProgress {
 public:
  /// Another launch is announced. Before it there were `launches`, and uses were submitted up to
  /// number `seq`: once these have completed, so have the launches, except those that other threads
  /// have announced and not submitted. At each launch: two stores.
  void note_launch(std::uint64_t seq, std::uint64_t launches) { announced_ = {seq, launches}; }

  /// A launch has been submitted as the use with the number `seq`. There have been `launches`, this
  /// one included: once that use has completed, so have they, except those that other threads have
  /// announced and not submitted. To be called often, for what is announced between two calls of
  /// this or advance() is found complete together.
  void note_submitted(std::uint64_t seq, std::uint64_t launches) {
    note_launch(seq, launches);
    mark();
  }

  /// Uses up to number `completed` are known to have completed. @return how many launches have
  /// completed, as far as that is known. Amortised O(1).
  std::uint64_t advance(std::uint64_t completed) {
    mark();
    for (; count_ > 0 && marks_[first_].seq <= completed; --count_) {
      launches_ = marks_[first_].launches;
      first_ = (first_ + 1) % kMost;
    }
    return launches_;
  }

 private:
  struct Mark {
    std::uint64_t seq = 0;
    std::uint64_t launches = 0;
  };
  /// With five marks a millisecond, those of a host that is 0.2 seconds ahead.
  static constexpr std::size_t kMost = 1024;

  void mark() {
    if (announced_.launches < launches_) clear();  // it is another policy that counts
    const bool is_new = count_ == 0 || newest().launches != announced_.launches;
    // Where there is no room, more launches are found complete together.
    if (is_new && count_ < kMost) marks_[(first_ + count_++) % kMost] = announced_;
  }
  [[nodiscard]] const Mark& newest() const { return marks_[(first_ + count_ - 1) % kMost]; }
  void clear() {
    count_ = 0;
    launches_ = 0;
  }

  Mark announced_;
  std::array<Mark, kMost> marks_{};  ///< a ring: those that have not completed, the oldest first
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::uint64_t launches_ = 0;  ///< completed
};

}  // namespace superpipe
