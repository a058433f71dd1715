// What a kernel's mangled name says about its parameters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace simgpu {

/// A kernel's demangled name, taken apart.
struct KernelSignature {
  std::string name;                     ///< with template arguments, without parameters
  std::vector<std::string> parameters;  ///< one type per parameter; empty if the name has none
};

/// Takes `mangled` apart. Cost: one demangling.
/// @return empty strings where the name has no signature (C linkage) or cannot be read.
[[nodiscard]] KernelSignature kernel_signature(const std::string& mangled);

/// Whether a parameter of this demangled type is a pointer to const.
[[nodiscard]] bool is_pointer_to_const(std::string_view type);

}  // namespace simgpu
