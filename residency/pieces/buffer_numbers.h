// The numbers of a process's buffers, by which reports name them and the user names them back.
#pragma once

#include <cstdint>

namespace superpipe {

/// Counts buffers in the order of allocation. Not thread-safe.
class BufferNumbers {
 public:
  /// `before`: how many the process had before (ResidencyOptions::buffers_before).
  explicit BufferNumbers(std::uint64_t before) : so_far_(before) {}

  /// The number of a new buffer.
  std::uint64_t next() { return ++so_far_; }
  /// The program never got the buffer with that `number`. Where another one has come to be since,
  /// the number is no buffer's; else the next one gets it.
  void take_back(std::uint64_t number) {
    if (so_far_ == number) --so_far_;
  }
  /// How many buffers the process has had.
  [[nodiscard]] std::uint64_t so_far() const { return so_far_; }

 private:
  std::uint64_t so_far_;
};

}  // namespace superpipe
