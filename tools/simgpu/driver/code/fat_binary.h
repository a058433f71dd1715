// Reads whatever a program hands to cuModuleLoadData: fat binaries, cubins, PTX.
#pragma once

#include "tools/simgpu/driver/code/byte_view.h"
#include "tools/simgpu/driver/code/decompressor.h"
#include "tools/simgpu/driver/code/module_image.h"

namespace simgpu {

/// The compute capability that simgpu says it has, 10 * major + minor.
inline constexpr unsigned kComputeCapability = 90;

/// Decodes an image of known size: a fat binary (bare), a cubin, or PTX text (to its first zero
/// byte or its end).
///
/// Of a fat binary's entries it takes the machine code for `capability`, else for the highest lower
/// one of the same generation, else for any (code is never executed, and the layout is the same),
/// else the PTX for the highest capability. Pure but for opening `decompressor`'s libraries; every
/// offset is checked. Thread-safe.
/// @return why not: ImageError.
[[nodiscard]] ImageResult read_image(ByteView image, Decompressor& decompressor,
                                     unsigned capability = kComputeCapability);

/// Finds the extent of an image of unknown size from the image's own headers, following a
/// __fatBinC_Wrapper_t to what it points to.
///
/// REQUIRES: `address` points at an image in readable memory; only the caller can know that.
/// @return the image, or an empty view if it is none.
[[nodiscard]] ByteView image_at(const void* address);

}  // namespace simgpu
