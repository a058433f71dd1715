#include "tools/simgpu/driver/code/library_kernels.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "tools/simgpu/batched_kernel.h"

namespace simgpu {
namespace {

std::uint64_t library_word(const SimgpuLaunch& launch, std::size_t index) {
  std::uint64_t word;
  std::memcpy(&word, launch.arguments[index], sizeof(word));
  return word;
}

/// A step of FNV-1a over words of 8 bytes.
std::uint64_t add_to_sum(std::uint64_t sum, std::uint64_t word) {
  sum = (sum ^ word) * 0x100000001b3ULL;
  return sum ^ (sum >> 29);
}

/// `sum` with these bytes; with none if there is no address.
std::uint64_t add_bytes_to_sum(std::uint64_t sum, const unsigned char* first, std::uint64_t bytes) {
  if (first == nullptr) return sum;
  for (std::uint64_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, first + at, std::min<std::uint64_t>(sizeof(word), bytes - at));
    sum = add_to_sum(sum, word);
  }
  return sum;
}

/// Matrices of a table; none if it is null.
class BatchedTable {
 public:
  BatchedTable(const SimgpuLaunch& launch, std::size_t index)
      : addresses_(reinterpret_cast<unsigned char* const*>(library_word(launch, index))),
        bytes_(library_word(launch, index + kTables)) {}

  static constexpr std::size_t kTables = 4;

  /// `sum` with the bytes of matrix `index`.
  [[nodiscard]] std::uint64_t add_to(std::uint64_t sum, std::uint64_t index) const {
    return add_bytes_to_sum(sum, matrix_at(index), bytes_);
  }

  /// Writes small integers that follow from `sum`, as a mixer's.
  void write(std::uint64_t sum, std::uint64_t index) const {
    constexpr std::uint64_t kLargest = 0xfff;
    unsigned char* const matrix = matrix_at(index);
    if (matrix == nullptr) return;
    for (std::uint64_t at = 0; at < bytes_; at += sizeof(std::uint64_t)) {
      sum = add_to_sum(sum, at);
      const std::uint64_t word = sum & kLargest;
      std::memcpy(matrix + at, &word, std::min<std::uint64_t>(sizeof(word), bytes_ - at));
    }
  }

 private:
  [[nodiscard]] unsigned char* matrix_at(std::uint64_t index) const {
    constexpr std::uintptr_t kLargestInteger = 0xffff;
    constexpr std::uintptr_t kLargestAddress = (std::uintptr_t{1} << 47) - 1;
    if (addresses_ == nullptr) return nullptr;
    unsigned char* const matrix = addresses_[index];
    const auto address = reinterpret_cast<std::uintptr_t>(matrix);
    return address > kLargestInteger && address <= kLargestAddress ? matrix : nullptr;
  }

  unsigned char* const* addresses_;
  std::uint64_t bytes_;
};

void compute_batched(const SimgpuLaunch* launch) {
  const BatchedTable first(*launch, 0);
  const BatchedTable second(*launch, 1);
  const BatchedTable overwritten(*launch, 2);
  const BatchedTable written(*launch, 3);
  constexpr std::size_t kCount = 2 * BatchedTable::kTables;
  constexpr std::size_t kShared = 2;
  std::uint64_t begin = 0xcbf29ce484222325ULL;
  for (std::size_t at = kCount + 1; at <= kCount + kShared; ++at) {
    const auto* const first_byte =
        reinterpret_cast<const unsigned char*>(library_word(*launch, at));
    begin = add_bytes_to_sum(begin, first_byte, library_word(*launch, at + kShared));
  }
  const std::uint64_t count = library_word(*launch, kCount);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t sum = overwritten.add_to(second.add_to(first.add_to(begin, i), i), i);
    written.write(sum, i);
    overwritten.write(add_to_sum(sum, 1), i);
  }
}

template <typename Pivot>
void number_rows(void* pivots, std::uint64_t count, std::uint64_t matrices) {
  auto* pivot = static_cast<Pivot*>(pivots);
  for (std::uint64_t matrix = 0; matrix < matrices; ++matrix) {
    for (std::uint64_t row = 1; row <= count; ++row) *pivot++ = static_cast<Pivot>(row);
  }
}

void compute_pivots(const SimgpuLaunch* launch) {
  auto* const pivots = reinterpret_cast<void*>(library_word(*launch, 0));
  const bool is_long = library_word(*launch, 3) == sizeof(std::int64_t);
  (is_long ? &number_rows<std::int64_t> : &number_rows<std::int32_t>)(pivots,
                                                                      library_word(*launch, 1),
                                                                      library_word(*launch, 2));
}

constexpr std::array kLibraryKernels{
    SimgpuKernel{kBatchedKernel, &compute_batched, 0, nullptr},
    SimgpuKernel{kPivotsKernel, &compute_pivots, 0, nullptr},
};

}  // namespace

const SimgpuKernel* library_kernel(std::string_view name) {
  for (const SimgpuKernel& kernel : kLibraryKernels) {
    if (name == kernel.name) return &kernel;
  }
  return nullptr;
}

}  // namespace simgpu
