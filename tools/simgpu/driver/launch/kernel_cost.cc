#include "tools/simgpu/driver/launch/kernel_cost.h"

#include <algorithm>

namespace simgpu {
namespace {

double product_bytes(const KernelWork& work) {
  const Product& product = *work.product;
  const auto m = static_cast<double>(product.m);
  const auto n = static_cast<double>(product.n);
  const auto k = static_cast<double>(product.k);
  const double all = (m * k + k * n + m * n) * static_cast<double>(product.batches) *
                     static_cast<double>(product.element_bytes);
  double there = 0;
  for (const std::uint64_t bytes : work.operand_bytes) there += static_cast<double>(bytes);
  return std::min(all, there);
}

double product_flops(const Product& product) {
  return (product.is_complex ? 8.0 : 2.0) * static_cast<double>(product.m) *
         static_cast<double>(product.n) * static_cast<double>(product.k) *
         static_cast<double>(product.batches);
}

double streamed_bytes(const KernelWork& work) {
  double bytes = 0;
  for (const std::uint64_t there : work.operand_bytes) {
    bytes += static_cast<double>(touched_bytes(there, work.threads));
  }
  return bytes;
}

}  // namespace

LinkTimes link_times(const Card& card, const HostTraffic& traffic) {
  return {.read = traffic.read / (card.h2d_gbps * kReadShareOfLink),
          .written = traffic.written / (card.d2h_gbps * kWriteShareOfLink)};
}

std::uint64_t touched_bytes(std::uint64_t there, double threads) {
  const double reach = threads * static_cast<double>(kBytesPerThread);
  return reach < static_cast<double>(there) ? static_cast<std::uint64_t>(reach) : there;
}

double kernel_ns(const Card& card, const KernelWork& work) {
  double bytes = 0;
  double arithmetic_ns = 0;
  if (work.product) {
    bytes = product_bytes(work);
    const bool half = work.product->element_bytes <= 2;
    arithmetic_ns = product_flops(*work.product) / (half ? card.half_flops : card.single_flops);
  } else {
    bytes = streamed_bytes(work);
    arithmetic_ns = work.threads * static_cast<double>(kFlopsPerThread) / card.single_flops;
  }
  return std::max({card.launch_ns, bytes / card.memory_gbps, arithmetic_ns});
}

}  // namespace simgpu
