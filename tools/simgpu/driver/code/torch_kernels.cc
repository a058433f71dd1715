#include "tools/simgpu/driver/code/torch_kernels.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace simgpu {
namespace {

/// A value `offset` bytes into parameter `index`.
template <typename T>
T torch_argument(const SimgpuLaunch& launch, std::size_t index, std::size_t offset = 0) {
  T value{};
  if (index < launch.argument_count && offset + sizeof(T) <= launch.argument_sizes[index]) {
    std::memcpy(&value, static_cast<const char*>(launch.arguments[index]) + offset, sizeof(T));
  }
  return value;
}

/// (count, functor, {result, numbers}, ..., {type, bytes of a number}, ...): whether each of some
/// numbers is not zero. For floating point, a zero may have a sign.
void convert_to_booleans(const SimgpuLaunch* launch) {
  constexpr std::size_t kTensors = 2;
  constexpr std::size_t kLoader = 5;
  constexpr std::int8_t kFirstFloat = 5;  // c10::ScalarType: integers come before
  const auto count = torch_argument<std::int32_t>(*launch, 0);
  auto* const result = torch_argument<bool*>(*launch, kTensors);
  const auto* numbers = torch_argument<const unsigned char*>(*launch, kTensors, sizeof(void*));
  const bool may_have_sign = torch_argument<std::int8_t>(*launch, kLoader) >= kFirstFloat;
  const auto bytes = torch_argument<std::uint32_t>(*launch, kLoader, sizeof(std::uint32_t));
  if (bytes == 0) return;
  for (std::int32_t i = 0; i < count; ++i, numbers += bytes) {
    unsigned found = 0;
    for (std::uint32_t byte = 0; byte < bytes; ++byte) {
      const bool is_last = byte + 1 == bytes;
      found |= is_last && may_have_sign && bytes > 1 ? numbers[byte] & 0x7fU : numbers[byte];
    }
    result[i] = found != 0;
  }
}

/// PyTorch's OffsetCalculator within a parameter: extents of up to 25 dimensions, and how far apart
/// numbers are in each, in bytes, for `operands` tensors.
class TorchOffsets {
 public:
  TorchOffsets(const SimgpuLaunch& launch, std::size_t at, std::size_t operands)
      : launch_(launch),
        at_(at),
        operands_(operands),
        dimensions_(std::clamp(torch_argument<std::int32_t>(launch, 0, at), 0, kMost)) {}

  /// Where number `index` is in the tensor `operand`.
  [[nodiscard]] std::uint64_t offset(std::uint64_t index, std::size_t operand) const {
    std::uint64_t offset = 0;
    for (std::size_t dimension = 0; dimension < static_cast<std::size_t>(dimensions_);
         ++dimension) {
      const std::uint64_t extent = std::max<std::uint64_t>(word(1 + dimension * kDividerWords), 1);
      const std::uint64_t apart = word(1 + kMost * kDividerWords + dimension * operands_ + operand);
      offset += index % extent * apart;
      index /= extent;
    }
    return offset;
  }

  /// Bytes of one of so many operands.
  static constexpr std::size_t bytes(std::size_t operands) {
    return sizeof(std::uint32_t) * (1 + kMost * (kDividerWords + operands));
  }

 private:
  static constexpr int kMost = 25;
  static constexpr std::size_t kDividerWords = 3;  // an extent, and what divides by it fast

  [[nodiscard]] std::uint32_t word(std::size_t index) const {
    return torch_argument<std::uint32_t>(launch_, 0, at_ + index * sizeof(std::uint32_t));
  }

  const SimgpuLaunch& launch_;
  std::size_t at_;
  std::size_t operands_;
  std::int32_t dimensions_;
};

/// (ReduceOp): whether any of some integers is not zero, for each result.
void find_any(const SimgpuLaunch* launch) {
  // Functor, identity and the bytes of a number come first; addresses are aligned.
  constexpr std::size_t kInputs = 12;
  constexpr std::size_t kOutputs = 16;
  constexpr std::size_t kInputOffsets = 72;
  constexpr std::size_t kOutputOffsets = kInputOffsets + TorchOffsets::bytes(1);
  constexpr std::size_t kSource = kOutputOffsets + TorchOffsets::bytes(2) + 4;
  static_assert(kSource == 984);
  constexpr std::size_t kResult = kSource + sizeof(void*);
  constexpr std::size_t kAccumulates = kSource + 7 * sizeof(void*);
  const auto inputs = torch_argument<std::int32_t>(*launch, 0, kInputs);
  const auto outputs = torch_argument<std::int32_t>(*launch, 0, kOutputs);
  const TorchOffsets of_inputs(*launch, kInputOffsets, 1);
  const TorchOffsets of_outputs(*launch, kOutputOffsets, 2);
  const auto* const source = torch_argument<const unsigned char*>(*launch, 0, kSource);
  auto* const result = torch_argument<unsigned char*>(*launch, 0, kResult);
  const bool accumulates = torch_argument<std::uint8_t>(*launch, 0, kAccumulates) != 0;
  for (std::uint64_t output = 0; output < static_cast<std::uint64_t>(std::max(outputs, 0));
       ++output) {
    const unsigned char* const begin = source + of_outputs.offset(output, 1);
    unsigned char* const there = result + of_outputs.offset(output, 0);
    bool any = accumulates && *there != 0;
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(std::max(inputs, 0)) && !any; ++i) {
      std::int32_t number;
      std::memcpy(&number, begin + of_inputs.offset(i, 0), sizeof(number));
      any = number != 0;
    }
    *there = any ? 1 : 0;
  }
}

/// (count, {first, step}, result): numbers, or the addresses of a batch's matrices.
void number_upwards(const SimgpuLaunch* launch) {
  const auto count = torch_argument<std::int32_t>(*launch, 0);
  const auto* const here = torch_argument<const void*>(*launch, 1);
  const auto first = reinterpret_cast<std::uint64_t>(launch->program_address(launch, here));
  const auto step = torch_argument<std::uint64_t>(*launch, 1, sizeof(std::uint64_t));
  auto* const result = torch_argument<std::uint64_t*>(*launch, 2);
  for (std::int32_t i = 0; i < count; ++i) {
    result[i] = first + step * static_cast<std::uint64_t>(i);
  }
}

/// A kernel whose name has all of these in it, in their order: what lies between is of one build of
/// PyTorch.
struct TorchKernel {
  std::array<std::string_view, 3> parts;
  SimgpuKernel kernel;
};

constexpr std::array kTorchKernels{
    TorchKernel{{"_ZN2at6native27unrolled_elementwise_kernelIZZZNS0_23direct_copy_kernel_cuda",
                 "EUlbE_St5arrayIPcLm2EE", "12LoadWithCastILi1E"},
                {"at::native::direct_copy_kernel_cuda", &convert_to_booleans, 0, nullptr}},
    TorchKernel{
        {"_ZN2at6native13reduce_kernelI", "8ReduceOpIiNS0_14func_wrapper_tIb", "14or_kernel_cuda"},
        {"at::native::or_kernel_cuda", &find_any, 0, nullptr}},
    TorchKernel{{"29elementwise_kernel_with_indexIiZZZN2at6native15arange_cuda_out",
                 "ENKUlvE_clEvENKUlvE2_clEvEUllE_EEvT_T0_P", "result_type"},
                {"at::native::arange_cuda_out", &number_upwards, 0, nullptr}},
};

bool has_parts(std::string_view name, const TorchKernel& kernel) {
  std::size_t at = 0;
  return std::all_of(kernel.parts.begin(), kernel.parts.end(), [&](std::string_view part) {
    const std::size_t found = name.find(part, at);
    at = found + part.size();
    return found != std::string_view::npos;
  });
}

}  // namespace

const SimgpuKernel* torch_kernel(std::string_view name) {
  for (const TorchKernel& known : kTorchKernels) {
    if (has_parts(name, known)) return &known.kernel;
  }
  return nullptr;
}

}  // namespace simgpu
