// superpipe's own kernel on the host, for simgpu: libsuperpipe.simgpu.so, beside libsuperpipe.so.

#include "tools/simgpu/kernel_plugin.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "residency/content_digest.h"
#include "residency/transfer/digest_kernel.h"

namespace {

using superpipe::ContentDigest;
using superpipe::DigestKey;

// The kernel's parameters, in the order of superpipe::DigestParameters.
enum Parameter : std::size_t { kContent, kSize, kKey, kParts };

std::uint64_t argument(const SimgpuLaunch* launch, Parameter parameter) {
  std::uint64_t word = 0;
  std::memcpy(&word, launch->arguments[parameter], sizeof(word));
  return word;
}

template <typename Value>
Value* address(const SimgpuLaunch* launch, Parameter parameter) {
  return reinterpret_cast<Value*>(argument(launch, parameter));
}

void digest(const SimgpuLaunch* launch) {
  DigestKey key;
  std::memcpy(&key, launch->arguments[kKey], sizeof(key));
  // One part has it all, and those of the other blocks are nothing.
  auto* const parts = address<ContentDigest>(launch, kParts);
  std::fill_n(parts, launch->grid[0], ContentDigest{});
  parts[0] = superpipe::digest_of(
      key, std::span(address<const std::byte>(launch, kContent), argument(launch, kSize)));
}

// Each byte is read once. What the arithmetic takes is less on every card.
double digest_us(const SimgpuLaunch* launch) {
  const auto bytes = static_cast<double>(argument(launch, kSize));
  return std::max(launch->shortest_us, bytes / launch->device_bytes_per_us);
}

constexpr SimgpuKernel kKernels[] = {{superpipe::kDigestKernel, digest, 0, digest_us}};

}  // namespace

const SimgpuKernel* simgpu_kernels(size_t* count) {
  *count = sizeof(kKernels) / sizeof(kKernels[0]);
  return kKernels;
}
