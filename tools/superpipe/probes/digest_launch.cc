#include "tools/superpipe/probes/digest_launch.h"

#include <span>

#include "residency/transfer/digest_image.h"

namespace superpipe::cli {

ProbeDigestKernel::ProbeDigestKernel(Session& session)
    : session_(session),
      parts_(session, sizeof(DigestParts)),
      kernel_(session.kernel_of(digest_fat_binary(), digest_ptx(), kDigestKernel)) {}

void ProbeDigestKernel::enqueue(CUdeviceptr content, std::size_t size, CUstream stream) const {
  DigestParameters parameters{
      .content = content, .size = size, .key = key_, .parts = parts_.device_address()};
  session_.cu().cuLaunchKernel.must(kernel_, blocks_of(size), 1, 1, kDigestThreads, 1, 1, 0, stream,
                                    parameters.pointers().data(), nullptr);
}

ContentDigest ProbeDigestKernel::digest(std::size_t size) const {
  return sum_of(std::span(*parts_.as<const DigestParts>()).first(blocks_of(size)));
}

}  // namespace superpipe::cli
