// H6: does a kernel's write through a read-only mapping fail?

#include <string>

#include "tools/superpipe/probes/kernels.h"
#include "tools/superpipe/probes/session.h"

namespace superpipe::cli {

void probe_read_only_mappings(const ProbeSetting& setting, const ProbeReport& report) {
  constexpr unsigned kFirst = 8, kSecond = 9;
  constexpr unsigned long long kWords = kGranule / sizeof(unsigned);
  report.step("opening the device");
  Session session(setting);
  session.need_device_memory(2 * kGranule);
  const Driver& cu = session.cu();
  const Pages pages(session, kGranule);
  Range writable(session, kGranule);
  Range read_only(session, kGranule);
  writable.map(pages);
  report.step("mapping read-only");
  try {
    read_only.map(pages, 0, CU_MEM_ACCESS_FLAGS_PROT_READ);
  } catch (const CallFailed& refused) {
    // Any other error is no answer.
    if (refused.code() != CUDA_ERROR_INVALID_VALUE && refused.code() != CUDA_ERROR_NOT_PERMITTED) {
      throw;
    }
    report.answer(std::string("no: the driver refuses read-only mappings: ") + refused.what(),
                  false);
    return;
  }
  DeviceMemory counter(session, kGranule);
  const Stream stream(session);

  // What follows says something only if writing and reading work where they are allowed.
  report.step("writing through one mapping, reading through the read-only one");
  cu.cuMemsetD8Async.must(counter.address(), 0, 8, stream.get());
  session.launch("probe_fill", stream.get(), kWords, writable.address(), kWords, kFirst);
  session.launch("probe_check", stream.get(), kWords, read_only.address(), kWords, kFirst,
                 counter.address());
  stream.wait();
  unsigned long long wrong = 0;
  cu.cuMemcpyDtoH.must(&wrong, counter.address(), sizeof(wrong));
  report.figure("wrong_words_read", wrong);

  report.step("writing through the read-only mapping");
  CUresult result = CUDA_SUCCESS;
  try {
    session.launch("probe_fill", stream.get(), kWords, read_only.address(), kWords, kSecond);
    result = cu.cuStreamSynchronize(stream.get());
  } catch (const CallFailed& failed) {
    result = static_cast<CUresult>(failed.code());
  }
  report.figure("error", result == CUDA_SUCCESS ? "none" : cu.name_of(result));
  if (result != CUDA_SUCCESS) {
    const CUresult again = cu.cuCtxSynchronize();
    report.figure("context_is_lost", again != CUDA_SUCCESS);
    report.answer("yes: the kernel fails with " + cu.name_of(result) +
                      (again != CUDA_SUCCESS ? ", and the context is lost" : ""),
                  true);
    return;
  }
  unsigned word = 0;
  cu.cuMemcpyDtoH.must(&word, writable.address(), sizeof(word));
  const bool written = word != pattern_word(kFirst, 0);
  report.figure("written", written);
  report.answer(written ? "no: the kernel wrote, and nothing was said"
                        : "no: nothing was written, and nothing was said",
                false);
}

}  // namespace superpipe::cli
