// Programs that use allocations before or after their lives.

#include <cstdlib>

#include "tests/simgpu/wrong_programs/program.h"

namespace wrong_programs {
namespace {

CUdeviceptr allocate_async(Run& run, CUstream stream) {
  CUdeviceptr address = 0;
  run.check(cuMemAllocAsync(&address, kBytes, stream));
  return address;
}

}  // namespace

std::vector<WrongProgram> wrong_lifetimes() {
  return {
      {"kernel_after_free", "A kernel uses memory that was freed.", Rejection::kIllegalAddress,
       [](Run& run) {
         const CUdeviceptr data = run.buffer(kNew);
         const CUdeviceptr output = run.buffer(kOld);
         const CUstream compute = run.stream();
         if (!run.ordered()) run.check(cuMemFree(data));
         run.copy_words(compute, output, data);
         if (run.ordered()) run.synchronize(compute);
         if (run.ordered()) run.check(cuMemFree(data));
         run.expect(output, kNew);
       }},
      {"copy_after_free", "A copy uses memory that was freed.", Rejection::kInvalidValue,
       [](Run& run) {
         const CUdeviceptr data = run.buffer(kNew);
         std::uint32_t* const host = run.pinned(kOld);
         if (!run.ordered()) run.check(cuMemFree(data));
         run.check(cuMemcpyDtoH(host, data, kBytes));
         if (run.ordered()) run.check(cuMemFree(data));
         run.expect(host, kNew);
       }},
      {"mixer_after_free", "A mixer uses memory that was freed.", Rejection::kOtherBytes,
       [](Run& run) {
         const CUdeviceptr data = run.buffer(kNew);
         const CUdeviceptr output = run.buffer(kOld);
         const CUstream compute = run.stream();
         if (!run.ordered()) run.check(cuMemFree(data));
         run.mix(compute, output, data);
         if (run.ordered()) run.synchronize(compute);
         if (run.ordered()) run.check(cuMemFree(data));
         run.answer(output);
       }},
      {"free_twice", "Memory is freed twice.", Rejection::kInvalidValue,
       [](Run& run) {
         const CUdeviceptr data = run.buffer(kNew);
         const CUdeviceptr output = run.buffer(kOld);
         run.copy_words(nullptr, output, data);
         run.check(cuMemFree(data));
         if (!run.ordered()) run.check(cuMemFree(data));
         run.expect(output, kNew);
       }},
      {"kernel_after_free_in_stream_order",
       "A kernel is launched behind the stream-ordered free of its memory.",
       Rejection::kIllegalAddress,
       [](Run& run) {
         const CUstream stream = run.stream();
         const CUdeviceptr output = run.buffer(kOld);
         const CUdeviceptr data = allocate_async(run, stream);
         run.fill_words(stream, data, kNew);
         if (!run.ordered()) run.check(cuMemFreeAsync(data, stream));
         run.copy_words(stream, output, data);
         if (run.ordered()) run.check(cuMemFreeAsync(data, stream));
         run.expect(output, kNew);
       }},
      {"mixer_after_free_in_stream_order",
       "A mixer is launched behind the stream-ordered free of its memory.",
       Rejection::kIllegalAddress,
       [](Run& run) {
         const CUstream stream = run.stream();
         const CUdeviceptr output = run.buffer(kOld);
         const CUdeviceptr data = allocate_async(run, stream);
         run.fill_words(stream, data, kNew);
         if (!run.ordered()) run.check(cuMemFreeAsync(data, stream));
         run.mix(stream, output, data);
         if (run.ordered()) run.check(cuMemFreeAsync(data, stream));
         run.answer(output);
       }},
      {"kernel_after_free_behind_a_live_block",
       "A kernel writes a block that was freed, and begins where a live one ends.",
       Rejection::kIllegalAddress,
       [](Run& run) {
         const CUstream stream = run.stream();
         const CUdeviceptr live = allocate_async(run, stream);
         const CUdeviceptr data = allocate_async(run, stream);
         if (data != live + kBytes) std::abort();
         run.fill_words(stream, live, kNew);
         if (!run.ordered()) run.check(cuMemFreeAsync(data, stream));
         run.fill_words(stream, data, kForeign);
         if (run.ordered()) run.check(cuMemFreeAsync(data, stream));
         run.expect(live, kNew);
       }},
      {"copying_kernel_after_free_behind_a_live_block",
       "A kernel reads a live block, and writes a freed one that begins where that ends.",
       Rejection::kIllegalAddress,
       [](Run& run) {
         const CUstream stream = run.stream();
         const CUdeviceptr live = allocate_async(run, stream);
         const CUdeviceptr data = allocate_async(run, stream);
         if (data != live + kBytes) std::abort();
         run.fill_words(stream, live, kNew);
         if (!run.ordered()) run.check(cuMemFreeAsync(data, stream));
         run.copy_words(stream, data, live);
         if (run.ordered()) run.check(cuMemFreeAsync(data, stream));
         run.expect(live, kNew);
       }},
      {"mixer_after_free_behind_a_live_block",
       "A mixer uses a block that was freed, and begins where a live one ends.",
       Rejection::kIllegalAddress,
       [](Run& run) {
         const CUstream stream = run.stream();
         const CUdeviceptr output = run.buffer(kOld);
         const CUdeviceptr live = allocate_async(run, stream);
         const CUdeviceptr data = allocate_async(run, stream);
         if (data != live + kBytes) std::abort();
         run.fill_words(stream, data, kNew);
         if (!run.ordered()) run.check(cuMemFreeAsync(data, stream));
         run.mix(stream, output, data);
         if (run.ordered()) run.check(cuMemFreeAsync(data, stream));
         run.answer(output);
       }},
      {"copy_after_free_in_stream_order",
       "A copy is submitted behind the stream-ordered free of its memory.",
       Rejection::kInvalidValue,
       [](Run& run) {
         const CUstream stream = run.stream();
         std::uint32_t* const host = run.pinned(kOld);
         const CUdeviceptr data = allocate_async(run, stream);
         run.fill_words(stream, data, kNew);
         if (!run.ordered()) run.check(cuMemFreeAsync(data, stream));
         run.copy_out(stream, host, data);
         if (run.ordered()) run.check(cuMemFreeAsync(data, stream));
         run.synchronize(stream);
         run.expect(host, kNew);
       }},
      {"block_used_before_its_allocation",
       "Another stream uses a block before its allocation has come in stream order.",
       Rejection::kIllegalAddress,
       [](Run& run) {
         const CUstream owner = run.stream();
         const CUstream other = run.stream();
         const CUdeviceptr output = run.buffer(kOld);
         Gate gate;
         gate.hold(owner);
         const CUdeviceptr data = allocate_async(run, owner);
         if (run.ordered()) run.order(other, owner);
         run.fill_words(other, data, kNew);
         run.copy_words(other, output, data);
         run.let_run(other);
         gate.open();
         run.expect(output, kNew);
       }},
      {"copy_into_block_before_its_allocation",
       "Another stream copies into a block before its allocation has come in stream order.",
       Rejection::kIllegalAddress,
       [](Run& run) {
         const CUstream owner = run.stream();
         const CUstream other = run.stream();
         Gate gate;
         gate.hold(owner);
         const CUdeviceptr data = allocate_async(run, owner);
         if (run.ordered()) run.order(other, owner);
         run.copy_in(other, data, run.pinned(kNew));
         run.let_run(other);
         gate.open();
         run.expect(data, kNew);
       }},
      {"reused_block_used_before_its_allocation",
       "Another stream uses a block that is given out again before its allocation has come.",
       Rejection::kIllegalAddress,
       [](Run& run) {
         const CUstream owner = run.stream();
         const CUstream other = run.stream();
         const CUdeviceptr output = run.buffer(kOld);
         const CUdeviceptr first = allocate_async(run, owner);
         run.fill_words(owner, first, kForeign);
         run.check(cuMemFreeAsync(first, owner));
         run.synchronize(owner);
         Gate gate;
         gate.hold(owner);
         const CUdeviceptr data = allocate_async(run, owner);
         if (run.ordered()) run.order(other, owner);
         run.fill_words(other, data, kNew);
         run.copy_words(other, output, data);
         run.let_run(other);
         gate.open();
         run.expect(output, kNew);
       }},
      {"block_used_before_the_free_it_waits_for",
       "A block is used whose allocation waits for another stream's free of the same bytes.",
       Rejection::kIllegalAddress,
       [](Run& run) {
         constexpr std::size_t kMostOfTheDevice = std::size_t{40} << 20;
         const CUstream earlier = run.stream();
         const CUstream owner = run.stream();
         const CUstream other = run.stream();
         const CUdeviceptr output = run.buffer(kOld);
         CUdeviceptr first = 0;
         CUdeviceptr data = 0;
         run.check(cuMemAllocAsync(&first, kMostOfTheDevice, earlier));
         Gate gate;
         gate.hold(earlier);
         run.check(cuMemFreeAsync(first, earlier));
         run.check(cuMemAllocAsync(&data, kMostOfTheDevice, owner));
         if (run.ordered()) run.order(other, owner);
         run.fill_words(other, data, kNew);
         run.copy_words(other, output, data);
         run.let_run(other);
         gate.open();
         run.expect(output, kNew);
       },
       {"SIMGPU_MEMORY=64M"}},
      {"block_freed_by_another_stream",
       "Another stream frees a block that a kernel still reads, and uses it again.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const CUstream owner = run.stream();
         const CUstream other = run.stream();
         const CUdeviceptr output = run.buffer(kOld);
         const CUdeviceptr data = allocate_async(run, owner);
         run.fill_words(owner, data, kNew);
         run.synchronize(owner);
         Gate gate;
         run.copy_gated(kWaitAndCopy, owner, output, data, gate);
         gate.wait_for_kernel();
         if (run.ordered()) run.order(other, owner);
         run.check(cuMemFreeAsync(data, other));
         const CUdeviceptr again = allocate_async(run, other);
         run.fill_words(other, again, kForeign);
         run.let_run(other);
         gate.open();
         run.expect(output, kNew);
       }},
      {"block_freed_before_another_streams_use",
       "A block is freed in its own stream before another stream's kernel has used it.",
       Rejection::kIllegalAddress,
       [](Run& run) {
         const CUstream owner = run.stream();
         const CUstream other = run.stream();
         const CUdeviceptr output = run.buffer(kOld);
         const CUdeviceptr data = allocate_async(run, owner);
         run.fill_words(owner, data, kNew);
         run.synchronize(owner);
         Gate gate;
         gate.hold(other);
         run.copy_words(other, output, data);
         if (run.ordered()) run.order(owner, other);
         run.check(cuMemFreeAsync(data, owner));
         run.let_run(owner);
         gate.open();
         run.expect(output, kNew);
       }},
      {"host_memory_unregistered_early",
       "Host memory is unregistered, and a copy from it is taken to be asynchronous still.",
       Rejection::kInvalidValue,
       [](Run& run) {
         static std::vector<std::uint32_t> memory(4 * kWords, kNew);
         const CUdeviceptr data = run.buffer(kOld);
         const CUstream stream = run.stream();
         CUdeviceptr seen_by_device = 0;
         run.check(
             cuMemHostRegister(memory.data(), memory.size() * 4, CU_MEMHOSTREGISTER_DEVICEMAP));
         run.check(cuMemHostGetDevicePointer(&seen_by_device, memory.data(), 0));
         if (!run.ordered()) run.check(cuMemHostUnregister(memory.data()));
         run.check(cuMemcpyDtoDAsync(data, seen_by_device, kBytes, stream));
         if (run.ordered()) run.synchronize(stream);
         if (run.ordered()) run.check(cuMemHostUnregister(memory.data()));
         run.expect(data, kNew);
       }},
      {"error_not_heeded", "A program goes on after a kernel's fault as if it had not been.",
       Rejection::kIllegalAddress,
       [](Run& run) {
         const CUdeviceptr data = run.buffer(kOld);
         const CUstream stream = run.stream();
         if (!run.ordered()) run.fill_words(stream, run.reserve(), kNew);
         (void)cuStreamSynchronize(stream);
         run.fill_words(stream, data, kNew);
         run.expect(data, kNew);
       }},
  };
}

}  // namespace wrong_programs
