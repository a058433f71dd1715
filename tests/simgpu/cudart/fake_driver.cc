// A driver that is good for one thing only: to be refused. FAKE_DRIVER says what is wrong with it.
//   old        its version is 12.8
//   no-device  cuInit finds no device
// It counts what it is asked for, so that a test can see how the runtime library resolves it.

#include <cuda.h>

#include <cstdlib>
#include <cstring>

#include "tools/simgpu/export.h"

namespace {

int first_queries = 0;
int later_queries = 0;

bool mode_is(const char* mode) {
  const char* const value = std::getenv("FAKE_DRIVER");
  return value != nullptr && std::strcmp(value, mode) == 0;
}

CUresult fake_version(int* version) {
  *version = mode_is("old") ? 12080 : CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult fake_init(unsigned) { return CUDA_ERROR_NO_DEVICE; }

CUresult later_lookup(const char* symbol, void** function, int, cuuint64_t,
                      CUdriverProcAddressQueryResult* status) {
  ++later_queries;
  *function = nullptr;
  if (std::strcmp(symbol, "cuInit") == 0) *function = reinterpret_cast<void*>(&fake_init);
  if (std::strcmp(symbol, "cuDriverGetVersion") == 0) {
    *function = reinterpret_cast<void*>(&fake_version);
  }
  const bool found = *function != nullptr;
  *status = found ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

}  // namespace

SIMGPU_EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** function, int, cuuint64_t,
                                           CUdriverProcAddressQueryResult* status) {
  ++first_queries;
  const bool known = std::strcmp(symbol, "cuGetProcAddress") == 0;
  *function = known ? reinterpret_cast<void*>(&later_lookup) : nullptr;
  *status = known ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return known ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/// Queries answered by the symbol that dlsym finds, and by the one that this one returned.
SIMGPU_EXPORT void fake_driver_queries(int* first, int* later) {
  *first = first_queries;
  *later = later_queries;
}
