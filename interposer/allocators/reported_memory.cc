#include "interposer/allocators/reported_memory.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>

#include "interposer/allocators/framework_environment.h"
#include "interposer/driver/loader.h"
#include "interposer/log.h"
#include "interposer/process_configuration.h"
#include "policy/budget.h"
#include "residency/host/host_memory.h"
#include "residency/room/host_backing.h"
#include "settings/settings.h"

namespace superpipe {
namespace {

// Of two threads that come first both look, and what one of them found holds for all: a thread that
// waited for the other could hold the lock of the dynamic linker, which the other needs.

/// What the host store may take, as of the first call. Throws std::bad_alloc.
Bytes host_at_first(const Configuration& configuration) {
  constexpr std::uint64_t kUnread = ~std::uint64_t{0};
  static std::atomic<std::uint64_t> first{kUnread};
  std::uint64_t known = first.load();
  if (known != kUnread) return Bytes{known};
  const Bytes host = host_store_limit(read_host_memory(""), configuration.host_mem);
  return first.compare_exchange_strong(known, host.count()) ? host : Bytes{known};
}

/// What `auto` stands for in this process, as of the first call.
MemoryReport report_of_auto() noexcept {
  static std::atomic<MemoryReport> first{MemoryReport::kAuto};
  MemoryReport known = first.load();
  if (known != MemoryReport::kAuto) return known;
  const MemoryReport report = is_vllm_loaded() ? MemoryReport::kBudget : MemoryReport::kVirtual;
  if (!first.compare_exchange_strong(known, report)) return known;
  if (report == MemoryReport::kBudget) {
    log_line(LogLevel::kWarning,
             "vLLM fills the memory that it is told of, so it is told of what the budget leaves it "
             "of the device; with --report-mem virtual, of device and host together");
  }
  return report;
}

}  // namespace

std::optional<ReportedMemory> ReportedMemory::of_process() noexcept try {
  const Configuration& configuration = process_configuration();
  const bool moves = configuration.policy != PolicyKind::kResident;
  if (configuration.off || !moves || driver_is_too_old()) return std::nullopt;
  const MemoryReport asked = configuration.memory_report;
  const MemoryReport report = asked == MemoryReport::kAuto ? report_of_auto() : asked;
  return ReportedMemory(configuration, report, host_at_first(configuration));
} catch (const std::bad_alloc&) {
  return std::nullopt;
}

// Of pages within the budget, three quarters may hold what has no host memory.
Bytes ReportedMemory::total(Bytes device) const {
  if (report_ == MemoryReport::kReal) return device;
  const auto& asked = configuration_.gpu_mem;
  const Bytes budget = asked ? std::min(asked->resolve(device), device) : device;
  const Bytes pages = saturating_subtract(budget, configuration_.headroom_on(device, budget));
  if (report_ == MemoryReport::kBudget) return pages;
  return std::max(pages, host_ + HostBacking::part_for_staying(pages, Bytes{1}));
}

Bytes ReportedMemory::free(const ResidencyManager::Capacity& capacity, Bytes device) const {
  const Bytes left = report_ == MemoryReport::kBudget ? capacity.left_on_device : capacity.left;
  return std::min(left, saturating_subtract(total(device), capacity.used));
}

}  // namespace superpipe
