// The memory that a host kernel works on: private copies until the kernel's modelled end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tools/simgpu/driver/memory/address_range.h"

namespace simgpu {

/// A host kernel computes all of its results at once, at its modelled start. What it may write are
/// copies of its operands, so that nobody sees a result before the kernel's modelled end, as nobody
/// can rely on one before the end of a kernel on a device.
///
/// Small ranges are copied; of large ones, the system copies the pages that the kernel writes. What
/// the kernel has written is told from what was there by words of 4 bytes: kernels of two streams
/// may write different words of one allocation at the same time, but not different bytes of one
/// word, nor, of a large range, of one page; and of two kernels that run at the same time and add
/// to one word, atomically, one is lost: an addition that is not atomic is rightly lost, and
/// nothing tells which it was. What the kernel has written is published as it is, even if it looks
/// like the address of a copy, since it may be any number: a kernel that stores an address asks for
/// the program's (SimgpuLaunch::program_address). Not covered is what it reaches through addresses
/// that it loads from device memory: those lead into the program's own view. Used by one thread at
/// a time.
class PrivateOperands {
 public:
  /// The largest range that is usually copied at once, in bytes.
  static constexpr std::uint64_t kCopied = 65536;

  /// Ranges of up to `copied` bytes are small. With 0 none is: then the kernel sees, in the pages
  /// that it has not written, what others write while it runs.
  explicit PrivateOperands(std::uint64_t copied = kCopied) : copied_(copied) {}
  ~PrivateOperands();
  PrivateOperands(const PrivateOperands&) = delete;
  PrivateOperands& operator=(const PrivateOperands&) = delete;

  /// Copies [begin, end), whose bytes are `segments`; once for each `begin`. There is a page
  /// without access before and after each copy. Cost: a few system calls for each segment.
  /// @throws std::bad_alloc
  void add(std::uint64_t begin, std::uint64_t end, const std::vector<Segment>& segments);

  /// From now on end_to_copy(address) is where a kernel faults: behind the copy of a range that
  /// ends there, or else at memory that nobody may access. Behind a small copy, which fills no
  /// whole page, accesses up to the page's end pass, and change nothing. @throws std::bad_alloc
  void add_guard(std::uint64_t address);

  /// Where the copy has what the program has at `address`; `address` itself if it is in no range.
  [[nodiscard]] std::uint64_t to_copy(std::uint64_t address) const;
  /// The same for a word that names no memory of its own: it may be the address one past the end of
  /// a range.
  [[nodiscard]] std::uint64_t end_to_copy(std::uint64_t address) const;
  /// The opposite, also for addresses in the pages around a copy.
  [[nodiscard]] std::uint64_t to_program(std::uint64_t address) const;

  /// The kernel has run: finds what it has written and touched. Linear in the pages of the ranges,
  /// by a few bytes each, and in the bytes of those that it has written.
  void collect();
  /// Whether the kernel has touched segment `index` of the range at `begin`. True if it is not
  /// known: for small ranges, and for those that add() was not given. REQUIRES: collect().
  [[nodiscard]] bool touched(std::uint64_t begin, std::size_t index) const;
  /// The kernel ends: writes what it has written to the memory that add() was given, and forgets
  /// it. REQUIRES: collect().
  void publish();

 private:
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t size = 0;
    unsigned char* pages = nullptr;     ///< first of the copy's whole pages
    std::uint64_t page_bytes = 0;       ///< bytes of the whole pages
    unsigned char* copy = nullptr;      ///< what the kernel has instead of `begin`
    std::vector<unsigned char> before;  ///< of a small range: its bytes at the time of add()
    std::vector<Segment> segments;
    std::vector<bool> touched;  ///< by segment; empty if not known
  };
  /// Up to 64 words that lie one behind the other, of which the kernel has written some.
  struct Block {
    std::size_t range;
    std::uint64_t offset;   ///< in the range
    std::uint64_t size;     ///< bytes; the last word may be cut short
    std::uint64_t written;  ///< a bit for each word, the lowest for the first
  };

  void copy(Range& range);
  void map(Range& range);
  void collect(std::size_t index);
  void collect_mapped(std::size_t index);
  /// Adds what differs in [offset, offset + size) of range `index` from `before`.
  void compare(std::size_t index, std::uint64_t offset, const unsigned char* before,
               std::uint64_t size);
  void clear();

  const std::uint64_t copied_;
  std::vector<Range> ranges_;
  std::vector<Block> blocks_;
};

}  // namespace simgpu
