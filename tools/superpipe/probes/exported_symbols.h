// The names that a shared library exports.
#pragma once

#include <string>
#include <vector>

namespace superpipe::cli {

/// The defined dynamic symbols of the 64-bit ELF file at `path` whose names begin with `prefix`, in
/// the order of the file, without their versions. Empty if it cannot be read or is malformed.
[[nodiscard]] std::vector<std::string> exported_symbols(const std::string& path,
                                                        const std::string& prefix);

}  // namespace superpipe::cli
