// Names of kernels as a line has room for them.
#pragma once

#include <string>
#include <string_view>

namespace superpipe {

/// The demangled `name` with "..." in the place of the template arguments and parameters that are
/// long: those of PyTorch's kernels fill a page. A name without any of them stays as it is, except
/// that one of more than a hundred characters is cut short.
[[nodiscard]] std::string short_kernel_name(std::string_view name);

}  // namespace superpipe
