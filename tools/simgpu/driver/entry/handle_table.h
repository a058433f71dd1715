// Opaque handles for objects of the driver. Never reused, so that a stale one is recognised.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace simgpu {

/// A number no other object of the process has had. Thread-safe.
inline std::uint64_t next_object_id() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

/// Maps handles of type `HandleType` (a pointer type of cuda.h) to objects. Thread-safe.
template <typename HandleType, typename Object>
class HandleTable {
 public:
  /// Adds `object` and returns its handle: never null nor one of CUDA's small special values.
  HandleType add(std::shared_ptr<Object> object) {
    const std::uint64_t value = 0x5100'0000'0000ULL + next_object_id() * 16;
    const std::lock_guard lock{mutex_};
    objects_.emplace(value, std::move(object));
    return reinterpret_cast<HandleType>(value);  // NOLINT: opaque to programs
  }
  /// The object, or null.
  std::shared_ptr<Object> find(HandleType handle) const {
    const std::lock_guard lock{mutex_};
    const auto found = objects_.find(reinterpret_cast<std::uint64_t>(handle));
    return found == objects_.end() ? nullptr : found->second;
  }
  /// Removes and returns the object, or null.
  std::shared_ptr<Object> remove(HandleType handle) {
    const std::lock_guard lock{mutex_};
    const auto found = objects_.find(reinterpret_cast<std::uint64_t>(handle));
    if (found == objects_.end()) return nullptr;
    std::shared_ptr<Object> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }
  /// Removes and returns every object for which `matches(object)`.
  template <typename Predicate>
  std::vector<std::shared_ptr<Object>> remove_if(Predicate matches) {
    std::vector<std::shared_ptr<Object>> removed;
    const std::lock_guard lock{mutex_};
    for (auto each = objects_.begin(); each != objects_.end();) {
      if (matches(*each->second)) {
        removed.push_back(std::move(each->second));
        each = objects_.erase(each);
      } else {
        ++each;
      }
    }
    return removed;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Object>> objects_;
};

}  // namespace simgpu
