// The driver functions of linear copies.
#include "tools/simgpu/driver/context/context_table.h"
#include "tools/simgpu/driver/copies/copy.h"
#include "tools/simgpu/driver/device/device.h"

namespace simgpu {
namespace {

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

End linear(std::uint64_t address, Side side) {
  End end;
  end.address = address;
  end.side = side;
  return end;
}

CUresult copy_linear(const char* name, CUstream handle, NullStream null_stream, const End& target,
                     const End& source, std::uint64_t size, Wait wait) {
  SIMGPU_CONTEXT(context);
  StreamPtr stream;
  if (const CUresult result = resolve_stream(*context, handle, null_stream, &stream);
      result != CUDA_SUCCESS) {
    return result;
  }
  return copy(name, stream, target, source, Box{size}, wait);
}

/// Defines `function`, which all ABI variants of the driver function `name` share.
#define SIMGPU_LINEAR_COPY(function, name, target_side, source_side, wait)          \
  CUresult function(std::uint64_t target, std::uint64_t source, std::uint64_t size, \
                    CUstream stream, NullStream null_stream) {                      \
    SIMGPU_ENTER(name);                                                             \
    return copy_linear(#name, stream, null_stream, linear(target, target_side),     \
                       linear(source, source_side), size, wait);                    \
  }                                                                                 \
  static_assert(true, "take a semicolon")

SIMGPU_LINEAR_COPY(htod, cuMemcpyHtoD, Side::kDevice, Side::kHost, Wait::kSync);
SIMGPU_LINEAR_COPY(dtoh, cuMemcpyDtoH, Side::kHost, Side::kDevice, Wait::kSync);
SIMGPU_LINEAR_COPY(dtod, cuMemcpyDtoD, Side::kDevice, Side::kDevice, Wait::kSync);
SIMGPU_LINEAR_COPY(any, cuMemcpy, Side::kAny, Side::kAny, Wait::kSync);
SIMGPU_LINEAR_COPY(peer, cuMemcpyPeer, Side::kDevice, Side::kDevice, Wait::kSync);
SIMGPU_LINEAR_COPY(htod_async, cuMemcpyHtoDAsync, Side::kDevice, Side::kHost, Wait::kAsync);
SIMGPU_LINEAR_COPY(dtoh_async, cuMemcpyDtoHAsync, Side::kHost, Side::kDevice, Wait::kAsync);
SIMGPU_LINEAR_COPY(dtod_async, cuMemcpyDtoDAsync, Side::kDevice, Side::kDevice, Wait::kAsync);
SIMGPU_LINEAR_COPY(any_async, cuMemcpyAsync, Side::kAny, Side::kAny, Wait::kAsync);
SIMGPU_LINEAR_COPY(peer_async, cuMemcpyPeerAsync, Side::kDevice, Side::kDevice, Wait::kAsync);

bool are_live(CUcontext first, CUcontext second) {
  return check_context(find_context(first)) == CUDA_SUCCESS &&
         check_context(find_context(second)) == CUDA_SUCCESS;
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
  for (std::size_t index = 0; index < count; ++index) {
    const CUresult result =
        copy("cuMemcpyBatchAsync", stream, linear(targets[index], Side::kAny),
             linear(sources[index], Side::kAny), Box{sizes[index]}, Wait::kAsync);
    if (result != CUDA_SUCCESS) {
      if (failed != nullptr) *failed = index;
      return result;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

/// The synchronous function `name` and its `_ptds` variant.
#define SIMGPU_SYNC_API(name, parameters, function, ...)           \
  SIMGPU_EXPORT CUresult name parameters {                         \
    return function(__VA_ARGS__, nullptr, NullStream::kLegacy);    \
  }                                                                \
  SIMGPU_EXPORT CUresult name##_ptds parameters {                  \
    return function(__VA_ARGS__, nullptr, NullStream::kPerThread); \
  }                                                                \
  static_assert(true, "take a semicolon")

/// The asynchronous function `name` and its `_ptsz` variant; the stream is parameter hStream.
#define SIMGPU_ASYNC_API(name, parameters, function, ...)          \
  SIMGPU_EXPORT CUresult name parameters {                         \
    return function(__VA_ARGS__, hStream, NullStream::kLegacy);    \
  }                                                                \
  SIMGPU_EXPORT CUresult name##_ptsz parameters {                  \
    return function(__VA_ARGS__, hStream, NullStream::kPerThread); \
  }                                                                \
  static_assert(true, "take a semicolon")

SIMGPU_SYNC_API(cuMemcpyHtoD_v2, (CUdeviceptr dst, const void* src, size_t size), htod, dst,
                address_of(src), size);
SIMGPU_SYNC_API(cuMemcpyDtoH_v2, (void* dst, CUdeviceptr src, size_t size), dtoh, address_of(dst),
                src, size);
SIMGPU_SYNC_API(cuMemcpyDtoD_v2, (CUdeviceptr dst, CUdeviceptr src, size_t size), dtod, dst, src,
                size);
SIMGPU_SYNC_API(cuMemcpy, (CUdeviceptr dst, CUdeviceptr src, size_t size), any, dst, src, size);
SIMGPU_ASYNC_API(cuMemcpyHtoDAsync_v2,
                 (CUdeviceptr dst, const void* src, size_t size, CUstream hStream), htod_async, dst,
                 address_of(src), size);
SIMGPU_ASYNC_API(cuMemcpyDtoHAsync_v2, (void* dst, CUdeviceptr src, size_t size, CUstream hStream),
                 dtoh_async, address_of(dst), src, size);
SIMGPU_ASYNC_API(cuMemcpyDtoDAsync_v2,
                 (CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream hStream), dtod_async, dst,
                 src, size);
SIMGPU_ASYNC_API(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream hStream),
                 any_async, dst, src, size);

#define SIMGPU_PEER_PARAMETERS \
  CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context, size_t size

SIMGPU_EXPORT CUresult cuMemcpyPeer(SIMGPU_PEER_PARAMETERS) {
  if (!are_live(dst_context, src_context)) return CUDA_ERROR_INVALID_CONTEXT;
  return peer(dst, src, size, nullptr, NullStream::kLegacy);
}
SIMGPU_EXPORT CUresult cuMemcpyPeer_ptds(SIMGPU_PEER_PARAMETERS) {
  if (!are_live(dst_context, src_context)) return CUDA_ERROR_INVALID_CONTEXT;
  return peer(dst, src, size, nullptr, NullStream::kPerThread);
}
SIMGPU_EXPORT CUresult cuMemcpyPeerAsync(SIMGPU_PEER_PARAMETERS, CUstream hStream) {
  if (!are_live(dst_context, src_context)) return CUDA_ERROR_INVALID_CONTEXT;
  return peer_async(dst, src, size, hStream, NullStream::kLegacy);
}
SIMGPU_EXPORT CUresult cuMemcpyPeerAsync_ptsz(SIMGPU_PEER_PARAMETERS, CUstream hStream) {
  if (!are_live(dst_context, src_context)) return CUDA_ERROR_INVALID_CONTEXT;
  return peer_async(dst, src, size, hStream, NullStream::kPerThread);
}

SIMGPU_ASYNC_API(cuMemcpyBatchAsync,
                 (CUdeviceptr * dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                  CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs, size_t* failIdx,
                  CUstream hStream),
                 batch, dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, failIdx);
SIMGPU_ASYNC_API(cuMemcpyBatchAsync_v2,
                 (CUdeviceptr * dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                  CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs, CUstream hStream),
                 batch, dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, nullptr);

}  // namespace simgpu
