// Which managed buffers a kernel launch names.
#pragma once

#include <cstdint>

#include "interposer/driver/cuda_api.h"
#include "interposer/kernel_arguments.h"
#include "interposer/managed_context.h"
#include "interposer/word_list.h"
#include "residency/passthrough_change.h"
#include "residency/residency_manager.h"

namespace superpipe {

/// Adds the words among a launch's arguments that lie in the arena of `managed`: of `parameters`,
/// or of the argument buffer that `extra` names if `parameters` is null. Either may be null; a
/// launch with both is refused by the driver.
///
/// Part of the launch path: a function that is known costs no lock and no driver call. One that is
/// not known yet is learned, and the device is looked at soon, because the driver may load the
/// function's code for its first use.
/// @return the kernel's layout; null if the driver does not know the function or its parameters.
/// What `parameters` name is then unknown; an argument buffer is read all the same.
inline const KernelLayout* add_launch_words(ManagedContext& managed, CUfunction function,
                                            void* const* parameters, void* const* extra,
                                            WordList& words) noexcept {
  const KernelLayout* layout = managed.layouts().find(function);
  if (layout == nullptr) [[unlikely]] {
    layout = managed.layouts().learn(function);
    if (layout != nullptr) managed.residency().on_passthrough_change(PassthroughChange::kGrowth);
  }
  const auto is_ours = [&managed](std::uint64_t word) { return managed.in_arena(word); };
  if (parameters == nullptr) {
    const ArgumentBuffer buffer = argument_buffer_of(extra);
    collect_bytes(buffer.data, buffer.size, is_ours, words);
  } else if (layout != nullptr) {
    collect_parameters(*layout, parameters, is_ours, words);
  }
  return layout;
}

}  // namespace superpipe
