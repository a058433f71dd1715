// Units of the policy layer: byte counts and the ids that every module shares.
#pragma once

#include <compare>
#include <cstdint>

namespace superpipe {

/// A count of bytes. Explicit to construct, so that an index or a page count is never taken for
/// one.
///
/// Arithmetic does not check for overflow; subtraction REQUIRES left >= right.
class Bytes {
 public:
  constexpr Bytes() = default;
  explicit constexpr Bytes(std::uint64_t count) : count_(count) {}

  /// The number of bytes.
  [[nodiscard]] constexpr std::uint64_t count() const { return count_; }

  constexpr auto operator<=>(const Bytes&) const = default;

  constexpr Bytes& operator+=(Bytes other) {
    count_ += other.count_;
    return *this;
  }
  constexpr Bytes& operator-=(Bytes other) {
    count_ -= other.count_;
    return *this;
  }
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return Bytes{a.count_ + b.count_}; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return Bytes{a.count_ - b.count_}; }
  friend constexpr Bytes operator*(Bytes a, std::uint64_t n) { return Bytes{a.count_ * n}; }
  friend constexpr Bytes operator*(std::uint64_t n, Bytes a) { return a * n; }

 private:
  std::uint64_t count_ = 0;
};

constexpr Bytes operator""_KiB(unsigned long long n) { return Bytes{n << 10}; }
constexpr Bytes operator""_MiB(unsigned long long n) { return Bytes{n << 20}; }
constexpr Bytes operator""_GiB(unsigned long long n) { return Bytes{n << 30}; }

/// `size` rounded up to a multiple of `granule`. REQUIRES: granule > 0.
constexpr Bytes round_up(Bytes size, Bytes granule) {
  return Bytes{(size.count() + granule.count() - 1) / granule.count() * granule.count()};
}

/// Names one managed buffer. Ids are small and reused after a free: they index tables.
enum class BufferId : std::uint32_t {};

/// Names one kernel within a process (a hash or a function handle; only equality matters).
enum class KernelId : std::uint64_t {};

/// The position of `id` in a table indexed by ids.
constexpr std::uint32_t index_of(BufferId id) { return static_cast<std::uint32_t>(id); }

}  // namespace superpipe
