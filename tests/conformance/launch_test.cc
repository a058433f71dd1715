// Launches: parameters and their layout, kernels and functions.

#include <cstddef>
#include <cstring>

#include "tests/conformance/fixture.h"
#include "tests/conformance/kernels.h"

namespace conformance {
namespace {

using Launch = ConformanceTest;

constexpr uint32_t kElements = 100;

// A kernel of the suite through the library interface; the library stays loaded.
CUkernel kernel(const char* name) {
  static CUlibrary library = [] {
    CUlibrary loaded = nullptr;
    CU_EXPECT(CUDA_SUCCESS, cu().cuLibraryLoadData(&loaded, fat_binary(), nullptr, nullptr, 0,
                                                   nullptr, nullptr, 0));
    return loaded;
  }();
  CUkernel found = nullptr;
  CU_EXPECT(CUDA_SUCCESS, cu().cuLibraryGetKernel(&found, library, name));
  return found;
}

struct Parameter {
  size_t offset;
  size_t size;
  bool operator==(const Parameter& other) const {
    return offset == other.offset && size == other.size;
  }
};

// As the compiler lays out (Operands, unsigned, unsigned short).
const std::vector<Parameter> kCombineParameters = {
    {0, sizeof(Operands)}, {sizeof(Operands), 4}, {sizeof(Operands) + 4, 2}};

TEST_F(Launch, HasAParameterLayoutThatEndsWithInvalidValue) {
  std::vector<Parameter> parameters;
  CUresult result = CUDA_SUCCESS;
  for (size_t index = 0; result == CUDA_SUCCESS && index < 10; ++index) {
    Parameter parameter{};
    result =
        cu().cuFuncGetParamInfo(function("combine"), index, &parameter.offset, &parameter.size);
    if (result == CUDA_ERROR_NOT_SUPPORTED) GTEST_SKIP() << "the driver has no cuFuncGetParamInfo";
    if (result == CUDA_SUCCESS) parameters.push_back(parameter);
  }
  EXPECT_EQ(result, CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(parameters == kCombineParameters);
}

TEST_F(Launch, HasTheSameParameterLayoutForAKernel) {
  std::vector<Parameter> parameters;
  CUresult result = CUDA_SUCCESS;
  for (size_t index = 0; result == CUDA_SUCCESS && index < 10; ++index) {
    Parameter parameter{};
    result =
        cu().cuKernelGetParamInfo(kernel("combine"), index, &parameter.offset, &parameter.size);
    if (result == CUDA_ERROR_NOT_SUPPORTED) GTEST_SKIP() << "no cuKernelGetParamInfo";
    if (result == CUDA_SUCCESS) parameters.push_back(parameter);
  }
  EXPECT_EQ(result, CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(parameters == kCombineParameters);
}

// Launches `combine` of whatever form over fresh buffers and checks what it computed.
template <typename Body>
void expect_combined(Body&& body) {
  const Buffer in(kElements);
  const Buffer out(kElements);
  CU_ASSERT(cu().cuMemsetD32(in.address(), 7, kElements));
  CU_ASSERT(cu().cuMemsetD32(out.address(), 0, kElements));
  CU_ASSERT(cu().cuCtxSynchronize());
  Operands operands{3, reinterpret_cast<const unsigned*>(in.address()), 'x',
                    reinterpret_cast<unsigned*>(out.address())};
  unsigned addend = 5;
  unsigned short count = kElements;
  body(operands, addend, count);
  CU_ASSERT(cu().cuCtxSynchronize());
  EXPECT_EQ(word_at(out.address()), 26U);
  EXPECT_EQ(word_at(out.address() + 4 * (kElements - 1)), 26U);
}

TEST_F(Launch, PassesStructsByValueAndAcceptsAFunction) {
  expect_combined([](Operands& operands, unsigned& addend, unsigned short& count) {
    void* arguments[] = {&operands, &addend, &count};
    CU_ASSERT(
        cu().cuLaunchKernel(function("combine"), 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
  });
}

TEST_F(Launch, MayFindItsFunctionLoadedBefore) {
  expect_combined([](Operands& operands, unsigned& addend, unsigned short& count) {
    CUfunction of_kernel = nullptr;
    CU_ASSERT(cu().cuKernelGetFunction(&of_kernel, kernel("combine")));
    for (const CUfunction loaded : {of_kernel, function("combine"), of_kernel}) {
      CU_ASSERT(cu().cuFuncLoad(loaded));
    }
    void* arguments[] = {&operands, &addend, &count};
    CU_ASSERT(cu().cuLaunchKernel(of_kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
  });
}

TEST_F(Launch, AcceptsAKernelWhereItWantsAFunction) {
  expect_combined([](Operands& operands, unsigned& addend, unsigned short& count) {
    void* arguments[] = {&operands, &addend, &count};
    CU_ASSERT(cu().cuLaunchKernel(reinterpret_cast<CUfunction>(kernel("combine")), 1, 1, 1, 1, 1, 1,
                                  0, nullptr, arguments, nullptr));
  });
}

TEST_F(Launch, AcceptsParametersAsOneBuffer) {
  expect_combined([](Operands& operands, unsigned& addend, unsigned short& count) {
    unsigned char packed[sizeof(Operands) + 6];
    std::memcpy(packed, &operands, sizeof(operands));
    std::memcpy(packed + sizeof(operands), &addend, sizeof(addend));
    std::memcpy(packed + sizeof(operands) + 4, &count, sizeof(count));
    size_t size = sizeof(packed);
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    CU_ASSERT(
        cu().cuLaunchKernel(function("combine"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
  });
}

TEST_F(Launch, AcceptsAConfigurationWithAttributes) {
  expect_combined([](Operands& operands, unsigned& addend, unsigned short& count) {
    void* arguments[] = {&operands, &addend, &count};
    CUlaunchConfig config{};
    config.gridDimX = config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    CU_ASSERT(cu().cuLaunchKernelEx(&config, function("combine"), arguments, nullptr));
  });
}

TEST_F(Launch, ReadsItsParametersDuringTheCall) {
  const Buffer busy(kElements);
  expect_combined([&busy](Operands& operands, unsigned& addend, unsigned short& count) {
    void* arguments[] = {&operands, &addend, &count};
    CU_ASSERT(fill(nullptr, busy.address(), 1, 16, long_time()));
    CU_ASSERT(
        cu().cuLaunchKernel(function("combine"), 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
    addend = 1000;
    operands.factor = 1000;
  });
}

TEST_F(Launch, ReturnsBeforeTheKernelHasRun) {
  const Buffer busy(kElements);
  const Stream stream;
  CU_ASSERT(fill(stream.get(), busy.address(), 1, 16, long_time()));
  CU_EXPECT(CUDA_ERROR_NOT_READY, cu().cuStreamQuery(stream.get()));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
}

TEST_F(Launch, IsRefusedForAnImpossibleBlock) {
  const Buffer busy(kElements);
  CUdeviceptr out = busy.address();
  unsigned value = 1;
  unsigned count = 1;
  unsigned long long delay = 0;
  void* arguments[] = {&out, &value, &count, &delay};
  CU_EXPECT(CUDA_ERROR_INVALID_VALUE, cu().cuLaunchKernel(function("fill_after"), 1, 1, 1, 4096, 1,
                                                          1, 0, nullptr, arguments, nullptr));
}

}  // namespace
}  // namespace conformance
