// Lookups: a program that asks the driver for a function gets our hook of it.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "interposer/driver/loader.h"
#include "interposer/driver/table.h"
#include "interposer/generated/hooks.h"
#include "interposer/hooks/lookup.h"
#include "interposer/log.h"

namespace superpipe {
namespace {

std::atomic<const ExportedFunction*> exported_functions{nullptr};
std::atomic<bool> identity_holds{true};

std::size_t slot_of(const void* address, std::size_t mask) noexcept {
  return ((reinterpret_cast<std::uintptr_t>(address) >> 4) * 0x9E3779B97F4A7C15ULL >> 32) & mask;
}

/// The map of the loaded driver; null without one. Made at the first lookup, never destroyed.
const FunctionMap* map_of_driver() {
  if (!driver_is_loaded()) return nullptr;
  static const FunctionMap* const map = [] {
    std::array<const void*, kDriverFunctionCount> real{};
    for (std::size_t i = 0; i < kDriverFunctionCount; ++i) real[i] = resolve_driver_function(i);
    return new FunctionMap(real.data(), real.size());
  }();
  return map;
}

/// Whether `name` belongs to the exchange of memory with OpenGL, EGL or VDPAU, which cuda.h leaves
/// to headers of its own. NVIDIA's runtime looks all of them up when it starts. Nothing that they
/// map is managed memory.
bool is_graphics_function(std::string_view name) {
  constexpr std::array<std::string_view, 7> kBeginnings{
      "cuGL",    "cuGraphicsGL",   "cuEGL", "cuGraphicsEGL", "cuGraphicsResourceGetMappedEgl",
      "cuVDPAU", "cuGraphicsVDPAU"};
  return std::any_of(kBeginnings.begin(), kBeginnings.end(),
                     [name](std::string_view beginning) { return name.starts_with(beginning); });
}

/// Our function in place of `real`, which the driver returned for `name`; `real` itself where we do
/// no more than pass.
void* replaced(void* real, const char* name, int version, bool per_thread) {
  const ExportedFunction* const exported = exported_functions.load(std::memory_order_acquire);
  const FunctionMap* const map = map_of_driver();
  if (exported == nullptr || map == nullptr || real == nullptr) return real;
  const auto ours_of = [&](std::size_t function) {
    return exported[function].hooked ? exported[function].address : real;
  };
  const auto candidates = map->functions_at(real);
  if (candidates.size() == 1) return ours_of(candidates.front());
  const std::size_t named = function_of_entry_point(name, version, per_thread);
  if (!candidates.empty()) {
    // One body under several names: the name asked for decides.
    const bool is_candidate =
        std::find(candidates.begin(), candidates.end(), named) != candidates.end();
    return ours_of(is_candidate ? named : candidates.front());
  }
  // Exported, yet not among the names of our header: a newer form, with other parameters than ours.
  Dl_info info;
  if (::dladdr(real, &info) != 0 && info.dli_saddr == real && info.dli_sname != nullptr) {
    if (is_graphics_function(info.dli_sname)) return real;
    static std::mutex mutex;
    static auto* const said = new std::set<std::string>;
    const std::lock_guard lock(mutex);
    if (said->insert(info.dli_sname).second) {
      log_line(LogLevel::kWarning,
               std::string("cuGetProcAddress: ") + info.dli_sname +
                   " is newer than this version of superpipe and is not managed");
    }
    return real;
  }
  if (named == kNoFunction) {
    log_line(LogLevel::kDebug, std::string("cuGetProcAddress: ") + name +
                                   " is unknown to this version and passes through");
    return real;
  }
  if (identity_holds.exchange(false)) {
    log_line(LogLevel::kInfo,
             std::string("cuGetProcAddress returned an address for ") + name +
                 " that the driver does not export: mapping by name and version instead");
  }
  return ours_of(named);
}

/// What a lookup answers without a driver: our own functions, so that the program gets as far as
/// cuInit, which then says that there is no device.
CUresult without_driver(const char* symbol, void** pfn, int version, bool per_thread) noexcept {
  const ExportedFunction* const exported = exported_functions.load(std::memory_order_acquire);
  const std::size_t function = function_of_entry_point(symbol, version, per_thread);
  if (exported == nullptr || function == kNoFunction) {
    *pfn = nullptr;
    return CUDA_ERROR_NOT_FOUND;
  }
  *pfn = exported[function].address;
  return CUDA_SUCCESS;
}

constexpr cuuint64_t kPerThreadFlag = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

void replace_result(const char* symbol, void** pfn, int version, cuuint64_t flags) noexcept {
  try {
    *pfn = replaced(*pfn, symbol, version, (flags & kPerThreadFlag) != 0);
  } catch (...) {
    // Out of memory: the driver's own function works, without superpipe.
  }
}

}  // namespace

void set_exported_functions(const ExportedFunction* exported) noexcept {
  exported_functions.store(exported, std::memory_order_release);
}

FunctionMap::FunctionMap(const void* const* real, std::size_t count)
    : slots_(std::bit_ceil(4 * count)) {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = 0; i < count; ++i) {
    if (real[i] == nullptr) continue;
    std::size_t at = slot_of(real[i], mask);
    while (slots_[at].address != nullptr) at = (at + 1) & mask;
    slots_[at] = {real[i], i};
  }
}

std::vector<std::size_t> FunctionMap::functions_at(const void* address) const {
  std::vector<std::size_t> found;
  if (address == nullptr) return found;
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = slot_of(address, mask); slots_[at].address != nullptr;
       at = (at + 1) & mask) {
    if (slots_[at].address == address) found.push_back(slots_[at].function);
  }
  return found;
}

std::size_t function_of_entry_point(std::string_view name, int version, bool per_thread) noexcept {
  // Sorted by name, then version. A function without a per-thread variant answers for both.
  std::size_t plain = kNoFunction;
  std::size_t variant = kNoFunction;
  const EntryPoint* const end = kEntryPoints + kEntryPointCount;
  const EntryPoint* at = std::lower_bound(
      kEntryPoints, end, name,
      [](const EntryPoint& entry, std::string_view wanted) { return entry.name < wanted; });
  for (; at != end && at->name == name && at->version <= version; ++at) {
    (at->per_thread ? variant : plain) = at->function;
  }
  return per_thread && variant != kNoFunction ? variant : plain;
}

bool pointer_identity_holds() noexcept { return identity_holds.load(); }

CUresult hook::cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion,
                                cuuint64_t flags) noexcept {
  const CUresult result = driver().cuGetProcAddress(symbol, pfn, cudaVersion, flags);
  if (symbol == nullptr || pfn == nullptr) return result;
  if (!driver_is_loaded()) {
    return without_driver(symbol, pfn, cudaVersion, (flags & kPerThreadFlag) != 0);
  }
  if (result == CUDA_SUCCESS) replace_result(symbol, pfn, cudaVersion, flags);
  return result;
}

CUresult hook::cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion,
                                   cuuint64_t flags,
                                   CUdriverProcAddressQueryResult* symbolStatus) noexcept {
  const CUresult result =
      driver().cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, symbolStatus);
  if (symbol == nullptr || pfn == nullptr) return result;
  if (!driver_is_loaded()) {
    const CUresult answer = without_driver(symbol, pfn, cudaVersion, (flags & kPerThreadFlag) != 0);
    if (symbolStatus != nullptr) {
      *symbolStatus = answer == CUDA_SUCCESS ? CU_GET_PROC_ADDRESS_SUCCESS
                                             : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    }
    // Like the driver: that a symbol is missing is the status's to say.
    return symbolStatus != nullptr ? CUDA_SUCCESS : answer;
  }
  if (result == CUDA_SUCCESS) replace_result(symbol, pfn, cudaVersion, flags);
  return result;
}

CUresult hook::cuGetExportTable(const void** ppExportTable, const CUuuid* pExportTableId) noexcept {
  const CUresult result = driver().cuGetExportTable(ppExportTable, pExportTableId);
  if (pExportTableId == nullptr) return result;
  try {
    static std::mutex mutex;
    static auto* const seen = new std::set<std::string>;
    std::string id;
    for (const char byte : pExportTableId->bytes) {
      char digits[3];
      std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(byte));
      id += digits;
    }
    const std::lock_guard lock(mutex);
    if (seen->insert(id).second) {
      log_line(LogLevel::kInfo, "cuGetExportTable " + id + ": calls through it are not seen");
    }
  } catch (...) {
    // A log line lost for want of memory.
  }
  return result;
}

}  // namespace superpipe
