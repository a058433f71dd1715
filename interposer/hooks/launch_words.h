// Which managed buffers a kernel launch names.
#pragma once

#include <cstdint>

#include "interposer/driver/cuda_api.h"
#include "interposer/kernel_arguments.h"
#include "interposer/managed_context.h"
#include "interposer/word_list.h"

namespace superpipe {

/// Adds the words among a launch's arguments that lie in the arena of `managed`: of `parameters`,
/// or of the argument buffer that `extra` names if `parameters` is null. Either may be null; a
/// launch with both is refused by the driver. `layout`: the kernel's; null if the driver does not
/// know it: what `parameters` name is then unknown, an argument buffer is read all the same.
/// `grid`: the launch's, GridSize::unknown() for what may yet be launched with another.
///
/// Part of the launch path: takes no lock and calls no driver function.
inline void add_launch_words(const ManagedContext& managed, const KernelLayout* layout,
                             void* const* parameters, void* const* extra, GridSize grid,
                             WordList& words) noexcept {
  const auto is_ours = [&managed](std::uint64_t word) { return managed.in_arena(word); };
  if (parameters == nullptr) {
    const ArgumentBuffer buffer = argument_buffer_of(extra);
    collect_bytes(buffer.data, buffer.size, is_ours, words);
  } else if (layout != nullptr) {
    collect_parameters(*layout, parameters, grid, is_ours, words);
  }
}

}  // namespace superpipe
