// Finds NVIDIA's runtime library, and others of its libraries, on this machine.
#pragma once

#include <string>
#include <vector>

namespace superpipe::cli {

/// Names and paths under which the library `name` ("libcublas.so.13") may be loaded, best first:
/// what the loader would find by its name, then CUDA's own folders, then those of Python's
/// packages.
[[nodiscard]] std::vector<std::string> cuda_library_candidates(const std::string& name);

/// As above, for a libcudart of CUDA `major`.
[[nodiscard]] std::vector<std::string> cuda_runtime_candidates(int major);

/// The first of `candidates` that can be loaded; empty if none can. Loads it, so call it in a
/// child.
[[nodiscard]] std::string first_loadable(const std::vector<std::string>& candidates);

}  // namespace superpipe::cli
