// Pinned host memory, by address.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <shared_mutex>
#include <vector>

namespace simgpu {

class Context;

/// Pinned host memory.
struct PinnedRange {
  std::uint64_t base = 0;
  std::uint64_t size = 0;
  Context* context = nullptr;
  unsigned flags = 0;
  bool registered = false;  ///< by cuMemHostRegister; false: cuMemHostAlloc made it
  std::uint64_t id = 0;
};

/// The pinned ranges, which never overlap. Thread-safe; waits on nothing.
class PinnedTable {
 public:
  /// Adds `range` and gives it an id. @return false, and nothing added, if one overlaps it.
  bool add(PinnedRange range);
  /// Removes the range whose base is `base`. @return it; nullopt if there is none that is
  /// `registered` or not.
  std::optional<PinnedRange> remove(std::uint64_t base, bool registered);
  /// The range that `address` lies in.
  std::optional<PinnedRange> find(std::uint64_t address);
  /// Removes and returns what belongs to `context`.
  std::vector<PinnedRange> remove_all_of(const Context& context);

 private:
  std::shared_mutex mutex_;
  std::map<std::uint64_t, PinnedRange> ranges_;  ///< by base
};

}  // namespace simgpu
