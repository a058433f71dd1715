// Checked access to the bytes of an image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace simgpu {

/// Untrusted bytes of an image: every access is checked, and none reads outside.
///
/// Does not own the bytes. Little endian, as every image is. Cheap to copy.
class ByteView {
 public:
  ByteView() = default;
  explicit ByteView(std::span<const std::byte> bytes) : bytes_(bytes) {}

  [[nodiscard]] std::size_t size() const { return bytes_.size(); }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

  /// The value of type `T` at byte `offset`, at any alignment; nullopt unless it lies inside.
  template <typename T>
  [[nodiscard]] std::optional<T> load(std::uint64_t offset) const {
    static_assert(std::is_trivially_copyable_v<T>);
    if (!holds(offset, sizeof(T))) return std::nullopt;
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }

  /// The `size` bytes from byte `offset` on; nullopt unless they lie inside.
  [[nodiscard]] std::optional<ByteView> slice(std::uint64_t offset, std::uint64_t size) const {
    if (!holds(offset, size)) return std::nullopt;
    return ByteView(
        bytes_.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size)));
  }

  /// The zero-terminated string at byte `offset`; nullopt unless it ends inside.
  [[nodiscard]] std::optional<std::string_view> text(std::uint64_t offset) const {
    if (offset >= bytes_.size()) return std::nullopt;
    const char* const begin = reinterpret_cast<const char*>(bytes_.data()) + offset;
    const void* const end = std::memchr(begin, 0, bytes_.size() - static_cast<std::size_t>(offset));
    if (end == nullptr) return std::nullopt;
    return std::string_view(begin, static_cast<std::size_t>(static_cast<const char*>(end) - begin));
  }

 private:
  [[nodiscard]] bool holds(std::uint64_t offset, std::uint64_t size) const {
    return offset <= bytes_.size() && size <= bytes_.size() - offset;
  }

  std::span<const std::byte> bytes_;
};

}  // namespace simgpu
