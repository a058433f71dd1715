#include "interposer/kernel_arguments.h"

#include <cxxabi.h>

#include <cstdlib>
#include <string_view>
#include <utility>

#include "interposer/driver/table.h"

namespace superpipe {
namespace {

constexpr std::size_t kFirstCapacity = 1024;

/// FNV-1a: the same kernel has the same id in every module and every run.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char character : text) {
    hash = (hash ^ static_cast<unsigned char>(character)) * 0x100000001B3ULL;
  }
  return hash;
}

/// The mangled name; empty if the driver does not tell.
std::string name_of(CUfunction function, bool is_kernel) {
  const char* name = nullptr;
  const CUresult result =
      is_kernel ? driver().cuKernelGetName(&name, reinterpret_cast<CUkernel>(function))
                : driver().cuFuncGetName(&name, function);
  return result == CUDA_SUCCESS && name != nullptr ? name : "";
}

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && text != nullptr ? text.get() : name;
}

/// Reads the parameters with `info`, one by one until the driver says there are no more.
template <typename Info>
bool read_parameters(const Info& info, KernelLayout& layout) {
  for (std::size_t index = 0;; ++index) {
    std::size_t offset = 0;
    std::size_t size = 0;
    const CUresult result = info(index, &offset, &size);
    if (result == CUDA_ERROR_INVALID_VALUE) return true;
    if (result != CUDA_SUCCESS) return false;
    append_parameter(layout, size);
  }
}

}  // namespace

void append_parameter(KernelLayout& layout, std::size_t size) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  constexpr std::size_t kStep = 4;
  const auto parameter = static_cast<std::uint32_t>(layout.parameters++);
  for (std::size_t offset = 0; offset + kWord <= size; offset += kStep) {
    layout.probes.push_back({parameter, static_cast<std::uint32_t>(offset)});
  }
}

KernelLayoutCache::KernelLayoutCache() {
  tables_.push_back(std::make_unique<Table>(kFirstCapacity));
  table_.store(tables_.back().get(), std::memory_order_release);
}

KernelLayoutCache::~KernelLayoutCache() = default;

const KernelLayout* KernelLayoutCache::learn(CUfunction function) noexcept {
  if (function == nullptr) return nullptr;
  try {
    KernelLayout layout{};
    bool is_kernel = false;
    const auto function_info = [&](std::size_t index, std::size_t* offset, std::size_t* size) {
      return driver().cuFuncGetParamInfo(function, index, offset, size);
    };
    const auto kernel_info = [&](std::size_t index, std::size_t* offset, std::size_t* size) {
      return driver().cuKernelGetParamInfo(reinterpret_cast<CUkernel>(function), index, offset,
                                           size);
    };
    // A CUkernel may be refused as a CUfunction, or look like one without parameters.
    const bool is_function = read_parameters(function_info, layout);
    if (!is_function || layout.parameters == 0) {
      KernelLayout other{};
      is_kernel = read_parameters(kernel_info, other) &&
                  (!is_function || other.parameters > layout.parameters);
      if (is_kernel) layout = std::move(other);
      if (!is_kernel && !is_function) return nullptr;
    }
    layout.name = name_of(function, is_kernel);
    layout.kernel = KernelId{layout.name.empty() ? reinterpret_cast<std::uintptr_t>(function)
                                                 : hash_of(layout.name)};
    const std::lock_guard lock(mutex_);
    const KernelLayout* const interned = intern(std::move(layout));
    insert(function, interned);
    return interned;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

const KernelLayout* KernelLayoutCache::intern(KernelLayout layout) {
  for (const auto& known : layouts_) {
    if (*known == layout) return known.get();
  }
  layouts_.push_back(std::make_unique<const KernelLayout>(std::move(layout)));
  return layouts_.back().get();
}

std::string KernelLayoutCache::readable_name(KernelId kernel) const {
  const std::lock_guard lock(mutex_);
  for (const auto& known : layouts_) {
    if (known->kernel == kernel && !known->name.empty()) return demangled(known->name);
  }
  return "without a name";
}

void KernelLayoutCache::insert(CUfunction function, const KernelLayout* layout) {
  Table* table = table_.load(std::memory_order_relaxed);
  if (2 * (table->used + 1) > table->mask + 1) {
    auto larger = std::make_unique<Table>(2 * (table->mask + 1));
    for (std::size_t i = 0; i <= table->mask; ++i) {
      const CUfunction held = table->slots[i].function.load(std::memory_order_relaxed);
      const KernelLayout* const kept = table->slots[i].layout.load(std::memory_order_relaxed);
      if (held == nullptr || kept == nullptr) continue;
      std::size_t at = slot_of(held, larger->mask);
      while (larger->slots[at].function.load(std::memory_order_relaxed) != nullptr) {
        at = (at + 1) & larger->mask;
      }
      larger->slots[at].layout.store(kept, std::memory_order_relaxed);
      larger->slots[at].function.store(held, std::memory_order_relaxed);
      ++larger->used;
    }
    table = larger.get();
    tables_.push_back(std::move(larger));
    table_.store(table, std::memory_order_release);
  }
  std::size_t at = slot_of(function, table->mask);
  for (;; at = (at + 1) & table->mask) {
    const CUfunction held = table->slots[at].function.load(std::memory_order_relaxed);
    if (held == function) {
      table->slots[at].layout.store(layout, std::memory_order_release);
      return;
    }
    if (held == nullptr) break;
  }
  // The layout first: a reader that sees the handle must see what belongs to it.
  table->slots[at].layout.store(layout, std::memory_order_release);
  table->slots[at].function.store(function, std::memory_order_release);
  ++table->used;
}

void KernelLayoutCache::clear() noexcept {
  const std::lock_guard lock(mutex_);
  Table* const table = table_.load(std::memory_order_relaxed);
  // The handles stay, so that readers' probe sequences do; growing leaves them behind.
  for (std::size_t i = 0; i <= table->mask; ++i) {
    table->slots[i].layout.store(nullptr, std::memory_order_release);
  }
}

ArgumentBuffer argument_buffer_of(void* const* extra) noexcept {
  ArgumentBuffer buffer;
  if (extra == nullptr) return buffer;
  for (; *extra != nullptr && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer.data = extra[1];
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[1] != nullptr) {
      buffer.size = *static_cast<const std::size_t*>(extra[1]);
    }
  }
  if (buffer.data == nullptr) buffer.size = 0;
  return buffer;
}

}  // namespace superpipe
