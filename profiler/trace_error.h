// Why a trace cannot be read, or a file cannot be written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace superpipe {

/// What is wrong, for a person.
struct TraceError {
  enum class Kind : std::uint8_t {
    kFile,       ///< it cannot be opened, read or written
    kEmpty,      ///< it has no bytes
    kForeign,    ///< it is something else
    kNewer,      ///< a later version of superpipe wrote it
    kTruncated,  ///< it ends before anything can be read of it
    kCorrupt,    ///< its bytes are not those that were written
    kMemory,     ///< there is no host memory for it
  };
  Kind kind = Kind::kFile;
  std::string message;  ///< one line, which names the file
};

/// A value, or why there is none.
template <typename T>
class [[nodiscard]] TraceResult {
 public:
  // Implicit on purpose: `return value;` and `return TraceError{...};` both read as meant.
  TraceResult(T value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  TraceResult(TraceError error)                       // NOLINT(google-explicit-constructor)
      : error_(std::move(error)) {}

  [[nodiscard]] bool ok() const { return value_.has_value(); }
  /// REQUIRES: !ok().
  [[nodiscard]] const TraceError& error() const { return error_; }
  /// REQUIRES: ok().
  [[nodiscard]] T& operator*() { return *value_; }
  [[nodiscard]] const T& operator*() const { return *value_; }
  [[nodiscard]] T* operator->() { return &*value_; }
  [[nodiscard]] const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  TraceError error_;
};

}  // namespace superpipe
