// Errors are values: Status says whether a call did what it should, Result adds what it gives.
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <utility>

namespace superpipe {

/// Why a call of residency failed. Each maps to one documented driver code, in one place
/// (interposer/driver/codes.h).
enum class [[nodiscard]] Status : std::uint8_t{
    kOk,
    kOutOfDeviceMemory,   ///< nothing left to evict within the budget
    kOutOfHostMemory,     ///< the host store is full
    kWorkingSetTooLarge,  ///< one launch alone needs more than the budget
    kInvalidValue,        ///< not an address or size of ours
    kDeviceError,         ///< the driver failed a call of ours; its code is in the log
    kTimedOut,            ///< a bounded wait expired (I7)
    kNotYet,              ///< nothing is free at this moment: ask again when something changed
    kCapturing,           ///< the program captures the stream: no event of ours may touch it
};

/// A value of T, or the Status (never kOk) that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  // Implicit on purpose: `return value;` and `return Status::kDeviceError;` both read as meant.
  Result(T value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(Status status) : status_(status) { assert(status != Status::kOk); }

  [[nodiscard]] bool ok() const { return value_.has_value(); }
  [[nodiscard]] Status status() const { return status_; }
  /// REQUIRES: ok().
  [[nodiscard]] T& operator*() { return *value_; }
  [[nodiscard]] const T& operator*() const { return *value_; }
  [[nodiscard]] T* operator->() { return &*value_; }
  [[nodiscard]] const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_ = Status::kOk;
};

}  // namespace superpipe
