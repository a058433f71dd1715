// Objects of the program whose lives graphs prolong.
#pragma once

#include <memory>

#include "tools/simgpu/driver/entry/api.h"

namespace simgpu {

/// References to one user object, by the program or by a graph. When the last of all is dropped,
/// the object's function runs on a thread of simgpu's.
class UserObject {
 public:
  /// Makes an object with `count` references of the program's, and a handle.
  static CUuserObject create(CUhostFn destroy, void* data, unsigned count);
  /// Null if the handle is stale or was never one.
  static std::shared_ptr<UserObject> find(CUuserObject handle);

  void retain(unsigned count);
  /// @return false, and nothing dropped, if there are not so many.
  bool release(unsigned count);

  UserObject(CUhostFn destroy, void* data, unsigned count)
      : destroy_(destroy), data_(data), count_(count) {}

 private:
  const CUhostFn destroy_;
  void* const data_;
  CUuserObject handle_ = nullptr;
  std::uint64_t count_;
};

/// The references of one graph to one object, dropped with it. Moved, or copied by copy().
class UserReferences {
 public:
  /// Takes over `count` references that were retained for it.
  UserReferences(std::shared_ptr<UserObject> object, unsigned count)
      : object_(std::move(object)), count_(count) {}
  ~UserReferences() {
    if (object_ != nullptr && count_ != 0) object_->release(count_);
  }
  UserReferences(UserReferences&&) = default;
  UserReferences& operator=(UserReferences&&) = default;
  UserReferences(const UserReferences&) = delete;
  UserReferences& operator=(const UserReferences&) = delete;

  [[nodiscard]] UserReferences copy() const {
    object_->retain(count_);
    return {object_, count_};
  }
  [[nodiscard]] const std::shared_ptr<UserObject>& object() const { return object_; }
  [[nodiscard]] unsigned count() const { return count_; }
  void add(unsigned count) { count_ += count; }
  /// Drops `count` references. REQUIRES: there are so many.
  void drop(unsigned count) {
    count_ -= count;
    object_->release(count);
  }

 private:
  std::shared_ptr<UserObject> object_;
  unsigned count_;
};

}  // namespace simgpu
