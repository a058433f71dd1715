// Memory that a program means to share with other processes.
#include <gtest/gtest.h>

#include "tests/interposer/managed_fixture.h"

namespace superpipe {
namespace {

class IpcHooksTest : public testing::BudgetFixture {};

TEST_F(IpcHooksTest, RefusesBuffersAsADriverRefusesMappedMemoryAndPinsNone) {
  DriverTable& table = driver();
  table.cuIpcGetMemHandle = [](CUipcMemHandle*, CUdeviceptr) {
    ADD_FAILURE() << "the driver was asked";
    return CUDA_SUCCESS;
  };
  table.cuMemPoolExportPointer = [](CUmemPoolPtrExportData*, CUdeviceptr) {
    ADD_FAILURE() << "the driver was asked";
    return CUDA_SUCCESS;
  };
  CUipcMemHandle handle{};
  handle.reserved[0] = 7;
  EXPECT_EQ(hook::cuIpcGetMemHandle(&handle, buffer_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(handle.reserved[0], 7);
  CUmemPoolPtrExportData data{};
  EXPECT_EQ(hook::cuMemPoolExportPointer(&data, buffer_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(ContextRegistry::managed()->residency().stats().pinned_buffers, 0U);
}

TEST_F(IpcHooksTest, LeavesOtherMemoryToTheDriver) {
  driver().cuIpcGetMemHandle = [](CUipcMemHandle* handle, CUdeviceptr) {
    handle->reserved[0] = 9;
    return CUDA_SUCCESS;
  };
  CUipcMemHandle handle{};
  EXPECT_EQ(hook::cuIpcGetMemHandle(&handle, 0x7700000000), CUDA_SUCCESS);
  EXPECT_EQ(handle.reserved[0], 9);
}

}  // namespace
}  // namespace superpipe
