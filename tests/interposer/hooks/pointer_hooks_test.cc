// What a program can ask about an address in a managed buffer.
#include <gtest/gtest.h>

#include <array>

#include "tests/interposer/managed_fixture.h"

namespace superpipe {
namespace {

class PointerHooksTest : public testing::ManagedFixture {
 protected:
  void SetUp() override {
    ManagedFixture::SetUp();
    driver().cuPointerGetAttribute = [](void*, CUpointer_attribute, CUdeviceptr) {
      return CUDA_ERROR_INVALID_CONTEXT;  // only the driver says this
    };
    driver().cuMemGetAddressRange_v2 = [](CUdeviceptr*, std::size_t*, CUdeviceptr) {
      return CUDA_ERROR_INVALID_CONTEXT;
    };
  }
  template <typename T>
  static T attribute(CUpointer_attribute which, CUdeviceptr address) {
    T value{};
    EXPECT_EQ(hook::cuPointerGetAttribute(&value, which, address), CUDA_SUCCESS);
    return value;
  }
};

TEST_F(PointerHooksTest, TellsTheBufferAroundAnAddress) {
  CUdeviceptr base = 0;
  std::size_t size = 0;
  ASSERT_EQ(hook::cuMemGetAddressRange_v2(&base, &size, buffer_ + 100), CUDA_SUCCESS);
  EXPECT_EQ(base, buffer_);
  EXPECT_EQ(size, kBytes);
  EXPECT_EQ(hook::cuMemGetAddressRange_v2(nullptr, nullptr, buffer_), CUDA_SUCCESS);
}

TEST_F(PointerHooksTest, LeavesOtherAddressesToTheDriver) {
  CUdeviceptr base = 0;
  EXPECT_EQ(hook::cuMemGetAddressRange_v2(&base, nullptr, 0x1000), CUDA_ERROR_INVALID_CONTEXT);
  unsigned int type = 0;
  EXPECT_EQ(hook::cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0x1000),
            CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(PointerHooksTest, KnowsNoRangeOfABufferThatWasFreed) {
  ASSERT_EQ(hook::cuMemFree_v2(buffer_), CUDA_SUCCESS);
  CUdeviceptr base = 0;
  EXPECT_EQ(hook::cuMemGetAddressRange_v2(&base, nullptr, buffer_), CUDA_ERROR_NOT_FOUND);
}

TEST_F(PointerHooksTest, AnswersAsForAnOrdinaryAllocation) {
  const CUdeviceptr inside = buffer_ + 8;
  EXPECT_EQ(attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, inside),
            static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
  EXPECT_EQ(attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, inside), inside);
  EXPECT_EQ(attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, inside), buffer_);
  EXPECT_EQ(attribute<std::size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, inside), kBytes);
  EXPECT_EQ(attribute<unsigned char>(CU_POINTER_ATTRIBUTE_IS_MANAGED, inside), 0);
  EXPECT_EQ(attribute<unsigned char>(CU_POINTER_ATTRIBUTE_MAPPED, inside), 1);
  EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, inside), 0);
  EXPECT_EQ(attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, inside),
            ContextRegistry::managed()->context());
  void* host = nullptr;
  EXPECT_EQ(hook::cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, inside),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(PointerHooksTest, GivesEachBufferAnIdOfItsOwn) {
  EXPECT_NE(attribute<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, buffer_),
            attribute<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, other_));
  EXPECT_EQ(attribute<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, buffer_ + 64),
            attribute<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, buffer_));
}

TEST_F(PointerHooksTest, ClearsTheAttributesThatABufferLacks) {
  std::array<CUpointer_attribute, 2> which{CU_POINTER_ATTRIBUTE_HOST_POINTER,
                                           CU_POINTER_ATTRIBUTE_RANGE_START_ADDR};
  void* host = this;
  CUdeviceptr start = 0;
  std::array<void*, 2> values{static_cast<void*>(&host), &start};
  ASSERT_EQ(hook::cuPointerGetAttributes(2, which.data(), values.data(), buffer_), CUDA_SUCCESS);
  EXPECT_EQ(host, nullptr);
  EXPECT_EQ(start, buffer_);
}

TEST_F(PointerHooksTest, WritesNothingWhenAPlaceForAValueIsMissing) {
  std::array<CUpointer_attribute, 2> which{CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                           CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  CUdeviceptr start = 7;
  std::array<void*, 2> values{static_cast<void*>(&start), nullptr};
  EXPECT_EQ(hook::cuPointerGetAttributes(2, which.data(), values.data(), buffer_),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(start, 7U);
}

TEST_F(PointerHooksTest, TakesNoAttributeButSynchronousOperations) {
  const unsigned int on = 1;
  EXPECT_EQ(hook::cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, buffer_),
            CUDA_SUCCESS);
  EXPECT_EQ(hook::cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_MAPPED, buffer_),
            CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace superpipe
