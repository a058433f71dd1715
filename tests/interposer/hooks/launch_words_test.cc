#include "interposer/hooks/launch_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "interposer/hooks/named_words.h"
#include "tests/interposer/managed_fixture.h"

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// What add_launch_words() adds, and the layout by which it reads.
struct Added {
  const KernelLayout* layout = nullptr;
  std::vector<std::uint64_t> words;
};

Added add(CUfunction function, void* const* parameters, void* const* extra) {
  WordList words;
  ManagedContext& managed = *ContextRegistry::managed();
  const KernelLayout* const layout = managed.layouts().learn(function);
  (void)add_launch_words(managed, layout, parameters, extra, {1, 1}, words);
  return {layout, {words.words().begin(), words.words().end()}};
}

/// A launch's `extra` that hands two pointers over.
struct Packed {
  Packed(CUdeviceptr first, CUdeviceptr second) : pointers{first, second} {}
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;

  CUdeviceptr pointers[2];
  std::size_t size = sizeof pointers;
  void* extra[5] = {CU_LAUNCH_PARAM_BUFFER_POINTER, pointers, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                    CU_LAUNCH_PARAM_END};
};

using AddLaunchWordsTest = testing::ManagedFixture;

TEST_F(AddLaunchWordsTest, KeepsTheParametersThatAreInTheArena) {
  CUdeviceptr first = 0x1234;
  CUdeviceptr second = other_ + 8;
  void* parameters[] = {&first, &second};
  const Added added = add(testing::null_kernel(1), parameters, nullptr);
  EXPECT_THAT(added.words, ElementsAre(other_ + 8));
  EXPECT_EQ(added.layout, ContextRegistry::managed()->layouts().find(testing::null_kernel(1)));
}

// A struct of PyTorch's may have old pointers in it: its words come last.
TEST_F(AddLaunchWordsTest, TellsWhichWordsOnlyStructsOfPyTorchsHave) {
  driver().cuFuncGetName = [](const char** name, CUfunction function) {
    *name = function == testing::null_kernel(5) ? "_ZN2at6native6kernelE" : "eigen";
    return CUDA_SUCCESS;
  };
  driver().cuFuncGetParamInfo = [](CUfunction, std::size_t index, std::size_t* offset,
                                   std::size_t* size) {
    *offset = 24 * index;
    *size = index == 0 ? 24 : 8;
    return index < 2 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  };
  std::array<CUdeviceptr, 3> members{other_, 0, other_ + 16};
  CUdeviceptr second = buffer_;
  void* parameters[] = {members.data(), &second};
  ManagedContext& managed = *ContextRegistry::managed();
  const auto certain_of = [&](CUfunction function, WordList& words) {
    const KernelLayout* const layout = managed.layouts().learn(function);
    EXPECT_NE(layout, nullptr);
    return add_launch_words(managed, layout, parameters, nullptr, {1, 1}, words);
  };
  WordList words;
  EXPECT_EQ(certain_of(testing::null_kernel(5), words), 1U);
  EXPECT_THAT(words.words(), ElementsAre(buffer_, other_, other_ + 16));
  WordList others;
  EXPECT_EQ(certain_of(testing::null_kernel(6), others), 3U);
  EXPECT_THAT(others.words(), ElementsAre(other_, other_ + 16, buffer_));
}

TEST_F(AddLaunchWordsTest, KeepsTheWordsOfAnArgumentBuffer) {
  const Packed packed(buffer_, 0x1234);
  EXPECT_THAT(add(testing::null_kernel(1), nullptr, packed.extra).words, ElementsAre(buffer_));
}

// Where the parameters begin is no multiple of a map's alignment on every device.
TEST_F(AddLaunchWordsTest, FindsTensorMapsAnywhereInAnArgumentBuffer) {
  std::array<std::uint64_t, TensorMaps::kBytes / 8> map{};
  map.fill(0x1234);
  ASSERT_TRUE(ContextRegistry::managed()->tensor_maps().remember(map.data(), buffer_ + 16));
  std::array<char, 112 + sizeof map> bytes{};
  std::memcpy(bytes.data() + 112, map.data(), sizeof map);
  std::size_t size = bytes.size();
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, bytes.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  EXPECT_THAT(add(testing::null_kernel(1), nullptr, extra).words, ElementsAre(buffer_ + 16));
}

TEST_F(AddLaunchWordsTest, AddsNothingForALaunchWithoutArguments) {
  EXPECT_THAT(add(testing::null_kernel(1), nullptr, nullptr).words, IsEmpty());
}

// A node of a graph is made with it, and what the graph uses has to stay resident.
TEST_F(AddLaunchWordsTest, ReadsTheArgumentBufferOfAFunctionThatTheDriverDoesNotKnow) {
  driver().cuFuncGetParamInfo = [](CUfunction, std::size_t, std::size_t*, std::size_t*) {
    return CUDA_ERROR_INVALID_HANDLE;
  };
  driver().cuKernelGetParamInfo = [](CUkernel, std::size_t, std::size_t*, std::size_t*) {
    return CUDA_ERROR_INVALID_HANDLE;
  };
  CUdeviceptr first = buffer_;
  void* parameters[] = {&first, &first, nullptr};
  const Packed packed(buffer_, other_);
  const Added from_buffer = add(testing::null_kernel(9), nullptr, packed.extra);
  const Added from_parameters = add(testing::null_kernel(9), parameters, nullptr);
  EXPECT_EQ(from_buffer.layout, nullptr);
  EXPECT_THAT(from_buffer.words, ElementsAre(buffer_, other_));
  EXPECT_EQ(from_parameters.layout, nullptr);
  EXPECT_THAT(from_parameters.words, ::testing::Contains(buffer_)) << "as far as they can be read";
}

using FirstUseTest = testing::BudgetFixture;

TEST_F(FirstUseTest, HasTheDeviceLookedAtWhenAGraphNodeIsWhatUsesAFunctionFirst) {
  driver().cuFuncGetParamInfo = [](CUfunction, std::size_t, std::size_t*, std::size_t*) {
    testing::change_device_usage(2 << 20);  // for the kernel's code
    return CUDA_ERROR_INVALID_VALUE;
  };
  CUdeviceptr first = buffer_;
  CUdeviceptr second = other_;
  void* parameters[] = {&first, &second};
  CUDA_KERNEL_NODE_PARAMS_v2 node{};
  node.func = testing::null_kernel(1);
  node.kernelParams = parameters;
  NamedWords named;
  named.add(&node);
  wait_for_passthrough(2_MiB);
  testing::change_device_usage(-(2 << 20));
}

}  // namespace
}  // namespace superpipe
