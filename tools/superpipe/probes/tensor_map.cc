// H7: does a tensor map hold the address of its tensor as it is?

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "tools/superpipe/probes/session.h"

namespace superpipe::cli {
namespace {

using Bytes128 = std::array<unsigned char, sizeof(CUtensorMap)>;

// A matrix of 64 rows of 1024 floats.
Bytes128 encode(const Driver& cu, CUdeviceptr address) {
  CUtensorMap map{};
  const std::array<cuuint64_t, 2> extents{1024, 64};
  const std::array<cuuint64_t, 1> strides{4096};
  const std::array<cuuint32_t, 2> box{32, 8};
  const std::array<cuuint32_t, 2> steps{1, 1};
  cu.cuTensorMapEncodeTiled.must(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2,
                                 reinterpret_cast<void*>(address), extents.data(), strides.data(),
                                 box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
                                 CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  Bytes128 bytes{};
  std::memcpy(bytes.data(), &map, bytes.size());
  return bytes;
}

std::optional<std::size_t> offset_of(CUdeviceptr address, const Bytes128& bytes) {
  for (std::size_t offset = 0; offset + sizeof(address) <= bytes.size(); ++offset) {
    if (std::memcmp(bytes.data() + offset, &address, sizeof(address)) == 0) return offset;
  }
  return std::nullopt;
}

std::string hexadecimal(const Bytes128& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += kDigits[byte / 16];
    text += kDigits[byte % 16];
  }
  return text;
}

}  // namespace

void probe_tensor_map(const ProbeSetting& setting, const ProbeReport& report) {
  constexpr std::size_t kBytes = 4 * kGranule;
  report.step("opening the device");
  Session session(setting);
  const Driver& cu = session.cu();
  if (session.attribute(CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED) == 0) {
    throw NotSupported("the device has no tensor maps (attribute 127): compute capability 9.0 has");
  }
  session.need_device_memory(2 * kBytes);
  const DeviceMemory mapped(session, kBytes);
  CUdeviceptr allocated = 0;
  cu.cuMemAlloc.must(&allocated, kBytes);

  report.step("encoding");
  // Both kinds of memory, and addresses that differ in low, middle and high bits.
  const std::vector<CUdeviceptr> addresses = {mapped.address(),
                                              mapped.address() + 16,
                                              mapped.address() + 4096,
                                              mapped.address() + kGranule,
                                              allocated,
                                              allocated + 65536 + 128};
  std::vector<Bytes128> maps;
  maps.reserve(addresses.size());
  for (const CUdeviceptr address : addresses) maps.push_back(encode(cu, address));

  const auto offset = offset_of(addresses.front(), maps.front());
  bool raw = offset.has_value();
  bool rest_is_the_same = true;
  for (std::size_t i = 0; raw && i < maps.size(); ++i) {
    raw = std::memcmp(maps[i].data() + *offset, &addresses[i], sizeof(CUdeviceptr)) == 0;
    for (std::size_t at = 0; at < maps[i].size(); ++at) {
      const bool of_address = at >= *offset && at < *offset + sizeof(CUdeviceptr);
      rest_is_the_same = rest_is_the_same && (of_address || maps[i][at] == maps[0][at]);
    }
  }
  report.figure("raw", raw);
  if (raw) report.figure("offset_bytes", *offset);
  if (raw) report.figure("nothing_else_depends_on_the_address", rest_is_the_same);
  report.figure("address", addresses.front());
  report.figure("map_hex", hexadecimal(maps.front()));

  report.step("encoding an address at which nothing is mapped");
  const Range reserved(session, kGranule);
  bool encodes_unmapped = true;
  try {
    (void)encode(cu, reserved.address());
  } catch (const CallFailed&) {
    encodes_unmapped = false;
  }
  report.figure("encodes_unmapped", encodes_unmapped);

  report.step("replacing the address");
  CUtensorMap replaced{};
  std::memcpy(&replaced, maps.front().data(), sizeof(replaced));
  if (cu.cuTensorMapReplaceAddress.exists() &&
      cu.cuTensorMapReplaceAddress(&replaced, reinterpret_cast<void*>(addresses[3])) ==
          CUDA_SUCCESS) {
    report.figure("replaced_equals_encoded",
                  std::memcmp(&replaced, maps[3].data(), sizeof(replaced)) == 0);
  }
  report.answer(raw ? "yes: at byte " + std::to_string(*offset) +
                          (rest_is_the_same ? ", and nothing else depends on it"
                                            : ", but other bytes depend on it too")
                    : "no: its 8 bytes are not among the map's 128",
                raw);
}

}  // namespace superpipe::cli
