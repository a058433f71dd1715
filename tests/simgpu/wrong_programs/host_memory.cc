// Programs whose host code is too early: with pinned memory, host functions and streams that end.

#include <algorithm>

#include "tests/simgpu/wrong_programs/program.h"

namespace wrong_programs {
namespace {

/// Bytes of a copy that takes a third of a second over kSlowLink.
constexpr std::size_t kLargeBytes = std::size_t{16} << 20;
constexpr std::size_t kLargeWords = kLargeBytes / sizeof(std::uint32_t);
const std::vector<std::string> kSlowLink{"SIMGPU_H2D_GBPS=0.05", "SIMGPU_D2H_GBPS=0.05"};

}  // namespace

std::vector<WrongProgram> wrong_host_memory() {
  return {
      {"host_reads_before_the_copy",
       "The host reads pinned memory before the copy into it is done.", Rejection::kOtherBytes,
       [](Run& run) {
         const CUdeviceptr data = run.buffer(kNew);
         const CUstream copies = run.stream();
         std::uint32_t* const host = run.pinned(kOld);
         Gate gate;
         gate.hold(copies);
         run.copy_out(copies, host, data);
         if (run.ordered()) gate.open();
         if (run.ordered()) run.synchronize(copies);
         run.expect(host, kNew);
       }},
      {"host_reads_under_the_copy", "The host reads pinned memory while the copy into it runs.",
       Rejection::kOtherBytes,
       [](Run& run) {
         CUdeviceptr data = 0;
         run.check(cuMemAlloc(&data, kLargeBytes));
         run.check(cuMemsetD32(data, kNew, kLargeWords));
         run.check(cuCtxSynchronize());
         const CUstream copies = run.stream();
         std::uint32_t* const host = run.pinned(kOld, kLargeBytes);
         const CUevent before = run.mark(copies);
         run.check(cuMemcpyDtoHAsync(host, data, kLargeBytes, copies));
         run.let_begin(before);
         if (run.ordered()) run.synchronize(copies);
         const std::vector<std::uint32_t> seen(host, host + kWords);
         if (!run.ordered()) run.must_still_run(copies);
         run.expect(seen.data(), kNew);
       },
       kSlowLink},
      {"host_rewrites_before_the_copy",
       "The host writes pinned memory again before the copy from it has begun.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const CUdeviceptr data = run.buffer(kOld);
         const CUstream copies = run.stream();
         std::uint32_t* const host = run.pinned(kNew);
         Gate gate;
         gate.hold(copies);
         run.copy_in(copies, data, host);
         if (run.ordered()) gate.open();
         if (run.ordered()) run.synchronize(copies);
         std::fill_n(host, kWords, kForeign);
         gate.open();
         run.expect(data, kNew);
       }},
      {"host_rewrites_under_the_copy",
       "The host writes the end of pinned memory again while the copy from it runs.",
       Rejection::kOtherBytes,
       [](Run& run) {
         CUdeviceptr data = 0;
         run.check(cuMemAlloc(&data, kLargeBytes));
         const CUstream copies = run.stream();
         std::uint32_t* const host = run.pinned(kNew, kLargeBytes);
         const CUevent before = run.mark(copies);
         run.check(cuMemcpyHtoDAsync(data, host, kLargeBytes, copies));
         run.let_begin(before);
         if (run.ordered()) run.synchronize(copies);
         std::fill_n(host + kLargeWords - kWords, kWords, kForeign);
         if (!run.ordered()) run.must_still_run(copies);
         run.expect(data + kLargeBytes - kBytes, kNew);
       },
       kSlowLink},
      {"query_not_heeded",
       "The host asks whether an event is complete, and does not heed the answer.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const CUdeviceptr data = run.buffer(kNew);
         const CUstream copies = run.stream();
         std::uint32_t* const host = run.pinned(kOld);
         Gate gate;
         gate.hold(copies);
         run.copy_out(copies, host, data);
         const CUevent event = run.mark(copies);
         if (run.ordered()) gate.open();
         while (cuEventQuery(event) == CUDA_ERROR_NOT_READY && run.ordered()) {
         }
         run.expect(host, kNew);
       }},
      {"host_function_not_waited_for", "The host reads what a host function has not written yet.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const CUstream stream = run.stream();
         static std::uint32_t* const host = run.pinned(kOld);
         Gate gate;
         gate.hold(stream);
         run.check(cuLaunchHostFunc(
             stream, [](void*) { std::fill_n(host, kWords, kNew); }, nullptr));
         if (run.ordered()) gate.open();
         if (run.ordered()) run.synchronize(stream);
         run.expect(host, kNew);
       }},
      {"host_function_before_the_copy",
       "A host function reads what another stream's copy has not brought yet.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const CUdeviceptr data = run.buffer(kNew);
         const CUstream copies = run.stream();
         const CUstream functions = run.stream();
         static std::uint32_t* const host = run.pinned(kOld);
         static std::vector<std::uint32_t> seen;
         Gate gate;
         run.fill_gated("wait_and_fill", copies, run.buffer(kOld), kNew, gate);
         gate.wait_for_kernel();
         run.copy_out(copies, host, data);
         if (run.ordered()) run.order(functions, copies);
         run.check(cuLaunchHostFunc(
             functions, [](void*) { seen.assign(host, host + kWords); }, nullptr));
         run.let_run(functions);
         gate.open();
         run.check(cuCtxSynchronize());
         run.expect(seen.data(), kNew);
       }},
      {"destroyed_stream_taken_as_done",
       "The work of a stream is taken to be done because the stream was destroyed.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const CUdeviceptr data = run.buffer(kNew);
         const CUstream copies = run.stream();
         std::uint32_t* const host = run.pinned(kOld);
         Gate gate;
         gate.hold(copies);
         run.copy_out(copies, host, data);
         if (run.ordered()) gate.open();
         if (run.ordered()) run.synchronize(copies);
         run.check(cuStreamDestroy(copies));
         run.expect(host, kNew);
       }},
      {"another_stream_waited_for", "The host waits for a stream that the copy is not on.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const CUdeviceptr data = run.buffer(kNew);
         const CUstream copies = run.stream();
         const CUstream other = run.stream();
         std::uint32_t* const host = run.pinned(kOld);
         Gate gate;
         gate.hold(copies);
         run.copy_out(copies, host, data);
         if (run.ordered()) gate.open();
         run.synchronize(run.ordered() ? copies : other);
         run.expect(host, kNew);
       }},
      // The copy reads the beginning of a large allocation: whatever else this process maps
      // meanwhile comes to lie at the end of the gap that the allocation leaves.
      {"copy_from_freed_pinned_memory", "A copy reads pinned memory that was freed.",
       Rejection::kSegmentationFault,
       [](Run& run) {
         const CUdeviceptr data = run.buffer(kOld);
         const CUstream copies = run.stream();
         std::uint32_t* const host = run.pinned(kNew, std::size_t{16} << 20);
         if (!run.ordered()) run.check(cuMemFreeHost(host));
         run.copy_in(copies, data, host);
         if (run.ordered()) run.synchronize(copies);
         if (run.ordered()) run.check(cuMemFreeHost(host));
         run.expect(data, kNew);
       }},
      {
          "host_reads_device_memory",
          "Host code reads device memory without a copy.",
          Rejection::kProtectionFault,
          [](Run& run) {
            const CUdeviceptr data = run.buffer(kNew);
            std::uint32_t* const host = run.pinned(kOld);
            if (run.ordered()) run.check(cuMemcpyDtoH(host, data, kBytes));
            run.expect(run.ordered() ? host : reinterpret_cast<const std::uint32_t*>(data), kNew);
          },
      },
      {"host_writes_device_memory", "Host code writes device memory without a copy.",
       Rejection::kProtectionFault,
       [](Run& run) {
         const CUdeviceptr data = run.buffer(kOld);
         if (run.ordered()) run.fill(data, kNew);
         if (!run.ordered()) std::fill_n(reinterpret_cast<std::uint32_t*>(data), kWords, kNew);
         run.expect(data, kNew);
       }},
  };
}

}  // namespace wrong_programs
