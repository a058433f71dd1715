#include "tools/simgpu/cudnn/descriptor.h"

#include <mutex>
#include <unordered_map>
#include <utility>

namespace simgpu::cudnn {
namespace {

struct Program {
  std::mutex mutex;
  std::unordered_map<const void*, DescriptorRef> descriptors;
};

Program& program() {
  static auto* const all = new Program;  // never destroyed: threads outlive exit handlers
  return *all;
}

}  // namespace

std::size_t size_of(int type) {
  switch (type) {
    case kHandleType:
    case kInt64:
    case kDoubleType:
    case kPointer:
    case kDescriptor:
      return 8;
    case kBoolean:
    case kChar:
      return 1;
    case kFraction:
      return 16;
    default:
      return 4;
  }
}

const Attribute* Descriptor::find(int name) const {
  const auto found = attributes_.find(name);
  return found == attributes_.end() ? nullptr : &found->second;
}

void Descriptor::set_number(int name, std::int64_t value) {
  Attribute attribute{kInt64, 1, std::vector<std::byte>(sizeof(value)), {}};
  std::memcpy(attribute.bytes.data(), &value, sizeof(value));
  set(name, std::move(attribute));
}

void Descriptor::set_descriptor(int name, DescriptorRef value) {
  set(name, Attribute{kDescriptor, 1, {}, {std::move(value)}});
}

DescriptorRef Descriptor::descriptor(int name) const {
  const Attribute* const found = find(name);
  return found == nullptr || found->descriptors.empty() ? nullptr : found->descriptors.front();
}

void* give_to_program(DescriptorRef descriptor) {
  void* const pointer = descriptor.get();
  const std::scoped_lock lock(program().mutex);
  program().descriptors.emplace(pointer, std::move(descriptor));
  return pointer;
}

DescriptorRef find_descriptor(const void* pointer) {
  const std::scoped_lock lock(program().mutex);
  const auto found = program().descriptors.find(pointer);
  return found == program().descriptors.end() ? nullptr : found->second;
}

bool take_from_program(const void* pointer) {
  DescriptorRef last;  // goes after the lock
  const std::scoped_lock lock(program().mutex);
  const auto found = program().descriptors.find(pointer);
  if (found == program().descriptors.end()) return false;
  last = std::move(found->second);
  program().descriptors.erase(found);
  return true;
}

}  // namespace simgpu::cudnn
