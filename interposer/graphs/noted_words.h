// What nodes of graphs named when they came to be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <unordered_set>
#include <vector>

#include "residency/device_memory.h"
#include "residency/residency_manager.h"

namespace superpipe {

/// Remembers each word of the arena that was captured, or given to a node of a graph.
///
/// For graphs of which the driver does not tell all: what any node may name then has to stay on the
/// device. Programs launch a graph again after they have freed its memory and got the same
/// addresses back, so words of freed buffers are kept as well; when there are more than ever
/// before, those go, and a line says what may follow. Thread-safe.
class NotedWords {
 public:
  /// So many are kept in any case. A launch of a graph that does not tell looks at them all, for
  /// some nanoseconds each.
  static constexpr std::size_t kKept = 65536;

  /// `residency` must outlive this.
  explicit NotedWords(const ResidencyManager& residency) : residency_(residency) {}
  NotedWords(const NotedWords&) = delete;
  NotedWords& operator=(const NotedWords&) = delete;

  /// @return kOutOfHostMemory: some may be missing.
  Status add(std::span<const std::uint64_t> words) noexcept;

  /// All of them; throws std::bad_alloc.
  [[nodiscard]] std::vector<std::uint64_t> all() const;

 private:
  void forget_freed();

  const ResidencyManager& residency_;
  mutable std::mutex mutex_;
  std::unordered_set<std::uint64_t> words_;  ///< guarded by mutex_
  std::size_t forget_at_ = kKept;            ///< guarded by mutex_
  bool has_forgotten_ = false;               ///< guarded by mutex_: a line has said so
};

}  // namespace superpipe
