// H33: can another device use a page that lies on the host?

#include <stdexcept>
#include <string>

#include "tools/superpipe/probes/host_pages.h"

namespace superpipe::cli {
namespace {

/// How many words at `address` are not the pattern's for a kernel of `second`, whose own memory is
/// not what Measurement has.
unsigned long long wrong_words(Session& second, CUdeviceptr address, std::size_t bytes,
                               unsigned seed) {
  const unsigned long long words = bytes / sizeof(unsigned);
  CUdeviceptr counter = 0;
  unsigned long long wrong = 0;
  second.cu().cuMemAlloc.must(&counter, sizeof(wrong));
  second.cu().cuMemcpyHtoD.must(counter, &wrong, sizeof(wrong));
  second.launch("probe_check", nullptr, words, address, words, seed, counter);
  second.cu().cuMemcpyDtoH.must(&wrong, counter, sizeof(wrong));
  second.cu().cuMemFree.must(counter);
  return wrong;
}

}  // namespace

void probe_host_page_peers(const ProbeSetting& setting, const ProbeReport& report) {
  constexpr unsigned kOfFirst = 51, kOfSecond = 52;
  report.step("opening two devices");
  Session first(setting);
  int devices = 0;
  first.cu().cuDeviceGetCount.must(&devices);
  report.figure("devices", devices);
  if (devices < 2) throw Skipped("it needs two devices, and there is one");
  const HostPlace place = find_host_place(first, setting, report);
  const std::size_t bytes = page_bytes(first, place.location, setting.pick(64, 32, 2) * kMiB);
  need_host_memory(setting, bytes);
  Session second(setting, 1);
  first.make_current();
  Measurement of_first(first);
  const Pages pages(first, bytes, place.location);
  Range range(first, bytes);
  range.map(pages);
  report.figure("bytes", bytes);
  report.step("writing on the first device");
  of_first.fill(range.address(), bytes, kOfFirst);
  of_first.wait();

  report.step("letting the second device use the page");
  try {
    range.set_access(0, bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
                     {CU_MEM_LOCATION_TYPE_DEVICE, 1});
  } catch (const std::runtime_error& refused) {
    report.answer(std::string("no: ") + refused.what(), false);
    return;
  }
  second.make_current();
  report.step("reading on the second device");
  const unsigned long long read = wrong_words(second, range.address(), bytes, kOfFirst);
  report.step("writing on the second device");
  const unsigned long long words = bytes / sizeof(unsigned);
  second.launch("probe_fill", nullptr, words, range.address(), words, kOfSecond);
  second.cu().cuCtxSynchronize.must();
  first.make_current();
  report.step("reading on the first device");
  const unsigned long long written = of_first.wrong_words(range.address(), bytes, kOfSecond);
  report.figure("wrong_words_read", read);
  report.figure("wrong_words_written", written);
  report.answer(read + written == 0 ? "yes: it reads what the first one wrote, and writes"
                                    : "no: " + std::to_string(read + written) + " wrong words",
                read + written == 0);
}

}  // namespace superpipe::cli
