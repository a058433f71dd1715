// Opaque handles for objects of the driver.
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
///
/// A handle is a driver's pointer to the object: the value of one that was destroyed soon names
/// another object of the same type, the last one first. Until then it is recognised as stale.
template <typename HandleType, typename Object>
class HandleTable {
 public:
  /// Adds `object` and returns its handle: never null nor one of CUDA's small special values.
  HandleType add(std::shared_ptr<Object> object) {
    const std::lock_guard lock{mutex_};
    std::uint64_t value = 0;
    if (free_.empty()) {
      value = 0x5100'0000'0000ULL + next_object_id() * 16;
    } else {
      value = free_.back();
      free_.pop_back();
    }
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
    std::shared_ptr<Object> object = withdraw(handle);
    if (object != nullptr) release(handle);
    return object;
  }
  /// Removes and returns the object, or null. Its handle names no other one before release().
  std::shared_ptr<Object> withdraw(HandleType handle) {
    const std::lock_guard lock{mutex_};
    const auto found = objects_.find(reinterpret_cast<std::uint64_t>(handle));
    if (found == objects_.end()) return nullptr;
    std::shared_ptr<Object> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }
  /// After withdraw(): `handle` may name another object.
  void release(HandleType handle) {
    const std::lock_guard lock{mutex_};
    free_.push_back(reinterpret_cast<std::uint64_t>(handle));
  }
  /// Removes and returns every object for which `matches(object)`.
  template <typename Predicate>
  std::vector<std::shared_ptr<Object>> remove_if(Predicate matches) {
    std::vector<std::shared_ptr<Object>> removed;
    const std::lock_guard lock{mutex_};
    for (auto each = objects_.begin(); each != objects_.end();) {
      if (matches(*each->second)) {
        removed.push_back(std::move(each->second));
        free_.push_back(each->first);
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
  std::vector<std::uint64_t> free_;  ///< values that named objects once
};

}  // namespace simgpu
