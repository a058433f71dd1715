#include "interposer/hooks/launch_words.h"

#include <algorithm>
#include <vector>

#include "interposer/driver/table.h"

namespace superpipe {
namespace {

/// Whether the driver knows `address` as one of device memory.
bool is_device_memory(std::uint64_t address) noexcept {
  unsigned type = 0;
  return driver().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) ==
             CUDA_SUCCESS &&
         type == CU_MEMORYTYPE_DEVICE;
}

}  // namespace

void note_arrays(ManagedContext& managed, const KernelLayout& layout, void* const* parameters,
                 WordList& arrays, WordList& words) noexcept try {
  if (layout.any_array) {
    if (words.empty()) return;  // it counts up from a number
    const auto is_array = [&managed](std::uint64_t word) {
      return !managed.in_arena(word) && is_device_memory(word);
    };
    collect_probes(layout.probes, parameters, is_array, arrays);
    collect_probes(layout.struct_probes, parameters, is_array, arrays);
  }
  std::vector<std::uint64_t> named;
  for (const std::uint64_t word : words.words()) {
    if (std::ranges::find(arrays.words(), word) == arrays.words().end()) named.push_back(word);
  }
  if (arrays.failed() || !managed.pointer_arrays().note_launch(arrays.words(), named)) words.fail();
} catch (const std::bad_alloc&) {
  words.fail();
}

// The words that name for certain come first: those of the launch, and what was stored last in an
// array that is a parameter. What only structs name, and what an array had before, may be too much.
std::size_t add_words_and_arrays(ManagedContext& managed, const KernelLayout* layout,
                                 void* const* parameters, void* const* extra, GridSize grid,
                                 WordList& words) noexcept {
  using Age = PointerArrays::Age;
  const PointerArrays& arrays = managed.pointer_arrays();
  const auto may_be_array = [&arrays](std::uint64_t word) { return arrays.may_be_at(word); };
  WordList parameter_arrays;
  WordList struct_arrays;
  if (parameters == nullptr) {
    const ArgumentBuffer buffer = argument_buffer_of(extra);
    collect_bytes(buffer.data, buffer.size, may_be_array, parameter_arrays);
  } else if (layout != nullptr) {
    collect_probes(layout->probes, parameters, may_be_array, parameter_arrays);
    collect_counted(*layout, parameters, grid, may_be_array, parameter_arrays);
    collect_probes(layout->struct_probes, parameters, may_be_array, struct_arrays);
  }
  // Before the launch is noted, which may make old what it finds there.
  WordList behind_parameters;
  WordList uncertain;
  for (const std::uint64_t array : parameter_arrays.words()) {
    arrays.collect(array, Age::kNew, behind_parameters);
    arrays.collect(array, Age::kOld, uncertain);
  }
  for (const std::uint64_t array : struct_arrays.words()) {
    arrays.collect(array, Age::kNew, uncertain);
    arrays.collect(array, Age::kOld, uncertain);
  }

  WordList named;
  const std::size_t certain = add_launch_words(managed, layout, parameters, extra, grid, named);
  for (const std::uint64_t word : named.words().first(certain)) words.add(word);
  for (const std::uint64_t word : behind_parameters.words()) words.add(word);
  const std::size_t all_certain = words.size();
  for (const std::uint64_t word : named.words().subspan(certain)) words.add(word);
  for (const std::uint64_t word : uncertain.words()) words.add(word);
  for (const WordList* const list :
       {&parameter_arrays, &struct_arrays, &behind_parameters, &uncertain, &named}) {
    if (list->failed()) words.fail();
  }
  return all_certain;
}

}  // namespace superpipe
