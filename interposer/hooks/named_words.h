// The managed buffers that a driver call names, gathered from its arguments.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interposer/contexts/context_registry.h"
#include "interposer/driver/cuda_api.h"
#include "interposer/kernels/kernel_arguments.h"
#include "interposer/kernels/word_list.h"

namespace superpipe {

/// What a kernel node launches, by whichever of the two handles it names it.
[[nodiscard]] inline CUfunction function_of(const CUDA_KERNEL_NODE_PARAMS_v2& node) noexcept {
  return node.func != nullptr ? node.func : reinterpret_cast<CUfunction>(node.kern);
}

/// What a call names that runs nothing by itself: one of class pin, whose buffers have to stay
/// resident until they are freed, or of class node.
///
/// Every add() keeps only words in the arena, and ignores null. Without a managed context nothing
/// is kept and nothing is read.
class NamedWords {
 public:
  NamedWords() : managed_(ContextRegistry::managed()) {}

  void add(CUdeviceptr address) noexcept;
  void add(const void* address) noexcept { add(reinterpret_cast<CUdeviceptr>(address)); }
  /// Any word among `size` bytes.
  void add(const void* data, std::size_t size) noexcept;
  void add(const CUstreamBatchMemOpParams* operations, std::size_t count) noexcept;
  void add(const CUmemDecompressParams* operations, std::size_t count) noexcept;
  void add(const CUDA_RESOURCE_DESC* resource) noexcept;
  void add(const CUDA_KERNEL_NODE_PARAMS_v1* node) noexcept;
  void add(const CUDA_KERNEL_NODE_PARAMS_v2* node) noexcept;
  /// The same for a node that is launched with its grid as it is.
  void add_as_launched(const CUDA_KERNEL_NODE_PARAMS_v2& node) noexcept;
  void add(const CUDA_MEMCPY3D* copy) noexcept;
  void add(const CUDA_MEMSET_NODE_PARAMS_v1* memset) noexcept;
  void add(const CUDA_BATCH_MEM_OP_NODE_PARAMS_v1* node) noexcept;
  void add(const CUgraphNodeParams* node) noexcept;

  [[nodiscard]] ManagedContext* managed() const noexcept { return managed_; }
  [[nodiscard]] const WordList& words() const noexcept { return words_; }
  /// Of these, what nodes of copies and fills name. The driver looks such addresses up when it gets
  /// a node, where it knows nothing of the words that a kernel's parameters are.
  [[nodiscard]] const WordList& checked() const noexcept { return checked_; }

 private:
  void add_checked(CUdeviceptr address) noexcept;
  void add_launch(CUfunction function, void* const* parameters, void* const* extra,
                  GridSize grid) noexcept;

  ManagedContext* managed_;
  WordList words_;
  WordList checked_;
};

/// What an operation of class hook reads and writes, submitted to a stream.
class UsedWords {
 public:
  UsedWords() : managed_(ContextRegistry::managed()) {}

  void add_reads(CUdeviceptr address) noexcept { add(reads_, address); }
  void add_reads(const CUdeviceptr* addresses, std::size_t count) noexcept {
    add(reads_, addresses, count);
  }
  void add_reads(const CUDA_MEMCPY2D* copy) noexcept;
  void add_reads(const CUDA_MEMCPY3D* copy) noexcept;
  void add_reads(const CUDA_MEMCPY3D_PEER* copy) noexcept;
  void add_reads(const CUDA_MEMCPY3D_BATCH_OP* operations, std::size_t count) noexcept;

  void add_writes(CUdeviceptr address) noexcept { add(writes_, address); }
  void add_writes(const CUdeviceptr* addresses, std::size_t count) noexcept {
    add(writes_, addresses, count);
  }
  void add_writes(const CUDA_MEMCPY2D* copy) noexcept;
  void add_writes(const CUDA_MEMCPY3D* copy) noexcept;
  void add_writes(const CUDA_MEMCPY3D_PEER* copy) noexcept;
  void add_writes(const CUDA_MEMCPY3D_BATCH_OP* operations, std::size_t count) noexcept;

  [[nodiscard]] bool empty() const noexcept { return reads_.empty() && writes_.empty(); }
  [[nodiscard]] ManagedContext* managed() const noexcept { return managed_; }
  [[nodiscard]] const WordList& reads() const noexcept { return reads_; }
  [[nodiscard]] const WordList& writes() const noexcept { return writes_; }

 private:
  void add(WordList& list, CUdeviceptr address) const noexcept {
    if (managed_ != nullptr && managed_->in_arena(address)) list.add(address);
  }
  void add(WordList& list, const CUdeviceptr* addresses, std::size_t count) const noexcept {
    if (managed_ == nullptr || addresses == nullptr) return;
    for (std::size_t i = 0; i < count; ++i) add(list, addresses[i]);
  }

  ManagedContext* managed_;
  WordList reads_;
  WordList writes_;
};

}  // namespace superpipe
