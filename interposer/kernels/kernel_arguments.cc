#include "interposer/kernels/kernel_arguments.h"

#include <cxxabi.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "interposer/allocators/framework_environment.h"
#include "interposer/driver/loader.h"
#include "interposer/driver/table.h"
#include "interposer/kernels/kernel_handles.h"
#include "interposer/kernels/tensor_maps.h"

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
  const OptionalCalls optional;  // since CUDA 12.3
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

/// Reads the sizes of the parameters with `info`, one by one until the driver says there are no
/// more; nullopt if it does not tell.
template <typename Info>
std::optional<std::vector<std::size_t>> parameter_sizes(const Info& info) {
  std::vector<std::size_t> sizes;
  for (;;) {
    std::size_t offset = 0;
    std::size_t size = 0;
    const CUresult result = info(sizes.size(), &offset, &size);
    if (result == CUDA_ERROR_INVALID_VALUE) return sizes;
    if (result != CUDA_SUCCESS) return std::nullopt;
    sizes.push_back(size);
  }
}

constexpr std::size_t kWord = sizeof(std::uint64_t);

/// Adds the probes of one of the lists of `known`, a struct of `size` bytes.
void append_list(KernelLayout& layout, std::uint32_t parameter, std::size_t size,
                 const KnownStruct& known, std::size_t index) {
  using Count = KnownStruct::Count;
  const KnownStruct::List& list = known.lists[index];
  const std::size_t first = KnownStruct::first_byte(list, size);
  if (list.count == Count::kFixed || list.count == Count::kRest) {
    const std::size_t bytes = static_cast<std::size_t>(list.fixed) * kWord;
    const std::size_t end = list.count == Count::kRest ? size : std::min(first + bytes, size);
    for (std::size_t offset = first; offset + kWord <= end; offset += kWord) {
      layout.probes.push_back({parameter, static_cast<std::uint32_t>(offset)});
    }
    return;
  }
  if (layout.counted.empty() || layout.counted.back().parameter != parameter ||
      layout.counted.back().count != list.count) {
    layout.counted.push_back({.parameter = parameter,
                              .count = list.count,
                              .block_to_tensor = static_cast<std::uint32_t>(known.block_to_tensor),
                              .index_bytes = static_cast<std::uint32_t>(known.index_bytes),
                              .most_blocks = static_cast<std::uint32_t>(
                                  (size - known.block_to_tensor) / known.index_bytes),
                              .lists = {}});
  }
  const bool is_last = index + 1 == known.list_count;
  const std::size_t end = is_last ? size : KnownStruct::first_byte(known.lists[index + 1], size);
  layout.counted.back().lists.push_back(
      {.first = static_cast<std::uint32_t>(first),
       .most = static_cast<std::uint32_t>((end - first) / kWord)});
}

/// Whether a kernel's `name`, mangled or not, says that it counts: PyTorch and CuPy have such a
/// kernel count from the address of a batch's first matrix on.
bool counts_up(std::string_view name) {
  constexpr std::string_view kWordInName = "arange";
  for (std::size_t at = name.find(kWordInName); at != std::string_view::npos;
       at = name.find(kWordInName, at + 1)) {
    const bool is_end_of_word = at > 0 && name[at - 1] >= 'a' && name[at - 1] <= 'z';
    if (!is_end_of_word) return true;
  }
  return false;
}

/// Adds the parameters of a kernel, whose name is known, that are arrays of pointers, or may become
/// such. `types`: theirs; empty if nothing tells.
void append_arrays(KernelLayout& layout, const std::vector<std::string>& types,
                   const std::vector<std::size_t>& sizes) {
  const bool counts = counts_up(layout.name);
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (sizes[i] != kWord) continue;
    if (is_array_of_pointers(types[i]) || (counts && is_pointer(types[i]))) {
      layout.arrays.push_back(static_cast<std::uint32_t>(i));
    }
  }
  layout.any_array = counts && types.empty();
  layout.has_more = layout.has_more || !layout.arrays.empty() || layout.any_array;
}

/// Whether the table was checked for the PyTorch that is loaded. REQUIRES: a kernel of it is about
/// to be launched, so that it is. Throws std::bad_alloc.
bool has_words_of_loaded_version() {
  static std::atomic<bool> has_words{false};
  if (!has_words.load()) has_words.store(has_words_of_version(pytorch_version()));
  return has_words.load();
}

/// Adds the probes of all parameters of a kernel, whose name is known.
void append_parameters(KernelLayout& layout, const std::vector<std::size_t>& sizes,
                       KernelLayoutCache::StructWords words) {
  using StructWords = KernelLayoutCache::StructWords;
  std::vector<std::string> types;
  try {
    types = parameter_types(layout.name);
  } catch (const std::bad_alloc&) {
    types.clear();  // then all words count
  }
  // Names of templates with packs may demangle to another number of parameters: they say nothing.
  const bool has_types = types.size() == sizes.size();
  const bool is_pytorchs = is_of_pytorch(layout.name);
  const bool is_known =
      has_types && (words == StructWords::kKnown || (words == StructWords::kKnownOfVersion &&
                                                     is_pytorchs && has_words_of_loaded_version()));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    append_parameter(layout, sizes[i], is_known ? known_struct(types[i], sizes[i]) : nullptr,
                     is_pytorchs);
  }
  append_arrays(layout, has_types ? types : std::vector<std::string>(), sizes);
}

}  // namespace

void append_parameter(KernelLayout& layout, std::size_t size, const KnownStruct* known,
                      bool is_pytorchs) {
  constexpr std::size_t kStep = 4;
  const auto parameter = static_cast<std::uint32_t>(layout.parameters++);
  if (known != nullptr) {
    for (std::size_t i = 0; i < known->list_count; ++i) {
      append_list(layout, parameter, size, *known, i);
    }
    layout.has_more = layout.has_more || !layout.counted.empty();
    return;
  }
  auto& probes = size > kWord && is_pytorchs ? layout.struct_probes : layout.probes;
  for (std::size_t offset = 0; offset + kWord <= size; offset += kStep) {
    probes.push_back({parameter, static_cast<std::uint32_t>(offset)});
  }
  for (std::size_t offset = 0; offset + TensorMaps::kBytes <= size;
       offset += TensorMaps::kAlignment) {
    layout.tensor_maps.push_back({parameter, static_cast<std::uint32_t>(offset)});
  }
  layout.has_more = layout.has_more || !layout.struct_probes.empty() || !layout.tensor_maps.empty();
}

std::uint32_t count_of(const KernelLayout::CountedProbes& probes, const char* parameter,
                       GridSize grid) noexcept {
  if (probes.count == KnownStruct::Count::kGridX) return grid.x;
  if (probes.count == KnownStruct::Count::kGridY || grid == GridSize::unknown()) return grid.y;
  const char* const tensors = parameter + probes.block_to_tensor;
  const std::uint32_t blocks = std::min(grid.x, probes.most_blocks);
  const auto last_of = [&]<typename Index>(Index last) {
    for (std::uint32_t block = 0; block < blocks; ++block) {
      Index tensor;
      std::memcpy(&tensor, tensors + block * sizeof tensor, sizeof tensor);
      last = std::max(last, tensor);
    }
    return std::uint32_t{last};
  };
  if (blocks == 0) return 0;
  return (probes.index_bytes == 1 ? last_of(std::uint8_t{0}) : last_of(std::uint16_t{0})) + 1;
}

KernelLayoutCache::KernelLayoutCache(StructWords struct_words) : struct_words_(struct_words) {
  tables_.push_back(std::make_unique<Table>(kFirstCapacity));
  table_.store(tables_.back().get(), std::memory_order_release);
}

KernelLayoutCache::~KernelLayoutCache() = default;

const KernelLayout* KernelLayoutCache::learn(CUfunction function) noexcept {
  if (function == nullptr) return nullptr;
  try {
    const auto function_info = [&](std::size_t index, std::size_t* offset, std::size_t* size) {
      return driver().cuFuncGetParamInfo(function, index, offset, size);
    };
    const auto kernel_info = [&](std::size_t index, std::size_t* offset, std::size_t* size) {
      return driver().cuKernelGetParamInfo(reinterpret_cast<CUkernel>(function), index, offset,
                                           size);
    };
    // Of a handle that may be either, a kernel may be refused as a function, or look like one
    // without parameters.
    bool is_kernel = KernelHandles::of_process().contains(function);
    auto sizes = is_kernel ? parameter_sizes(kernel_info) : parameter_sizes(function_info);
    if (is_kernel && !sizes) return nullptr;
    if (!is_kernel && (!sizes || sizes->empty())) {
      auto other = parameter_sizes(kernel_info);
      is_kernel = other && (!sizes || !other->empty());
      if (is_kernel) sizes = std::move(other);
      if (!sizes) return nullptr;
    }
    KernelLayout layout{};
    layout.name = name_of(function, is_kernel);
    append_parameters(layout, *sizes, struct_words_);
    layout.kernel = KernelId{layout.name.empty() ? reinterpret_cast<std::uintptr_t>(function)
                                                 : hash_of(layout.name)};
    const Owner owner = owner_of(function, is_kernel);
    const std::lock_guard lock(mutex_);
    const KernelLayout* const interned = intern(std::move(layout));
    insert(function, interned, owner);
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

KernelLayoutCache::Owner KernelLayoutCache::owner_of(CUfunction function, bool is_kernel) noexcept {
  if (is_kernel) {
    const OptionalCalls optional;  // since CUDA 12.5
    CUlibrary library = nullptr;
    const CUresult result =
        driver().cuKernelGetLibrary(&library, reinterpret_cast<CUkernel>(function));
    if (result != CUDA_SUCCESS) library = KernelHandles::of_process().library_of(function);
    return {library, true};
  }
  CUmodule module = nullptr;
  const CUresult result = driver().cuFuncGetModule(&module, function);
  return {result == CUDA_SUCCESS ? module : nullptr, false};
}

void KernelLayoutCache::insert(CUfunction function, const KernelLayout* layout, Owner owner) {
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
      larger->slots[at].owner = table->slots[i].owner;
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
      table->slots[at].owner = owner;
      table->slots[at].layout.store(layout, std::memory_order_release);
      return;
    }
    if (held == nullptr) break;
  }
  table->slots[at].owner = owner;
  // The layout first: a reader that sees the handle must see what belongs to it.
  table->slots[at].layout.store(layout, std::memory_order_release);
  table->slots[at].function.store(function, std::memory_order_release);
  ++table->used;
}

void KernelLayoutCache::forget_module(CUmodule module) noexcept {
  forget([module](const Owner& owner) {
    return owner.handle == nullptr || (!owner.is_library && owner.handle == module);
  });
}

// Which of the driver's own modules are the library's, nothing tells without loading them.
void KernelLayoutCache::forget_library(CUlibrary library) noexcept {
  forget([library](const Owner& owner) {
    return owner.handle == nullptr || !owner.is_library || owner.handle == library;
  });
}

void KernelLayoutCache::clear() noexcept {
  forget([](const Owner&) { return true; });
}

template <typename Goes>
void KernelLayoutCache::forget(const Goes& goes) noexcept {
  const std::lock_guard lock(mutex_);
  Table* const table = table_.load(std::memory_order_relaxed);
  // The handles stay, so that readers' probe sequences do; growing leaves them behind.
  for (std::size_t i = 0; i <= table->mask; ++i) {
    Slot& slot = table->slots[i];
    if (goes(slot.owner)) slot.layout.store(nullptr, std::memory_order_release);
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
