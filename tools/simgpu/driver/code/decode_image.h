// From the image that a program passes to the decoded image that modules and libraries share.
#pragma once

#include <cstddef>
#include <span>

#include "tools/simgpu/driver/code/loaded_image.h"
#include "tools/simgpu/driver/entry/api.h"

namespace simgpu {

/// Decodes the image that a program passed; says in one line on standard error why it cannot.
///
/// Loads the process's kernel plugins first, which the kernels of the image are looked up in.
/// `bytes` need not outlive the call. Any thread. Linear in the image.
/// @return CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_INVALID_PTX, CUDA_ERROR_NO_BINARY_FOR_GPU,
/// CUDA_ERROR_SHARED_OBJECT_INIT_FAILED (a decompressor is missing), CUDA_ERROR_INVALID_VALUE (a
/// kernel plugin cannot be used); `*image` is then untouched.
CUresult decode_image(std::span<const std::byte> bytes, LoadedImagePtr* image);

/// decode_image() of the image at `address`, whose headers say how long it is.
CUresult decode_image_at(const void* address, LoadedImagePtr* image);

/// decode_image() of a file. @return also CUDA_ERROR_FILE_NOT_FOUND.
CUresult decode_image_file(const char* path, LoadedImagePtr* image);

}  // namespace simgpu
