#include "tools/simgpu/driver/device/card.h"

#include <array>

namespace simgpu {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr double kTera = 1e3;  // operations per nanosecond

constexpr std::uint64_t gib(double number) { return static_cast<std::uint64_t>(number * kGiB); }

// What a link of 16 lanes carries one way, pinned, of the 16, 32 and 64 GB/s that its generation
// promises.
constexpr double kGen3 = 12;
constexpr double kGen4 = 25;
constexpr double kGen5 = 54;
// Each direction's share while both are busy. Generation 3: 11.16 of 12.36 GB/s (the README of
// NVIDIA/nvbandwidth). Generation 4: 25 and 12 together of 25 each (NVIDIA/nvbandwidth, issues 11
// and 53, A100). Generation 5: taken to be as generation 4.
constexpr double kGen3Duplex = 0.90;
constexpr double kGen4Duplex = 0.74;
// Orders of magnitude, the same for all cards: a small copy occupies its engine for about 2 us, an
// empty kernel the device for about 2.5, and pinning costs a page fault and an entry of the
// device's tables for each page.
constexpr double kCopy = 2'000;
constexpr double kLaunch = 2'500;
constexpr double kPin = 4;

// Memory, its bandwidth, and dense arithmetic (tensor cores in 16 bits that add in 32, plain 32
// bits) from NVIDIA's data sheets: H100 and H200 Tensor Core GPU (SXM), A100 80GB PCIe, L4, T4; and
// from the white paper of the Ada architecture for the RTX 4090.
constexpr std::array<Card, 6> kCards{{
    {"h100-sxm", gib(80), 3350, 989 * kTera, 67 * kTera, kGen5, kGen5, kGen4Duplex, kCopy, kLaunch,
     kPin, 1},
    {"h200", gib(141), 4800, 989 * kTera, 67 * kTera, kGen5, kGen5, kGen4Duplex, kCopy, kLaunch,
     kPin, 1},
    {"a100-pcie", gib(80), 1935, 312 * kTera, 19.5 * kTera, kGen4, kGen4, kGen4Duplex, kCopy,
     kLaunch, kPin, 1},
    {"rtx4090", gib(24), 1008, 165.2 * kTera, 82.6 * kTera, kGen4, kGen4, kGen4Duplex, kCopy,
     kLaunch, kPin, 1},
    {"l4", gib(24), 300, 121 * kTera, 30.3 * kTera, kGen4, kGen4, kGen4Duplex, kCopy, kLaunch, kPin,
     1},
    {"t4", gib(16), 320, 65 * kTera, 8.1 * kTera, kGen3, kGen3, kGen3Duplex, kCopy, kLaunch, kPin,
     1},
}};

}  // namespace

const Card kPlainCard{"", gib(16), 100, 20 * kTera, 2.7 * kTera, 4, 4, 1.0, 0, 20'000, 1.3, 1};

std::span<const Card> cards() { return kCards; }

std::string card_names() {
  std::string names;
  for (const Card& card : kCards) names += (names.empty() ? "" : ", ") + std::string(card.name);
  return names;
}

const Card* find_card(std::string_view name) {
  for (const Card& card : kCards) {
    if (name == card.name) return &card;
  }
  return nullptr;
}

Card scaled(const Card& card, double scale, double slowdown) {
  Card result = card;
  result.memory_bytes = static_cast<std::uint64_t>(static_cast<double>(card.memory_bytes) / scale);
  for (double Card::*const rate : {&Card::memory_gbps, &Card::half_flops, &Card::single_flops,
                                   &Card::h2d_gbps, &Card::d2h_gbps, &Card::pin_gbps}) {
    result.*rate /= scale * slowdown;
  }
  for (double Card::*const time : {&Card::copy_ns, &Card::launch_ns, &Card::call_factor}) {
    result.*time *= slowdown;
  }
  return result;
}

double scale_for(const Card& card, double slowdown) {
  constexpr double kKeepsUp = 8;
  double scale = 1;
  while (card.memory_gbps / (scale * slowdown) > kKeepsUp) scale *= 2;
  return scale;
}

}  // namespace simgpu
