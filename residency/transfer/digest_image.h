// The kernel of residency/transfer/digest_kernel.h, compiled, for what loads it into a device.
#pragma once

namespace superpipe {

/// A fat binary, as cuModuleLoadData takes it: machine code for every kind of device that CUDA 13
/// knows, and text for those to come. Aligned to 8 bytes. For the whole process.
[[nodiscard]] const void* digest_fat_binary();

/// The same as text (PTX) of an old version, for drivers that are older than the toolkit. Ends with
/// a zero.
[[nodiscard]] const char* digest_ptx();

}  // namespace superpipe
