// Which managed buffers a kernel launch names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "interposer/contexts/managed_context.h"
#include "interposer/driver/cuda_api.h"
#include "interposer/kernels/kernel_arguments.h"
#include "interposer/kernels/pointer_arrays.h"
#include "interposer/kernels/tensor_maps.h"
#include "interposer/kernels/word_list.h"

namespace superpipe {

/// Adds the addresses behind the tensor maps among a launch's `parameters`.
inline void add_tensor_maps(const TensorMaps& maps, const KernelLayout& layout,
                            void* const* parameters, WordList& words) noexcept {
  for (const KernelLayout::Probe& place : layout.tensor_maps) {
    maps.collect(static_cast<const char*>(parameters[place.parameter]) + place.offset, words);
  }
}

/// The word that is the parameter `index` of a launch.
[[nodiscard]] inline std::uint64_t parameter_word(void* const* parameters,
                                                  std::uint32_t index) noexcept {
  std::uint64_t word;
  std::memcpy(&word, parameters[index], sizeof word);
  return word;
}

/// Adds what lies in those arrays of pointers among a launch's `parameters` that are in host
/// memory, and the addresses of the others to `arrays`.
inline void add_host_arrays(const PointerArrays& known, const ManagedContext& managed,
                            const KernelLayout& layout, void* const* parameters, WordList& words,
                            WordList& arrays) noexcept {
  for (const std::uint32_t parameter : layout.arrays) {
    const std::uint64_t array = parameter_word(parameters, parameter);
    if (array == 0) continue;  // kernels have arrays that they can do without
    if (managed.in_arena(array) || !known.collect_from_host(array, words)) arrays.add(array);
  }
}

/// The launch of a kernel that gets the arrays of pointers `arrays`, or fills any, names `words`:
/// from now on these may lie behind the arrays.
void note_arrays(ManagedContext& managed, const KernelLayout& layout, void* const* parameters,
                 WordList& arrays, WordList& words) noexcept;

/// As add_launch_words(), where an array of pointers is known: adds what lies behind those that any
/// word of the launch's parameters is the address of, too. Takes the mutex of the arrays for each
/// such word.
[[nodiscard]] std::size_t add_words_and_arrays(ManagedContext& managed, const KernelLayout* layout,
                                               void* const* parameters, void* const* extra,
                                               GridSize grid, WordList& words) noexcept;

/// Adds what add_launch_words() finds besides the words of `layout.probes`. @return the same.
[[gnu::noinline]] inline std::size_t add_further_words(ManagedContext& managed,
                                                       const KernelLayout& layout,
                                                       void* const* parameters, GridSize grid,
                                                       WordList& words) noexcept {
  const auto is_ours = [&managed](std::uint64_t word) { return managed.in_arena(word); };
  collect_counted(layout, parameters, grid, is_ours, words);
  if (managed.tensor_maps().any()) {
    add_tensor_maps(managed.tensor_maps(), layout, parameters, words);
  }
  const bool has_arrays = (!layout.arrays.empty() || layout.any_array) && managed.moves();
  WordList arrays;
  if (has_arrays) {
    add_host_arrays(managed.pointer_arrays(), managed, layout, parameters, words, arrays);
  }
  const std::size_t certain = words.size();
  collect_probes(layout.struct_probes, parameters, is_ours, words);
  if (has_arrays) note_arrays(managed, layout, parameters, arrays, words);
  return certain;
}

/// Adds the words among a launch's arguments that lie in the arena of `managed`, and the addresses
/// behind tensor maps among them, and those in arrays of pointers in host memory, as far as the
/// kernel's types tell of arrays: of `parameters`, or of the argument buffer that `extra` names if
/// `parameters` is null. Either may be null; a launch with both is refused by the driver. `layout`:
/// the kernel's; null if the driver does not know it: then `parameters` are followed as far as they
/// can be read, which takes long. `grid`: the launch's, GridSize::unknown() for what may yet be
/// launched with another.
/// @return how many of the words are more than leftovers in structs: the first ones.
///
/// Part of the launch path: calls no driver function, and takes no lock but for what may be a
/// tensor map, if the kernel gets no array of pointers.
[[gnu::always_inline]] inline std::size_t add_launch_words(ManagedContext& managed,
                                                           const KernelLayout* layout,
                                                           void* const* parameters,
                                                           void* const* extra, GridSize grid,
                                                           WordList& words) noexcept {
  const auto is_ours = [&managed](std::uint64_t word) { return managed.in_arena(word); };
  if (parameters == nullptr) {
    const ArgumentBuffer buffer = argument_buffer_of(extra);
    collect_bytes(buffer.data, buffer.size, is_ours, words);
    managed.tensor_maps().collect_all(buffer.data, buffer.size, 0, TensorMaps::kStepInArguments,
                                      words);
  } else if (layout != nullptr) {
    collect_probes(layout->probes, parameters, is_ours, words);
    if (layout->has_more) [[unlikely]] {
      return add_further_words(managed, *layout, parameters, grid, words);
    }
  } else {
    UnknownKernels::collect(managed.residency(), managed.tensor_maps(), parameters, words);
  }
  return words.size();
}

}  // namespace superpipe
