// The device memory that a launch names, from its submission to its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "tools/simgpu/driver/code/module_image.h"
#include "tools/simgpu/driver/launch/mixer.h"
#include "tools/simgpu/driver/memory/address_space.h"

namespace simgpu {

/// Which words of a launch's parameters are device addresses, and the memory behind them.
///
/// Which words are, is settled when the launch is submitted: when it runs, the host is ahead, and
/// a word that meant nothing may have come to look like an address, in one run and not in the next.
/// Where memory is only mapped, what is behind a word is what is mapped when the kernel starts. It
/// has to stay until the kernel ends. Used by one thread at a time.
class Operands final : public MixerMemory {
 public:
  /// Looks at each 8-byte word at a multiple of 8 inside one of `parameters` in `buffer`.
  Operands(std::span<const ParameterLayout> parameters, std::span<const std::byte> buffer,
           int device);

  /// The kernel starts: finds the memory behind the words.
  void start();
  /// The kernel ends. @throws AccessFault if memory that start() found has been unmapped, remapped
  /// or freed since.
  void end() const;

  /// What start() found. REQUIRES: start().
  [[nodiscard]] Place find(std::uint64_t word) const override;
  /// Through the program's own view of the memory.
  void read(std::uint64_t address, std::span<std::byte> target) const override;

 private:
  struct Operand {
    Claim claim;                   ///< of the first byte of an allocation, or of the word
    std::uint64_t size = 0;        ///< of the allocation, as the program was told
    bool whole_parameter = false;  ///< the word is a parameter: surely a pointer
    Place place;
    std::vector<Segment> segments;  ///< of `place`, if it is live
  };
  void start(std::uint64_t word, Operand& operand) const;

  std::map<std::uint64_t, Operand> operands_;  ///< by word
  const int device_;
};

}  // namespace simgpu
