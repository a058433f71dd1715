// Host memory that runs out at a chosen allocation. Takes effect in programs that link
// allocation_faults.cc, which replaces operator new.
#pragma once

#include <cstdint>

namespace superpipe::testing {

/// What the calling thread's allocations come to. Counts, and fails, only while it is armed.
struct AllocationFaults {
  std::uint64_t count = 0;     ///< allocations made while armed
  std::uint64_t first = 0;     ///< the number of the first to fail, from 1; 0: none
  std::uint64_t how_many = 0;  ///< allocations that fail, from that on
  int armed = 0;               ///< > 0: armed

  /// The calling thread's.
  static AllocationFaults& mine() {
    thread_local AllocationFaults faults;
    return faults;
  }

  /// Whether the allocation that is asked for now has to fail.
  bool fails() {
    if (armed <= 0 || first == 0) {
      count += armed > 0 ? 1 : 0;
      return false;
    }
    ++count;
    return count >= first && count - first < how_many;
  }
};

/// Changes for a scope whether the calling thread's allocations count: by 1 for code under test, by
/// -1000 for what the test itself does beneath it.
class Arming {
 public:
  explicit Arming(int by) : by_(by) { AllocationFaults::mine().armed += by_; }
  ~Arming() { AllocationFaults::mine().armed -= by_; }
  Arming(const Arming&) = delete;
  Arming& operator=(const Arming&) = delete;

 private:
  int by_;
};

}  // namespace superpipe::testing
