#include "tools/simgpu/driver/memory/host_pages.h"

#include <unistd.h>

#include "tools/simgpu/driver/process/configuration.h"

namespace simgpu {
namespace {

std::uint64_t machine_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  constexpr std::uint64_t kUnknown = std::uint64_t{64} << 30;
  if (pages <= 0 || page <= 0) return kUnknown;
  return static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page);
}

}  // namespace

HostPages& HostPages::instance() {
  static auto* const pages = new HostPages;  // never destroyed: threads outlive exit handlers
  return *pages;
}

std::uint64_t HostPages::limit() {
  static const std::uint64_t machine = machine_memory();
  return configuration().host_page_limit.value_or(machine);
}

bool HostPages::take(std::uint64_t bytes) {
  const std::uint64_t most = limit();
  std::uint64_t before = used();
  do {
    if (before > most || bytes > most - before) return false;
  } while (!used_.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
  std::uint64_t seen = peak();
  while (seen < before + bytes &&
         !peak_.compare_exchange_weak(seen, before + bytes, std::memory_order_relaxed)) {
  }
  return true;
}

void HostPages::give_back(std::uint64_t bytes) {
  used_.fetch_sub(bytes, std::memory_order_relaxed);
}

std::shared_ptr<void> HostPages::begin_use() {
  users_.fetch_add(1, std::memory_order_relaxed);
  return {this, [](HostPages* pages) { pages->users_.fetch_sub(1, std::memory_order_relaxed); }};
}

}  // namespace simgpu
