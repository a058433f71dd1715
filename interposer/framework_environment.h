// The frameworks' own allocators, told to leave the caching to us.
#pragma once

namespace superpipe {

/// Sets the variables that make PyTorch, TensorFlow and JAX allocate each tensor through
/// cuMemAllocAsync (docs/design.md, "Getting in front of the driver"), where the user has not set
/// them. Not thread-safe: called before the program starts.
/// @return whether all of them are now as we want them; false: the user chose otherwise.
bool set_framework_allocators() noexcept;

}  // namespace superpipe
