// H19: can another device be given access to mapped memory and to a pool?

#include <string>
#include <vector>

#include "tools/superpipe/probes/kernels.h"
#include "tools/superpipe/probes/session.h"

namespace superpipe::cli {
namespace {

constexpr unsigned long long kGranuleWords = kGranule / sizeof(unsigned);

CUmemAccessDesc access_of(int device) {
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return access;
}

/// Fills a granule at `address` with a pattern on the first device.
void fill(Session& first, CUdeviceptr address, unsigned seed) {
  first.make_current();
  first.launch("probe_fill", nullptr, kGranuleWords, address, kGranuleWords, seed);
  first.cu().cuCtxSynchronize.must();
}

/// How many words there are not the pattern's for a kernel of the second device.
unsigned long long wrong_words(Session& second, CUdeviceptr address, unsigned seed) {
  second.make_current();
  CUdeviceptr counter = 0;
  unsigned long long wrong = 0;
  second.cu().cuMemAlloc.must(&counter, sizeof(wrong));
  second.cu().cuMemcpyHtoD.must(counter, &wrong, sizeof(wrong));
  second.launch("probe_check", nullptr, kGranuleWords, address, kGranuleWords, seed, counter);
  second.cu().cuMemcpyDtoH.must(&wrong, counter, sizeof(wrong));
  second.cu().cuMemFree.must(counter);
  return wrong;
}

/// Maps `pages`, which are mapped at `address`, anew again and again, and gives `devices` access.
/// @return what the driver answers.
CUresult give_access(const Session& session, const Pages& pages, CUdeviceptr address,
                     const std::vector<CUmemAccessDesc>& devices, std::vector<double>& seconds) {
  CUresult answer = CUDA_SUCCESS;
  for (int i = 0; i < 64 && answer == CUDA_SUCCESS; ++i) {
    session.cu().cuMemUnmap.must(address, kGranule);
    session.cu().cuMemMap.must(address, kGranule, 0, pages.handle(), 0);
    seconds.push_back(host_seconds([&] {
      answer = session.cu().cuMemSetAccess(address, kGranule, devices.data(), devices.size());
    }));
  }
  return answer;
}

}  // namespace

void probe_peer_access(const ProbeSetting& setting, const ProbeReport& report) {
  constexpr unsigned kMapped = 11, kOfPool = 12;
  report.step("opening two devices");
  Session first(setting);
  const Driver& cu = first.cu();
  int devices = 0;
  cu.cuDeviceGetCount.must(&devices);
  report.figure("devices", devices);
  if (devices < 2) throw Skipped("it needs two devices, and there is one");
  int reaches = 0;
  cu.cuDeviceCanAccessPeer.must(&reaches, 1, 0);
  report.figure("device_1_reaches_device_0", reaches != 0);
  if (reaches == 0) throw Skipped("device 1 does not reach the memory of device 0");
  Session second(setting, 1);

  report.step("opening mapped memory");
  first.make_current();
  const Pages pages(first, kGranule);
  Range range(first, kGranule);
  range.map(pages);
  std::vector<double> alone, both;
  (void)give_access(first, pages, range.address(), {access_of(0)}, alone);
  const CUresult mapped =
      give_access(first, pages, range.address(), {access_of(0), access_of(1)}, both);
  report.figure("mapped", mapped == CUDA_SUCCESS ? "open" : cu.name_of(mapped));
  report.figure("set_access_alone_median_us", quantile(alone, 0.5) * 1e6);
  report.figure("set_access_for_both_median_us", quantile(both, 0.5) * 1e6);

  report.step("opening a pool");
  CUmemoryPool pool = nullptr;
  CUdeviceptr of_pool = 0;
  cu.cuDeviceGetDefaultMemPool.must(&pool, 0);
  cu.cuMemAllocAsync.must(&of_pool, kGranule, nullptr);
  const CUmemAccessDesc peer = access_of(1);
  const CUresult opened = cu.cuMemPoolSetAccess(pool, &peer, 1);
  report.figure("pool", opened == CUDA_SUCCESS ? "open" : cu.name_of(opened));

  unsigned long long wrong = 0;
  if (mapped == CUDA_SUCCESS) {
    report.step("reading mapped memory of device 0 on device 1");
    fill(first, range.address(), kMapped);
    wrong += wrong_words(second, range.address(), kMapped);
  }
  if (opened == CUDA_SUCCESS) {
    report.step("reading memory of a pool of device 0 on device 1");
    fill(first, of_pool, kOfPool);
    wrong += wrong_words(second, of_pool, kOfPool);
  }
  first.make_current();
  cu.cuMemFreeAsync.must(of_pool, nullptr);
  report.figure("wrong_words", wrong);
  const std::string refused = mapped != CUDA_SUCCESS ? "mapped memory (" + cu.name_of(mapped) + ")"
                                                     : "pools (" + cu.name_of(opened) + ")";
  if (mapped != CUDA_SUCCESS || opened != CUDA_SUCCESS) {
    report.answer("no: the driver gives it no access to " + refused, false);
  } else if (wrong != 0) {
    report.answer("no: it reads " + std::to_string(wrong) + " wrong words", false);
  } else {
    report.answer("yes; access for both takes " + with_digits(quantile(both, 0.5) * 1e6, 1) +
                      " us, for one " + with_digits(quantile(alone, 0.5) * 1e6, 1) + " us",
                  true);
  }
}

}  // namespace superpipe::cli
