// Kernels of PyTorch that simgpu computes: each on memory of the host.
#include "tools/simgpu/driver/code/torch_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/simgpu/driver/code/host_launch.h"

namespace simgpu {
namespace {

using ::testing::ElementsAre;
using ::testing::IsNull;

const std::string kToBoolean =
    "_ZN2at6native27unrolled_elementwise_kernelIZZZNS0_23direct_copy_kernel_cudaERNS_"
    "18TensorIteratorBaseEENKUlvE1_clEvENKUlvE9_clEvEUlbE_St5arrayIPcLm2EELi4E23"
    "TrivialOffsetCalculatorILi1EjESB_NS0_6memory12LoadWithCastILi1EEENSC_"
    "13StoreWithCastILi1EEEEEvi"
    "T_T0_T2_T3_T4_T5_";
const std::string kAny =
    "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIiNS0_14func_wrapper_tIbZZZNS0_"
    "14or_kernel_cudaERNS_14TensorIteratorEENKUlvE_clEvENKUlvE1_clEvEUliiE_EEjbLi4ELi4EEEEEvT1_";
const std::string kArange =
    "_ZN50_GLOBAL__N__fa15d16e_17_RangeFactories_cu_38772b0829elementwise_kernel_with_"
    "indexIiZZZN2at"
    "6native15arange_cuda_outERKN3c106ScalarES6_S6_RNS1_6TensorEENKUlvE_clEvENKUlvE2_clEvEUllE_"
    "EEvT_"
    "T0_PN15function_traitsISD_E11result_typeE";

/// Runs the kernel with these parameters.
template <typename... Parameters>
void run_torch_kernel(const std::string& name, Parameters... parameters) {
  run_on_host(torch_kernel(name), name, parameters...);
}

/// What the conversion makes of numbers of that c10::ScalarType.
template <typename Number>
std::vector<int> to_booleans(const std::vector<Number>& numbers, std::int8_t type) {
  struct Loader {
    std::int8_t type;
    std::uint32_t bytes;
  };
  std::vector<unsigned char> result(numbers.size() + 1, 9);
  const std::array<const void*, 2> tensors{result.data(), numbers.data()};
  run_torch_kernel(kToBoolean, static_cast<std::int32_t>(numbers.size()), char{}, tensors, char{},
                   char{}, Loader{type, sizeof(Number)}, Loader{11, 1});
  return {result.begin(), result.end()};
}

TEST(TorchKernel, ConvertsNumbersToBooleans) {
  EXPECT_THAT(to_booleans<std::int32_t>({0, 256, -1}, 3), ElementsAre(0, 1, 1, 9));
  EXPECT_THAT(to_booleans<std::int64_t>({0, std::int64_t{1} << 40}, 4), ElementsAre(0, 1, 9));
  EXPECT_THAT(to_booleans<std::int8_t>({0, -128}, 1), ElementsAre(0, 1, 9));
  EXPECT_THAT(to_booleans<float>({0.0F, -0.0F, 1e-40F}, 6), ElementsAre(0, 0, 1, 9));
}

/// PyTorch's ReduceOp, as far as its kernel is computed: one reduced dimension, and another.
class Reduction {
 public:
  Reduction(std::int32_t inputs, std::uint32_t input_apart, std::int32_t outputs,
            std::uint32_t output_apart) {
    put(12, inputs);
    put(16, outputs);
    put(72, 1);
    put(76, inputs);
    put(376, static_cast<std::int32_t>(input_apart));
    put(476, 1);
    put(480, outputs);
    put(780, 1);
    put(784, static_cast<std::int32_t>(output_apart));
  }
  std::vector<int> run(const std::vector<std::int32_t>& numbers, bool accumulates = false) {
    std::vector<unsigned char> result(3, 9);
    if (accumulates) result[0] = 1;
    const void* const source = numbers.data();
    void* const target = result.data();
    std::memcpy(bytes_.data() + 984, &source, sizeof(source));
    std::memcpy(bytes_.data() + 992, &target, sizeof(target));
    bytes_[1040] = accumulates ? 1 : 0;
    run_torch_kernel(kAny, bytes_);
    return {result.begin(), result.end()};
  }

 private:
  void put(std::size_t at, std::int32_t value) {
    std::memcpy(bytes_.data() + at, &value, sizeof(value));
  }

  std::array<char, 1048> bytes_{};
};

TEST(TorchKernel, FindsWhetherAnyNumberIsNotZero) {
  EXPECT_THAT(Reduction(3, 4, 1, 0).run({0, 0, 0, 5}), ElementsAre(0, 9, 9));
  EXPECT_THAT(Reduction(3, 4, 1, 0).run({0, 0, 256, 0}), ElementsAre(1, 9, 9));
  EXPECT_THAT(Reduction(2, 8, 1, 0).run({0, 7, 0, 7}), ElementsAre(0, 9, 9)) << "every other one";
  EXPECT_THAT(Reduction(2, 4, 2, 8).run({0, 0, 0, 7}), ElementsAre(0, 1, 9)) << "of two rows";
  EXPECT_THAT(Reduction(2, 4, 1, 0).run({0, 0}, true), ElementsAre(1, 9, 9));
}

TEST(TorchKernel, NumbersUpwards) {
  std::vector<std::int64_t> result(4, -1);
  run_torch_kernel(kArange, std::int32_t{3}, std::array<std::int64_t, 2>{100, -7}, result.data());
  EXPECT_THAT(result, ElementsAre(100, 93, 86, -1));
  run_torch_kernel(kArange, std::int32_t{2}, std::array<std::int64_t, 2>{1000, 8}, result.data());
  EXPECT_THAT(result, ElementsAre(9000, 9008, 86, -1)) << "the addresses of matrices";
}

TEST(TorchKernel, IsNoneOfOtherTypes) {
  std::string of_floats = kArange;
  of_floats.replace(of_floats.find("UlvE2_"), 6, "UlvE4_");
  EXPECT_THAT(torch_kernel(of_floats), IsNull());
  std::string to_float = kToBoolean;
  to_float.replace(to_float.find("EUlbE_"), 6, "EUlfE_");
  EXPECT_THAT(torch_kernel(to_float), IsNull());
  EXPECT_THAT(torch_kernel("_Z6kernelPv"), IsNull());
}

}  // namespace
}  // namespace simgpu
