// Reads PTX text, for images that have no machine code.
#pragma once

#include <string_view>

#include "tools/simgpu/driver/code/module_image.h"

namespace simgpu {

/// Decodes PTX: kernels (`.entry`) with the parameter layout that the PTX ABI gives them, and
/// module variables (`.global`, `.const`).
///
/// Each parameter lies at the next multiple of its alignment: `.align` where given, else its type's
/// size. Initial values are numbers; a variable that is initialised with an address starts as
/// zeros, since no device code follows it. Pure; any text may be given. Linear in the text.
/// @return ImageError::kInvalidPtx for text that is not PTX, is cut short, or is malformed.
/// Source: PTX ISA 9.0, sections 5 (state spaces, types, variables) and 7.1 (parameters).
[[nodiscard]] ImageResult read_ptx(std::string_view text);

}  // namespace simgpu
