// Whose choice PyTorch's allocator was, said when a program fails.
//
// What backend:cudaMallocAsync lacks fails with errors of PyTorch's own, which do not name
// superpipe.
#pragma once

namespace superpipe {

/// Says, if `exit_code` is an error, that PyTorch allocated as superpipe chose, where it did so.
/// Says nothing where the process never called the driver. Calls no driver function.
void say_allocator_of_failed_program(int exit_code) noexcept;

/// Has the same said when the process is aborted: that ends it past all that runs at an exit, and
/// an error that C++ code does not catch ends so. Where PyTorch is not there, or allocates as the
/// user chose, nothing is changed. Else a handler of SIGABRT says it, takes itself back and raises
/// the signal again, for the handler that was there or the default action. A handler that the
/// program sets later replaces it. Where the program ignores the signal, no handler is set. Any
/// thread; the first call counts.
void say_allocator_when_aborted() noexcept;

}  // namespace superpipe
