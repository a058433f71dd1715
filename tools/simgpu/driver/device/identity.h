// How a simulated device is told from others.
#pragma once

#include <array>
#include <cstdio>

namespace simgpu {

inline constexpr char kDeviceName[] = "simgpu H200";
inline constexpr int kCapabilityMajor = 9;
inline constexpr int kCapabilityMinor = 0;

/// Sixteen bytes, the last one the ordinal.
inline std::array<char, 16> uuid_of(int ordinal) {
  std::array<char, 16> bytes{"simgpu-device-"};
  bytes[15] = static_cast<char>(ordinal);
  return bytes;
}

/// As nvidia-smi prints it: domain:bus:device.function.
inline std::array<char, 24> bus_id_of(int ordinal) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "0000:%02X:00.0", static_cast<unsigned>(ordinal + 1));
  return text;
}

}  // namespace simgpu
