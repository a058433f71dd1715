// Copies and fills.

#include "tools/simgpu/cudart/copy_description.h"
#include "tools/simgpu/cudart/runtime.h"

namespace simgpu::cudart {
namespace {

bool is_known(cudaMemcpyKind kind) {
  return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault;
}

/// The memory that the source of a copy lies in; cudaMemcpyDefault leaves it to the address.
CUmemorytype source_type(cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToHost:
    case cudaMemcpyHostToDevice:
      return CU_MEMORYTYPE_HOST;
    case cudaMemcpyDeviceToHost:
    case cudaMemcpyDeviceToDevice:
      return CU_MEMORYTYPE_DEVICE;
    default:
      return CU_MEMORYTYPE_UNIFIED;
  }
}

/// The same for the destination.
CUmemorytype destination_type(cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToHost:
    case cudaMemcpyDeviceToHost:
      return CU_MEMORYTYPE_HOST;
    case cudaMemcpyHostToDevice:
    case cudaMemcpyDeviceToDevice:
      return CU_MEMORYTYPE_DEVICE;
    default:
      return CU_MEMORYTYPE_UNIFIED;
  }
}

struct Rectangle {
  void* destination;
  size_t destination_pitch;
  const void* source;
  size_t source_pitch;
  size_t width;
  size_t height;
};

/// The driver's description of a two-dimensional copy.
CUDA_MEMCPY2D describe(const Rectangle& area, cudaMemcpyKind kind) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = source_type(kind);
  copy.srcHost = area.source;
  copy.srcDevice = to_device(area.source);
  copy.srcPitch = area.source_pitch;
  copy.dstMemoryType = destination_type(kind);
  copy.dstHost = area.destination;
  copy.dstDevice = to_device(area.destination);
  copy.dstPitch = area.destination_pitch;
  copy.WidthInBytes = area.width;
  copy.Height = area.height;
  return copy;
}

cudaError_t check(const Rectangle& area, cudaMemcpyKind kind) {
  if (!is_known(kind)) return cudaErrorInvalidMemcpyDirection;
  if (area.height > 1 && (area.width > area.destination_pitch || area.width > area.source_pitch)) {
    return cudaErrorInvalidPitchValue;
  }
  return cudaSuccess;
}

/// Calls `copy(table, description)` where the copy is valid and not empty.
template <typename Copy>
cudaError_t copy_area(const Rectangle& area, cudaMemcpyKind kind, Copy&& copy) {
  return with_context([&](const DriverTable& d) {
    const cudaError_t error = check(area, kind);
    if (error != cudaSuccess || area.width == 0 || area.height == 0) return error;
    return to_error(copy(d, describe(area, kind)));
  });
}

/// Primary contexts of the two devices of a peer copy.
cudaError_t peers(int destination, int source, CUcontext* to, CUcontext* from) {
  const cudaError_t error = primary_context(destination, to);
  return error != cudaSuccess ? error : primary_context(source, from);
}

}  // namespace

cudaError_t describe_box(const cudaMemcpy3DParms* parameters, CUDA_MEMCPY3D* out) {
  if (parameters == nullptr) return cudaErrorInvalidValue;
  if (parameters->srcArray != nullptr || parameters->dstArray != nullptr) {
    return cudaErrorNotSupported;
  }
  if (!is_known(parameters->kind)) return cudaErrorInvalidMemcpyDirection;
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = source_type(parameters->kind);
  copy.srcHost = parameters->srcPtr.ptr;
  copy.srcDevice = to_device(parameters->srcPtr.ptr);
  copy.srcPitch = parameters->srcPtr.pitch;
  copy.srcHeight = parameters->srcPtr.ysize;
  copy.srcXInBytes = parameters->srcPos.x;
  copy.srcY = parameters->srcPos.y;
  copy.srcZ = parameters->srcPos.z;
  copy.dstMemoryType = destination_type(parameters->kind);
  copy.dstHost = parameters->dstPtr.ptr;
  copy.dstDevice = to_device(parameters->dstPtr.ptr);
  copy.dstPitch = parameters->dstPtr.pitch;
  copy.dstHeight = parameters->dstPtr.ysize;
  copy.dstXInBytes = parameters->dstPos.x;
  copy.dstY = parameters->dstPos.y;
  copy.dstZ = parameters->dstPos.z;
  copy.WidthInBytes = parameters->extent.width;
  copy.Height = parameters->extent.height;
  copy.Depth = parameters->extent.depth;
  *out = copy;
  return cudaSuccess;
}

SIMGPU_EXPORT cudaError_t cudaMemcpy(void* dst, const void* src, size_t count,
                                     cudaMemcpyKind kind) {
  return with_context([&](const DriverTable& d) {
    if (!is_known(kind)) return cudaErrorInvalidMemcpyDirection;
    if (count == 0) return cudaSuccess;
    if (dst == nullptr || src == nullptr) return cudaErrorInvalidValue;
    switch (kind) {
      case cudaMemcpyHostToDevice:
        return to_error(d.cuMemcpyHtoD(to_device(dst), src, count));
      case cudaMemcpyDeviceToHost:
        return to_error(d.cuMemcpyDtoH(dst, to_device(src), count));
      case cudaMemcpyDeviceToDevice:
        return to_error(d.cuMemcpyDtoD(to_device(dst), to_device(src), count));
      default:
        return to_error(d.cuMemcpy(to_device(dst), to_device(src), count));
    }
  });
}

SIMGPU_EXPORT cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t count,
                                          cudaMemcpyKind kind, cudaStream_t stream) {
  return with_context([&](const DriverTable& d) {
    if (!is_known(kind)) return cudaErrorInvalidMemcpyDirection;
    if (count == 0) return cudaSuccess;
    if (dst == nullptr || src == nullptr) return cudaErrorInvalidValue;
    switch (kind) {
      case cudaMemcpyHostToDevice:
        return to_error(d.cuMemcpyHtoDAsync(to_device(dst), src, count, stream));
      case cudaMemcpyDeviceToHost:
        return to_error(d.cuMemcpyDtoHAsync(dst, to_device(src), count, stream));
      case cudaMemcpyDeviceToDevice:
        return to_error(d.cuMemcpyDtoDAsync(to_device(dst), to_device(src), count, stream));
      default:
        return to_error(d.cuMemcpyAsync(to_device(dst), to_device(src), count, stream));
    }
  });
}

SIMGPU_EXPORT cudaError_t cudaMemcpyPeer(void* dst, int dst_device, const void* src, int src_device,
                                         size_t count) {
  return with_context([&](const DriverTable& d) {
    CUcontext to = nullptr;
    CUcontext from = nullptr;
    const cudaError_t error = peers(dst_device, src_device, &to, &from);
    if (error != cudaSuccess) return error;
    return to_error(d.cuMemcpyPeer(to_device(dst), to, to_device(src), from, count));
  });
}

SIMGPU_EXPORT cudaError_t cudaMemcpyPeerAsync(void* dst, int dst_device, const void* src,
                                              int src_device, size_t count, cudaStream_t stream) {
  return with_context([&](const DriverTable& d) {
    CUcontext to = nullptr;
    CUcontext from = nullptr;
    const cudaError_t error = peers(dst_device, src_device, &to, &from);
    if (error != cudaSuccess) return error;
    return to_error(d.cuMemcpyPeerAsync(to_device(dst), to, to_device(src), from, count, stream));
  });
}

SIMGPU_EXPORT cudaError_t cudaMemcpy2D(void* dst, size_t dpitch, const void* src, size_t spitch,
                                       size_t width, size_t height, cudaMemcpyKind kind) {
  return copy_area(
      {dst, dpitch, src, spitch, width, height}, kind,
      [](const DriverTable& d, const CUDA_MEMCPY2D& copy) { return d.cuMemcpy2DUnaligned(&copy); });
}

SIMGPU_EXPORT cudaError_t cudaMemcpy2DAsync(void* dst, size_t dpitch, const void* src,
                                            size_t spitch, size_t width, size_t height,
                                            cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_area({dst, dpitch, src, spitch, width, height}, kind,
                   [stream](const DriverTable& d, const CUDA_MEMCPY2D& copy) {
                     return d.cuMemcpy2DAsync(&copy, stream);
                   });
}

SIMGPU_EXPORT cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* p) {
  return with_context([&](const DriverTable& d) {
    CUDA_MEMCPY3D copy{};
    const cudaError_t error = describe_box(p, &copy);
    return error != cudaSuccess ? error : to_error(d.cuMemcpy3D(&copy));
  });
}

SIMGPU_EXPORT cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* p, cudaStream_t stream) {
  return with_context([&](const DriverTable& d) {
    CUDA_MEMCPY3D copy{};
    const cudaError_t error = describe_box(p, &copy);
    return error != cudaSuccess ? error : to_error(d.cuMemcpy3DAsync(&copy, stream));
  });
}

SIMGPU_EXPORT cudaError_t cudaMemcpyBatchAsync(void* const* dsts, const void* const* srcs,
                                               const size_t* sizes, size_t count,
                                               cudaMemcpyAttributes* attrs, size_t* attrs_idxs,
                                               size_t num_attrs, cudaStream_t stream) {
  static_assert(sizeof(cudaMemcpyAttributes) == sizeof(CUmemcpyAttributes));
  return with_context([&](const DriverTable& d) {
    // The runtime takes const arrays of pointers, the driver arrays of addresses that it does not
    // write.
    auto* const destinations = reinterpret_cast<CUdeviceptr*>(const_cast<void**>(dsts));
    auto* const sources = reinterpret_cast<CUdeviceptr*>(const_cast<void**>(srcs));
    return d.cuMemcpyBatchAsync(destinations, sources, const_cast<size_t*>(sizes), count,
                                reinterpret_cast<CUmemcpyAttributes*>(attrs), attrs_idxs, num_attrs,
                                stream);
  });
}

SIMGPU_EXPORT cudaError_t cudaMemset(void* dev_ptr, int value, size_t count) {
  return with_context([&](const DriverTable& d) {
    if (count == 0) return CUDA_SUCCESS;
    return d.cuMemsetD8(to_device(dev_ptr), static_cast<unsigned char>(value), count);
  });
}

SIMGPU_EXPORT cudaError_t cudaMemsetAsync(void* dev_ptr, int value, size_t count,
                                          cudaStream_t stream) {
  return with_context([&](const DriverTable& d) {
    if (count == 0) return CUDA_SUCCESS;
    return d.cuMemsetD8Async(to_device(dev_ptr), static_cast<unsigned char>(value), count, stream);
  });
}

SIMGPU_EXPORT cudaError_t cudaMemset2D(void* dev_ptr, size_t pitch, int value, size_t width,
                                       size_t height) {
  return with_context([&](const DriverTable& d) {
    if (width == 0 || height == 0) return CUDA_SUCCESS;
    return d.cuMemsetD2D8(to_device(dev_ptr), pitch, static_cast<unsigned char>(value), width,
                          height);
  });
}

SIMGPU_EXPORT cudaError_t cudaMemset2DAsync(void* dev_ptr, size_t pitch, int value, size_t width,
                                            size_t height, cudaStream_t stream) {
  return with_context([&](const DriverTable& d) {
    if (width == 0 || height == 0) return CUDA_SUCCESS;
    return d.cuMemsetD2D8Async(to_device(dev_ptr), pitch, static_cast<unsigned char>(value), width,
                               height, stream);
  });
}

SIMGPU_EXPORT cudaError_t cudaMemset3D(cudaPitchedPtr pitched_dev_ptr, int value,
                                       cudaExtent extent) {
  return with_context([&](const DriverTable& d) {
    for (size_t slice = 0; slice < extent.depth; ++slice) {
      const CUdeviceptr start =
          to_device(pitched_dev_ptr.ptr) + slice * pitched_dev_ptr.pitch * pitched_dev_ptr.ysize;
      const CUresult result =
          d.cuMemsetD2D8(start, pitched_dev_ptr.pitch, static_cast<unsigned char>(value),
                         extent.width, extent.height);
      if (result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
  });
}

SIMGPU_EXPORT cudaError_t cudaMemset3DAsync(cudaPitchedPtr pitched_dev_ptr, int value,
                                            cudaExtent extent, cudaStream_t stream) {
  return with_context([&](const DriverTable& d) {
    for (size_t slice = 0; slice < extent.depth; ++slice) {
      const CUdeviceptr start =
          to_device(pitched_dev_ptr.ptr) + slice * pitched_dev_ptr.pitch * pitched_dev_ptr.ysize;
      const CUresult result =
          d.cuMemsetD2D8Async(start, pitched_dev_ptr.pitch, static_cast<unsigned char>(value),
                              extent.width, extent.height, stream);
      if (result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
  });
}

}  // namespace simgpu::cudart
