// How the fields of a trace's events become bytes, and back.
//
// Numbers are variable-length: seven bits a byte, low ones first, the top bit set on all bytes
// except the last. Signed numbers and differences are folded first (0, -1, 1, -2, ...), so that
// small ones are short. Source: Protocol Buffers, "Encoding", whose varint and ZigZag these are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "policy/units.h"
#include "profiler/trace_event.h"

namespace superpipe {

constexpr std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}
constexpr std::int64_t unzigzag(std::uint64_t value) {
  return static_cast<std::int64_t>((value >> 1) ^ (0 - (value & 1)));
}

/// a - b and a + b as they wrap around, without the undefined overflow of signed numbers.
constexpr std::int64_t wrapping_difference(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
constexpr std::int64_t wrapping_sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

/// Appends numbers and texts to a buffer. Throws std::bad_alloc.
class TraceBytesWriter {
 public:
  explicit TraceBytesWriter(std::vector<std::byte>& bytes) : bytes_(bytes) {}

  void number(std::uint64_t value) {
    while (value >= 0x80) {
      bytes_.push_back(static_cast<std::byte>(value | 0x80));
      value >>= 7;
    }
    bytes_.push_back(static_cast<std::byte>(value));
  }
  void signed_number(std::int64_t value) { number(zigzag(value)); }
  void text(std::string_view value) {
    number(value.size());
    const auto* const data = reinterpret_cast<const std::byte*>(value.data());
    bytes_.insert(bytes_.end(), data, data + value.size());
  }

 private:
  std::vector<std::byte>& bytes_;
};

/// Reads what TraceBytesWriter wrote, from bytes that may be anything. After the first thing that
/// is not there or not as it is written, failed() holds and all reads give 0 or nothing.
class TraceBytesReader {
 public:
  explicit TraceBytesReader(std::span<const std::byte> bytes)
      : next_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] std::size_t left() const { return static_cast<std::size_t>(end_ - next_); }
  void fail() {
    failed_ = true;
    next_ = end_;
  }

  std::uint64_t number() {
    if (next_ < end_ && static_cast<std::uint8_t>(*next_) < 0x80) [[likely]] {
      return static_cast<std::uint64_t>(*next_++);
    }
    return long_number();
  }
  std::int64_t signed_number() { return unzigzag(number()); }
  /// `count` bytes; the view is into those that are read.
  std::span<const std::byte> bytes(std::uint64_t count) {
    if (count > left()) {
      fail();
      return {};
    }
    const std::span<const std::byte> taken(next_, static_cast<std::size_t>(count));
    next_ += count;
    return taken;
  }
  std::string_view text() {
    const auto taken = bytes(number());
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }

 private:
  std::uint64_t long_number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && next_ < end_; shift += 7) {
      const auto byte = static_cast<std::uint8_t>(*next_++);
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      // The tenth byte has room for one bit.
      if (shift == 63 && byte > 1) break;
      if (byte < 0x80) return value;
    }
    fail();
    return 0;
  }

  const std::byte* next_;
  const std::byte* end_;
  bool failed_ = false;
};

/// What later fields of a chunk are written as differences from.
struct TraceDifferences {
  std::int64_t time = 0;
  std::uint64_t counts[64] = {};  ///< TraceCount, by type

  static_assert(TraceEnd::kType < 64);
};

/// Writes the fields of one event.
class TraceFieldWriter {
 public:
  TraceFieldWriter(std::vector<std::byte>& bytes, std::uint64_t& count)
      : out_(bytes), count_(count) {}

  void operator()(std::string_view /*name*/, bool value) { out_.number(value ? 1 : 0); }
  void operator()(std::string_view /*name*/, std::uint32_t value) { out_.number(value); }
  void operator()(std::string_view /*name*/, std::uint64_t value) { out_.number(value); }
  void operator()(std::string_view /*name*/, std::int64_t value) { out_.signed_number(value); }
  void operator()(std::string_view /*name*/, Bytes value) { out_.number(value.count()); }
  // No buffer is 0.
  void operator()(std::string_view /*name*/, BufferId value) {
    out_.number(static_cast<std::uint32_t>(index_of(value) + 1));
  }
  void operator()(std::string_view /*name*/, TraceCount value) {
    out_.signed_number(static_cast<std::int64_t>(value.value - count_));
    count_ = value.value;
  }
  void operator()(std::string_view /*name*/, std::string_view value) { out_.text(value); }
  void operator()(std::string_view /*name*/, std::span<const BufferId> value) {
    out_.number(value.size());
    std::int64_t last = 0;
    for (const BufferId id : value) {
      out_.signed_number(std::int64_t{index_of(id)} - last);
      last = index_of(id);
    }
  }

 private:
  TraceBytesWriter out_;
  std::uint64_t& count_;
};

/// Reads the fields of one event. `buffers` holds what the event's span shows.
class TraceFieldReader {
 public:
  /// `may_end`: the file is of an earlier minor version, whose events may lack the last fields;
  /// these keep their defaults.
  TraceFieldReader(TraceBytesReader& in, std::uint64_t& count, std::vector<BufferId>& buffers,
                   bool may_end)
      : in_(in), count_(count), buffers_(buffers), may_end_(may_end) {}

  template <typename Value>
  void operator()(std::string_view /*name*/, Value& value) {
    if (may_end_ && in_.left() == 0) return;
    read(value);
  }

 private:
  void read(bool& value) {
    const std::uint64_t number = in_.number();
    if (number > 1) in_.fail();
    value = number == 1;
  }
  void read(std::uint32_t& value) { value = small(in_.number()); }
  void read(std::uint64_t& value) { value = in_.number(); }
  void read(std::int64_t& value) { value = in_.signed_number(); }
  void read(Bytes& value) { value = Bytes{in_.number()}; }
  void read(BufferId& value) { value = BufferId{small(in_.number()) - 1}; }
  void read(TraceCount& value) {
    count_ += static_cast<std::uint64_t>(in_.signed_number());
    value.value = count_;
  }
  void read(std::string_view& value) { value = in_.text(); }
  void read(std::span<const BufferId>& value) {
    const std::uint64_t count = in_.number();
    // Each takes a byte at least: a count that is wrong costs no memory.
    if (count > in_.left()) return in_.fail();
    buffers_.clear();
    std::int64_t last = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      last = wrapping_sum(last, in_.signed_number());
      buffers_.push_back(BufferId{small(static_cast<std::uint64_t>(last))});
    }
    value = buffers_;
  }

  std::uint32_t small(std::uint64_t value) {
    if (value > 0xFFFF'FFFFu) {
      in_.fail();
      return 0;
    }
    return static_cast<std::uint32_t>(value);
  }

  TraceBytesReader& in_;
  std::uint64_t& count_;
  std::vector<BufferId>& buffers_;
  const bool may_end_;
};

/// Collects "name:kind" of each field, for TraceSchema.
class TraceFieldNames {
 public:
  template <typename Value>
  void operator()(std::string_view name, const Value& /*value*/) {
    if (!text_.empty()) text_ += ' ';
    text_ += name;
    text_ += ':';
    text_ += kind_of<Value>();
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  template <typename Value>
  static std::string_view kind_of() {
    if constexpr (std::is_same_v<Value, bool>) return "bool";
    if constexpr (std::is_same_v<Value, std::int64_t>) return "signed";
    if constexpr (std::is_same_v<Value, Bytes>) return "bytes";
    if constexpr (std::is_same_v<Value, BufferId>) return "buffer";
    if constexpr (std::is_same_v<Value, TraceCount>) return "count";
    if constexpr (std::is_same_v<Value, std::string_view>) return "text";
    if constexpr (std::is_same_v<Value, std::span<const BufferId>>) return "buffers";
    return "number";
  }

  std::string text_;
};

/// The fields of a type, for TraceSchema.
template <typename Event>
std::string trace_fields_text() {
  TraceFieldNames names;
  const Event event{};
  Event::fields(event, names);
  return names.text();
}

}  // namespace superpipe
