// Programs in which a stream does not wait for another.

#include <thread>

#include "tests/simgpu/wrong_programs/kernels.h"
#include "tests/simgpu/wrong_programs/program.h"

namespace wrong_programs {
namespace {

void overwrite_input(Run& run, const char* kernel) {
  const CUdeviceptr input = run.buffer(kNew);
  const CUdeviceptr output = run.buffer(kOld);
  const CUstream compute = run.stream();
  const CUstream copies = run.stream();
  Gate gate;
  run.copy_gated(kernel, compute, output, input, gate);
  gate.wait_for_kernel();
  if (run.ordered()) run.order(copies, compute);
  run.copy_in(copies, input, run.pinned(kForeign));
  run.let_run(copies);
  gate.open();
  run.expect(output, kNew);
}

}  // namespace

std::vector<WrongProgram> wrong_waits() {
  return {
      {"kernel_before_copy_in", "A kernel does not wait for the copy that brings its input.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const CUdeviceptr input = run.buffer(kOld);
         const CUdeviceptr output = run.buffer(kOld);
         const CUstream copies = run.stream();
         const CUstream compute = run.stream();
         Gate gate;
         gate.hold(copies);
         run.copy_in(copies, input, run.pinned(kNew));
         if (run.ordered()) run.order(compute, copies);
         run.copy_words(compute, output, input);
         run.let_run(compute);
         gate.open();
         run.expect(output, kNew);
       }},
      {"mixer_before_copy_in", "A mixer does not wait for the copy that brings its input.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const CUdeviceptr input = run.buffer(kOld);
         const CUdeviceptr output = run.buffer(kOld);
         const CUstream copies = run.stream();
         const CUstream compute = run.stream();
         Gate gate;
         gate.hold(copies);
         run.copy_in(copies, input, run.pinned(kNew));
         if (run.ordered()) run.order(compute, copies);
         run.mix(compute, output, input);
         run.let_run(compute);
         gate.open();
         run.answer(output);
       }},
      {"copy_out_before_kernel",
       "A copy out does not wait for the kernel that computes its source.", Rejection::kOtherBytes,
       [](Run& run) {
         const CUdeviceptr data = run.buffer(kOld);
         const CUstream compute = run.stream();
         const CUstream copies = run.stream();
         std::uint32_t* const host = run.pinned(kOld);
         Gate gate;
         run.fill_gated("wait_and_fill", compute, data, kNew, gate);
         gate.wait_for_kernel();
         if (run.ordered()) run.order(copies, compute);
         run.copy_out(copies, host, data);
         run.let_run(copies);
         gate.open();
         run.synchronize(copies);
         run.expect(host, kNew);
       }},
      {"copy_out_before_kernel_ends",
       "A copy out takes what a kernel has written before the kernel has ended.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const CUdeviceptr data = run.buffer(kOld);
         const CUstream compute = run.stream();
         const CUstream copies = run.stream();
         std::uint32_t* const host = run.pinned(kOld);
         Gate gate;
         run.fill_gated("fill_and_wait", compute, data, kNew, gate);
         gate.wait_for_kernel();
         if (run.ordered()) run.order(copies, compute);
         run.copy_out(copies, host, data);
         run.let_run(copies);
         gate.open();
         run.synchronize(copies);
         run.expect(host, kNew);
       }},
      {"copy_out_before_mixer", "A copy out does not wait for the mixer that computes its source.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const CUdeviceptr input = run.buffer(kNew);
         const CUdeviceptr output = run.buffer(kOld);
         const CUdeviceptr copy = run.buffer(kOld);
         const CUstream compute = run.stream();
         const CUstream copies = run.stream();
         std::uint32_t* const host = run.pinned(kOld);
         Gate gate;
         gate.hold(compute);
         run.mix(compute, output, input);
         if (run.ordered()) run.order(copies, compute);
         run.copy_out(copies, host, output);
         run.let_run(copies);
         gate.open();
         run.copy_in(copies, copy, host);
         run.answer(copy);
       }},
      {"copy_out_under_mixer",
       "A copy out takes its source while the mixer that computes it runs.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const CUdeviceptr input = run.buffer(kNew);
         const CUdeviceptr output = run.buffer(kOld);
         const CUdeviceptr copy = run.buffer(kOld);
         const CUstream compute = run.stream();
         const CUstream copies = run.stream();
         std::uint32_t* const host = run.pinned(kOld);
         const CUevent before = run.mark(compute);
         run.mix(compute, output, input);
         run.let_begin(before);
         if (run.ordered()) run.order(copies, compute);
         run.copy_out(copies, host, output);
         run.synchronize(copies);
         if (!run.ordered()) run.must_still_run(compute);
         run.copy_in(copies, copy, host);
         run.answer(copy);
       },
       {"SIMGPU_KERNEL_US=500000"}},
      {"kernel_before_kernel", "A kernel does not wait for another stream's kernel.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const CUdeviceptr between = run.buffer(kOld);
         const CUdeviceptr output = run.buffer(kOld);
         const CUstream first = run.stream();
         const CUstream second = run.stream();
         Gate gate;
         run.fill_gated("wait_and_fill", first, between, kNew, gate);
         gate.wait_for_kernel();
         if (run.ordered()) run.order(second, first);
         run.copy_words(second, output, between);
         run.let_run(second);
         gate.open();
         run.expect(output, kNew);
       }},
      {"input_overwritten_under_kernel",
       "A copy in overwrites a kernel's input, and does not wait for the kernel.",
       Rejection::kOtherBytes, [](Run& run) { overwrite_input(run, kWaitAndCopy); }},
      {"input_overwritten_under_plain_kernel",
       "A copy in overwrites what a kernel only reads, though its name does not tell so.",
       Rejection::kOtherBytes,
       [](Run& run) { overwrite_input(run, "wait_and_copy_plain"); },
       {"SIMGPU_OPERANDS=live"}},
      {"device_copy_before_kernel", "A copy inside device memory does not wait for a kernel.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const CUdeviceptr data = run.buffer(kOld);
         const CUdeviceptr copy = run.buffer(kOld);
         const CUstream compute = run.stream();
         const CUstream copies = run.stream();
         Gate gate;
         run.fill_gated("wait_and_fill", compute, data, kNew, gate);
         gate.wait_for_kernel();
         if (run.ordered()) run.order(copies, compute);
         run.check(cuMemcpyDtoDAsync(copy, data, kBytes, copies));
         run.let_run(copies);
         gate.open();
         run.expect(copy, kNew);
       }},
      {"kernel_before_memset", "A kernel does not wait for another stream's memset.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const CUdeviceptr input = run.buffer(kOld);
         const CUdeviceptr output = run.buffer(kOld);
         const CUstream sets = run.stream();
         const CUstream compute = run.stream();
         Gate gate;
         gate.hold(sets);
         run.check(cuMemsetD32Async(input, kNew, kWords, sets));
         if (run.ordered()) run.order(compute, sets);
         run.copy_words(compute, output, input);
         run.let_run(compute);
         gate.open();
         run.expect(output, kNew);
       }},
      {"event_on_the_wrong_stream", "The event is recorded on a stream that the work is not on.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const CUdeviceptr input = run.buffer(kOld);
         const CUdeviceptr output = run.buffer(kOld);
         const CUstream copies = run.stream();
         const CUstream other = run.stream();
         const CUstream compute = run.stream();
         Gate gate;
         gate.hold(copies);
         run.copy_in(copies, input, run.pinned(kNew));
         run.order(compute, run.ordered() ? copies : other);
         run.copy_words(compute, output, input);
         run.let_run(compute);
         gate.open();
         run.expect(output, kNew);
       }},
      {"event_recorded_again", "An event is recorded again before its first record is waited for.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const CUdeviceptr input = run.buffer(kOld);
         const CUdeviceptr output = run.buffer(kOld);
         const CUstream copies = run.stream();
         const CUstream other = run.stream();
         const CUstream compute = run.stream();
         CUevent event = nullptr;
         run.check(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
         Gate gate;
         gate.hold(copies);
         run.copy_in(copies, input, run.pinned(kNew));
         run.check(cuEventRecord(event, copies));
         if (run.ordered()) run.check(cuStreamWaitEvent(compute, event, 0));
         run.check(cuEventRecord(event, other));
         run.check(cuStreamWaitEvent(compute, event, 0));
         run.copy_words(compute, output, input);
         run.let_run(compute);
         gate.open();
         run.expect(output, kNew);
       }},
      {"wait_before_record", "An event is waited for before it is recorded.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const CUdeviceptr input = run.buffer(kOld);
         const CUdeviceptr output = run.buffer(kOld);
         const CUstream copies = run.stream();
         const CUstream compute = run.stream();
         CUevent event = nullptr;
         run.check(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
         Gate gate;
         gate.hold(copies);
         run.copy_in(copies, input, run.pinned(kNew));
         if (run.ordered()) run.check(cuEventRecord(event, copies));
         run.check(cuStreamWaitEvent(compute, event, 0));
         if (!run.ordered()) run.check(cuEventRecord(event, copies));
         run.copy_words(compute, output, input);
         run.let_run(compute);
         gate.open();
         run.expect(output, kNew);
       }},
      {"record_before_the_work", "An event is recorded before the work that it is to stand for.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const CUdeviceptr input = run.buffer(kOld);
         const CUdeviceptr output = run.buffer(kOld);
         const CUstream copies = run.stream();
         const CUstream compute = run.stream();
         std::uint32_t* const host = run.pinned(kNew);
         CUevent event = nullptr;
         run.check(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
         Gate gate;
         if (!run.ordered()) run.check(cuEventRecord(event, copies));
         gate.hold(copies);
         run.copy_in(copies, input, host);
         if (run.ordered()) run.check(cuEventRecord(event, copies));
         run.check(cuStreamWaitEvent(compute, event, 0));
         run.copy_words(compute, output, input);
         run.let_run(compute);
         gate.open();
         run.expect(output, kNew);
       }},
      {"legacy_order_of_a_non_blocking_stream",
       "A non-blocking stream is taken to wait for the legacy stream.", Rejection::kOtherBytes,
       [](Run& run) {
         const CUdeviceptr data = run.buffer(kOld);
         const CUstream copies =
             run.stream(run.ordered() ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
         std::uint32_t* const host = run.pinned(kOld);
         Gate gate;
         run.fill_gated("wait_and_fill", CU_STREAM_LEGACY, data, kNew, gate);
         gate.wait_for_kernel();
         run.copy_out(copies, host, data);
         run.let_run(copies);
         gate.open();
         run.synchronize(copies);
         run.expect(host, kNew);
       }},
      {"synchronous_copy_beside_a_non_blocking_stream",
       "A synchronous copy is taken to wait for a non-blocking stream.", Rejection::kOtherBytes,
       [](Run& run) {
         const CUdeviceptr data = run.buffer(kOld);
         const CUstream compute = run.stream();
         std::uint32_t* const host = run.pinned(kOld);
         Gate gate;
         run.fill_gated("wait_and_fill", compute, data, kNew, gate);
         gate.wait_for_kernel();
         if (run.ordered()) gate.open();
         if (run.ordered()) run.synchronize(compute);
         run.check(cuMemcpyDtoH(host, data, kBytes));
         gate.open();
         run.expect(host, kNew);
       }},
      {"device_copy_taken_as_synchronous",
       "cuMemcpyDtoD, which does not hold the host, is taken to be done when it returns.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const CUdeviceptr source = run.buffer(kNew);
         const CUdeviceptr data = run.buffer(kOld);
         const CUdeviceptr output = run.buffer(kOld);
         const CUstream compute = run.stream();
         Gate gate;
         gate.hold(CU_STREAM_LEGACY);
         run.check(cuMemcpyDtoD(data, source, kBytes));
         if (run.ordered()) run.order(compute, CU_STREAM_LEGACY);
         run.copy_words(compute, output, data);
         run.let_run(compute);
         gate.open();
         run.expect(output, kNew);
       }},
      {"memset_taken_as_synchronous",
       "cuMemsetD32, which does not hold the host, is taken to be done when it returns.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const CUdeviceptr data = run.buffer(kOld);
         const CUdeviceptr output = run.buffer(kOld);
         const CUstream compute = run.stream();
         Gate gate;
         gate.hold(CU_STREAM_LEGACY);
         run.check(cuMemsetD32(data, kNew, kWords));
         if (run.ordered()) run.order(compute, CU_STREAM_LEGACY);
         run.copy_words(compute, output, data);
         run.let_run(compute);
         gate.open();
         run.expect(output, kNew);
       }},
      {"another_threads_per_thread_stream",
       "A thread's default stream is taken to wait for that of another thread.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const CUdeviceptr data = run.buffer(kOld);
         std::uint32_t* const host = run.pinned(kOld);
         CUcontext context = nullptr;
         run.check(cuCtxGetCurrent(&context));
         CUevent event = nullptr;
         run.check(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
         Gate gate;
         std::thread([&] {
           run.check(cuCtxSetCurrent(context));
           run.fill_gated("wait_and_fill", CU_STREAM_PER_THREAD, data, kNew, gate);
           run.check(cuEventRecord(event, CU_STREAM_PER_THREAD));
         }).join();
         gate.wait_for_kernel();
         if (run.ordered()) run.check(cuStreamWaitEvent(CU_STREAM_PER_THREAD, event, 0));
         run.copy_out(CU_STREAM_PER_THREAD, host, data);
         run.let_run(CU_STREAM_PER_THREAD);
         gate.open();
         run.synchronize(CU_STREAM_PER_THREAD);
         run.expect(host, kNew);
       }},
      {"struct_overwritten_early",
       "A kernel's parameters lie in device memory, and are overwritten before it runs.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const CUdeviceptr right = run.buffer(kNew);
         const CUdeviceptr wrong = run.buffer(kForeign);
         const CUdeviceptr output = run.buffer(kOld);
         const CUstream compute = run.stream();
         const CUstream copies = run.stream();
         CUdeviceptr parameters = 0;
         run.check(cuMemAlloc(&parameters, sizeof(Request)));
         auto* const host = reinterpret_cast<Request*>(run.pinned(0));
         const auto request = [output](CUdeviceptr input) {
           return Request{reinterpret_cast<unsigned*>(output),
                          reinterpret_cast<const unsigned*>(input), kWords};
         };
         host[0] = request(right);
         host[1] = request(wrong);
         run.check(cuMemcpyHtoD(parameters, &host[0], sizeof(Request)));
         Gate gate;
         gate.hold(compute);
         run.launch("copy_as_told", compute, {const_cast<CUdeviceptr*>(&parameters)});
         if (run.ordered()) run.order(copies, compute);
         run.check(cuMemcpyHtoDAsync(parameters, &host[1], sizeof(Request), copies));
         run.let_run(copies);
         gate.open();
         run.expect(output, kNew);
       }},
  };
}

}  // namespace wrong_programs
