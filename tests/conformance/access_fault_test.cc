// What happens when a kernel touches what it must not: loud, sticky, and in a process of its own.

#include "tests/conformance/fixture.h"

namespace conformance {
namespace {

using AccessFault = ConformanceTest;

/// A page and behind it as many addresses that nothing is mapped at.
constexpr size_t kReserved = 2 * kGranule;

struct Mapped {
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle pages = 0;
};

bool reserve_and_create(Mapped& mapped) {
  const CUmemAllocationProp properties = device_pages();
  return cu().cuMemAddressReserve(&mapped.address, kReserved, 0, 0, 0) == CUDA_SUCCESS &&
         cu().cuMemCreate(&mapped.pages, kGranule, &properties, 0) == CUDA_SUCCESS;
}

// True if the work that was just launched ends in an illegal address, and every later call says so
// too.
int expect_sticky_fault() {
  if (cu().cuCtxSynchronize() != CUDA_ERROR_ILLEGAL_ADDRESS) return kNotAsClaimed;
  CUdeviceptr memory = 0;
  if (cu().cuMemAlloc(&memory, 4096) != CUDA_ERROR_ILLEGAL_ADDRESS) return kNotAsClaimed;
  return cu().cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS ? kAsClaimed : kNotAsClaimed;
}

int touch_unmapped() {
  Mapped mapped;
  if (!reserve_and_create(mapped)) return kSetUpFailed;
  if (map(mapped.address, kGranule, mapped.pages) != CUDA_SUCCESS) return kSetUpFailed;
  if (fill(nullptr, mapped.address, 1, kGranuleWords) != CUDA_SUCCESS) return kSetUpFailed;
  if (cu().cuCtxSynchronize() != CUDA_SUCCESS) return kSetUpFailed;
  if (cu().cuMemUnmap(mapped.address, kGranule) != CUDA_SUCCESS) return kSetUpFailed;
  if (fill(nullptr, mapped.address, 2, 16) != CUDA_SUCCESS) return kSetUpFailed;
  return expect_sticky_fault();
}
const ScenarioRegistration kTouchUnmapped("touch_unmapped", touch_unmapped);

int read_unmapped() {
  Mapped mapped;
  if (!reserve_and_create(mapped)) return kSetUpFailed;
  CUdeviceptr out = 0;
  if (cu().cuMemAlloc(&out, 4096) != CUDA_SUCCESS) return kSetUpFailed;
  if (copy_words(nullptr, out, mapped.address, 16) != CUDA_SUCCESS) return kSetUpFailed;
  return expect_sticky_fault();
}
const ScenarioRegistration kReadUnmapped("read_unmapped", read_unmapped);

int touch_without_access() {
  Mapped mapped;
  if (!reserve_and_create(mapped)) return kSetUpFailed;
  if (cu().cuMemMap(mapped.address, kGranule, 0, mapped.pages, 0) != CUDA_SUCCESS) {
    return kSetUpFailed;
  }
  if (fill(nullptr, mapped.address, 2, 16) != CUDA_SUCCESS) return kSetUpFailed;
  return expect_sticky_fault();
}
const ScenarioRegistration kTouchWithoutAccess("touch_without_access", touch_without_access);

int write_read_only() {
  Mapped mapped;
  if (!reserve_and_create(mapped)) return kSetUpFailed;
  if (cu().cuMemMap(mapped.address, kGranule, 0, mapped.pages, 0) != CUDA_SUCCESS) {
    return kSetUpFailed;
  }
  if (set_access(mapped.address, kGranule, false) != CUDA_SUCCESS) return kUnsupported;
  if (fill(nullptr, mapped.address, 2, 16) != CUDA_SUCCESS) return kSetUpFailed;
  return expect_sticky_fault();
}
const ScenarioRegistration kWriteReadOnly("write_read_only", write_read_only);

int touch_guard() {
  Mapped mapped;
  if (!reserve_and_create(mapped)) return kSetUpFailed;
  if (map(mapped.address, kGranule, mapped.pages) != CUDA_SUCCESS) return kSetUpFailed;
  if (fill(nullptr, mapped.address, 2, kGranuleWords + 16) != CUDA_SUCCESS) return kSetUpFailed;
  return expect_sticky_fault();
}
const ScenarioRegistration kTouchGuard("touch_guard", touch_guard);

// Known good beside the faults: the same steps on mapped memory.
int touch_mapped() {
  Mapped mapped;
  if (!reserve_and_create(mapped)) return kSetUpFailed;
  if (map(mapped.address, kGranule, mapped.pages) != CUDA_SUCCESS) return kSetUpFailed;
  if (fill(nullptr, mapped.address, 2, kGranuleWords) != CUDA_SUCCESS) return kSetUpFailed;
  return expect_sticky_fault();
}
const ScenarioRegistration kTouchMapped("touch_mapped", touch_mapped);

// What superpipe still calls when a kernel of the program has faulted.
int use_after_fault() {
  Mapped mapped;
  CUdeviceptr memory = 0;
  CUevent never_recorded = nullptr;
  CUevent complete = nullptr;
  CUevent pending = nullptr;
  CUstream stream = nullptr;
  if (!reserve_and_create(mapped)) return kSetUpFailed;
  if (map(mapped.address, kGranule, mapped.pages) != CUDA_SUCCESS) return kSetUpFailed;
  if (cu().cuMemAlloc(&memory, kGranule) != CUDA_SUCCESS) return kSetUpFailed;
  for (CUevent* const event : {&never_recorded, &complete, &pending}) {
    if (cu().cuEventCreate(event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) return kSetUpFailed;
  }
  if (cu().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) return kSetUpFailed;
  if (cu().cuEventRecord(complete, stream) != CUDA_SUCCESS) return kSetUpFailed;
  if (cu().cuStreamSynchronize(stream) != CUDA_SUCCESS) return kSetUpFailed;
  if (fill(stream, mapped.address, 2, kGranuleWords + 16) != CUDA_SUCCESS) return kSetUpFailed;
  // The record may come before or after the fault.
  (void)cu().cuEventRecord(pending, stream);
  if (cu().cuStreamSynchronize(stream) != CUDA_ERROR_ILLEGAL_ADDRESS) return kNotAsClaimed;
  // The query of an event that was never recorded is how superpipe learns of the error.
  for (const CUevent event : {never_recorded, complete, pending}) {
    if (cu().cuEventQuery(event) != CUDA_ERROR_ILLEGAL_ADDRESS) return kNotAsClaimed;
  }
  if (cu().cuStreamQuery(stream) != CUDA_ERROR_ILLEGAL_ADDRESS) return kNotAsClaimed;
  // What gives things back may be refused; it neither hangs nor crashes.
  (void)cu().cuMemFree(memory);
  (void)cu().cuMemFreeAsync(memory, stream);
  (void)cu().cuMemUnmap(mapped.address, kGranule);
  (void)cu().cuMemRelease(mapped.pages);
  (void)cu().cuMemAddressFree(mapped.address, kReserved);
  for (const CUevent event : {never_recorded, complete, pending}) (void)cu().cuEventDestroy(event);
  (void)cu().cuStreamDestroy(stream);
  return cu().cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS ? kAsClaimed : kNotAsClaimed;
}
const ScenarioRegistration kUseAfterFault("use_after_fault", use_after_fault);

// A driver may let the unmapping wait for the kernel, as it does with cuMemFree. A program that
// relies on that is wrong, since the manual promises none of it.
constexpr int kWaited = 20;

int unmap_under_kernel() {
  Mapped mapped;
  if (!reserve_and_create(mapped)) return kSetUpFailed;
  if (map(mapped.address, kGranule, mapped.pages) != CUDA_SUCCESS) return kSetUpFailed;
  CUstream stream = nullptr;
  if (cu().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) return kSetUpFailed;
  if (fill(stream, mapped.address, 2, kGranuleWords, long_time()) != CUDA_SUCCESS) {
    return kSetUpFailed;
  }
  if (cu().cuMemUnmap(mapped.address, kGranule) != CUDA_SUCCESS) return kNotAsClaimed;
  const CUresult asked = cu().cuStreamQuery(stream);
  if (asked == CUDA_SUCCESS) return kWaited;
  if (asked != CUDA_ERROR_NOT_READY) return kNotAsClaimed;
  return expect_sticky_fault();
}
const ScenarioRegistration kUnmapUnderKernel("unmap_under_kernel", unmap_under_kernel);

TEST_F(AccessFault, IsToldByEveryQueryAndHoldsUpNothingThatGivesBack) {
  EXPECT_EQ(run_in_child("use_after_fault"), kAsClaimed);
}

TEST_F(AccessFault, HappensToAKernelWhosePagesAreUnmappedUnlessUnmappingWaits) {
  int code = run_in_child("unmap_under_kernel");
  if (is_simgpu()) {
    // There it does not wait: the machine was so busy that the kernel had ended.
    for (int i = 0; i < 5 && code == kWaited; ++i) code = run_in_child("unmap_under_kernel");
    EXPECT_EQ(code, kAsClaimed);
  } else {
    RecordProperty("unmapping_waited", code == kWaited ? "yes" : "no");
    EXPECT_TRUE(code == kAsClaimed || code == kWaited) << code;
  }
}

TEST_F(AccessFault, IsStickyWhenAKernelWritesAnAddressThatWasUnmapped) {
  EXPECT_EQ(run_in_child("touch_unmapped"), kAsClaimed);
}

TEST_F(AccessFault, IsStickyWhenAKernelReadsAReservedAddress) {
  EXPECT_EQ(run_in_child("read_unmapped"), kAsClaimed);
}

TEST_F(AccessFault, HappensOnAMappingWithoutAccess) {
  EXPECT_EQ(run_in_child("touch_without_access"), kAsClaimed);
}

TEST_F(AccessFault, HappensBehindTheEndOfAMapping) {
  EXPECT_EQ(run_in_child("touch_guard"), kAsClaimed);
}

TEST_F(AccessFault, IsObservedOnAWriteThroughAReadOnlyMapping) {
  const int code = run_in_child("write_read_only");
  if (code != kAsClaimed) {
    GTEST_SKIP() << "read-only mappings are not enforced here (exit code " << code
                 << "); nothing relies on it";
  }
}

TEST_F(AccessFault, IsMissedByTheCheckWhenNothingIsWrong) {
  EXPECT_EQ(run_in_child("touch_mapped"), kNotAsClaimed);
}

TEST_F(AccessFault, InAChildLeavesThisProcessUsable) {
  EXPECT_EQ(run_in_child("touch_unmapped"), kAsClaimed);
  const Buffer buffer(16);
  CU_ASSERT(fill(nullptr, buffer.address(), 5, 16));
  EXPECT_EQ(word_at(buffer.address()), 5U);
}

}  // namespace
}  // namespace conformance
