// A kernel that keeps the device busy for as long as a question takes.
#pragma once

#include "tools/superpipe/probes/session.h"

namespace superpipe::cli {

/// One kernel that reads and writes memory until this object goes, at most for its own
/// limit: a driver call that waits for running kernels waits no longer than that.
class BusyKernel {
 public:
  /// Launches it on a stream of its own, made with `flags`, over `words` words at `memory`. Throws
  /// CallFailed.
  BusyKernel(Session& session, CUdeviceptr memory, unsigned long long words,
             unsigned long long limit_ns, unsigned flags = CU_STREAM_NON_BLOCKING);
  ~BusyKernel();
  BusyKernel(const BusyKernel&) = delete;
  BusyKernel& operator=(const BusyKernel&) = delete;

  [[nodiscard]] bool running() const { return stream_.busy(); }
  [[nodiscard]] const Stream& stream() const { return stream_; }
  /// Lets it end, without waiting for that.
  void stop() { __atomic_store_n(stop_, 1U, __ATOMIC_RELEASE); }

 private:
  Session& session_;
  unsigned* stop_ = nullptr;
  Stream stream_;
};

}  // namespace superpipe::cli
