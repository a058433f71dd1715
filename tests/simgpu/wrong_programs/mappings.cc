// Programs that map late, unmap early, or use an address whose memory has changed.

#include "tests/simgpu/wrong_programs/program.h"

namespace wrong_programs {
namespace {

const std::vector<std::string> kLongMixers{"SIMGPU_KERNEL_US=500000"};
/// Over it, kBytes take half a second.
const std::vector<std::string> kVerySlowLink{"SIMGPU_H2D_GBPS=0.000131",
                                             "SIMGPU_D2H_GBPS=0.000131"};

/// What happens to a page that is in use.
enum class Change { kUnmap, kRemap };

void change(Run& run, CUdeviceptr address, Change what) {
  run.unmap(address);
  if (what == Change::kRemap) run.map(address, run.page());
}

/// The input of a kernel that runs is changed, before it was read (wait_and_copy) or after.
void change_input(Run& run, const char* kernel, Change what) {
  const CUdeviceptr input = run.mapped(kNew);
  const CUdeviceptr output = run.buffer(kOld);
  const CUstream compute = run.stream();
  Gate gate;
  run.copy_gated(kernel, compute, output, input, gate);
  gate.wait_for_kernel();
  if (run.ordered()) gate.open();
  if (run.ordered()) run.synchronize(compute);
  change(run, input, what);
  gate.open();
  run.expect(output, kNew);
}

void change_output(Run& run, const char* kernel, Change what) {
  const CUdeviceptr output = run.mapped(kOld);
  const CUdeviceptr copy = run.buffer(kOld);
  const CUstream compute = run.stream();
  Gate gate;
  run.fill_gated(kernel, compute, output, kNew, gate);
  gate.wait_for_kernel();
  if (run.ordered()) gate.open();
  if (run.ordered()) run.copy_words(compute, copy, output);
  if (run.ordered()) run.synchronize(compute);
  change(run, output, what);
  gate.open();
  run.expect(copy, kNew);
}

/// The memory of a mixer that runs is changed.
void change_under_mixer(Run& run, bool input_changes, Change what) {
  const CUdeviceptr input = run.mapped(kNew);
  const CUdeviceptr output = run.mapped(kOld);
  const CUdeviceptr copy = run.buffer(kOld);
  const CUstream compute = run.stream();
  const CUevent before = run.mark(compute);
  run.mix(compute, output, input);
  run.let_begin(before);
  if (run.ordered()) run.copy_words(compute, copy, output);
  if (run.ordered()) run.synchronize(compute);
  change(run, input_changes ? input : output, what);
  if (!run.ordered()) run.must_still_run(compute);
  run.answer(copy);
}

/// The device memory of a copy that runs is changed.
void change_under_copy(Run& run, bool copies_in, Change what) {
  const CUdeviceptr data = run.mapped(kOld);
  const CUstream copies = run.stream();
  std::uint32_t* const host = run.pinned(kOld);
  const CUevent before = run.mark(copies);
  if (copies_in) {
    run.copy_in(copies, data, host);
  } else {
    run.copy_out(copies, host, data);
  }
  run.let_begin(before);
  if (run.ordered()) run.synchronize(copies);
  change(run, data, what);
  if (!run.ordered()) run.must_still_run(copies);
  run.check(cuCtxSynchronize());
  run.expect(host, kOld);
}

void use_without_access(Run& run, bool kernel) {
  const CUdeviceptr data = run.reserve();
  const CUstream stream = run.stream();
  if (run.ordered()) {
    run.map(data, run.page());
  } else {
    run.check(cuMemMap(data, kPage, 0, run.page(), 0));
  }
  if (kernel) {
    run.fill_words(stream, data, kNew);
  } else {
    run.copy_in(stream, data, run.pinned(kNew));
  }
  run.expect(data, kNew);
}

/// The primary context of device 1, made current while `body` runs.
template <typename Body>
CUcontext in_second_context(Run& run, const Body& body) {
  CUcontext first = nullptr;
  CUcontext second = nullptr;
  run.check(cuCtxGetCurrent(&first));
  run.check(cuDevicePrimaryCtxRetain(&second, 1));
  run.check(cuCtxSetCurrent(second));
  body();
  run.check(cuCtxSetCurrent(first));
  return second;
}

}  // namespace

std::vector<WrongProgram> wrong_mappings() {
  return {
      {"unmap_input_under_kernel", "A kernel's input is unmapped before the kernel has read it.",
       Rejection::kIllegalAddress,
       [](Run& run) { change_input(run, kWaitAndCopy, Change::kUnmap); }},
      {"unmap_input_before_kernel_ends",
       "A kernel's input is unmapped when the kernel has read it, but has not ended.",
       Rejection::kIllegalAddress,
       [](Run& run) { change_input(run, kCopyAndWait, Change::kUnmap); }},
      {"remap_input_under_kernel", "Another page takes the place of an input of a running kernel.",
       Rejection::kIllegalAddress,
       [](Run& run) { change_input(run, kWaitAndCopy, Change::kRemap); }},
      {"unmap_output_under_kernel",
       "A kernel's output is unmapped before the kernel has written it.",
       Rejection::kIllegalAddress,
       [](Run& run) { change_output(run, "wait_and_fill", Change::kUnmap); }},
      {"unmap_output_before_kernel_ends",
       "A kernel's output is unmapped when the kernel has written it, but has not ended.",
       Rejection::kIllegalAddress,
       [](Run& run) { change_output(run, "fill_and_wait", Change::kUnmap); }},
      {"remap_output_under_kernel",
       "Another page takes the place of an output of a running kernel.", Rejection::kIllegalAddress,
       [](Run& run) { change_output(run, "wait_and_fill", Change::kRemap); }},
      {"unmap_input_under_mixer", "A mixer's input is unmapped while the mixer runs.",
       Rejection::kIllegalAddress, [](Run& run) { change_under_mixer(run, true, Change::kUnmap); },
       kLongMixers},
      {"unmap_output_under_mixer", "A mixer's output is unmapped while the mixer runs.",
       Rejection::kIllegalAddress, [](Run& run) { change_under_mixer(run, false, Change::kUnmap); },
       kLongMixers},
      {"remap_output_under_mixer", "Another page takes the place of an output of a running mixer.",
       Rejection::kIllegalAddress, [](Run& run) { change_under_mixer(run, false, Change::kRemap); },
       kLongMixers},
      {"unmap_source_under_copy", "The source of a copy out is unmapped while the copy runs.",
       Rejection::kIllegalAddress, [](Run& run) { change_under_copy(run, false, Change::kUnmap); },
       kVerySlowLink},
      {"unmap_target_under_copy", "The target of a copy in is unmapped while the copy runs.",
       Rejection::kIllegalAddress, [](Run& run) { change_under_copy(run, true, Change::kUnmap); },
       kVerySlowLink},
      {"remap_target_under_copy", "Another page takes the place of the target of a running copy.",
       Rejection::kIllegalAddress, [](Run& run) { change_under_copy(run, true, Change::kRemap); },
       kVerySlowLink},
      {"unmap_before_kernel_starts", "A kernel's input is unmapped before the kernel has started.",
       Rejection::kIllegalAddress,
       [](Run& run) {
         const CUdeviceptr input = run.mapped(kNew);
         const CUdeviceptr output = run.buffer(kOld);
         const CUstream compute = run.stream();
         Gate gate;
         gate.hold(compute);
         run.copy_words(compute, output, input);
         if (run.ordered()) gate.open();
         if (run.ordered()) run.synchronize(compute);
         run.unmap(input);
         gate.open();
         run.expect(output, kNew);
       }},
      {"map_after_the_kernel", "A page is mapped when the kernel that uses it has run already.",
       Rejection::kIllegalAddress,
       [](Run& run) {
         const CUdeviceptr data = run.reserve();
         const CUstream compute = run.stream();
         const CUmemGenericAllocationHandle page = run.page();
         if (run.ordered()) run.map(data, page);
         run.fill_words(compute, data, kNew);
         run.let_run(compute);
         if (!run.ordered()) run.map(data, page);
         run.expect(data, kNew);
       }},
      {"kernel_between_two_kinds_of_page",
       "A kernel runs when the device's page has left its address and the host's has not come.",
       Rejection::kIllegalAddress,
       [](Run& run) {
         const CUdeviceptr data = run.mapped(kOld);
         const CUstream compute = run.stream();
         const CUmemGenericAllocationHandle on_host = run.host_page();
         run.unmap(data);
         if (run.ordered()) run.map(data, on_host);
         run.fill_words(compute, data, kNew);
         run.let_run(compute);
         if (!run.ordered()) run.map(data, on_host);
         run.expect(data, kNew);
       }},
      {"host_page_unmapped_before_kernel_starts",
       "A kernel's input on the host is unmapped before the kernel has started.",
       Rejection::kIllegalAddress,
       [](Run& run) {
         const CUdeviceptr input = run.reserve();
         run.map(input, run.host_page());
         run.fill(input, kNew);
         const CUdeviceptr output = run.buffer(kOld);
         const CUstream compute = run.stream();
         Gate gate;
         gate.hold(compute);
         run.copy_words(compute, output, input);
         if (run.ordered()) gate.open();
         if (run.ordered()) run.synchronize(compute);
         run.unmap(input);
         gate.open();
         run.expect(output, kNew);
       }},
      {"kernel_without_access", "A kernel uses a mapping that the device was not given access to.",
       Rejection::kIllegalAddress, [](Run& run) { use_without_access(run, true); }},
      {"copy_without_access", "A copy uses a mapping that the device was not given access to.",
       Rejection::kInvalidValue, [](Run& run) { use_without_access(run, false); }},
      {"write_through_read_only_mapping", "A kernel writes a mapping that may only be read.",
       Rejection::kIllegalAddress,
       [](Run& run) {
         const CUdeviceptr data = run.reserve();
         const CUstream compute = run.stream();
         run.map(data, run.page());
         CUmemAccessDesc access{};
         access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
         access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
         if (!run.ordered()) run.check(cuMemSetAccess(data, kPage, &access, 1));
         run.fill_words(compute, data, kNew);
         run.expect(data, kNew);
       }},
      {"kernel_behind_the_mapping", "A kernel writes behind the end of a mapping.",
       Rejection::kIllegalAddress,
       [](Run& run) {
         const CUdeviceptr data = run.reserve(2);
         const CUstream compute = run.stream();
         run.map(data, run.page());
         run.fill_words(compute, data + kPage - (run.ordered() ? kBytes : kBytes / 2), kNew);
         run.synchronize(compute);
         run.expect(data + kPage - kBytes, kNew);
       }},
      {"old_address_after_a_move", "A page has moved, and a kernel uses its old address.",
       Rejection::kIllegalAddress,
       [](Run& run) {
         const CUdeviceptr range = run.reserve(2);
         const CUdeviceptr moved = range + kPage;
         const CUstream compute = run.stream();
         const CUmemGenericAllocationHandle page = run.page();
         run.map(range, page);
         run.unmap(range);
         run.map(moved, page);
         run.fill_words(compute, run.ordered() ? moved : range, kNew);
         run.expect(moved, kNew);
       }},
      {"old_alias",
       "Another page takes a place, and content is still written through the old alias.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const CUdeviceptr base = run.reserve();
         const CUdeviceptr window = run.reserve();
         const CUmemGenericAllocationHandle old_page = run.page();
         const CUmemGenericAllocationHandle new_page = run.page();
         run.map(base, old_page);
         run.map(window, old_page);
         run.unmap(base);
         run.map(base, new_page);
         run.fill(base, kOld);
         if (run.ordered()) run.unmap(window);
         if (run.ordered()) run.map(window, new_page);
         run.check(cuMemcpyHtoD(window, run.pinned(kNew), kBytes));
         run.expect(base, kNew);
       }},
      {"reservation_freed_under_kernel",
       "An address range is unmapped and freed while a kernel writes there.",
       Rejection::kIllegalAddress,
       [](Run& run) {
         const CUdeviceptr output = run.mapped(kOld);
         const CUdeviceptr copy = run.buffer(kOld);
         const CUstream compute = run.stream();
         Gate gate;
         run.fill_gated("wait_and_fill", compute, output, kNew, gate);
         gate.wait_for_kernel();
         if (run.ordered()) gate.open();
         if (run.ordered()) run.copy_words(compute, copy, output);
         if (run.ordered()) run.synchronize(compute);
         run.unmap(output);
         run.check(cuMemAddressFree(output, kPage));
         gate.open();
         run.expect(copy, kNew);
       }},
      {"map_a_released_page", "A page is mapped after it was released.", Rejection::kInvalidValue,
       [](Run& run) {
         const CUdeviceptr data = run.reserve();
         const CUmemGenericAllocationHandle page = run.page();
         if (!run.ordered()) run.check(cuMemRelease(page));
         run.map(data, page);
         run.fill(data, kNew);
         run.expect(data, kNew);
       }},
      {"unmap_twice", "A page is unmapped twice.", Rejection::kInvalidValue,
       [](Run& run) {
         const CUdeviceptr data = run.reserve();
         const CUmemGenericAllocationHandle page = run.page();
         run.map(data, page);
         run.fill(data, kNew);
         run.unmap(data);
         if (!run.ordered()) run.unmap(data);
         run.map(data, page);
         run.expect(data, kNew);
       }},
      {"map_over_a_mapping", "A page is mapped where another one still is.",
       Rejection::kInvalidValue,
       [](Run& run) {
         const CUdeviceptr data = run.mapped(kOld);
         if (run.ordered()) run.unmap(data);
         run.map(data, run.page());
         run.fill(data, kNew);
         run.expect(data, kNew);
       }},
      {"another_devices_memory",
       "A kernel uses memory of a device whose peer it was not made.",
       Rejection::kIllegalAddress,
       [](Run& run) {
         CUcontext first = nullptr;
         CUcontext second = nullptr;
         run.check(cuCtxGetCurrent(&first));
         run.check(cuDevicePrimaryCtxRetain(&second, 1));
         run.check(cuCtxSetCurrent(second));
         const CUdeviceptr far = run.buffer(kNew);
         run.check(cuCtxSetCurrent(first));
         const CUdeviceptr near = run.buffer(kOld);
         const CUstream compute = run.stream();
         if (run.ordered()) {
           run.check(cuMemcpyPeerAsync(near, first, far, second, kBytes, compute));
         } else {
           run.copy_words(compute, near, far);
         }
         run.expect(near, kNew);
       },
       {"SIMGPU_DEVICES=2"}},
      {"peer_access_not_enabled",
       "A kernel uses memory of another device before cuCtxEnablePeerAccess.",
       Rejection::kIllegalAddress,
       [](Run& run) {
         CUdeviceptr far = 0;
         const CUcontext second = in_second_context(run, [&] { far = run.buffer(kNew); });
         const CUdeviceptr near = run.buffer(kOld);
         const CUstream compute = run.stream();
         if (run.ordered()) run.check(cuCtxEnablePeerAccess(second, 0));
         run.copy_words(compute, near, far);
         run.synchronize(compute);
         run.expect(near, kNew);
       },
       {"SIMGPU_DEVICES=2"}},
      {"pool_of_another_device",
       "A kernel uses memory of another device's pool, for which cuCtxEnablePeerAccess says "
       "nothing.",
       Rejection::kIllegalAddress,
       [](Run& run) {
         CUdeviceptr far = 0;
         const CUcontext second = in_second_context(run, [&] {
           run.check(cuMemAllocAsync(&far, kBytes, nullptr));
           run.check(cuMemsetD32(far, kNew, kWords));
           run.check(cuCtxSynchronize());
         });
         const CUdeviceptr near = run.buffer(kOld);
         const CUstream compute = run.stream();
         run.check(cuCtxEnablePeerAccess(second, 0));
         if (run.ordered()) {
           CUmemoryPool pool = nullptr;
           run.check(cuDeviceGetDefaultMemPool(&pool, 1));
           CUmemAccessDesc access{};
           access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
           access.location.id = 0;
           access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
           run.check(cuMemPoolSetAccess(pool, &access, 1));
         }
         run.copy_words(compute, near, far);
         run.synchronize(compute);
         run.expect(near, kNew);
       },
       {"SIMGPU_DEVICES=2"}},
      {"page_for_its_own_device",
       "A kernel uses a page of another device, which may access it alone, whatever peers there "
       "are.",
       Rejection::kIllegalAddress,
       [](Run& run) {
         const CUdeviceptr data = run.reserve();
         const CUstream compute = run.stream();
         const CUcontext second = in_second_context(run, [] {});
         run.check(cuCtxEnablePeerAccess(second, 0));
         CUmemAllocationProp prop{};
         prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
         prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
         prop.location.id = 1;
         CUmemGenericAllocationHandle page = 0;
         run.check(cuMemCreate(&page, kPage, &prop, 0));
         run.check(cuMemMap(data, kPage, 0, page, 0));
         CUmemAccessDesc access[2] = {};
         for (int device = 0; device < 2; ++device) {
           access[device].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
           access[device].location.id = 1 - device;
           access[device].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
         }
         run.check(cuMemSetAccess(data, kPage, access, run.ordered() ? 2 : 1));
         run.fill_words(compute, data, kNew);
         run.synchronize(compute);
         run.expect(data, kNew);
       },
       {"SIMGPU_DEVICES=2"}},
      {"another_devices_page",
       "A kernel uses a mapping that only another device may access.",
       Rejection::kIllegalAddress,
       [](Run& run) {
         const CUdeviceptr data = run.reserve();
         const CUstream compute = run.stream();
         CUcontext second = nullptr;
         run.check(cuDevicePrimaryCtxRetain(&second, 1));
         run.check(cuMemMap(data, kPage, 0, run.page(), 0));
         CUmemAccessDesc access{};
         access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
         access.location.id = run.ordered() ? 0 : 1;
         access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
         run.check(cuMemSetAccess(data, kPage, &access, 1));
         run.fill_words(compute, data, kNew);
         run.synchronize(compute);
         run.expect(data, kNew);
       },
       {"SIMGPU_DEVICES=2"}},
  };
}

}  // namespace wrong_programs
