// H24: what do pages on the host cost to create, map and free, do they come zeroed, and what counts
// them?

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/superpipe/probes/busy_kernel.h"
#include "tools/superpipe/probes/host_pages.h"
#include "tools/superpipe/probes/memory_counters.h"

namespace superpipe::cli {
namespace {

using Json = ProbeReport::Json;

/// Microseconds of host time, by call.
using CallTimes = std::map<std::string, std::vector<double>>;

/// Creates, maps, unmaps and frees `count` pages of `bytes` bytes.
CallTimes time_pages(Session& session, CUmemLocation location, std::size_t bytes,
                     std::size_t count) {
  const Driver& cu = session.cu();
  const CUmemAllocationProp properties = properties_at(location);
  CUmemAccessDesc access{};
  access.location = kOnDevice;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const Range range(session, bytes);
  CallTimes samples;
  const auto timed = [&](const char* name, const auto& call) {
    samples[name].push_back(host_seconds(call) * 1e6);
  };
  for (std::size_t i = 0; i < count; ++i) {
    CUmemGenericAllocationHandle handle = 0;
    const CUdeviceptr at = range.address();
    timed("create", [&] { cu.cuMemCreate.must(&handle, bytes, &properties, 0); });
    timed("map", [&] { cu.cuMemMap.must(at, bytes, 0, handle, 0); });
    timed("set_access", [&] { cu.cuMemSetAccess.must(at, bytes, &access, 1); });
    timed("unmap", [&] { cu.cuMemUnmap.must(at, bytes); });
    timed("release", [&] { cu.cuMemRelease.must(handle); });
  }
  return samples;
}

/// Words that are not zero in a page that is created where one has been filled and freed.
unsigned long long words_not_zero(Session& session, CUmemLocation location, std::size_t bytes) {
  Measurement measure(session);
  const unsigned long long words = bytes / sizeof(unsigned);
  {
    const Window filled(session, bytes, location);
    measure.fill(filled.address(), bytes, 61);
    measure.wait();
  }
  const Window fresh(session, bytes, location);
  return measure.counted([&] {
    session.launch("probe_check_value", measure.stream(), words, fresh.address(), words, 0U,
                   measure.counter());
  });
}

/// How much more each counter has when a page of `bytes` bytes has been created, used, and freed.
Json counters_of_a_page(Session& session, CUmemLocation location, std::size_t bytes) {
  Measurement measure(session);
  measure.fill(measure.counter(), 64, 1);  // the kernel is loaded before anything is counted
  measure.wait();
  const auto before = read_memory_counters("");
  auto page = std::make_unique<Window>(session, bytes, location);
  const auto created = read_memory_counters("");
  measure.fill(page->address(), bytes, 62);
  measure.wait();
  const auto used = read_memory_counters("");
  page.reset();
  const auto freed = read_memory_counters("");
  Json rows = Json::array();
  const auto added = [](const auto& then, const std::string& counter, std::int64_t first) {
    const auto found = then.find(counter);
    return found == then.end() ? Json(nullptr) : Json(found->second - first);
  };
  for (const auto& [counter, bytes_before] : before) {
    rows.push_back({{"counter", counter},
                    {"created_bytes", added(created, counter, bytes_before)},
                    {"used_bytes", added(used, counter, bytes_before)},
                    {"freed_bytes", added(freed, counter, bytes_before)}});
  }
  return rows;
}

/// The counters that have at least half of `bytes` more, or less where what is left is counted.
std::string names_of_those_that_count(const Json& rows, std::size_t bytes) {
  std::string names;
  for (const Json& row : rows) {
    if (!row["used_bytes"].is_number()) continue;
    const auto used = row["used_bytes"].get<double>();
    const bool counts =
        (row["counter"] == "MemAvailable" ? -used : used) >= static_cast<double>(bytes) / 2;
    if (counts) names += (names.empty() ? "" : ", ") + row["counter"].get<std::string>();
  }
  return names.empty() ? "no counter" : names;
}

}  // namespace

void probe_host_page_costs(const ProbeSetting& setting, const ProbeReport& report) {
  const std::vector<std::size_t> sizes{2 * kMiB, 16 * kMiB, 32 * kMiB, 128 * kMiB};
  const std::size_t counted = setting.pick(256, 128, 8) * kMiB;
  const auto most = setting.pick<std::size_t>(16, 6, 3);
  constexpr unsigned long long kKernelNs = 1'000'000'000;
  report.step("opening the device");
  Session session(setting);
  const HostPlace place = find_host_place(session, setting, report);
  need_host_memory(setting, std::max(counted, sizes.back()));
  session.need_device_memory(4 * kGranule);
  const DeviceMemory busy(session, kGranule);
  session.kernel("probe_busy");
  (void)time_pages(session, place.location, page_bytes(session, place.location, kGranule), 2);

  Json rows = Json::array();
  std::string per_mib;
  for (const bool beside_a_kernel : {false, true}) {
    for (const std::size_t wanted : sizes) {
      const std::size_t bytes = page_bytes(session, place.location, wanted);
      report.step("pages of " + std::to_string(bytes / kMiB) + " MiB" +
                  (beside_a_kernel ? " beside a kernel" : ""));
      std::unique_ptr<BusyKernel> kernel;
      if (beside_a_kernel) {
        kernel = std::make_unique<BusyKernel>(session, busy.address(), kGranule / 64, kKernelNs);
      }
      const auto count = std::max<std::size_t>(3, std::min(most, 256 * kMiB / bytes));
      const CallTimes samples = time_pages(session, place.location, bytes, count);
      Json row{{"page_bytes", bytes},
               {"beside_a_kernel", beside_a_kernel},
               {"kernel_ran_throughout", kernel == nullptr || kernel->running()},
               {"samples", count}};
      for (const auto& [call, microseconds] : samples) {
        row[call + "_median_us"] = quantile(microseconds, 0.5);
        row[call + "_max_us"] = quantile(microseconds, 1);
      }
      const double mebibytes = static_cast<double>(bytes) / kMiB;
      const double create_us = quantile(samples.at("create"), 0.5) / mebibytes;
      row["create_us_per_mib"] = create_us;
      rows.push_back(row);
      if (!beside_a_kernel && wanted == 32 * kMiB) {
        report.figure("create_32mib_us_per_mib", create_us);
        per_mib = with_digits(create_us, 1) + " us per MiB to create, " +
                  with_digits(quantile(samples.at("release"), 0.5) / mebibytes, 1) + " to free";
      }
    }
  }
  report.figure("costs", rows);
  report.step("looking at fresh pages");
  const std::size_t bytes = page_bytes(session, place.location, counted);
  const unsigned long long not_zero = words_not_zero(session, place.location, bytes);
  report.figure("fresh_words_not_zero", not_zero);
  report.step("looking at what counts them");
  const Json counters = counters_of_a_page(session, place.location, bytes);
  report.figure("counted_page_bytes", bytes);
  report.figure("counters", counters);
  report.answer("32 MiB: " + per_mib + "; fresh pages are " +
                (not_zero == 0 ? "zeroed" : "not zeroed") + "; counted by " +
                names_of_those_that_count(counters, bytes));
}

}  // namespace superpipe::cli
