// H31: do loads and stores by tensor maps work on pages that lie on the host?

#include <array>
#include <string>

#include "tools/superpipe/probes/host_pages.h"
#include "tools/superpipe/probes/kernels.h"

namespace superpipe::cli {
namespace {

constexpr unsigned kTileSeed = 41, kOtherSeed = 42;
constexpr unsigned kMatrixColumns = 1024;

/// A map of a matrix of words at `address` that is moved tile by tile.
CUtensorMap tensor_map_of(const Driver& cu, CUdeviceptr address, std::size_t bytes) {
  CUtensorMap map{};
  const std::array<cuuint64_t, 2> extents{kMatrixColumns,
                                          bytes / sizeof(unsigned) / kMatrixColumns};
  const std::array<cuuint64_t, 1> strides{kMatrixColumns * sizeof(unsigned)};
  const std::array<cuuint32_t, 2> box{kTileColumns, kTileRows};
  const std::array<cuuint32_t, 2> steps{1, 1};
  cu.cuTensorMapEncodeTiled.must(&map, CU_TENSOR_MAP_DATA_TYPE_UINT32, 2,
                                 reinterpret_cast<void*>(address), extents.data(), strides.data(),
                                 box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
                                 CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return map;
}

struct MovedTiles {
  double gbps = 0;
  unsigned long long missing_tiles = 0;
  unsigned long long wrong_words = 0;
};

/// Moves `bytes` bytes by tensor maps, and checks what has arrived.
MovedTiles move_tiles(Session& session, Measurement& measure, CUdeviceptr to, CUdeviceptr from,
                      std::size_t bytes) {
  constexpr std::size_t kTileBytes = sizeof(unsigned) * kTileColumns * kTileRows;
  const CUtensorMap read = tensor_map_of(session.cu(), from, bytes);
  const CUtensorMap written = tensor_map_of(session.cu(), to, bytes);
  const auto tiles = static_cast<unsigned>(bytes / kTileBytes);
  const auto move = [&] {
    // A block moves a tile at a time.
    constexpr unsigned long long kThreadsOfTile = 256;
    session.launch("probe_move_tiles", measure.stream(), tiles * kThreadsOfTile, read, written,
                   kMatrixColumns / kTileColumns, tiles, measure.counter());
  };
  measure.fill(from, bytes, kTileSeed);
  measure.fill(to, bytes, kOtherSeed);
  MovedTiles moved;
  moved.missing_tiles = tiles - measure.counted(move);
  moved.wrong_words = measure.wrong_words(to, bytes, kTileSeed);
  moved.gbps = measure.gbps(bytes, move);
  return moved;
}

}  // namespace

void probe_host_page_tensor_maps(const ProbeSetting& setting, const ProbeReport& report) {
  report.step("opening the device");
  Session session(setting);
  if (session.attribute(CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED) == 0) {
    throw NotSupported("the device has no tensor maps (attribute 127): compute capability 9.0 has");
  }
  const HostPlace place = find_host_place(session, setting, report);
  const std::size_t bytes = page_bytes(session, place.location, setting.pick(128, 32, 2) * kMiB);
  need_host_memory(setting, bytes);
  session.need_device_memory(2 * bytes + 2 * kGranule);
  Measurement measure(session);
  const Window device(session, bytes, kOnDevice);
  const Window other(session, bytes, kOnDevice);
  report.figure("bytes", bytes);

  report.step("tiles from a page of the device to another one");
  const MovedTiles alone = move_tiles(session, measure, other.address(), device.address(), bytes);
  if (alone.missing_tiles != 0 || alone.wrong_words != 0) {
    throw Skipped("tensor maps do not move tiles between pages of the device either");
  }
  report.figure("on_device_gbps", alone.gbps);
  const Window host(session, bytes, place.location);
  report.step("loads from a page on the host");
  const MovedTiles loads = move_tiles(session, measure, device.address(), host.address(), bytes);
  report.figure("load_gbps", loads.gbps);
  report.figure("wrong_words_of_loads", loads.wrong_words);
  report.step("stores to a page on the host");
  const MovedTiles stores = move_tiles(session, measure, host.address(), device.address(), bytes);
  report.figure("store_gbps", stores.gbps);
  report.figure("wrong_words_of_stores", stores.wrong_words);
  report.figure("missing_tiles", loads.missing_tiles + stores.missing_tiles);
  const unsigned long long wrong = loads.wrong_words + stores.wrong_words;
  const bool right = wrong == 0 && loads.missing_tiles + stores.missing_tiles == 0;
  report.answer((right ? "yes: " : "no, " + std::to_string(wrong) + " wrong words: ") + "loads " +
                    with_digits(loads.gbps, 1) + " GB/s, stores " + with_digits(stores.gbps, 1) +
                    " GB/s",
                right);
}

}  // namespace superpipe::cli
