// H2: what do create, map, set-access, unmap and release cost by chunk size, idle and under load?

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tools/superpipe/probes/busy_kernel.h"
#include "tools/superpipe/probes/session.h"

namespace superpipe::cli {
namespace {

using Json = ProbeReport::Json;

/// Something that keeps the device busy while it lives.
class Load {
 public:
  Load() = default;
  virtual ~Load() = default;
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;
  /// Whether it has kept the device busy until now.
  virtual bool still_running() = 0;
};

class NoLoad : public Load {
 public:
  bool still_running() override { return true; }
};

/// Should a driver call wait for running kernels, the kernel's own limit ends that wait, and the
/// figure shows it.
class KernelLoad : public Load {
 public:
  KernelLoad(Session& session, const DeviceMemory& memory, unsigned long long words,
             unsigned long long limit_ns)
      : kernel_(session, memory.address(), words, limit_ns) {}
  bool still_running() override { return kernel_.running(); }

 private:
  BusyKernel kernel_;
};

/// Copies to the device without a pause: a thread keeps a few of them queued.
class CopyLoad : public Load {
 public:
  CopyLoad(Session& session, CUcontext context, DeviceMemory& memory, PinnedMemory& source,
           std::size_t bytes)
      : stream_(session), thread_([=, this, &session, &memory, &source] {
          try {
            session.cu().cuCtxSetCurrent.must(context);
            std::array<Event, 2> ends{Event(session), Event(session)};
            for (std::size_t i = 0; !stop_.load(); i = 1 - i) {
              session.cu().cuMemcpyHtoDAsync.must(memory.address(), source.data(), bytes,
                                                  stream_.get());
              ends[i].record(stream_);
              session.cu().cuEventSynchronize.must(ends[1 - i].get());
            }
          } catch (const std::exception&) {
            failed_ = true;
          }
        }) {}
  ~CopyLoad() override {
    stop_ = true;
    thread_.join();
    try {
      stream_.wait();
    } catch (const std::exception&) {
      // The next call says the same.
    }
  }
  bool still_running() override { return !failed_.load(); }

 private:
  Stream stream_;
  std::atomic<bool> stop_{false}, failed_{false};
  std::thread thread_;  // last: it uses all of the above
};

struct Samples {
  std::vector<double> create, map, set_access, unmap, release;
};

void measure_round(Session& session, std::size_t chunk, std::size_t count, Samples& samples) {
  const Driver& cu = session.cu();
  const CUmemAllocationProp properties = properties_at(kOnDevice);
  CUmemAccessDesc access{};
  access.location = kOnDevice;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const Range range(session, chunk * count);
  std::vector<CUmemGenericAllocationHandle> handles(count);
  const auto timed = [](std::vector<double>& into, const auto& call) {
    into.push_back(host_seconds(call) * 1e6);
  };
  for (std::size_t i = 0; i < count; ++i) {
    timed(samples.create, [&] { cu.cuMemCreate.must(&handles[i], chunk, &properties, 0); });
  }
  for (std::size_t i = 0; i < count; ++i) {
    const CUdeviceptr address = range.address() + i * chunk;
    timed(samples.map, [&] { cu.cuMemMap.must(address, chunk, 0, handles[i], 0); });
    timed(samples.set_access, [&] { cu.cuMemSetAccess.must(address, chunk, &access, 1); });
  }
  for (std::size_t i = 0; i < count; ++i) {
    timed(samples.unmap, [&] { cu.cuMemUnmap.must(range.address() + i * chunk, chunk); });
  }
  for (const CUmemGenericAllocationHandle handle : handles) {
    timed(samples.release, [&] { cu.cuMemRelease.must(handle); });
  }
}

void add_figures(Json& row, const std::string& call, const std::vector<double>& microseconds) {
  row[call + "_median_us"] = quantile(microseconds, 0.5);
  row[call + "_p99_us"] = quantile(microseconds, 0.99);
  row[call + "_max_us"] = quantile(microseconds, 1);
}

}  // namespace

void probe_mapping_cost(const ProbeSetting& setting, const ProbeReport& report) {
  const auto chunks = setting.pick<std::vector<std::size_t>>(
      {2 * kMiB, 16 * kMiB, 32 * kMiB, 128 * kMiB}, {2 * kMiB, 16 * kMiB, 32 * kMiB, 128 * kMiB},
      {2 * kMiB, 16 * kMiB, 32 * kMiB, 128 * kMiB});
  const std::size_t at_once = setting.pick(512, 512, 256) * kMiB;
  const auto wanted = setting.pick<std::size_t>(64, 16, 4);
  const std::size_t load_bytes = setting.pick(64, 64, 1) * kMiB;
  // A simulated device makes its pages at a CPU's speed, which is no reason to end the load.
  const auto kernel_limit_ns =
      setting.pick<unsigned long long>(4'000'000'000, 4'000'000'000, 30'000'000'000);
  need_host_memory(setting, load_bytes);

  report.step("opening the device");
  Session session(setting);
  session.need_device_memory(at_once + load_bytes);
  CUcontext context = nullptr;
  session.cu().cuDevicePrimaryCtxRetain.must(&context, 0);
  DeviceMemory busy(session, load_bytes);
  PinnedMemory source(session, load_bytes);
  session.kernel("probe_busy");  // loaded before anything is timed
  {
    Samples warm;
    measure_round(session, chunks.front(), 4, warm);
  }

  Json rows = Json::array();
  double idle_16 = 0;
  bool load_ran = true;
  for (const std::string load_name : {"idle", "kernel", "copy"}) {
    for (const std::size_t chunk : chunks) {
      report.step("chunks of " + std::to_string(chunk / kMiB) + " MiB, " + load_name);
      std::unique_ptr<Load> load;
      if (load_name == "kernel") {
        load = std::make_unique<KernelLoad>(session, busy, load_bytes / 64, kernel_limit_ns);
      } else if (load_name == "copy") {
        load = std::make_unique<CopyLoad>(session, context, busy, source, load_bytes);
      } else {
        load = std::make_unique<NoLoad>();
      }
      const std::size_t count = std::clamp<std::size_t>(at_once / chunk, 1, wanted);
      Samples samples;
      while (samples.create.size() < wanted) measure_round(session, chunk, count, samples);
      const bool ran = load->still_running();
      load_ran = load_ran && ran;
      Json row{{"chunk_bytes", chunk},
               {"load", load_name},
               {"load_ran_throughout", ran},
               {"samples", samples.create.size()}};
      add_figures(row, "create", samples.create);
      add_figures(row, "map", samples.map);
      add_figures(row, "set_access", samples.set_access);
      add_figures(row, "unmap", samples.unmap);
      add_figures(row, "release", samples.release);
      rows.push_back(row);
      if (load_name == "idle" && chunk == 16 * kMiB) {
        idle_16 = quantile(samples.map, 0.5) + quantile(samples.set_access, 0.5) +
                  quantile(samples.unmap, 0.5);
        report.figure("idle_remap_16mib_median_us", idle_16);
        report.figure("idle_create_16mib_median_us", quantile(samples.create, 0.5));
      }
    }
  }
  report.figure("costs", rows);
  report.figure("load_ran_throughout", load_ran);
  std::string text = "16 MiB idle: " + with_digits(idle_16, 0) +
                     " us to map, set access and unmap; see costs for sizes and loads";
  if (!load_ran) {
    text += "; a load ended before the calls did: they waited for it, or took seconds";
  }
  report.answer(text);
}

}  // namespace superpipe::cli
