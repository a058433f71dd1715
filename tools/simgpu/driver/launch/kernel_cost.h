// How long a kernel that no plugin computes takes on the device.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "tools/simgpu/driver/device/card.h"
#include "tools/simgpu/product_kernel.h"

namespace simgpu {

/// What is known of one launch.
struct KernelWork {
  /// For each operand, the bytes from where it points to the end of its allocation.
  std::span<const std::uint64_t> operand_bytes;
  double threads = 1;              ///< of the grid together
  std::optional<Product> product;  ///< of a launch that stands for a matrix product
};

/// Bytes of one operand that one thread is taken to touch: four accesses of 16.
inline constexpr std::uint64_t kBytesPerThread = 64;
/// Operations that one thread is taken to do.
inline constexpr std::uint64_t kFlopsPerThread = 64;

/// Bytes on the host that a kernel reads and writes in place, over the link.
struct HostTraffic {
  double read = 0;
  double written = 0;
};

/// What a link takes to carry them, in nanoseconds.
struct LinkTimes {
  double read = 0;
  double written = 0;
};

/// @name The share of the link's bandwidth, measured by copies, that a kernel's own accesses have
/// Measured on an H200, over a link of 55.5 GB/s: 51.2 GB/s for reads and 52.5 for writes.
/// @{
inline constexpr double kReadShareOfLink = 51.2 / 55.5;
inline constexpr double kWriteShareOfLink = 52.5 / 55.5;
/// @}

/// How long the link of `card` is taken in each direction by a kernel with this traffic, if nothing
/// else uses it. Pure.
[[nodiscard]] LinkTimes link_times(const Card& card, const HostTraffic& traffic);

/// How many bytes of an operand that has `there` a kernel of `threads` threads is taken to touch.
[[nodiscard]] std::uint64_t touched_bytes(std::uint64_t there, double threads);

/// The modelled time of `work` on `card`, in nanoseconds: the larger of its bytes over the
/// bandwidth of device memory and its operations over the arithmetic, and at least the shortest
/// kernel.
///
/// A matrix product moves its two factors and its result once, each no more than the operands
/// together have, and takes 2 m n k operations (8 if its numbers are complex). Any other kernel is
/// taken for what most are, one that streams: each thread touches kBytesPerThread of each operand
/// (exact for elementwise kernels of whole allocations, since no more than an operand's extent
/// counts; at most four times too much for views; too little for kernels that loop) and does
/// kFlopsPerThread operations. Pure.
[[nodiscard]] double kernel_ns(const Card& card, const KernelWork& work);

}  // namespace simgpu
