#include "tools/simgpu/driver/graphs/user_object.h"

#include <mutex>
#include <thread>

#include "tools/simgpu/driver/entry/handle_table.h"

namespace simgpu {
namespace {

HandleTable<CUuserObject, UserObject>& user_objects() {
  static auto* const table = new HandleTable<CUuserObject, UserObject>;
  return *table;
}

std::mutex& user_objects_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

}  // namespace

CUuserObject UserObject::create(CUhostFn destroy, void* data, unsigned count) {
  auto object = std::make_shared<UserObject>(destroy, data, count);
  const CUuserObject handle = user_objects().add(object);
  const std::lock_guard lock{user_objects_mutex()};
  object->handle_ = handle;
  return handle;
}

std::shared_ptr<UserObject> UserObject::find(CUuserObject handle) {
  return user_objects().find(handle);
}

void UserObject::retain(unsigned count) {
  const std::lock_guard lock{user_objects_mutex()};
  count_ += count;
}

bool UserObject::release(unsigned count) {
  {
    const std::lock_guard lock{user_objects_mutex()};
    if (count > count_) return false;
    count_ -= count;
    if (count_ != 0) return true;
  }
  user_objects().remove(handle_);
  std::thread{[destroy = destroy_, data = data_] {
    const HostFunctionScope scope;
    destroy(data);
  }}.detach();
  return true;
}

}  // namespace simgpu
