// H15: where does the driver put a large range of addresses, and does it follow a hint?

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "tools/superpipe/probes/session.h"

namespace superpipe::cli {
namespace {

using Json = ProbeReport::Json;

std::string in_hex(CUdeviceptr address) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string digits;
  for (; address != 0; address >>= 4) digits.insert(digits.begin(), kDigits[address & 15]);
  return "0x" + (digits.empty() ? std::string("0") : digits);
}

// Where a range of `bytes` lies that was asked for at `hint`; 0: there is none.
CUdeviceptr reserved_at(const Session& session, std::uint64_t bytes, CUdeviceptr hint) {
  CUdeviceptr address = 0;
  if (session.cu().cuMemAddressReserve(&address, bytes, 0, hint, 0) != CUDA_SUCCESS) return 0;
  session.cu().cuMemAddressFree.must(address, bytes);
  return address;
}

}  // namespace

void probe_arena_addresses(const ProbeSetting& setting, const ProbeReport& report) {
  report.step("opening the device");
  const Session session(setting);
  constexpr std::uint64_t kTiB = std::uint64_t{1} << 40;
  std::uint64_t largest = 64 * kTiB;
  while (largest >= kGranule && reserved_at(session, largest, 0) == 0) largest /= 2;
  if (largest < kGranule) throw NotSupported("the driver reserves no addresses at all");
  const std::uint64_t asked = std::min(kTiB, largest);
  const CUdeviceptr unasked = reserved_at(session, asked, 0);
  Json rows = Json::array();
  constexpr std::uint64_t kFarthest = std::uint64_t{1} << 30;
  bool follows = false;
  // The hints that superpipe gives (interposer/driver/driver_device_memory.cc), in its order.
  for (const CUdeviceptr hint : {0x6B00'8100'0000ULL, 0x5B00'8100'0000ULL, 0x4B00'8100'0000ULL}) {
    const CUdeviceptr got = reserved_at(session, asked, hint);
    // A driver rounds up to its own alignment: on an H200 to 32 MiB.
    follows = follows || (got >= hint && got - hint < kFarthest);
    rows.push_back({{"hint", in_hex(hint)}, {"got", in_hex(got)}});
  }
  report.figure("largest_range_bytes", largest);
  report.figure("asked_bytes", asked);
  report.figure("without_a_hint", in_hex(unasked));
  report.figure("hints", rows);
  report.answer("ranges of up to " + std::to_string(largest >> 30) + " GiB; without a hint at " +
                    in_hex(unasked) + "; a hint is " + (follows ? "" : "not ") + "followed",
                follows);
}

}  // namespace superpipe::cli
