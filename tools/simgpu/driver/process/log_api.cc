// The driver's log, as programs read it.
#include <cstring>
#include <new>
#include <string>

#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/process/log.h"

namespace simgpu {

/// Gives all lines, or as many of the latest ones as fit; there are no iterators.
SIMGPU_EXPORT CUresult cuLogsDumpToMemory(CUlogIterator* iterator, char* buffer, size_t* size,
                                          unsigned int flags) {
  SIMGPU_ENTER_WITH(cuLogsDumpToMemory, Requires::kNothing);
  if (buffer == nullptr || size == nullptr || *size == 0 || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (iterator != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  try {
    std::string text = logged_errors();
    if (text.size() >= *size) {
      const std::size_t cut = text.find('\n', text.size() - *size);
      text.erase(0, cut + 1);
    }
    std::memcpy(buffer, text.c_str(), text.size() + 1);
    *size = text.size();
    return CUDA_SUCCESS;
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

}  // namespace simgpu
