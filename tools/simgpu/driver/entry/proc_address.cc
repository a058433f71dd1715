#include "tools/simgpu/driver/entry/proc_address.h"

#include <cudaProfiler.h>

#include <algorithm>
#include <array>

namespace simgpu {
namespace {

/// One row of the generated table, which is sorted by name, version and variant.
struct Row {
  std::string_view name;
  int version;
  bool per_thread;
  void* function;
};

// The table names functions that newer ones replace, each by the type that its version has.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#define SIMGPU_ENTRY(name, version, suffix, symbol) \
  Row{#name, version, sizeof(#suffix) > 1, reinterpret_cast<void*>(&::symbol)},

const auto& rows() {
  static const auto kTable = std::to_array<Row>({
#include "tools/simgpu/driver/generated/proc_addresses.inc"
  });
  return kTable;
}

#undef SIMGPU_ENTRY
#pragma GCC diagnostic pop

}  // namespace

CUresult find_function(std::string_view symbol, int version, cuuint64_t flags, void** function,
                       CUdriverProcAddressQueryResult* status) {
  constexpr cuuint64_t kKnownFlags =
      CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if ((flags & ~kKnownFlags) != 0 || flags == kKnownFlags || version > CUDA_VERSION) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool wants_per_thread = flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  const auto& table = rows();
  const auto [first, last] =
      std::equal_range(table.begin(), table.end(), Row{symbol, 0, false, nullptr},
                       [](const Row& left, const Row& right) { return left.name < right.name; });
  void* ordinary = nullptr;
  void* per_thread = nullptr;
  for (auto row = first; row != last; ++row) {
    if (row->version <= version) {  // ascending: the last that fits stays
      (row->per_thread ? per_thread : ordinary) = row->function;
    }
  }
  *function = wants_per_thread && per_thread != nullptr ? per_thread : ordinary;
  *status = *function != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
            : first == last      ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
                                 : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
  return CUDA_SUCCESS;
}

namespace {

/// What both ABIs do. Callable before cuInit: a runtime library resolves everything first.
/// `*function` and `*status` are written on success only.
CUresult get_proc_address(const char* symbol, void** function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult* status) {
  SIMGPU_ENTER_WITH(cuGetProcAddress, Requires::kNothing);
  if (symbol == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return find_function(symbol, version, flags, function, status);
}

}  // namespace

SIMGPU_EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** pfn, int cuda_version,
                                           cuuint64_t flags,
                                           CUdriverProcAddressQueryResult* symbol_status) {
  // NVIDIA's runtime asks for "" first, with version 0, and goes on when that succeeds with null.
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  return get_proc_address(symbol, pfn, cuda_version, flags,
                          symbol_status != nullptr ? symbol_status : &status);
}

/// The first ABI has no status to tell by: what it cannot give is an error.
SIMGPU_EXPORT CUresult cuGetProcAddress(const char* symbol, void** pfn, int cuda_version,
                                        cuuint64_t flags) {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  const CUresult result =
      get_proc_address(symbol, pfn == nullptr ? nullptr : &function, cuda_version, flags, &status);
  if (result != CUDA_SUCCESS) return result;
  if (function == nullptr && *symbol != '\0') return CUDA_ERROR_NOT_FOUND;
  *pfn = function;
  return CUDA_SUCCESS;
}

}  // namespace simgpu
