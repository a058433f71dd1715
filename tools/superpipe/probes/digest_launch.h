// superpipe's own digest kernel, launched by the probes.
#pragma once

#include <cstddef>

#include "residency/content_digest.h"
#include "residency/transfer/digest_kernel.h"
#include "tools/superpipe/probes/session.h"

namespace superpipe::cli {

/// The digest kernel, with a key and with pinned memory for one result at a time.
class ProbeDigestKernel {
 public:
  explicit ProbeDigestKernel(Session& session);

  [[nodiscard]] const DigestKey& key() const { return key_; }
  /// Enqueues the digest of `size` bytes at `content`.
  void enqueue(CUdeviceptr content, std::size_t size, CUstream stream) const;
  /// What it was. REQUIRES that the last one that was enqueued is over, and was of `size` bytes.
  [[nodiscard]] ContentDigest digest(std::size_t size) const;

 private:
  [[nodiscard]] unsigned blocks_of(std::size_t size) const {
    return digest_blocks(size, session_.multiprocessors());
  }

  Session& session_;
  const DigestKey key_ = draw_digest_key();
  const PinnedMemory parts_;
  const CUfunction kernel_;
};

}  // namespace superpipe::cli
