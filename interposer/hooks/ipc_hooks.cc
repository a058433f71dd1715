// Memory that a program means to share with other processes. A buffer is mapped memory, which the
// driver's calls for that do not take (docs/decisions/0020-shared-memory.md).
#include <atomic>
#include <new>
#include <string>

#include "interposer/allocators/memory_pools.h"
#include "interposer/contexts/context_registry.h"
#include "interposer/driver/table.h"
#include "interposer/generated/hooks.h"
#include "interposer/log.h"

namespace superpipe {
namespace {

/// Says once why the memory of `buffer` cannot be shared, and how it can.
void say_unshared(const BufferRange& buffer) noexcept {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  try {
    log_line(LogLevel::kWarning,
             "cuIpcGetMemHandle fails: superpipe maps buffers itself, and those cannot be shared "
             "with other processes. " +
                 std::string(variable_of(SettingId::kMinBuffer)) + "=" +
                 std::to_string(buffer.size.count() + 1) + " leaves this one, of " +
                 format_bytes(buffer.size) +
                 ", and all that are not larger to the driver, which then can");
  } catch (const std::bad_alloc&) {
    // It goes unsaid.
  }
}

}  // namespace

CUresult hook::cuIpcGetMemHandle(CUipcMemHandle* pHandle, CUdeviceptr dptr) noexcept {
  ManagedContext* const managed = ContextRegistry::managed();
  if (managed == nullptr || !managed->in_arena(dptr)) {
    return driver().cuIpcGetMemHandle(pHandle, dptr);
  }
  // What pools allocate cannot be shared so in any case.
  const auto buffer = managed->residency().find(dptr);
  if (buffer && memory_pools().pool_of(buffer->base) == nullptr) say_unshared(*buffer);
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult hook::cuMemPoolExportPointer(CUmemPoolPtrExportData* shareData_out,
                                      CUdeviceptr ptr) noexcept {
  const ManagedContext* const managed = ContextRegistry::managed();
  if (managed != nullptr && managed->in_arena(ptr)) return CUDA_ERROR_INVALID_VALUE;
  return driver().cuMemPoolExportPointer(shareData_out, ptr);
}

}  // namespace superpipe
