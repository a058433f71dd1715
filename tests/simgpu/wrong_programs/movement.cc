// Programs that move buffers between pages and host memory, and leave out a step. Pages are filled
// and saved through a window, a second address of the same page, as superpipe does it.

#include <algorithm>

#include "tests/simgpu/wrong_programs/program.h"

namespace wrong_programs {
namespace {

/// A page, its window, and the place of a buffer where it can be mapped.
struct PageInUse {
  CUmemGenericAllocationHandle page;
  CUdeviceptr window;
  CUdeviceptr base;
};

PageInUse page_in_use(Run& run, std::uint32_t value) {
  const PageInUse use{run.page(), run.reserve(), run.reserve()};
  run.map(use.window, use.page);
  run.map(use.base, use.page);
  run.fill(use.base, value);
  return use;
}

/// The host's page that is to take the place of `device`, whose address it does not have yet.
PageInUse page_on_host(Run& run, const PageInUse& device, std::uint32_t value) {
  const PageInUse use{run.host_page(), run.reserve(), device.base};
  run.map(use.window, use.page);
  run.fill(use.window, value);
  return use;
}

void copy_between_windows(Run& run, CUstream stream, const PageInUse& to, const PageInUse& from) {
  run.check(cuMemcpyDtoDAsync(to.window, from.window, kBytes, stream));
}

void change_page(Run& run, const PageInUse& to) {
  run.unmap(to.base);
  run.map(to.base, to.page);
}

}  // namespace

std::vector<WrongProgram> wrong_movement() {
  return {
      {"write_back_skipped", "A buffer leaves its page without what a kernel has written.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const PageInUse use = page_in_use(run, kOld);
         const CUstream stream = run.stream();
         std::uint32_t* const slab = run.pinned(kOld);
         run.fill_words(stream, use.base, kNew);
         if (run.ordered()) run.copy_out(stream, slab, use.window);
         run.synchronize(stream);
         run.unmap(use.base);
         // Another buffer has the page for a while.
         run.fill(use.window, kForeign);
         run.copy_in(stream, use.window, slab);
         run.synchronize(stream);
         run.map(use.base, use.page);
         run.expect(use.base, kNew);
       }},
      {"write_back_before_kernel_ends", "A write-back begins while a kernel still computes.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const PageInUse use = page_in_use(run, kOld);
         const CUstream compute = run.stream();
         const CUstream copies = run.stream();
         std::uint32_t* const slab = run.pinned(kOld);
         Gate gate;
         run.fill_gated("wait_and_fill", compute, use.base, kNew, gate);
         gate.wait_for_kernel();
         if (run.ordered()) run.order(copies, compute);
         run.copy_out(copies, slab, use.window);
         run.let_run(copies);
         gate.open();
         run.synchronize(compute);
         run.synchronize(copies);
         run.unmap(use.base);
         run.fill(use.window, kForeign);
         run.copy_in(copies, use.window, slab);
         run.synchronize(copies);
         run.map(use.base, use.page);
         run.expect(use.base, kNew);
       }},
      {"page_reused_under_write_back",
       "Another buffer's content is copied into a page that a write-back still reads.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const PageInUse use = page_in_use(run, kNew);
         const CUstream out = run.stream();
         const CUstream in = run.stream();
         std::uint32_t* const slab = run.pinned(kOld);
         run.unmap(use.base);
         Gate gate;
         gate.hold(out);
         run.copy_out(out, slab, use.window);
         if (run.ordered()) run.order(in, out);
         run.copy_in(in, use.window, run.pinned(kForeign));
         run.let_run(in);
         gate.open();
         run.synchronize(out);
         run.expect(slab, kNew);
       }},
      {"slab_read_before_its_write_back",
       "A buffer comes back from its slab before its write-back has arrived there.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const PageInUse use = page_in_use(run, kNew);
         const CUdeviceptr other = run.mapped(kOld);
         const CUstream out = run.stream();
         const CUstream in = run.stream();
         std::uint32_t* const slab = run.pinned(kOld);
         Gate gate;
         gate.hold(out);
         run.copy_out(out, slab, use.window);
         if (run.ordered()) run.order(in, out);
         run.copy_in(in, other, slab);
         run.let_run(in);
         gate.open();
         run.expect(other, kNew);
       }},
      {"slab_reused_under_write_back",
       "A slab goes to another buffer while a write-back into it is on its way.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const PageInUse use = page_in_use(run, kForeign);
         const CUstream out = run.stream();
         std::uint32_t* const slab = run.pinned(kOld);
         Gate gate;
         gate.hold(out);
         run.copy_out(out, slab, use.window);
         if (run.ordered()) gate.open();
         if (run.ordered()) run.synchronize(out);
         std::fill_n(slab, kWords, kNew);
         gate.open();
         run.synchronize(out);
         run.expect(slab, kNew);
       }},
      {"fetch_skipped", "A buffer is given a page that still holds another buffer's content.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const PageInUse use = page_in_use(run, kForeign);
         const CUstream stream = run.stream();
         const CUdeviceptr base = run.reserve();
         const CUdeviceptr output = run.buffer(kOld);
         run.unmap(use.base);
         if (run.ordered()) run.copy_in(stream, use.window, run.pinned(kNew));
         run.map(base, use.page);
         run.copy_words(stream, output, base);
         run.expect(output, kNew);
       }},
      {"fetch_from_an_old_slab",
       "A fetch brings what a host copy wrote before the program's own copy.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const PageInUse use = page_in_use(run, kForeign);
         const CUdeviceptr staged = run.buffer(kNew);
         const CUstream program = run.stream();
         const CUstream in = run.stream();
         std::uint32_t* const slab = run.pinned(kOld);
         Gate gate;
         // The buffer is evicted: the program's copy into it goes to its slab.
         gate.hold(program);
         run.copy_out(program, slab, staged);
         if (run.ordered()) run.order(in, program);
         run.copy_in(in, use.window, slab);
         run.let_run(in);
         gate.open();
         run.expect(use.base, kNew);
       }},
      {"window_unmapped_under_fetch",
       "A page's window is unmapped before the fetch through it begins.",
       Rejection::kIllegalAddress,
       [](Run& run) {
         const PageInUse use = page_in_use(run, kOld);
         const CUstream in = run.stream();
         Gate gate;
         gate.hold(in);
         run.copy_in(in, use.window, run.pinned(kNew));
         if (run.ordered()) gate.open();
         if (run.ordered()) run.synchronize(in);
         run.unmap(use.window);
         gate.open();
         run.expect(use.base, kNew);
       }},
      {"page_taken_from_a_kernel",
       "A page goes to another buffer, whose content overwrites what a kernel still reads.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const PageInUse use = page_in_use(run, kNew);
         const CUdeviceptr output = run.buffer(kOld);
         const CUstream compute = run.stream();
         const CUstream in = run.stream();
         Gate gate;
         run.copy_gated(kWaitAndCopy, compute, output, use.base, gate);
         gate.wait_for_kernel();
         if (run.ordered()) run.order(in, compute);
         run.copy_in(in, use.window, run.pinned(kForeign));
         run.let_run(in);
         gate.open();
         run.expect(output, kNew);
       }},
      {"page_taken_from_a_mixer",
       "A page goes to another buffer, whose content overwrites what a mixer has yet to read.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const PageInUse use = page_in_use(run, kNew);
         const CUdeviceptr output = run.buffer(kOld);
         const CUstream compute = run.stream();
         const CUstream in = run.stream();
         Gate gate;
         gate.hold(compute);
         run.mix(compute, output, use.base);
         if (run.ordered()) run.order(in, compute);
         run.copy_in(in, use.window, run.pinned(kForeign));
         run.let_run(in);
         gate.open();
         run.answer(output);
       }},
      {"moved_to_the_host_before_its_last_write",
       "A buffer is copied to a page on the host while a kernel has yet to write it.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const PageInUse device = page_in_use(run, kOld);
         const PageInUse host = page_on_host(run, device, kForeign);
         const CUstream compute = run.stream();
         const CUstream copies = run.stream();
         Gate gate;
         run.fill_gated("wait_and_fill", compute, device.base, kNew, gate);
         gate.wait_for_kernel();
         if (run.ordered()) run.order(copies, compute);
         copy_between_windows(run, copies, host, device);
         run.let_run(copies);
         gate.open();
         run.synchronize(compute);
         run.synchronize(copies);
         change_page(run, host);
         run.expect(host.base, kNew);
       }},
      {"host_page_mapped_before_its_copy",
       "A page on the host takes a buffer's address before the buffer's content has come there.",
       Rejection::kOtherBytes,
       [](Run& run) {
         const PageInUse device = page_in_use(run, kNew);
         const PageInUse host = page_on_host(run, device, kOld);
         const CUdeviceptr output = run.buffer(kForeign);
         const CUstream compute = run.stream();
         const CUstream copies = run.stream();
         Gate gate;
         gate.hold(copies);
         copy_between_windows(run, copies, host, device);
         if (run.ordered()) gate.open();
         if (run.ordered()) run.synchronize(copies);
         change_page(run, host);
         run.copy_words(compute, output, host.base);
         run.let_run(compute);
         gate.open();
         run.expect(output, kNew);
       }},
  };
}

}  // namespace wrong_programs
