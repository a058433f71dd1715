// What a kernel's mangled name says about its parameters.
#pragma once

#include <string>
#include <vector>

namespace simgpu {

/// Which parameters of a kernel its mangled name shows to be pointers to const.
///
/// @return One flag per parameter of the demangled signature, or an empty vector where the name has
///     no signature (C linkage) or cannot be read. Cost: one demangling.
[[nodiscard]] std::vector<bool> const_pointer_parameters(const std::string& mangled);

}  // namespace simgpu
