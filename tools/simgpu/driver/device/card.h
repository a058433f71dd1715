// What real cards can do, and the devices that simgpu makes of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace simgpu {

/// A device's size and speeds. Bandwidths in bytes per nanosecond (= GB/s), arithmetic in
/// operations per nanosecond (= 10^-3 TFLOP/s), times in nanoseconds.
struct Card {
  const char* name = "";
  std::uint64_t memory_bytes = 0;
  double memory_gbps = 0;   ///< of device memory, reads and writes together
  double half_flops = 0;    ///< of matrix products in 16 bits or less, dense
  double single_flops = 0;  ///< of everything else, in 32 bits
  double h2d_gbps = 0;      ///< pinned, host to device alone
  double d2h_gbps = 0;      ///< pinned, device to host alone
  /// The share of its bandwidth that each direction has while both are busy; 1: neither slows the
  /// other.
  double duplex = 1;
  double copy_ns = 0;      ///< that a copy takes besides its bytes
  double launch_ns = 0;    ///< the shortest kernel
  double pin_gbps = 0;     ///< at which host memory is pinned
  double call_factor = 1;  ///< how much longer driver calls take than call_cost.cc says
};

/// The device that simgpu is where nothing is asked for: about a third of a T4, with launches that
/// this machine's threads keep up with. Both directions of its link run at full speed at once.
extern const Card kPlainCard;

/// The real cards that SIMGPU_PRESET can name.
std::span<const Card> cards();
/// Their names, separated by commas.
std::string card_names();
/// The card of that name, or null.
const Card* find_card(std::string_view name);

/// The card that takes `slowdown` times as long for everything, and has 1/`scale` of its memory and
/// of all its speeds: a program whose sizes and arithmetic are 1/`scale` of another's takes
/// `slowdown` times as long on it as the other takes on `card`.
/// REQUIRES: both are at least 1.
Card scaled(const Card& card, double scale, double slowdown);

/// The smallest power of two of which scaled() leaves `card` a memory that is no faster than this
/// machine can fill (8 GB/s), given `slowdown`.
double scale_for(const Card& card, double slowdown);

/// How much slower than a card simgpu is unless told otherwise: its threads take about 20 us for a
/// kernel that takes a card 2.5.
inline constexpr double kUsualSlowdown = 8;

}  // namespace simgpu
