// A program that makes all of its tensors anew in each pass.
#pragma once

#include <memory>

#include "bench/virtual_time/kernels.h"

namespace superpipe::bench {

/// TinyLlama-1.1B in halves reads prompts of 1024 tokens: each operation makes its result anew and
/// frees what nobody needs any more, as eager PyTorch does under the asynchronous allocator.
[[nodiscard]] std::unique_ptr<Workload> make_prefill();

}  // namespace superpipe::bench
