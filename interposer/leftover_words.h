// Words of by-value structs that are rather what lay on the program's stack before.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

#include "interposer/kernel_arguments.h"
#include "interposer/word_list.h"

namespace superpipe {

/// Which words of a kernel's structs name the same buffer at launch after launch while its other
/// operands change: an address that an earlier call left in bytes that no member covers does so,
/// and an operand seldom does.
///
/// That is no proof: a launch does without them only where it would fail otherwise. Thread-safe. No
/// call throws, or calls the driver.
class LeftoverWords {
 public:
  /// After so many launches with other operands a word that was always the same is suspected.
  static constexpr std::uint32_t kSuspected = 4;

  LeftoverWords() = default;
  LeftoverWords(const LeftoverWords&) = delete;
  LeftoverWords& operator=(const LeftoverWords&) = delete;

  /// A launch of a kernel with `layout` is about to be submitted. Cost: one look at each probe.
  template <typename IsOurs>
  void note(const KernelLayout& layout, void* const* parameters, const IsOurs& is_ours) noexcept {
    WordList words;
    std::vector<Seen> seen;
    try {
      for_each(layout, parameters, [&](std::uint32_t probe, std::uint64_t word) {
        if (!is_ours(word)) return;
        words.add(word);
        if (is_unsure(layout, probe)) seen.push_back({probe, word, 0, false});
      });
      note(layout, words, seen);
    } catch (...) {
      // Nothing is suspected for want of memory.
    }
  }

  /// Adds what collect_probes() adds, without the last `count` suspected words: structs end in
  /// lists that are shorter than their room more often than they begin with them. @return whether
  /// there are so many. Throws nothing; false for want of memory.
  template <typename IsOurs>
  bool collect_without(const KernelLayout& layout, void* const* parameters, std::size_t count,
                       const IsOurs& is_ours, WordList& words) const noexcept try {
    const std::lock_guard lock(mutex_);
    std::vector<std::uint32_t> suspects;
    for_each(layout, parameters, [&](std::uint32_t probe, std::uint64_t word) {
      if (is_ours(word) && is_suspected(layout, probe, word)) suspects.push_back(probe);
    });
    if (suspects.size() < count) return false;
    const std::uint32_t first_left_out = suspects[suspects.size() - count];
    for_each(layout, parameters, [&](std::uint32_t probe, std::uint64_t word) {
      const bool left_out = probe >= first_left_out && is_suspected(layout, probe, word);
      if (is_ours(word) && !left_out) words.add(word);
    });
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }

 private:
  /// What one probe of a kernel has read.
  struct Seen {
    std::uint32_t probe;
    std::uint64_t word;
    std::uint32_t same;  ///< launches with other operands since it was read first
    bool has_changed;    ///< it was another address once
  };
  struct History {
    std::uint64_t operands = 0;  ///< a digest of all words of the last launch
    std::vector<Seen> seen;      ///< in ascending order of the probes
  };

  template <typename Visit>
  static void for_each(const KernelLayout& layout, void* const* parameters, const Visit& visit) {
    for (std::uint32_t i = 0; i < layout.probes.size(); ++i) {
      const KernelLayout::Probe& probe = layout.probes[i];
      std::uint64_t word;
      std::memcpy(&word, static_cast<const char*>(parameters[probe.parameter]) + probe.offset,
                  sizeof word);
      visit(i, word);
    }
  }
  /// Whether a probe is one word of a struct of which nothing is known.
  static bool is_unsure(const KernelLayout& layout, std::uint32_t probe) {
    const std::uint32_t parameter = layout.probes[probe].parameter;
    return std::ranges::binary_search(layout.unknown_structs, parameter);
  }
  void note(const KernelLayout& layout, const WordList& words, const std::vector<Seen>& seen);
  [[nodiscard]] bool is_suspected(const KernelLayout& layout, std::uint32_t probe,
                                  std::uint64_t word) const noexcept;

  mutable std::mutex mutex_;
  std::unordered_map<const KernelLayout*, History> histories_;  ///< guarded by mutex_
};

}  // namespace superpipe
