// The driver functions of linear copies.
#include "tools/simgpu/driver/context/context_table.h"
#include "tools/simgpu/driver/copies/copy.h"
#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/graphs/capture.h"

namespace simgpu {
namespace {

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

End linear(std::uint64_t address, Side side) {
  End end;
  end.address = address;
  end.side = side;
  return end;
}

/// Defines `function`, which all ABI variants of the driver function `name` share.
#define SIMGPU_LINEAR_COPY(function, name, target_side, source_side, wait)          \
  CUresult function(std::uint64_t target, std::uint64_t source, std::uint64_t size, \
                    CUstream stream, NullStream null_stream) {                      \
    SIMGPU_ENTER(name);                                                             \
    return copy_on(#name, stream, null_stream, linear(target, target_side),         \
                   linear(source, source_side), Box{size}, wait);                   \
  }                                                                                 \
  static_assert(true, "take a semicolon")

SIMGPU_LINEAR_COPY(htod, cuMemcpyHtoD, Side::kDevice, Side::kHost, Wait::kSync);
SIMGPU_LINEAR_COPY(dtoh, cuMemcpyDtoH, Side::kHost, Side::kDevice, Wait::kSync);
SIMGPU_LINEAR_COPY(dtod, cuMemcpyDtoD, Side::kDevice, Side::kDevice, Wait::kSync);
SIMGPU_LINEAR_COPY(any, cuMemcpy, Side::kAny, Side::kAny, Wait::kSync);
SIMGPU_LINEAR_COPY(htod_async, cuMemcpyHtoDAsync, Side::kDevice, Side::kHost, Wait::kAsync);
SIMGPU_LINEAR_COPY(dtoh_async, cuMemcpyDtoHAsync, Side::kHost, Side::kDevice, Wait::kAsync);
SIMGPU_LINEAR_COPY(dtod_async, cuMemcpyDtoDAsync, Side::kDevice, Side::kDevice, Wait::kAsync);
SIMGPU_LINEAR_COPY(any_async, cuMemcpyAsync, Side::kAny, Side::kAny, Wait::kAsync);

End placed(std::uint64_t address) {
  End end = linear(address, Side::kDevice);
  end.is_placed = true;
  return end;
}

/// Behind all that is pending in both contexts, and in the current one. That later work waits for
/// it, as the manual says, holds for its stream alone.
CUresult peer(std::uint64_t target, std::uint64_t source, std::uint64_t size, CUstream stream,
              NullStream null_stream, CUcontext target_context, CUcontext source_context) {
  SIMGPU_ENTER(cuMemcpyPeer);
  SIMGPU_CONTEXT(context);
  std::vector<CompletionPtr> before;
  for (Context* const one : {context, find_context(target_context), find_context(source_context)}) {
    for (CompletionPtr& pending : pending_of(*one)) before.push_back(std::move(pending));
  }
  return copy_on("cuMemcpyPeer", stream, null_stream, placed(target), placed(source), Box{size},
                 Wait::kSync, std::move(before));
}

CUresult peer_async(std::uint64_t target, std::uint64_t source, std::uint64_t size, CUstream stream,
                    NullStream null_stream) {
  SIMGPU_ENTER(cuMemcpyPeerAsync);
  return copy_on("cuMemcpyPeerAsync", stream, null_stream, placed(target), placed(source),
                 Box{size}, Wait::kAsync);
}

bool are_live(CUcontext first, CUcontext second) {
  return check_context(find_context(first)) == CUDA_SUCCESS &&
         check_context(find_context(second)) == CUDA_SUCCESS;
}

CUresult peer_of(CUcontext target_context, CUcontext source_context, std::uint64_t target,
                 std::uint64_t source, std::uint64_t size, CUstream stream,
                 NullStream null_stream) {
  if (!are_live(target_context, source_context)) return CUDA_ERROR_INVALID_CONTEXT;
  return peer(target, source, size, stream, null_stream, target_context, source_context);
}

CUresult peer_async_of(CUcontext target_context, CUcontext source_context, std::uint64_t target,
                       std::uint64_t source, std::uint64_t size, CUstream stream,
                       NullStream null_stream) {
  if (!are_live(target_context, source_context)) return CUDA_ERROR_INVALID_CONTEXT;
  return peer_async(target, source, size, stream, null_stream);
}

constexpr std::size_t kNoSpecificCopy = ~std::size_t{0};

bool is_valid_attribute(const CUmemcpyAttributes& attribute) {
  return attribute.srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
         attribute.srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL ||
         attribute.srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

/// Which attributes apply: attrsIdxs[i] is the first copy that attrs[i] is for.
bool are_valid_attributes(const CUmemcpyAttributes* attributes, const std::size_t* starts,
                          std::size_t attribute_count, std::size_t count) {
  if (attributes == nullptr || starts == nullptr || attribute_count == 0 ||
      attribute_count > count || starts[0] != 0) {
    return false;
  }
  for (std::size_t index = 0; index < attribute_count; ++index) {
    if (!is_valid_attribute(attributes[index]) || starts[index] >= count ||
        (index > 0 && starts[index] <= starts[index - 1])) {
      return false;
    }
  }
  return true;
}

CUresult batch(const CUdeviceptr* targets, const CUdeviceptr* sources, const std::size_t* sizes,
               std::size_t count, const CUmemcpyAttributes* attributes, const std::size_t* starts,
               std::size_t attribute_count, std::size_t* failed, CUstream handle,
               NullStream null_stream) {
  SIMGPU_ENTER(cuMemcpyBatchAsync);
  SIMGPU_CONTEXT(context);
  if (failed != nullptr) *failed = kNoSpecificCopy;
  const bool legacy =
      handle == CU_STREAM_LEGACY || (handle == nullptr && null_stream == NullStream::kLegacy);
  if (legacy || targets == nullptr || sources == nullptr || sizes == nullptr || count == 0 ||
      !are_valid_attributes(attributes, starts, attribute_count, count)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  StreamPtr stream;
  if (const CUresult result = resolve_stream(*context, handle, null_stream, &stream);
      result != CUDA_SUCCESS) {
    return result;
  }
  if (const auto answer = refuse_captured(stream)) return *answer;
  // All are checked before any is enqueued.
  for (std::size_t index = 0; index < count; ++index) {
    End target = linear(targets[index], Side::kAny);
    End source = linear(sources[index], Side::kAny);
    const Box box{sizes[index]};
    if (sizes[index] == 0 || classify(target, box, true) != CUDA_SUCCESS ||
        classify(source, box, false) != CUDA_SUCCESS) {
      if (failed != nullptr) *failed = index;
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  std::size_t attribute = 0;
  for (std::size_t index = 0; index < count; ++index) {
    while (attribute + 1 < attribute_count && starts[attribute + 1] <= index) ++attribute;
    // A source that has to be read during the call is, and the copy done besides.
    const bool waits =
        attributes[attribute].srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    const CUresult result = copy("cuMemcpyBatchAsync", stream, linear(targets[index], Side::kAny),
                                 linear(sources[index], Side::kAny), Box{sizes[index]},
                                 waits ? Wait::kSync : Wait::kAsync);
    if (result != CUDA_SUCCESS) {
      if (failed != nullptr) *failed = index;
      return result;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

SIMGPU_STREAM_VARIANTS(cuMemcpyHtoD_v2, _ptds, (CUdeviceptr dst, const void* src, size_t size),
                       htod, dst, address_of(src), size, nullptr);
SIMGPU_STREAM_VARIANTS(cuMemcpyDtoH_v2, _ptds, (void* dst, CUdeviceptr src, size_t size), dtoh,
                       address_of(dst), src, size, nullptr);
SIMGPU_STREAM_VARIANTS(cuMemcpyDtoD_v2, _ptds, (CUdeviceptr dst, CUdeviceptr src, size_t size),
                       dtod, dst, src, size, nullptr);
SIMGPU_STREAM_VARIANTS(cuMemcpy, _ptds, (CUdeviceptr dst, CUdeviceptr src, size_t size), any, dst,
                       src, size, nullptr);
SIMGPU_STREAM_VARIANTS(cuMemcpyHtoDAsync_v2, _ptsz,
                       (CUdeviceptr dst, const void* src, size_t size, CUstream hStream),
                       htod_async, dst, address_of(src), size, hStream);
SIMGPU_STREAM_VARIANTS(cuMemcpyDtoHAsync_v2, _ptsz,
                       (void* dst, CUdeviceptr src, size_t size, CUstream hStream), dtoh_async,
                       address_of(dst), src, size, hStream);
SIMGPU_STREAM_VARIANTS(cuMemcpyDtoDAsync_v2, _ptsz,
                       (CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream hStream),
                       dtod_async, dst, src, size, hStream);
SIMGPU_STREAM_VARIANTS(cuMemcpyAsync, _ptsz,
                       (CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream hStream), any_async,
                       dst, src, size, hStream);

SIMGPU_STREAM_VARIANTS(cuMemcpyPeer, _ptds,
                       (CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
                        CUcontext src_context, size_t size),
                       peer_of, dst_context, src_context, dst, src, size, nullptr);
SIMGPU_STREAM_VARIANTS(cuMemcpyPeerAsync, _ptsz,
                       (CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
                        CUcontext src_context, size_t size, CUstream hStream),
                       peer_async_of, dst_context, src_context, dst, src, size, hStream);

SIMGPU_STREAM_VARIANTS(cuMemcpyBatchAsync, _ptsz,
                       (CUdeviceptr * dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                        CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs,
                        size_t* failIdx, CUstream hStream),
                       batch, dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, failIdx,
                       hStream);
SIMGPU_STREAM_VARIANTS(cuMemcpyBatchAsync_v2, _ptsz,
                       (CUdeviceptr * dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                        CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs,
                        CUstream hStream),
                       batch, dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, nullptr,
                       hStream);

}  // namespace simgpu
