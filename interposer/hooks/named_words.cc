#include "interposer/hooks/named_words.h"

#include "interposer/hooks/launch_words.h"
#include "interposer/kernels/kernel_arguments.h"
#include "interposer/passthrough/passthrough_allocation.h"

namespace superpipe {
namespace {

bool has_device_address(CUmemorytype type) {
  return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
}

}  // namespace

void NamedWords::add(CUdeviceptr address) noexcept {
  if (managed_ != nullptr && managed_->in_arena(address)) words_.add(address);
}

void NamedWords::add(const void* data, std::size_t size) noexcept {
  if (managed_ == nullptr || data == nullptr) return;
  collect_bytes(
      data, size, [this](std::uint64_t word) { return managed_->in_arena(word); }, words_);
}

void NamedWords::add(const CUstreamBatchMemOpParams* operations, std::size_t count) noexcept {
  if (operations == nullptr) return;
  for (std::size_t i = 0; i < count; ++i) {
    switch (operations[i].operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        add(operations[i].waitValue.address);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        add(operations[i].writeValue.address);
        break;
      default:
        // An operation newer than our header: every word of it may be an address.
        add(static_cast<const void*>(&operations[i]), sizeof operations[i]);
        break;
    }
  }
}

void NamedWords::add(const CUmemDecompressParams* operations, std::size_t count) noexcept {
  if (operations == nullptr) return;
  add(static_cast<const void*>(operations), count * sizeof *operations);
}

void NamedWords::add(const CUDA_RESOURCE_DESC* resource) noexcept {
  if (resource == nullptr) return;
  if (resource->resType == CU_RESOURCE_TYPE_LINEAR) add(resource->res.linear.devPtr);
  if (resource->resType == CU_RESOURCE_TYPE_PITCH2D) add(resource->res.pitch2D.devPtr);
}

void NamedWords::add_launch(CUfunction function, void* const* parameters, void* const* extra,
                            GridSize grid) noexcept {
  if (managed_ == nullptr) return;
  const KernelLayout* layout = managed_->layouts().find(function);
  if (layout == nullptr) {
    // To ask for the layout may load the function's code.
    layout = change_passthrough(PassthroughChange::kGrowth,
                                [&] { return managed_->layouts().learn(function); });
  }
  if (managed_->pointer_arrays().any()) {
    (void)add_words_and_arrays(*managed_, layout, parameters, extra, grid, words_);
  } else {
    (void)add_launch_words(*managed_, layout, parameters, extra, grid, words_);
  }
}

void NamedWords::add(const CUDA_KERNEL_NODE_PARAMS_v1* node) noexcept {
  // Its grid may change without its parameters.
  if (node != nullptr) {
    add_launch(node->func, node->kernelParams, node->extra, GridSize::unknown());
  }
}

void NamedWords::add(const CUDA_KERNEL_NODE_PARAMS_v2* node) noexcept {
  if (node == nullptr) return;
  add_launch(function_of(*node), node->kernelParams, node->extra, GridSize::unknown());
}

void NamedWords::add_as_launched(const CUDA_KERNEL_NODE_PARAMS_v2& node) noexcept {
  add_launch(function_of(node), node.kernelParams, node.extra, {node.gridDimX, node.gridDimY});
}

void NamedWords::add(const CUDA_MEMCPY3D* copy) noexcept {
  if (copy == nullptr) return;
  if (has_device_address(copy->srcMemoryType)) add_checked(copy->srcDevice);
  if (has_device_address(copy->dstMemoryType)) add_checked(copy->dstDevice);
}

void NamedWords::add(const CUDA_MEMSET_NODE_PARAMS_v1* memset) noexcept {
  if (memset != nullptr) add_checked(memset->dst);
}

void NamedWords::add_checked(CUdeviceptr address) noexcept {
  if (managed_ == nullptr || !managed_->in_arena(address)) return;
  words_.add(address);
  checked_.add(address);
}

void NamedWords::add(const CUDA_BATCH_MEM_OP_NODE_PARAMS_v1* node) noexcept {
  if (node != nullptr) add(node->paramArray, node->count);
}

void NamedWords::add(const CUgraphNodeParams* node) noexcept {
  if (node == nullptr) return;
  switch (node->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      const CUDA_KERNEL_NODE_PARAMS_v3& kernel = node->kernel;
      add_launch(kernel.func != nullptr ? kernel.func : reinterpret_cast<CUfunction>(kernel.kern),
                 kernel.kernelParams, kernel.extra, GridSize::unknown());
      break;
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      add(&node->memcpy.copyParams);
      break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      add_checked(node->memset.dst);
      break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      add(node->memOp.paramArray, node->memOp.count);
      break;
    default:
      // Child graphs were built from nodes that were seen; the rest names no device memory of ours.
      break;
  }
}

void UsedWords::add_reads(const CUDA_MEMCPY2D* copy) noexcept {
  if (copy != nullptr && has_device_address(copy->srcMemoryType)) add_reads(copy->srcDevice);
}
void UsedWords::add_reads(const CUDA_MEMCPY3D* copy) noexcept {
  if (copy != nullptr && has_device_address(copy->srcMemoryType)) add_reads(copy->srcDevice);
}
void UsedWords::add_reads(const CUDA_MEMCPY3D_PEER* copy) noexcept {
  if (copy != nullptr && has_device_address(copy->srcMemoryType)) add_reads(copy->srcDevice);
}
void UsedWords::add_reads(const CUDA_MEMCPY3D_BATCH_OP* operations, std::size_t count) noexcept {
  for (std::size_t i = 0; operations != nullptr && i < count; ++i) {
    if (operations[i].src.type == CU_MEMCPY_OPERAND_TYPE_POINTER) {
      add_reads(operations[i].src.op.ptr.ptr);
    }
  }
}

void UsedWords::add_writes(const CUDA_MEMCPY2D* copy) noexcept {
  if (copy != nullptr && has_device_address(copy->dstMemoryType)) add_writes(copy->dstDevice);
}
void UsedWords::add_writes(const CUDA_MEMCPY3D* copy) noexcept {
  if (copy != nullptr && has_device_address(copy->dstMemoryType)) add_writes(copy->dstDevice);
}
void UsedWords::add_writes(const CUDA_MEMCPY3D_PEER* copy) noexcept {
  if (copy != nullptr && has_device_address(copy->dstMemoryType)) add_writes(copy->dstDevice);
}
void UsedWords::add_writes(const CUDA_MEMCPY3D_BATCH_OP* operations, std::size_t count) noexcept {
  for (std::size_t i = 0; operations != nullptr && i < count; ++i) {
    if (operations[i].dst.type == CU_MEMCPY_OPERAND_TYPE_POINTER) {
      add_writes(operations[i].dst.op.ptr.ptr);
    }
  }
}

}  // namespace superpipe
