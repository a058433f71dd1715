#include "tools/simgpu/driver/code/framework_kernels.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>

namespace simgpu {
namespace {

template <typename T>
T framework_argument(const SimgpuLaunch& launch, std::size_t index) {
  T value;
  std::memcpy(&value, launch.arguments[index], sizeof(T));
  return value;
}

/// (buffer, size of its beginning, size), in bytes.
void repeat_beginning(const SimgpuLaunch* launch) {
  auto* const buffer = framework_argument<char*>(*launch, 0);
  const auto period = framework_argument<std::int64_t>(*launch, 1);
  const auto size = framework_argument<std::int64_t>(*launch, 2);
  if (period < 1) return;
  for (std::int64_t done = period; done < size;) {
    const std::int64_t next = std::min(done, size - done);
    std::memcpy(buffer + done, buffer, static_cast<std::size_t>(next));
    done += next;
  }
}

/// (red zone, its pattern, size in bytes, count): adds how many bytes differ from the pattern.
void count_changed(const SimgpuLaunch* launch) {
  const auto* const zone = framework_argument<const unsigned char*>(*launch, 0);
  const auto pattern = framework_argument<unsigned char>(*launch, 1);
  const auto size = framework_argument<std::uint64_t>(*launch, 2);
  auto* const count = framework_argument<std::uint32_t*>(*launch, 3);
  const auto same = static_cast<std::uint64_t>(std::count(zone, zone + size, pattern));
  if (same != size) *count += static_cast<std::uint32_t>(size - same);
}

/// Results of mixers are compared. The count is zero before.
void find_no_difference(const SimgpuLaunch* /*launch*/) {}

/// TensorFlow's GpuDeviceArrayStruct<T>.
template <typename T>
struct FrameworkList {
  static constexpr std::int32_t kMostInline = 8;

  std::int32_t count;
  std::array<T, kMostInline> in_place;
  const T* elsewhere;  ///< on the device, where there are more

  [[nodiscard]] const T* begin() const {
    return count <= kMostInline ? in_place.data() : elsewhere;
  }
};
static_assert(sizeof(FrameworkList<const char*>) == 80);
static_assert(sizeof(FrameworkList<std::int32_t>) == 48);

/// TensorFlow's concat_fixed_kernel<T, int> and concat_variable_kernel<T, int, bool>, whose names
/// begin so.
constexpr std::string_view kConcatenation = "_ZN10tensorflow12_GLOBAL__N_119concat_fixed_kernelI";
constexpr std::string_view kConcatenationOfUnequal = "_ZN10tensorflow22concat_variable_kernelI";

/// Bytes of the type of the numbers, which the name has behind `begin`; 0 for one that is not built
/// in.
std::size_t bytes_of_concatenated(std::string_view name, std::string_view begin) {
  switch (name.size() > begin.size() ? name[begin.size()] : ' ') {
    case 'a':
    case 'b':
    case 'h':
      return 1;
    case 's':
    case 't':
      return 2;
    case 'f':
    case 'i':
    case 'j':
      return 4;
    case 'd':
    case 'l':
    case 'm':
      return 8;
    default:
      return 0;
  }
}

/// (matrices, columns of each, rows, columns of the result, result): matrices side by side.
void concatenate(const SimgpuLaunch* launch) {
  const std::size_t number = bytes_of_concatenated(launch->name, kConcatenation);
  const auto inputs = framework_argument<FrameworkList<const char*>>(*launch, 0);
  const auto columns = framework_argument<std::int32_t>(*launch, 1);
  const auto rows = framework_argument<std::int32_t>(*launch, 2);
  const auto all_columns = framework_argument<std::int32_t>(*launch, 3);
  auto* const result = framework_argument<char*>(*launch, 4);
  if (columns < 1) return;
  const std::size_t row_bytes = static_cast<std::size_t>(columns) * number;
  char* target = result;
  for (std::size_t row = 0; row < static_cast<std::size_t>(std::max(rows, 0)); ++row) {
    for (std::int32_t input = 0; input < all_columns / columns; ++input, target += row_bytes) {
      std::memcpy(target, inputs.begin()[input] + row * row_bytes, row_bytes);
    }
  }
}

/// (matrices, where the columns of each begin in the result, and end, rows, columns of the result,
/// result): matrices side by side, which have different numbers of columns.
void concatenate_unequal(const SimgpuLaunch* launch) {
  const std::size_t number = bytes_of_concatenated(launch->name, kConcatenationOfUnequal);
  const auto inputs = framework_argument<FrameworkList<const char*>>(*launch, 0);
  const auto begins = framework_argument<FrameworkList<std::int32_t>>(*launch, 1);
  const auto rows = framework_argument<std::int32_t>(*launch, 2);
  char* target = framework_argument<char*>(*launch, 4);
  for (std::size_t row = 0; row < static_cast<std::size_t>(std::max(rows, 0)); ++row) {
    for (std::int32_t input = 0; input < inputs.count; ++input) {
      const std::int32_t columns = begins.begin()[input + 1] - begins.begin()[input];
      if (columns < 1) continue;
      const std::size_t row_bytes = static_cast<std::size_t>(columns) * number;
      std::memcpy(target, inputs.begin()[input] + row * row_bytes, row_bytes);
      target += row_bytes;
    }
  }
}

/// (numbers, result, count, operation, first factor): TensorFlow's product of the extents of a
/// tensor.
template <typename T>
void multiply_all(const SimgpuLaunch* launch) {
  const auto* const numbers = framework_argument<const T*>(*launch, 0);
  const auto count = framework_argument<std::int32_t>(*launch, 2);
  // Unsigned, for an overflow wraps on a device.
  auto product = static_cast<std::uint64_t>(framework_argument<T>(*launch, 4));
  for (std::int32_t i = 0; i < count; ++i) product *= static_cast<std::uint64_t>(numbers[i]);
  *framework_argument<T*>(*launch, 1) = static_cast<T>(product);
}

/// Of booleans, the true ones count, whatever bytes a mixer has written for them.
std::uint32_t wrapping_sum(const std::uint8_t* values, std::uint64_t count) {
  return static_cast<std::uint32_t>(
      std::count_if(values, values + count, [](std::uint8_t value) { return value != 0; }));
}
/// As a device's sums do, they wrap.
std::uint32_t wrapping_sum(const std::uint32_t* values, std::uint64_t count) {
  return std::accumulate(values, values + count, std::uint32_t{0});
}

/// CUB's number of elements, which some callers have in 64 bits.
std::uint64_t count_of(const SimgpuLaunch& launch) {
  constexpr std::size_t kCount = 2;
  return launch.argument_sizes[kCount] == sizeof(std::uint64_t)
             ? framework_argument<std::uint64_t>(launch, kCount)
             : framework_argument<std::uint32_t>(launch, kCount);
}

/// (booleans, sum of each block, count, ...): CUB's first of two steps. The first block has it all.
/// The booleans are an address, or an iterator, which begins with one.
void count_true_by_blocks(const SimgpuLaunch* launch) {
  auto* const sums = framework_argument<std::uint32_t*>(*launch, 1);
  std::fill_n(sums, launch->grid[0], 0);
  sums[0] = wrapping_sum(framework_argument<const std::uint8_t*>(*launch, 0), count_of(*launch));
}

/// (numbers, sum, count, operation, what is added, ...): CUB's second step, or the only one.
template <typename T>
void sum_all(const SimgpuLaunch* launch) {
  const std::uint32_t sum =
      wrapping_sum(framework_argument<const T*>(*launch, 0), count_of(*launch));
  *framework_argument<std::uint32_t*>(*launch, 1) =
      sum + framework_argument<std::uint32_t>(*launch, 4);
}

/// The address in parameter `index`, as the program has it: what a kernel may store.
std::uint64_t program_address(const SimgpuLaunch& launch, std::size_t index) {
  const auto* const here = framework_argument<const void*>(launch, index);
  return reinterpret_cast<std::uint64_t>(launch.program_address(&launch, here));
}

/// (first matrix, table, count, bytes from one to the next): JAX's table of addresses.
void list_matrices_of_jax(const SimgpuLaunch* launch) {
  const std::uint64_t first = program_address(*launch, 0);
  auto* const table = framework_argument<std::uint64_t*>(*launch, 1);
  const auto count = framework_argument<std::uint64_t>(*launch, 2);
  const auto apart = framework_argument<std::uint64_t>(*launch, 3);
  for (std::uint64_t i = 0; i < count; ++i) table[i] = first + i * apart;
}

/// (first matrix, bytes from one to the next, count, table): XLA's.
void list_matrices_of_xla(const SimgpuLaunch* launch) {
  const std::uint64_t first = program_address(*launch, 0);
  const auto apart = framework_argument<std::uint64_t>(*launch, 1);
  const auto count = framework_argument<std::uint64_t>(*launch, 2);
  auto* const table = framework_argument<std::uint64_t*>(*launch, 3);
  for (std::uint64_t i = 0; i < count; ++i) table[i] = first + i * apart;
}

constexpr SimgpuKernel kListOfJax{"jax::MakeBatchPointersAsyncKernel", &list_matrices_of_jax, 0,
                                  nullptr};
constexpr SimgpuKernel kListOfXla{"stream_executor::MakeBatchPointers", &list_matrices_of_xla, 0,
                                  nullptr};

/// The tables of matrices' addresses that JAX and XLA make for routines of cuBLAS and cuSOLVER. The
/// names have a number of their build in their middle.
const SimgpuKernel* list_of_matrices(std::string_view name) {
  if (name.find("28MakeBatchPointersAsyncKernelEPcPPvll") != name.npos) return &kListOfJax;
  return name.find("17MakeBatchPointersEPcmmPPv") != name.npos ? &kListOfXla : nullptr;
}

constexpr SimgpuKernel kCountByBlocks{"cub::DeviceReduceKernel", &count_true_by_blocks, 0, nullptr};
constexpr SimgpuKernel kCountAll{"cub::DeviceReduceSingleTileKernel", &sum_all<std::uint8_t>, 0,
                                 nullptr};
constexpr SimgpuKernel kSumAll{"cub::DeviceReduceSingleTileKernel", &sum_all<std::uint32_t>, 0,
                               nullptr};

/// CUB's sums of 32-bit integers, whose names have its version in their middle: of booleans, as
/// TensorFlow and PyTorch have them counted, and of the sums of blocks.
const SimgpuKernel* cub_sum(std::string_view name) {
  const auto begins = [](std::string_view text, std::string_view part) {
    return text.substr(0, part.size()) == part;
  };
  constexpr std::string_view kPolicy = "4plusIvEEE10Policy1000E";
  const std::size_t policy = name.find(kPolicy);
  const bool is_cub = begins(name, "_ZN3cub") || begins(name, "_ZN14at_cuda_detail3cub");
  if (!is_cub || policy == std::string_view::npos) return nullptr;
  const std::string_view types = name.substr(policy + kPolicy.size());
  const bool is_nonzero = begins(types, "N6thrust") &&
                          types.find("18transform_iteratorIN2at6native") != types.npos &&
                          types.find("NonZeroOpIbEEPKbN") != types.npos;
  if (name.find("18DeviceReduceKernelI") != name.npos) {
    return begins(types, "PKbjS9_iN") || (is_nonzero && types.find("EEyS9_iN") != types.npos)
               ? &kCountByBlocks
               : nullptr;
  }
  if (name.find("28DeviceReduceSingleTileKernelI") == name.npos) return nullptr;
  if (begins(types, "PKbPijS9_iiN")) return &kCountAll;
  if (is_nonzero && types.find("EEPiyS9_iiN") != types.npos) return &kCountAll;
  return begins(types, "PiSC_iS9_iiN") ? &kSumAll : nullptr;
}

/// `name`: how the kernel's begins.
constexpr std::array kFrameworkKernels{
    SimgpuKernel{"_ZN15stream_executor3gpu22RepeatBufferKernelImplEPcll", &repeat_beginning, 0,
                 nullptr},
    SimgpuKernel{"_ZN15stream_executor3gpu26RedzoneAllocatorKernelImplEPhhmPj", &count_changed, 0,
                 nullptr},
    SimgpuKernel{"_ZN15stream_executor3gpu17xla_fp_comparisonI", &find_no_difference, 0, nullptr},
    SimgpuKernel{"_ZN15stream_executor3gpu18xla_int_comparisonI", &find_no_difference, 0, nullptr},
    SimgpuKernel{kConcatenation.data(), &concatenate, 0, nullptr},
    SimgpuKernel{kConcatenationOfUnequal.data(), &concatenate_unequal, 0, nullptr},
    SimgpuKernel{"_ZN10tensorflow7functor17BlockReduceKernelIPiS2_Li256ENS0_4ProdIiEEEE",
                 &multiply_all<std::int32_t>, 0, nullptr},
    SimgpuKernel{"_ZN10tensorflow7functor17BlockReduceKernelIPlS2_Li256ENS0_4ProdIlEEEE",
                 &multiply_all<std::int64_t>, 0, nullptr},
};

}  // namespace

const SimgpuKernel* framework_kernel(std::string_view name) {
  for (const SimgpuKernel& kernel : kFrameworkKernels) {
    const std::string_view begin = kernel.name;
    if (name.substr(0, begin.size()) != begin) continue;
    // A concatenation with 64-bit extents, or of another type, runs as a mixer.
    const bool is_concatenation = begin == kConcatenation || begin == kConcatenationOfUnequal;
    const bool is_built_in =
        !is_concatenation || (bytes_of_concatenated(name, begin) != 0 &&
                              name.size() > begin.size() + 1 && name[begin.size() + 1] == 'i');
    if (is_built_in) return &kernel;
  }
  const SimgpuKernel* const sum = cub_sum(name);
  return sum != nullptr ? sum : list_of_matrices(name);
}

}  // namespace simgpu
