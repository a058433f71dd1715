// The device memory that a launch names, from its submission to its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tools/simgpu/driver/code/kernel_words.h"
#include "tools/simgpu/driver/launch/kernel_cost.h"
#include "tools/simgpu/driver/launch/mixer.h"
#include "tools/simgpu/driver/launch/private_operands.h"
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
  /// Of the `words` of a launch in `context`, those that are device addresses.
  Operands(std::span<const LiveWord> words, const Context& context);

  /// Whether `word` is one of the device addresses. Not counted are those that refuse_doubtful()
  /// and guard_doubtful() are about.
  [[nodiscard]] bool names(std::uint64_t word) const;

  /// The kernel starts: finds the memory behind the words.
  /// @throws AccessFault if a word is an address at which nothing is mapped.
  void start();
  /// A kernel ends that has touched all of its memory. @throws AccessFault if memory that start()
  /// found has been unmapped, remapped or freed since.
  void end() const;
  /// A host kernel ends. Memory that other mappings adjoin may be several buffers, so that what the
  /// kernel has not touched does not count.
  void end(const PrivateOperands& operands) const;

  /// For each word, the bytes from there to the end of its allocation or mapped range, as far as is
  /// known when the launch is submitted.
  [[nodiscard]] std::vector<std::uint64_t> extents() const;

  /// What the kernel reads and writes on the host, by what is mapped now: an input is read, an
  /// output written, and an operand that is both counts as both. `bytes_of(position, there)` says
  /// how many of the `there` bytes behind the word `position` of the parameters the kernel touches.
  [[nodiscard]] HostTraffic host_traffic(
      const std::function<std::uint64_t(std::uint64_t position, std::uint64_t there)>& bytes_of)
      const;

  /// The operands whose memory start() found, in the order of the parameters.
  [[nodiscard]] std::vector<MixerOperand> mixer_operands() const;
  void read(std::uint64_t address, std::span<std::byte> target) const override;
  /// Writes to memory that start() found. REQUIRES that [address, address + bytes.size()) lies in
  /// the memory of one operand.
  void write(std::uint64_t address, std::span<const std::byte> bytes) const;

  /// Gives `operands` what a host kernel may write, and what consists of several mappings.
  void make_private(PrivateOperands& operands) const;

  /// @name Addresses where a freed block began and another block ends
  /// As a block's end the program may name them, but not use what is there. They are taken for the
  /// end where the launch names the block, too, in the same role: as the begin and end of a range.
  /// @{
  /// For kernels that use all that they are given. @throws AccessFault if there is one.
  void refuse_doubtful() const;
  /// For host kernels, of which it shows: they fault when they use one. After make_private().
  void guard_doubtful(PrivateOperands& operands) const;
  /// @}

 private:
  /// The memory that one or more words name.
  struct Range {
    Claim claim;             ///< of the first byte
    std::uint64_t size = 0;  ///< bytes; of an allocation, as the program was told
    bool surely = false;  ///< a whole parameter names it, so that the kernel surely may access it
    bool is_foreign = false;  ///< an allocation of another device, which was not opened to this one
    bool doubtful = false;    ///< a freed block's address, or the end of another one
    bool live = false;        ///< start() found it
    bool writable = true;     ///< all of it
    bool open_to_host = false;  ///< host code may use it while the kernel runs
    std::vector<Segment> segments;

    [[nodiscard]] std::uint64_t begin() const { return claim.address; }
    [[nodiscard]] std::uint64_t end() const { return claim.address + size; }
  };
  struct Operand {
    LiveWord word;
    std::size_t range = 0;
  };

  void start(Range& range) const;
  /// Whether it is a doubtful address that nothing says is an end.
  [[nodiscard]] bool is_suspect(const Operand& operand) const;
  template <typename IsTouched>
  void check(const IsTouched& is_touched) const;
  [[nodiscard]] const Range* range_of(std::uint64_t address) const;

  std::vector<Operand> operands_;
  std::vector<Range> ranges_;
  const int device_;
};

}  // namespace simgpu
