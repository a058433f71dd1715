// What one device may do with another's memory. Each question is asked by a child process, which on
// simgpu has two devices.

#include <optional>

#include "tests/conformance/fixture.h"

namespace conformance {
namespace {

using Peers = ConformanceTest;

/// Device 0, whose context is current, and device 1, which reads what the first has.
struct TwoDevices {
  CUcontext first = nullptr;
  CUcontext second = nullptr;
  CUfunction copy_words = nullptr;  ///< of the second
  CUdeviceptr word = 0;             ///< memory of the second
};

std::optional<TwoDevices> two_devices() {
  TwoDevices devices;
  CUmodule module = nullptr;
  int count = 0;
  int reaches = 0;
  if (cu().cuDeviceGetCount(&count) != CUDA_SUCCESS || count < 2 ||
      cu().cuDeviceCanAccessPeer(&reaches, 1, 0) != CUDA_SUCCESS || reaches == 0 ||
      cu().cuCtxGetCurrent(&devices.first) != CUDA_SUCCESS ||
      cu().cuDevicePrimaryCtxRetain(&devices.second, 1) != CUDA_SUCCESS ||
      cu().cuCtxSetCurrent(devices.second) != CUDA_SUCCESS ||
      cu().cuModuleLoadData(&module, fat_binary()) != CUDA_SUCCESS ||
      cu().cuModuleGetFunction(&devices.copy_words, module, "copy_words") != CUDA_SUCCESS ||
      cu().cuMemAlloc(&devices.word, sizeof(uint32_t)) != CUDA_SUCCESS ||
      cu().cuCtxSetCurrent(devices.first) != CUDA_SUCCESS) {
    return std::nullopt;
  }
  return devices;
}

/// The word at `address` as a kernel of device 1 reads it; nullopt if it fails.
std::optional<uint32_t> word_for_second(const TwoDevices& devices, CUdeviceptr address) {
  CUdeviceptr out = devices.word;
  uint32_t count = 1;
  uint32_t word = 0;
  void* arguments[] = {&out, &address, &count};
  const bool is_read = cu().cuCtxSetCurrent(devices.second) == CUDA_SUCCESS &&
                       cu().cuLaunchKernel(devices.copy_words, 1, 1, 1, 1, 1, 1, 0, nullptr,
                                           arguments, nullptr) == CUDA_SUCCESS &&
                       cu().cuMemcpyDtoH(&word, out, sizeof(word)) == CUDA_SUCCESS &&
                       cu().cuCtxSetCurrent(devices.first) == CUDA_SUCCESS;
  if (!is_read) return std::nullopt;
  return word;
}

/// Writes a word, and has it be there.
CUresult write(CUdeviceptr address, uint32_t word) {
  const CUresult result = cu().cuMemcpyHtoD(address, &word, sizeof(word));
  return result == CUDA_SUCCESS ? cu().cuCtxSynchronize() : result;
}

CUmemAccessDesc access_of(int device, CUmemAccess_flags flags) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = flags;
  return access;
}

/// A page of device 0 at an address, which nobody may access; 0 if there is none.
CUdeviceptr mapped_page() {
  const CUmemAllocationProp properties = device_pages();
  CUmemGenericAllocationHandle page = 0;
  CUdeviceptr address = 0;
  const bool is_mapped = cu().cuMemCreate(&page, kGranule, &properties, 0) == CUDA_SUCCESS &&
                         cu().cuMemAddressReserve(&address, kGranule, 0, 0, 0) == CUDA_SUCCESS &&
                         cu().cuMemMap(address, kGranule, 0, page, 0) == CUDA_SUCCESS;
  return is_mapped ? address : 0;
}

void ask(const char* scenario) {
  const int code = run_in_child(scenario, {"SIMGPU_DEVICES=2"});
  if (code == kUnsupported) GTEST_SKIP() << "needs a second device that reaches the first";
  EXPECT_EQ(code, kAsClaimed);
}

int enabled_peer() {
  const auto devices = two_devices();
  if (!devices) return kUnsupported;
  CUdeviceptr memory = 0;
  if (cu().cuMemAlloc(&memory, kGranule) != CUDA_SUCCESS) return kSetUpFailed;
  if (write(memory, 21) != CUDA_SUCCESS) return kSetUpFailed;
  if (cu().cuCtxSetCurrent(devices->second) != CUDA_SUCCESS) return kSetUpFailed;
  const CUresult enabled = cu().cuCtxEnablePeerAccess(devices->first, 0);
  const CUresult again = cu().cuCtxEnablePeerAccess(devices->first, 0);
  if (enabled != CUDA_SUCCESS || again != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) {
    return kNotAsClaimed;
  }
  if (word_for_second(*devices, memory) != 21U) return kNotAsClaimed;
  if (cu().cuCtxSetCurrent(devices->second) != CUDA_SUCCESS) return kSetUpFailed;
  const CUresult disabled = cu().cuCtxDisablePeerAccess(devices->first);
  const CUresult once_more = cu().cuCtxDisablePeerAccess(devices->first);
  return disabled == CUDA_SUCCESS && once_more == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED
             ? kAsClaimed
             : kNotAsClaimed;
}
const ScenarioRegistration kEnabledPeer("enabled_peer", enabled_peer);

TEST_F(Peers, ReadWhatCuMemAllocMadeOnceTheyAreEnabled) { ask("enabled_peer"); }

int open_page() {
  const auto devices = two_devices();
  if (!devices) return kUnsupported;
  const CUdeviceptr page = mapped_page();
  if (page == 0) return kSetUpFailed;
  const CUmemAccessDesc both[] = {access_of(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
                                  access_of(1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE)};
  if (cu().cuMemSetAccess(page, kGranule, both, 2) != CUDA_SUCCESS) return kNotAsClaimed;
  if (write(page, 22) != CUDA_SUCCESS) return kSetUpFailed;
  return word_for_second(*devices, page) == 22U ? kAsClaimed : kNotAsClaimed;
}
const ScenarioRegistration kOpenPage("open_page", open_page);

TEST_F(Peers, ReadAPageThatIsOpenedToBothInOneCall) { ask("open_page"); }

/// As buffers that are mapped when a peer is let in.
int page_opened_later() {
  const auto devices = two_devices();
  if (!devices) return kUnsupported;
  const CUdeviceptr page = mapped_page();
  if (page == 0 || set_access(page, kGranule) != CUDA_SUCCESS) return kSetUpFailed;
  if (write(page, 23) != CUDA_SUCCESS) return kSetUpFailed;
  const CUmemAccessDesc both[] = {access_of(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
                                  access_of(1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE)};
  if (cu().cuMemSetAccess(page, kGranule, both, 2) != CUDA_SUCCESS) return kNotAsClaimed;
  return word_for_second(*devices, page) == 23U ? kAsClaimed : kNotAsClaimed;
}
const ScenarioRegistration kPageOpenedLater("page_opened_later", page_opened_later);

TEST_F(Peers, ReadAPageThatIsOpenedToThemLater) { ask("page_opened_later"); }

int closed_page() {
  const auto devices = two_devices();
  if (!devices) return kUnsupported;
  const CUdeviceptr page = mapped_page();
  if (page == 0 || set_access(page, kGranule) != CUDA_SUCCESS) return kSetUpFailed;
  if (write(page, 24) != CUDA_SUCCESS) return kSetUpFailed;
  if (cu().cuMemcpyPeerAsync(devices->word, devices->second, page, devices->first, sizeof(uint32_t),
                             CU_STREAM_LEGACY) != CUDA_SUCCESS ||
      cu().cuCtxSynchronize() != CUDA_SUCCESS) {
    return kNotAsClaimed;
  }
  uint32_t word = 0;
  if (cu().cuCtxSetCurrent(devices->second) != CUDA_SUCCESS ||
      cu().cuMemcpyDtoH(&word, devices->word, sizeof(word)) != CUDA_SUCCESS) {
    return kSetUpFailed;
  }
  if (word != 24) return kNotAsClaimed;
  // Peers of contexts say nothing of mapped memory.
  if (cu().cuCtxEnablePeerAccess(devices->first, 0) != CUDA_SUCCESS) return kNotAsClaimed;
  return word_for_second(*devices, page) ? kNotAsClaimed : kAsClaimed;
}
const ScenarioRegistration kClosedPage("closed_page", closed_page);

TEST_F(Peers, GetAClosedPageByACopyThatNamesContextsAndInNoOtherWay) { ask("closed_page"); }

int open_pool() {
  const auto devices = two_devices();
  if (!devices) return kUnsupported;
  CUmemoryPool pool = nullptr;
  CUdeviceptr before = 0;
  CUdeviceptr after = 0;
  if (cu().cuDeviceGetDefaultMemPool(&pool, 0) != CUDA_SUCCESS ||
      cu().cuMemAllocAsync(&before, kGranule, CU_STREAM_LEGACY) != CUDA_SUCCESS) {
    return kUnsupported;
  }
  const CUmemAccessDesc access = access_of(1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  if (cu().cuMemPoolSetAccess(pool, &access, 1) != CUDA_SUCCESS) return kNotAsClaimed;
  if (cu().cuMemAllocAsync(&after, kGranule, CU_STREAM_LEGACY) != CUDA_SUCCESS ||
      write(before, 25) != CUDA_SUCCESS || write(after, 26) != CUDA_SUCCESS) {
    return kSetUpFailed;
  }
  if (word_for_second(*devices, before) != 25U || word_for_second(*devices, after) != 26U) {
    return kNotAsClaimed;
  }
  const CUmemAccessDesc none = access_of(1, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  return cu().cuMemPoolSetAccess(pool, &none, 1) == CUDA_SUCCESS ? kAsClaimed : kNotAsClaimed;
}
const ScenarioRegistration kOpenPool("open_pool", open_pool);

TEST_F(Peers, ReadWhatAPoolHasAndWillHaveOnceItIsOpenedToThem) { ask("open_pool"); }

}  // namespace
}  // namespace conformance
