// Fills of memory with a value, as driver functions and nodes of graphs ask for them.
#pragma once

#include <cstdint>

#include "tools/simgpu/driver/copies/copy.h"
#include "tools/simgpu/driver/streams/stream.h"

namespace simgpu {

/// One fill. REQUIRES of its users that check() accepted it.
struct FillWork {
  const char* name = "";  ///< the function, for fault lines; a literal
  std::uint64_t address = 0;
  std::uint64_t pitch = 0;
  std::uint32_t value = 0;
  unsigned element_size = 1;  ///< 1, 2 or 4 bytes
  std::uint64_t width = 0;    ///< in elements
  std::uint64_t height = 1;

  [[nodiscard]] Box box() const { return {width * element_size, height}; }
};

/// Finds out which memory `work` names (`*target`) and whether all of it is there.
/// @return CUDA_ERROR_INVALID_VALUE for memory that is not there or is host memory that is not
///     pinned, for extents that overlap, and for an address that is not a multiple of the element.
CUresult check(const FillWork& work, End* target);

/// The operation that does `work` on a stream of `context`, which names the memory as of now.
Operation operation_of(const FillWork& work, const Context& context);

}  // namespace simgpu
