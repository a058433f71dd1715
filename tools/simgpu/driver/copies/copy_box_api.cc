// The driver functions of two- and three-dimensional copies between linear memory.
#include <vector>

#include "tools/simgpu/driver/copies/copy.h"
#include "tools/simgpu/driver/graphs/capture.h"

namespace simgpu {
namespace {

/// The side that a memory type names; arrays are not supported.
CUresult side_of(CUmemorytype type, const void* host, CUdeviceptr device, End* end) {
  switch (type) {
    case CU_MEMORYTYPE_HOST:
      end->side = Side::kHost;
      end->address = reinterpret_cast<std::uint64_t>(host);
      return CUDA_SUCCESS;
    case CU_MEMORYTYPE_DEVICE:
      end->side = Side::kDevice;
      end->address = device;
      return CUDA_SUCCESS;
    case CU_MEMORYTYPE_UNIFIED:
      end->side = Side::kAny;
      end->address = device;
      return CUDA_SUCCESS;
    case CU_MEMORYTYPE_ARRAY:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

/// side_of() both ends of a two- or three-dimensional copy.
template <typename Description>
CUresult sides_of(const Description& what, End* source, End* target) {
  const CUresult result = side_of(what.srcMemoryType, what.srcHost, what.srcDevice, source);
  return result != CUDA_SUCCESS ? result
                                : side_of(what.dstMemoryType, what.dstHost, what.dstDevice, target);
}

/// Moves `end` to its first byte. @return CUDA_ERROR_INVALID_VALUE if rows would overlap.
CUresult place(End* end, std::uint64_t x, std::uint64_t y, std::uint64_t z, std::uint64_t pitch,
               std::uint64_t height, const Box& box) {
  const bool one_row = box.height == 1 && box.depth == 1 && y == 0 && z == 0;
  if (pitch == 0 && one_row) pitch = x + box.width;
  if (pitch < x + box.width) return CUDA_ERROR_INVALID_VALUE;
  const bool one_slice = box.depth == 1 && z == 0;
  if (!one_slice && height < y + box.height) return CUDA_ERROR_INVALID_VALUE;
  end->pitch = pitch;
  end->slice = pitch * height;
  if (end->address != 0) end->address += z * end->slice + y * pitch + x;
  return CUDA_SUCCESS;
}

CUresult copy_2d(const char* name, const CUDA_MEMCPY2D* what, CUstream stream,
                 NullStream null_stream, Wait wait) {
  if (what == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Box box{what->WidthInBytes, what->Height};
  if (box.bytes() == 0) return CUDA_SUCCESS;
  End source;
  End target;
  CUresult result = sides_of(*what, &source, &target);
  if (result == CUDA_SUCCESS) {
    result = place(&source, what->srcXInBytes, what->srcY, 0, what->srcPitch, 0, box);
  }
  if (result == CUDA_SUCCESS) {
    result = place(&target, what->dstXInBytes, what->dstY, 0, what->dstPitch, 0, box);
  }
  if (result != CUDA_SUCCESS) return result;
  return copy_on(name, stream, null_stream, target, source, box, wait);
}

CUresult copy_3d(const char* name, const CUDA_MEMCPY3D* what, CUstream stream,
                 NullStream null_stream, Wait wait) {
  if (what == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (what->WidthInBytes == 0 || what->Height == 0 || what->Depth == 0) return CUDA_SUCCESS;
  CopyWork work;
  if (const CUresult result = work_of(name, *what, &work); result != CUDA_SUCCESS) return result;
  return copy_on(name, stream, null_stream, work.target, work.source, work.box, wait);
}

/// Defines `function`, which all ABI variants of the driver function `name` share.
#define SIMGPU_BOX_COPY(function, name, implementation, structure, wait)              \
  CUresult function(const structure* what, CUstream stream, NullStream null_stream) { \
    SIMGPU_ENTER(name);                                                               \
    return implementation(#name, what, stream, null_stream, wait);                    \
  }                                                                                   \
  static_assert(true, "take a semicolon")

SIMGPU_BOX_COPY(sync_2d, cuMemcpy2D, copy_2d, CUDA_MEMCPY2D, Wait::kSync);
SIMGPU_BOX_COPY(unaligned_2d, cuMemcpy2DUnaligned, copy_2d, CUDA_MEMCPY2D, Wait::kSync);
SIMGPU_BOX_COPY(async_2d, cuMemcpy2DAsync, copy_2d, CUDA_MEMCPY2D, Wait::kAsync);
SIMGPU_BOX_COPY(sync_3d, cuMemcpy3D, copy_3d, CUDA_MEMCPY3D, Wait::kSync);
SIMGPU_BOX_COPY(async_3d, cuMemcpy3DAsync, copy_3d, CUDA_MEMCPY3D, Wait::kAsync);

/// What a batch reports as the copy that failed if it is none of them.
constexpr std::size_t kNoSpecificBox = ~std::size_t{0};

/// Where `operand` begins, if it is memory with an address. @return CUDA_ERROR_INVALID_VALUE,
/// CUDA_ERROR_NOT_SUPPORTED (arrays).
CUresult end_of(const CUmemcpy3DOperand& operand, const Box& box, End* end) {
  if (operand.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) return CUDA_ERROR_NOT_SUPPORTED;
  if (operand.type != CU_MEMCPY_OPERAND_TYPE_POINTER) return CUDA_ERROR_INVALID_VALUE;
  const auto& where = operand.op.ptr;
  const std::uint64_t pitch = where.rowLength == 0 ? box.width : where.rowLength;
  const std::uint64_t height = where.layerHeight == 0 ? box.height : where.layerHeight;
  if (pitch < box.width || height < box.height) return CUDA_ERROR_INVALID_VALUE;
  end->side = Side::kAny;
  end->address = where.ptr;
  end->pitch = pitch;
  end->slice = pitch * height;
  return CUDA_SUCCESS;
}

/// The copy that `operation` describes, all of which is there.
CUresult batched_work_of(const CUDA_MEMCPY3D_BATCH_OP& operation, CopyWork* work) {
  const auto& extent = operation.extent;
  const bool has_order = operation.srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
                         operation.srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL ||
                         operation.srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
  if (!has_order || extent.width == 0 || extent.height == 0 || extent.depth == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *work = CopyWork{"cuMemcpy3DBatchAsync", {}, {}, Box{extent.width, extent.height, extent.depth}};
  CUresult result = end_of(operation.src, work->box, &work->source);
  if (result == CUDA_SUCCESS) result = end_of(operation.dst, work->box, &work->target);
  End source = work->source;
  End target = work->target;
  if (result == CUDA_SUCCESS) result = classify(target, work->box, true);
  return result == CUDA_SUCCESS ? classify(source, work->box, false) : result;
}

CUresult box_batch(std::size_t count, const CUDA_MEMCPY3D_BATCH_OP* operations, std::size_t* failed,
                   unsigned long long flags, CUstream handle, NullStream null_stream) {
  SIMGPU_ENTER(cuMemcpy3DBatchAsync);
  SIMGPU_CONTEXT(context);
  if (failed != nullptr) *failed = kNoSpecificBox;
  const bool legacy =
      handle == CU_STREAM_LEGACY || (handle == nullptr && null_stream == NullStream::kLegacy);
  if (legacy || operations == nullptr || count == 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  StreamPtr stream;
  if (const CUresult result = resolve_stream(*context, handle, null_stream, &stream);
      result != CUDA_SUCCESS) {
    return result;
  }
  if (const auto answer = refuse_captured(stream)) return *answer;
  // All are checked before any is enqueued.
  std::vector<CopyWork> works(count);
  CUresult result = CUDA_SUCCESS;
  std::size_t at = 0;
  for (; result == CUDA_SUCCESS && at < count; ++at)
    result = batched_work_of(operations[at], &works[at]);
  if (result == CUDA_SUCCESS) {
    for (at = 0; result == CUDA_SUCCESS && at < count; ++at) {
      result = copy(works[at].name, stream, works[at].target, works[at].source, works[at].box,
                    Wait::kAsync);
    }
  }
  if (result != CUDA_SUCCESS && failed != nullptr) *failed = at - 1;
  return result;
}

}  // namespace

CUresult work_of(const char* name, const CUDA_MEMCPY3D& what, CopyWork* work) {
  if (what.srcLOD != 0 || what.dstLOD != 0) return CUDA_ERROR_INVALID_VALUE;
  *work = CopyWork{name, {}, {}, Box{what.WidthInBytes, what.Height, what.Depth}};
  CUresult result = sides_of(what, &work->source, &work->target);
  if (result == CUDA_SUCCESS) {
    result = place(&work->source, what.srcXInBytes, what.srcY, what.srcZ, what.srcPitch,
                   what.srcHeight, work->box);
  }
  if (result == CUDA_SUCCESS) {
    result = place(&work->target, what.dstXInBytes, what.dstY, what.dstZ, what.dstPitch,
                   what.dstHeight, work->box);
  }
  return result;
}

SIMGPU_STREAM_VARIANTS(cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D* pCopy), sync_2d, pCopy, nullptr);
SIMGPU_STREAM_VARIANTS(cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D* pCopy), unaligned_2d,
                       pCopy, nullptr);
SIMGPU_STREAM_VARIANTS(cuMemcpy2DAsync_v2, _ptsz, (const CUDA_MEMCPY2D* pCopy, CUstream hStream),
                       async_2d, pCopy, hStream);
SIMGPU_STREAM_VARIANTS(cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D* pCopy), sync_3d, pCopy, nullptr);
SIMGPU_STREAM_VARIANTS(cuMemcpy3DAsync_v2, _ptsz, (const CUDA_MEMCPY3D* pCopy, CUstream hStream),
                       async_3d, pCopy, hStream);
SIMGPU_STREAM_VARIANTS(cuMemcpy3DBatchAsync, _ptsz,
                       (size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, size_t* failIdx,
                        unsigned long long flags, CUstream hStream),
                       box_batch, numOps, opList, failIdx, flags, hStream);
SIMGPU_STREAM_VARIANTS(cuMemcpy3DBatchAsync_v2, _ptsz,
                       (size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, unsigned long long flags,
                        CUstream hStream),
                       box_batch, numOps, opList, nullptr, flags, hStream);

}  // namespace simgpu
