// What a program lets other devices do, over a driver that gives access to everything.
#include <gtest/gtest.h>

#include <vector>

#include "interposer/allocators/memory_pools.h"
#include "interposer/contexts/peer_contexts.h"
#include "tests/interposer/managed_fixture.h"

namespace superpipe {
namespace {

auto* const kFar = reinterpret_cast<CUcontext>(0x30);
auto* const kPool = reinterpret_cast<CUmemoryPool>(0x4440);
constexpr CUdeviceptr kFarMemory = 0x7700000000;

/// Of cuMemSetAccess: which devices got access, and to what.
struct Opened {
  CUdeviceptr address;
  std::vector<int> devices;
};
std::vector<Opened> opened;
/// The calls that took access away again, for which devices those to pools did, and the calls that
/// copied between contexts.
int closed = 0;
std::vector<int> closed_to;
int peer_copies = 0;
CUdevice current_device = 0;

CUmemAccessDesc access_of(int device, CUmemAccess_flags flags) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = flags;
  return access;
}

/// What the driver says of the context of memory of the other device.
CUcontext context_of_far_memory = nullptr;

/// Of memory of the other device.
CUresult CUDAAPI far_attribute(void* data, CUpointer_attribute attribute, CUdeviceptr) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(data) = context_of_far_memory;
      break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(data) = CU_MEMORYTYPE_DEVICE;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(data) = 1;
      break;
    default:
      *static_cast<unsigned char*>(data) = 0;
      break;
  }
  return CUDA_SUCCESS;
}

class PeerHooksTest : public testing::ManagedFixture {
 protected:
  void SetUp() override {
    ManagedFixture::SetUp();
    opened.clear();
    closed = 0;
    closed_to.clear();
    peer_copies = 0;
    current_device = 0;
    DriverTable& table = driver();
    table.cuCtxGetDevice = [](CUdevice* device) {
      *device = current_device;
      return CUDA_SUCCESS;
    };
    table.cuMemSetAccess = [](CUdeviceptr address, std::size_t, const CUmemAccessDesc* access,
                              std::size_t count) {
      Opened now{address, {}};
      for (std::size_t i = 0; i < count; ++i) now.devices.push_back(access[i].location.id);
      opened.push_back(now);
      return CUDA_SUCCESS;
    };
    table.cuCtxEnablePeerAccess = [](CUcontext, unsigned) { return CUDA_SUCCESS; };
    table.cuCtxDisablePeerAccess = [](CUcontext) {
      ++closed;
      return CUDA_SUCCESS;
    };
    table.cuDeviceGetDefaultMemPool = [](CUmemoryPool* pool, CUdevice) {
      *pool = kPool;
      return CUDA_SUCCESS;
    };
    table.cuMemPoolSetAccess = [](CUmemoryPool, const CUmemAccessDesc* map, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) {
        if (map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) continue;
        ++closed;
        closed_to.push_back(map[i].location.id);
      }
      return CUDA_SUCCESS;
    };
  }
  void TearDown() override {
    // The pools of the process outlive the test.
    const CUmemAccessDesc none[] = {access_of(1, CU_MEM_ACCESS_FLAGS_PROT_NONE),
                                    access_of(2, CU_MEM_ACCESS_FLAGS_PROT_NONE)};
    (void)hook::cuMemPoolSetAccess(kPool, none, 2);
    current_device = 1;
    (void)hook::cuCtxDisablePeerAccess(managed_context());
    current_device = 0;
    ManagedFixture::TearDown();
  }

  static CUcontext managed_context() {
    CUcontext context = nullptr;
    driver().cuCtxGetCurrent(&context);
    return context;
  }
  static CUresult enable_from(int device, CUcontext owner) {
    current_device = device;
    const CUresult result = hook::cuCtxEnablePeerAccess(owner, 0);
    current_device = 0;
    return result;
  }
};

TEST_F(PeerHooksTest, OpensBuffersToThePeerThoseThatComeLaterToo) {
  EXPECT_EQ(enable_from(1, managed_context()), CUDA_SUCCESS);
  ASSERT_EQ(opened.size(), 2U);
  EXPECT_EQ(opened[0].address, buffer_);
  EXPECT_EQ(opened[0].devices, (std::vector<int>{0, 1}));
  EXPECT_EQ(opened[1].address, other_);
  opened.clear();
  const CUdeviceptr later = allocate();
  ASSERT_FALSE(opened.empty());
  EXPECT_EQ(opened.back().address, later);
  EXPECT_EQ(opened.back().devices, (std::vector<int>{0, 1}));
}

TEST_F(PeerHooksTest, OpensNothingForAccessToAnotherContext) {
  EXPECT_EQ(enable_from(0, kFar), CUDA_SUCCESS);
  EXPECT_TRUE(opened.empty());
  driver().cuCtxEnablePeerAccess = [](CUcontext, unsigned) {
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  };
  EXPECT_EQ(enable_from(1, managed_context()), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  EXPECT_TRUE(opened.empty());
}

TEST_F(PeerHooksTest, TakesAccessBackThatBuffersCannotHave) {
  driver().cuMemSetAccess = [](CUdeviceptr, std::size_t, const CUmemAccessDesc*, std::size_t) {
    return CUDA_ERROR_NOT_SUPPORTED;
  };
  EXPECT_EQ(enable_from(1, managed_context()), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  EXPECT_EQ(closed, 1);
  const CUmemAccessDesc access = access_of(1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT_EQ(hook::cuMemPoolSetAccess(kPool, &access, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(closed, 2);
  EXPECT_FALSE(ContextRegistry::managed()->is_open_to(1));
}

TEST_F(PeerHooksTest, OpensBuffersWithAPoolOfTheirDevice) {
  auto* const elsewhere = reinterpret_cast<CUmemoryPool>(0x4450);
  const CUmemAccessDesc access = access_of(1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT_EQ(hook::cuMemPoolSetAccess(elsewhere, &access, 1), CUDA_SUCCESS);
  EXPECT_TRUE(opened.empty()) << "another device's default pool";
  EXPECT_EQ(hook::cuMemPoolSetAccess(kPool, &access, 1), CUDA_SUCCESS);
  ASSERT_EQ(opened.size(), 2U);
  EXPECT_EQ(opened[1].devices, (std::vector<int>{0, 1}));
}

// Device 1 was let in before; device 2, which the driver does not let in, is named together with
// it.
TEST_F(PeerHooksTest, ARefusedGrantOnAPoolKeepsWhatWasGrantedBefore) {
  const CUmemAccessDesc both[] = {access_of(1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
                                  access_of(2, CU_MEM_ACCESS_FLAGS_PROT_READWRITE)};
  ASSERT_EQ(hook::cuMemPoolSetAccess(kPool, both, 1), CUDA_SUCCESS);
  driver().cuMemSetAccess = [](CUdeviceptr, std::size_t, const CUmemAccessDesc* access,
                               std::size_t count) {
    return access[count - 1].location.id == 2 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
  };
  EXPECT_EQ(hook::cuMemPoolSetAccess(kPool, both, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(closed_to, std::vector<int>{2});
  EXPECT_EQ(memory_pools().at(kPool)->peers(), mask_of(1));
  EXPECT_TRUE(ContextRegistry::managed()->is_open_to(1));
  EXPECT_FALSE(ContextRegistry::managed()->is_open_to(2));
}

TEST_F(PeerHooksTest, OpensTheNextManagedContextFromItsFirstBufferOn) {
  EXPECT_EQ(enable_from(1, managed_context()), CUDA_SUCCESS);
  ContextRegistry::of_process().on_destroying(managed_context());
  opened.clear();
  const CUdeviceptr first = allocate();
  ASSERT_FALSE(opened.empty());
  EXPECT_EQ(opened.back().address, first);
  EXPECT_EQ(opened.back().devices, (std::vector<int>{0, 1}));
}

TEST_F(PeerHooksTest, NamesTheContextsOfACopyToADeviceThatBuffersAreClosedTo) {
  DriverTable& table = driver();
  context_of_far_memory = kFar;
  table.cuPointerGetAttribute = far_attribute;
  table.cuMemcpyDtoD_v2 = [](CUdeviceptr, CUdeviceptr, std::size_t) { return CUDA_SUCCESS; };
  table.cuMemcpyPeerAsync = [](CUdeviceptr, CUcontext to, CUdeviceptr, CUcontext from, std::size_t,
                               CUstream stream) {
    EXPECT_EQ(to, kFar);
    EXPECT_EQ(from, managed_context());
    EXPECT_EQ(stream, CU_STREAM_LEGACY);
    ++peer_copies;
    return CUDA_SUCCESS;
  };
  EXPECT_EQ(hook::cuMemcpyDtoD_v2(kFarMemory, buffer_, kBytes), CUDA_SUCCESS);
  EXPECT_EQ(peer_copies, 0) << "there is one context";
  ContextCount::add();
  ContextCount::add();
  EXPECT_EQ(hook::cuMemcpyDtoD_v2(kFarMemory, buffer_, kBytes), CUDA_SUCCESS);
  EXPECT_EQ(peer_copies, 1);
  EXPECT_EQ(hook::cuMemcpyDtoD_v2(other_, buffer_, kBytes), CUDA_SUCCESS);
  EXPECT_EQ(peer_copies, 1) << "both are buffers";
  EXPECT_EQ(enable_from(1, managed_context()), CUDA_SUCCESS);
  EXPECT_EQ(hook::cuMemcpyDtoD_v2(kFarMemory, buffer_, kBytes), CUDA_SUCCESS);
  EXPECT_EQ(peer_copies, 1) << "the other device may access the buffer";
  ContextCount::remove();
  ContextCount::remove();
}

// The driver tells of no context for what came from a pool.
TEST_F(PeerHooksTest, NamesThePrimaryContextOfADeviceForMemoryOfItsPools) {
  DriverTable& table = driver();
  context_of_far_memory = nullptr;
  table.cuPointerGetAttribute = far_attribute;
  table.cuDevicePrimaryCtxGetState = [](CUdevice device, unsigned* flags, int* active) {
    *flags = 0;
    *active = device == 1 ? 1 : 0;
    return CUDA_SUCCESS;
  };
  table.cuDevicePrimaryCtxRetain = [](CUcontext* context, CUdevice) {
    *context = kFar;
    return CUDA_SUCCESS;
  };
  table.cuDevicePrimaryCtxRelease_v2 = [](CUdevice) { return CUDA_SUCCESS; };
  table.cuMemcpyPeerAsync = [](CUdeviceptr, CUcontext to, CUdeviceptr, CUcontext from, std::size_t,
                               CUstream) {
    EXPECT_EQ(to, kFar);
    EXPECT_EQ(from, managed_context());
    ++peer_copies;
    return CUDA_SUCCESS;
  };
  ContextCount::add();
  ContextCount::add();
  const int before = peer_copies;
  EXPECT_EQ(hook::cuMemcpyDtoD_v2(kFarMemory, buffer_, kBytes), CUDA_SUCCESS);
  EXPECT_EQ(peer_copies, before + 1);
  ContextCount::remove();
  ContextCount::remove();
}

}  // namespace
}  // namespace superpipe
