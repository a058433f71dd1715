// Programs that look wrong and are not.

#include <cstdlib>

#include "tests/simgpu/wrong_programs/program.h"

namespace wrong_programs {

std::vector<RightProgram> right_table() {
  return {
      {"neighbour_unmapped_under_kernel",
       "A page is unmapped beside the one that a running kernel uses.",
       [](Run& run) {
         const CUdeviceptr data = run.reserve(2);
         const CUstream compute = run.stream();
         run.map(data, run.page());
         run.map(data + kPage, run.page());
         Gate gate;
         run.fill_gated("wait_and_fill", compute, data, kNew, gate);
         gate.wait_for_kernel();
         run.unmap(data + kPage);
         gate.open();
         run.expect(data, kNew);
       }},
      {"neighbour_mapped_under_kernel",
       "A page is mapped, used and unmapped beside the one that a running kernel uses.",
       [](Run& run) {
         const CUdeviceptr data = run.reserve(2);
         const CUstream compute = run.stream();
         const CUstream copies = run.stream();
         run.map(data, run.page());
         Gate gate;
         run.fill_gated("wait_and_fill", compute, data, kNew, gate);
         gate.wait_for_kernel();
         run.map(data + kPage, run.page());
         run.copy_in(copies, data + kPage, run.pinned(kForeign));
         run.synchronize(copies);
         run.unmap(data + kPage);
         gate.open();
         run.expect(data, kNew);
       }},
      {"page_saved_under_a_reading_kernel",
       "A page is copied out through its window while a kernel reads it through its address.",
       [](Run& run) {
         const CUdeviceptr base = run.reserve();
         const CUdeviceptr window = run.reserve();
         const CUmemGenericAllocationHandle page = run.page();
         const CUdeviceptr output = run.buffer(kOld);
         const CUstream compute = run.stream();
         const CUstream copies = run.stream();
         std::uint32_t* const slab = run.pinned(kOld);
         run.map(base, page);
         run.map(window, page);
         run.fill(base, kNew);
         Gate gate;
         run.copy_gated(kWaitAndCopy, compute, output, base, gate);
         gate.wait_for_kernel();
         run.copy_out(copies, slab, window);
         run.synchronize(copies);
         gate.open();
         run.synchronize(compute);
         run.copy_in(copies, output, slab);
         run.expect(output, kNew);
       }},
      {"page_released_while_mapped", "A page is released as soon as it is mapped.",
       [](Run& run) {
         const CUdeviceptr data = run.reserve();
         const CUmemGenericAllocationHandle page = run.page();
         run.map(data, page);
         run.check(cuMemRelease(page));
         run.fill(data, kNew);
         run.expect(data, kNew);
       }},
      {"block_given_out_again_smaller",
       "A copy of a block's end is queued when the block is freed and given out again, smaller.",
       [](Run& run) {
         const CUstream stream = run.stream();
         std::uint32_t* const host = run.pinned(kOld);
         CUdeviceptr data = 0;
         CUdeviceptr again = 0;
         constexpr std::size_t kLess = 2 * kBytes - 4096;
         run.check(cuMemAllocAsync(&data, 2 * kBytes, stream));
         run.check(cuMemsetD32Async(data, kNew, 2 * kWords, stream));
         Gate gate;
         gate.hold(stream);
         run.copy_out(stream, host, data + kBytes);
         run.check(cuMemFreeAsync(data, stream));
         run.check(cuMemAllocAsync(&again, kLess, stream));
         run.fill_words(stream, again, kForeign);
         gate.open();
         run.synchronize(stream);
         run.expect(host, kNew);
       }},
      {"end_of_block_beside_a_free_one",
       "A kernel is given the end of a block, behind which another block was freed.",
       [](Run& run) {
         const CUstream stream = run.stream();
         CUdeviceptr data = 0;
         CUdeviceptr behind = 0;
         run.check(cuMemAllocAsync(&data, kBytes, stream));
         run.check(cuMemAllocAsync(&behind, kBytes, stream));
         if (behind != data + kBytes) std::abort();
         run.check(cuMemFreeAsync(behind, stream));
         run.fill_words(stream, data, kNew);
         CUdeviceptr end = data + kBytes;
         std::uint32_t value = kForeign;
         std::uint32_t count = 0;
         run.launch("fill_words", stream, {&end, &value, &count});
         run.expect(data, kNew);
       }},
      {"padding_behind_a_block",
       "A kernel is given an address behind the end of an odd-sized block, and does not use it.",
       [](Run& run) {
         const CUstream stream = run.stream();
         const CUdeviceptr output = run.buffer(kOld);
         CUdeviceptr data = 0;
         run.check(cuMemAllocAsync(&data, 1000, stream));
         CUdeviceptr behind = data + 1008;
         std::uint32_t value = kForeign;
         std::uint32_t count = 0;
         run.launch("fill_words", stream, {&behind, &value, &count});
         run.fill_words(stream, output, kNew);
         run.expect(output, kNew);
       }},
      {"block_of_the_legacy_stream",
       "A block of the legacy stream is used on a blocking stream, while another one is busy.",
       [](Run& run) {
         const CUstream busy = run.stream(CU_STREAM_DEFAULT);
         const CUstream compute = run.stream(CU_STREAM_DEFAULT);
         CUdeviceptr data = 0;
         Gate gate;
         gate.hold(busy);
         run.check(cuMemAllocAsync(&data, kBytes, CU_STREAM_LEGACY));
         run.fill_words(compute, data, kNew);
         run.let_run(compute);
         gate.open();
         run.expect(data, kNew);
       }},
      {"block_ordered_by_the_host",
       "Another stream uses a block whose allocation the host has seen complete, by no event.",
       [](Run& run) {
         const CUstream owner = run.stream();
         const CUstream other = run.stream();
         const CUdeviceptr input = run.buffer(kNew);
         CUdeviceptr data = 0;
         run.check(cuMemAllocAsync(&data, kBytes, owner));
         for (int round = 0; round < 200; ++round) {
           run.copy_words(owner, data, input);
           run.check(cuMemFreeAsync(data, owner));
           run.check(cuMemAllocAsync(&data, kBytes, owner));
           while (cuStreamQuery(owner) == CUDA_ERROR_NOT_READY) {
           }
           run.copy_words(other, data, input);
           run.synchronize(other);
         }
         run.expect(data, kNew);
       }},
      {"event_destroyed_early", "An event is destroyed when a stream was told to wait for it.",
       [](Run& run) {
         const CUdeviceptr input = run.buffer(kOld);
         const CUdeviceptr output = run.buffer(kOld);
         const CUstream copies = run.stream();
         const CUstream compute = run.stream();
         Gate gate;
         gate.hold(copies);
         run.copy_in(copies, input, run.pinned(kNew));
         const CUevent event = run.mark(copies);
         run.check(cuStreamWaitEvent(compute, event, 0));
         run.check(cuEventDestroy(event));
         run.copy_words(compute, output, input);
         run.let_run(compute);
         gate.open();
         run.expect(output, kNew);
       }},
      {"pageable_source_rewritten",
       "Pageable memory is written again when an asynchronous copy from it has returned.",
       [](Run& run) {
         const CUdeviceptr data = run.buffer(kOld);
         const CUstream copies = run.stream();
         std::vector<std::uint32_t> host(kWords, kNew);
         run.check(cuMemcpyHtoDAsync(data, host.data(), kBytes, copies));
         host.assign(kWords, kForeign);
         run.expect(data, kNew);
       }},
      {"unmapped_when_seen_complete",
       "A page is unmapped when an event behind its last kernel was seen to be complete.",
       [](Run& run) {
         const CUdeviceptr data = run.reserve();
         const CUdeviceptr output = run.buffer(kOld);
         const CUstream compute = run.stream();
         const CUmemGenericAllocationHandle pages[] = {run.page(), run.page()};
         for (int round = 0; round < 200; ++round) {
           run.map(data, pages[round % 2]);
           run.fill(data, kNew);
           run.copy_words(compute, output, data);
           const CUevent event = run.mark(compute);
           while (cuEventQuery(event) == CUDA_ERROR_NOT_READY) {
           }
           run.unmap(data);
         }
         run.expect(output, kNew);
       }},
  };
}

}  // namespace wrong_programs
