// What device memory reads as before the program has written it (SIMGPU_FILL).
#pragma once

#include <cstdint>

namespace simgpu {

/// What the bytes of one allocation or page read as until they are written: zero, or poison, which
/// differs from one call to the next. No aligned word of poison looks like an address, and none is
/// zero.
class Unwritten {
 public:
  /// By the configuration. Thread-safe; waits on nothing.
  static Unwritten next();

  [[nodiscard]] bool zero() const { return word_ == 0; }
  /// Writes it to `size` bytes. REQUIRES an address at a multiple of 8.
  void write(unsigned char* bytes, std::uint64_t size) const;

 private:
  explicit Unwritten(std::uint64_t word) : word_(word) {}

  std::uint64_t word_;
};

}  // namespace simgpu
