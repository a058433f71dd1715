// Whose turn it is: one at a time, first come, first served.
#pragma once

namespace superpipe {

/// Gives the turn to the operations that ask for it, in the order in which they asked.
///
/// Not thread-safe: under the manager's mutex, which the threads that wait open between two asks.
/// Allocates nothing: the places in the queue are on the stacks of these threads.
class TurnQueue {
 public:
  /// A place in the queue; stays where it is while it is in it.
  class Place {
   public:
    Place() = default;
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    friend class TurnQueue;
    Place* next_ = nullptr;
  };

  /// Queues at the end.
  void join(Place& place) noexcept {
    Place** end = &first_;
    while (*end != nullptr) end = &(*end)->next_;
    *end = &place;
  }

  /// Takes the turn and leaves the queue, if the turn is free and `place` is the first.
  bool take(Place& place) noexcept {
    if (taken_ || first_ != &place) return false;
    taken_ = true;
    leave(place);
    return true;
  }

  /// Gives up. REQUIRES: `place` is in the queue.
  void leave(Place& place) noexcept {
    Place** link = &first_;
    while (*link != &place) link = &(*link)->next_;
    *link = place.next_;
    place.next_ = nullptr;
  }

  /// REQUIRES: the turn is taken.
  void end() noexcept { taken_ = false; }

 private:
  Place* first_ = nullptr;
  bool taken_ = false;
};

}  // namespace superpipe
