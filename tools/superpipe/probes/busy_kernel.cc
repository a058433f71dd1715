#include "tools/superpipe/probes/busy_kernel.h"

#include <exception>

namespace superpipe::cli {

BusyKernel::BusyKernel(Session& session, CUdeviceptr memory, unsigned long long words,
                       unsigned long long limit_ns, unsigned flags)
    : session_(session), stream_(session, flags) {
  // Under unified addressing the device knows such memory by the host's address.
  void* memory_of_flag = nullptr;
  session.cu().cuMemHostAlloc.must(&memory_of_flag, 4096, CU_MEMHOSTALLOC_DEVICEMAP);
  stop_ = static_cast<unsigned*>(memory_of_flag);
  *stop_ = 0;
  constexpr unsigned long long kBusyThreads = 8192;
  session.launch("probe_busy", stream_.get(), kBusyThreads, memory, words,
                 reinterpret_cast<CUdeviceptr>(stop_), limit_ns);
}

BusyKernel::~BusyKernel() {
  stop();
  try {
    stream_.wait();
  } catch (const std::exception&) {
    // The next call says the same.
  }
  session_.cu().cuMemFreeHost(stop_);
}

}  // namespace superpipe::cli
