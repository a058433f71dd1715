// Which words of a kernel's parameters may be pointers, and what they are at a launch.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "interposer/driver/cuda_api.h"
#include "interposer/kernels/kernel_words.h"
#include "interposer/kernels/word_list.h"
#include "policy/units.h"

namespace superpipe {

/// One kernel's parameters. Immutable, and never freed while the process lives.
struct KernelLayout {
  /// A place to look for a pointer: 8 bytes at `offset` into parameter `parameter`.
  struct Probe {
    std::uint32_t parameter;
    std::uint32_t offset;
    bool operator==(const Probe&) const = default;
  };
  /// Lists of places to look for pointers in one parameter, of each of which a launch uses the
  /// first few. How many, `count` says: as many as the grid has blocks in x or y, or one more than
  /// the largest of the numbers from `block_to_tensor` on, of which each block in x has one.
  struct CountedProbes {
    /// Every 8 bytes from `first` on.
    struct List {
      std::uint32_t first;
      std::uint32_t most;  ///< more of them do not fit into the struct
      bool operator==(const List&) const = default;
    };
    std::uint32_t parameter;
    KnownStruct::Count count;
    std::uint32_t block_to_tensor;  ///< if count is kTensors
    std::uint32_t index_bytes;      ///< of each number there: 1 or 2
    std::uint32_t most_blocks;      ///< more numbers do not fit behind `block_to_tensor`
    std::vector<List> lists;
    bool operator==(const CountedProbes&) const = default;
  };
  KernelId kernel;
  std::string name;  ///< mangled; empty if the driver does not tell
  std::vector<Probe> probes;
  std::vector<CountedProbes> counted;
  /// The same as `probes`, in by-value structs of PyTorch's of which it is not known what the
  /// kernel looks at: what is there may be left over from before the struct was filled. Only of
  /// PyTorch's structs it is known that mostly it is.
  std::vector<Probe> struct_probes;
  /// Where the bytes of a tensor map may lie in by-value structs.
  std::vector<Probe> tensor_maps;
  /// The parameters that are arrays of pointers, or may become such.
  std::vector<std::uint32_t> arrays;
  /// Any parameter may be one that becomes such: the kernel fills an array with numbers that count
  /// up from one of its parameters, which may be an address, and its name tells no types.
  bool any_array = false;
  bool has_more = false;       ///< than `probes`
  std::size_t parameters = 0;  ///< how many there are

  bool operator==(const KernelLayout&) const = default;
};

/// Adds to `layout` the probes of one more parameter of `size` bytes, and the places for tensor
/// maps in it.
///
/// A parameter of 8 bytes is one word. Larger ones are by-value structs: looked at where `known`
/// says that pointers are; if it is null, every 4 bytes, because a packed struct may hold a pointer
/// at any such offset, and a word too many costs one compare: in `struct_probes` if the kernel
/// `is_pytorchs`, else in `probes`. Smaller ones hold
/// no pointer. A tensor map, and so each struct around it, is aligned to 64 bytes: it may lie at
/// every such offset. (The offset of the struct itself says nothing: it counts from where the
/// parameters begin, which is no multiple of 64 on sm_90.)
void append_parameter(KernelLayout& layout, std::size_t size, const KnownStruct* known = nullptr,
                      bool is_pytorchs = false);

/// The blocks of a launch in two directions, which say how many of a layout's CountedProbes count.
struct GridSize {
  std::uint32_t x = 0;
  std::uint32_t y = 0;

  /// Of a launch that may come with any grid: all probes count.
  static constexpr GridSize unknown() { return {~std::uint32_t{0}, ~std::uint32_t{0}}; }
  bool operator==(const GridSize&) const = default;
};

/// The layouts of the functions launched so far, by handle.
///
/// find() is lock-free, for the launch path; everything else takes a lock. Handles are CUfunctions
/// or CUkernels: cuLaunchKernel accepts both.
class KernelLayoutCache {
 public:
  /// Which words of by-value structs the layouts have probes for.
  enum class StructWords {
    kKnown,           ///< those that the kernel is known to use (known_struct()), of others all
    kKnownOfVersion,  ///< the same where the PyTorch that is loaded is one of those that are known
    kAll,             ///< all
  };

  explicit KernelLayoutCache(StructWords struct_words = StructWords::kKnown);
  ~KernelLayoutCache();
  KernelLayoutCache(const KernelLayoutCache&) = delete;
  KernelLayoutCache& operator=(const KernelLayoutCache&) = delete;

  /// The layout of `function`, or null if it is not known yet. O(1), no lock.
  [[nodiscard]] const KernelLayout* find(CUfunction function) const noexcept {
    const Table* const table = table_.load(std::memory_order_acquire);
    for (std::size_t at = slot_of(function, table->mask);; at = (at + 1) & table->mask) {
      const CUfunction held = table->slots[at].function.load(std::memory_order_acquire);
      if (held == function) [[likely]]
        return table->slots[at].layout.load(std::memory_order_acquire);
      if (held == nullptr) return nullptr;
    }
  }

  /// Asks the driver for the layout and remembers it.
  /// @return null if the driver does not know the handle, or cannot tell (before CUDA 12.4), or if
  /// host memory is out. Source: CUDA Driver API, cuFuncGetParamInfo, cuKernelGetParamInfo.
  const KernelLayout* learn(CUfunction function) noexcept;

  /// The demangled name of a kernel that was learned, for messages. Takes a lock, calls no driver.
  [[nodiscard]] std::string readable_name(KernelId kernel) const;

  /// Forgets the handles of a module or a library, and those of which the driver does not tell what
  /// they belong to. To be called BEFORE it is unloaded: its handles may come again for other
  /// functions as soon as it is gone. Layouts found earlier stay valid. O(handles).
  void forget_module(CUmodule module) noexcept;
  void forget_library(CUlibrary library) noexcept;
  /// Forgets all handles.
  void clear() noexcept;

 private:
  /// What a handle goes with. A function that was made from a library's kernel belongs to a module
  /// of the driver's own.
  struct Owner {
    const void* handle = nullptr;  ///< of a module or a library; null: not known
    bool is_library = false;
  };
  struct Slot {
    std::atomic<CUfunction> function{nullptr};
    std::atomic<const KernelLayout*> layout{nullptr};
    Owner owner;  ///< under the mutex
  };
  struct Table {
    explicit Table(std::size_t capacity) : mask(capacity - 1), slots(new Slot[capacity]) {}
    std::size_t mask;
    std::size_t used = 0;
    std::unique_ptr<Slot[]> slots;
  };

  static std::size_t slot_of(CUfunction function, std::size_t mask) noexcept {
    // Handles are addresses of driver objects: the low bits say little.
    const auto bits = reinterpret_cast<std::uintptr_t>(function);
    return ((bits >> 4) * 0x9E3779B97F4A7C15ULL >> 32) & mask;
  }
  static Owner owner_of(CUfunction function, bool is_kernel) noexcept;
  template <typename Goes>
  void forget(const Goes& goes) noexcept;
  void insert(CUfunction function, const KernelLayout* layout, Owner owner);
  const KernelLayout* intern(KernelLayout layout);

  const StructWords struct_words_;
  std::atomic<Table*> table_;
  mutable std::mutex mutex_;
  /// Tables that a reader may still walk, and every layout ever made: they are few, because equal
  /// layouts are one, and a module that is loaded again finds its old ones.
  std::vector<std::unique_ptr<Table>> tables_;
  std::vector<std::unique_ptr<const KernelLayout>> layouts_;
};

/// How many places of each list of `probes` a launch of `grid` uses, if the list has so many;
/// `parameter` is the struct.
[[nodiscard]] std::uint32_t count_of(const KernelLayout::CountedProbes& probes,
                                     const char* parameter, GridSize grid) noexcept;

/// Adds the word at `place`, if `is_ours` holds for it.
template <typename IsOurs>
void collect_word(const char* place, const IsOurs& is_ours, WordList& words) noexcept {
  std::uint64_t word;
  std::memcpy(&word, place, sizeof word);
  if (is_ours(word)) words.add(word);
}

/// Adds the words of a launch's parameters at `probes` for which `is_ours` holds. `parameters` is
/// the launch's kernelParams. Reads memory of the caller; cost: one compare a probe.
template <typename IsOurs>
[[gnu::always_inline]] inline void collect_probes(const std::vector<KernelLayout::Probe>& probes,
                                                  void* const* parameters, const IsOurs& is_ours,
                                                  WordList& words) noexcept {
  for (const KernelLayout::Probe& probe : probes) {
    collect_word(static_cast<const char*>(parameters[probe.parameter]) + probe.offset, is_ours,
                 words);
  }
}

/// Adds the counted ones. Cost: one compare a probe, and one for each block of a launch with probes
/// of Count::kTensors.
template <typename IsOurs>
void collect_counted(const KernelLayout& layout, void* const* parameters, GridSize grid,
                     const IsOurs& is_ours, WordList& words) noexcept {
  for (const KernelLayout::CountedProbes& probes : layout.counted) {
    const auto* const parameter = static_cast<const char*>(parameters[probes.parameter]);
    const std::uint32_t count = count_of(probes, parameter, grid);
    for (const KernelLayout::CountedProbes::List& list : probes.lists) {
      const std::uint32_t used = count < list.most ? count : list.most;
      for (std::uint32_t i = 0; i < used; ++i) {
        collect_word(parameter + list.first + i * sizeof(std::uint64_t), is_ours, words);
      }
    }
  }
}

/// Adds those of all probes.
template <typename IsOurs>
void collect_parameters(const KernelLayout& layout, void* const* parameters, GridSize grid,
                        const IsOurs& is_ours, WordList& words) noexcept {
  collect_probes(layout.probes, parameters, is_ours, words);
  collect_counted(layout, parameters, grid, is_ours, words);
  collect_probes(layout.struct_probes, parameters, is_ours, words);
}

/// Adds the words of `size` bytes at `data` for which `is_ours` holds, at every 4-byte step.
template <typename IsOurs>
void collect_bytes(const void* data, std::size_t size, const IsOurs& is_ours,
                   WordList& words) noexcept {
  const auto* const bytes = static_cast<const char*>(data);
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= size; at += 4) {
    collect_word(bytes + at, is_ours, words);
  }
}

/// The same for bytes that come to be at `to` on the device: only the words that a device could
/// load as a pointer, which are aligned there.
template <typename IsOurs>
void collect_copied(const void* data, std::size_t size, std::uint64_t to, const IsOurs& is_ours,
                    WordList& words) noexcept {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  const auto* const bytes = static_cast<const char*>(data);
  for (std::size_t at = (kWord - to % kWord) % kWord; at + kWord <= size; at += kWord) {
    collect_word(bytes + at, is_ours, words);
  }
}

/// The argument buffer that a launch's `extra` names.
struct ArgumentBuffer {
  const void* data = nullptr;
  std::size_t size = 0;
};

/// Reads `extra`. Source: CUDA Driver API, cuLaunchKernel (CU_LAUNCH_PARAM_BUFFER_POINTER, _SIZE).
[[nodiscard]] ArgumentBuffer argument_buffer_of(void* const* extra) noexcept;

}  // namespace superpipe
