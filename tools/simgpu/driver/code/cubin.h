// Reads cubins: ELF files with device code.
#pragma once

#include "tools/simgpu/driver/code/byte_view.h"
#include "tools/simgpu/driver/code/module_image.h"

namespace simgpu {

/// True if `bytes` begin like an ELF file.
[[nodiscard]] bool looks_like_elf(ByteView bytes);

/// The size in bytes of the ELF image at `address`: the end of the last section or table that its
/// headers name. Reads the headers only.
///
/// REQUIRES: a readable ELF image; as with NVIDIA's driver, only the caller can know that it is.
/// @return 0 if it is not a 64-bit little-endian ELF file.
[[nodiscard]] std::size_t elf_extent(const void* address);

/// Decodes a cubin: kernels with their parameter layouts, and variables with their initial bytes.
///
/// Kernels are the functions marked as entries with a `.text.<kernel>` section; the layout comes
/// from attribute 0x17 (or 0x45, which wide parameters use) of `.nv.info.<kernel>`. Variables are
/// the data symbols of `.nv.global`, `.nv.global.init` and `.nv.constant3`; relocations in them are
/// not applied, since no device code runs. Pure; every offset is checked, so that any bytes may be
/// given. Linear in the image.
/// @return ImageError::kInvalid for anything cut short or inconsistent.
[[nodiscard]] ImageResult read_cubin(ByteView image);

}  // namespace simgpu
