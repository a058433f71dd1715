#include "tools/superpipe/probes/host_pages.h"

#include <stdexcept>
#include <string>

namespace superpipe::cli {

std::vector<HostPlace> host_places(Session& session, const ProbeSetting& setting,
                                   const ProbeReport& report) {
  const bool numa =
      session.attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) != 0;
  const bool host =
      session.attribute(CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) != 0;
  report.figure("supported_host_numa", numa);
  report.figure("supported_host", host);
  std::vector<HostPlace> places;
  if (numa && !setting.without_host_numa) {
    const int node = std::max(0, session.attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID));
    places.push_back({"HOST_NUMA", {CU_MEM_LOCATION_TYPE_HOST_NUMA, node}});
  }
  if (host) places.push_back({"HOST", {CU_MEM_LOCATION_TYPE_HOST, 0}});
  if (places.empty()) {
    throw NotSupported(
        "the device says that it has neither HOST_NUMA (attribute 141) nor HOST "
        "(145) pages");
  }
  return places;
}

HostPlace find_host_place(Session& session, const ProbeSetting& setting,
                          const ProbeReport& report) {
  std::string refused;
  for (const HostPlace& place : host_places(session, setting, report)) {
    report.figure("location", place.name);
    report.step(std::string("creating a page of ") + place.name);
    try {
      const Pages page(session, page_bytes(session, place.location, kGranule), place.location);
      return place;
    } catch (const std::runtime_error& failed) {
      // Known: creation fails on some nodes although the attribute is set.
      refused += (refused.empty() ? "" : "; ") + std::string(place.name) + ": " + failed.what();
    }
  }
  throw NotSupported("the driver creates no pages on the host: " + refused);
}

std::size_t page_bytes(Session& session, CUmemLocation location, std::size_t bytes) {
  const CUmemAllocationProp properties = properties_at(location);
  std::size_t granularity = 0;
  session.cu().cuMemGetAllocationGranularity.must(&granularity, &properties,
                                                  CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  granularity = std::max(granularity, kGranule);
  return (bytes + granularity - 1) / granularity * granularity;
}

void Measurement::fill(CUdeviceptr address, std::size_t bytes, unsigned seed) {
  const unsigned long long words = bytes / sizeof(unsigned);
  session_.launch("probe_fill", stream(), words, address, words, seed);
}

unsigned long long Measurement::wrong_words(CUdeviceptr address, std::size_t bytes, unsigned seed) {
  const unsigned long long words = bytes / sizeof(unsigned);
  return counted(
      [&] { session_.launch("probe_check", stream(), words, address, words, seed, counter()); });
}

unsigned long long Measurement::read_counter() const {
  unsigned long long count = 0;
  stream_.wait();
  session_.cu().cuMemcpyDtoH.must(&count, counter(), sizeof(count));
  return count;
}

}  // namespace superpipe::cli
