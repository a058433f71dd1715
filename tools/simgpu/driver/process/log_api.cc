// The driver's log, as programs read it.
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

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

SIMGPU_EXPORT CUresult cuLogsRegisterCallback(CUlogsCallback callbackFunc, void* userData,
                                              CUlogsCallbackHandle* callback_out) {
  SIMGPU_ENTER_WITH(cuLogsRegisterCallback, Requires::kNothing);
  if (callbackFunc == nullptr) return CUDA_ERROR_INVALID_VALUE;
  try {
    const std::uint64_t number = add_log_listener([=](std::string_view text) {
      std::string own(text);  // the program may write to it
      callbackFunc(userData, CU_LOG_LEVEL_ERROR, own.data(), own.size());
    });
    if (callback_out != nullptr) *callback_out = reinterpret_cast<CUlogsCallbackHandle>(number);
    return CUDA_SUCCESS;
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

SIMGPU_EXPORT CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle callback) {
  SIMGPU_ENTER_WITH(cuLogsUnregisterCallback, Requires::kNothing);
  const bool was_there = remove_log_listener(reinterpret_cast<std::uint64_t>(callback));
  return was_there ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace simgpu
