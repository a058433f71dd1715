// The frameworks' own allocators, told to leave the caching to us.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace superpipe {

/// The value `options` of one of PyTorch's two allocator variables without expandable segments:
/// these are virtual memory of the program's own, which superpipe cannot move. All other options
/// stay. @return nullopt if there is nothing to change.
std::optional<std::string> without_expandable_segments(std::string_view options);

/// Takes expandable segments out of the variables that the user has set. Not thread-safe: called
/// before the program starts. @return a line for the user for each variable that was changed.
std::vector<std::string> override_expandable_segments();

/// The value `options` of such a variable with the backend by which PyTorch allocates each tensor
/// by itself. All options stay; that backend takes no notice of those for the other one. @return
/// nullopt if there is nothing to change: the user chose a backend, or expandable segments, which
/// only the other one has.
std::optional<std::string> with_async_backend(std::string_view options);

/// Sets the variables that make PyTorch, TensorFlow and JAX allocate each tensor through
/// cuMemAllocAsync (docs/design.md, "Getting in front of the driver"), where the user has not
/// chosen an allocator. Not thread-safe: called before the program starts.
/// @return whether all of them are now as we want them; false: the user chose otherwise.
bool set_framework_allocators() noexcept;

/// The value `options` of such a variable without the backend that with_async_backend() adds.
std::string without_async_backend(std::string_view options);

/// The same for TensorFlow and JAX alone, in a process that needs PyTorch's own allocator: takes
/// back what superpipe chose for PyTorch in a process that started this one. Those that this one
/// starts are told by SUPERPIPE_ALLOCATOR. Not thread-safe. @return whether PyTorch's own allocator
/// stays; false: the user chose another one, and nothing was changed.
bool keep_pytorch_allocator() noexcept;

/// Whether the variables have PyTorch allocate as they do because superpipe set them, in this
/// process or in one that started it, and not because the user chose it. Not thread-safe.
bool chose_pytorch_allocator() noexcept;

/// What chose_pytorch_allocator() said at the end of set_framework_allocators(); false before. Any
/// thread.
bool chose_pytorch_allocator_at_start() noexcept;

/// Whether PyTorch is in this process: a library of it is loaded. Looks at the loader's list of
/// libraries, which takes microseconds. Any thread.
bool is_pytorch_loaded() noexcept;

/// The version of the PyTorch in this process, such as "2.11.0+cu130": its package says it in a
/// file beside the folder of its libraries. Empty if there is none, or it does not say. Reads a
/// file. Throws std::bad_alloc.
std::string pytorch_version();

/// Whether vLLM is in this process: its compiled part is loaded, which it imports before it asks
/// the driver anything. As is_pytorch_loaded().
bool is_vllm_loaded() noexcept;

/// The value of XLA_FLAGS that has XLA (JAX, TensorFlow) launch its kernels one by one: by itself
/// it makes CUDA graphs of them, all of whose buffers have to be on the device at once. `flags`:
/// the user's, which stay. @return nullopt if there is nothing to change: the user chose, or names
/// a file of flags.
std::optional<std::string> without_command_buffers(std::string_view flags);

/// Sets that. Not thread-safe: called before the program starts.
void launch_kernels_one_by_one() noexcept;

}  // namespace superpipe
