// The descriptors of cuDNN's graph API: attributes by name, as a program sets them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

namespace simgpu::cudnn {

/// cudnnBackendAttributeType_t, as far as the sizes of values need it.
enum AttributeType : int {
  kHandleType = 0,
  kBoolean = 2,
  kInt64 = 3,
  kDoubleType = 5,
  kPointer = 6,
  kDescriptor = 15,
  kChar = 24,
  kFraction = 26,
};

/// Bytes of one value of that type. The others are enumerations, float and int32.
std::size_t size_of(int type);

class Descriptor;
using DescriptorRef = std::shared_ptr<Descriptor>;

/// The value of an attribute: `count` elements of `type`, as bytes; or descriptors, which live as
/// long as this one refers to them, though the program destroys them.
struct Attribute {
  int type = 0;
  std::int64_t count = 0;
  std::vector<std::byte> bytes;
  std::vector<DescriptorRef> descriptors;
};

/// A descriptor. As with NVIDIA's library, one thread at a time.
class Descriptor {
 public:
  explicit Descriptor(int kind) : kind_(kind) {}

  /// cudnnBackendDescriptorType_t
  [[nodiscard]] int kind() const { return kind_; }
  [[nodiscard]] const std::map<int, Attribute>& attributes() const { return attributes_; }
  [[nodiscard]] const Attribute* find(int name) const;
  void set(int name, Attribute value) { attributes_[name] = std::move(value); }
  void set_number(int name, std::int64_t value);
  void set_descriptor(int name, DescriptorRef value);
  /// Takes over all that `other` has.
  void copy(const Descriptor& other) { attributes_ = other.attributes_; }

  /// The elements of a plain attribute; empty if it is not set, or of values of another size.
  template <typename Value>
  [[nodiscard]] std::vector<Value> values(int name) const {
    const Attribute* const found = find(name);
    if (found == nullptr || found->type == kDescriptor) return {};
    if (found->bytes.size() != static_cast<std::size_t>(found->count) * sizeof(Value)) return {};
    std::vector<Value> list(static_cast<std::size_t>(found->count));
    if (!list.empty()) std::memcpy(list.data(), found->bytes.data(), found->bytes.size());
    return list;
  }
  template <typename Value>
  [[nodiscard]] Value value(int name, Value otherwise) const {
    const std::vector<Value> list = values<Value>(name);
    return list.empty() ? otherwise : list.front();
  }
  /// The first descriptor of an attribute, or null.
  [[nodiscard]] DescriptorRef descriptor(int name) const;

 private:
  int kind_;
  std::map<int, Attribute> attributes_;
};

/// @name The descriptors that the program has, by the pointers that it knows them by
/// Thread-safe. Throws std::bad_alloc.
/// @{
void* give_to_program(DescriptorRef descriptor);
/// Null for a pointer that is none of them.
DescriptorRef find_descriptor(const void* pointer);
/// @return false for a pointer that is none of them.
bool take_from_program(const void* pointer);
/// @}

}  // namespace simgpu::cudnn
