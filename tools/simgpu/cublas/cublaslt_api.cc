// simgpu's libcublasLt.so.13: descriptors, one heuristic answer, and matrix products as launches.

#include <cuda.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <new>
#include <utility>
#include <vector>

#include "tools/simgpu/cublas/information.h"
#include "tools/simgpu/cublas/launch.h"
#include "tools/simgpu/cublas/number.h"
#include "tools/simgpu/export.h"

namespace simgpu::cublas {
namespace {

// Attributes of a matrix product whose values say what is read and written. Source: cuBLAS,
// cublasLtMatmulDescAttributes_t.
enum Attribute : int {
  kComputeType = 0,
  kScaleType = 1,
  kPointerMode = 2,
  kTransposeA = 3,
  kEpilogue = 7,
  kBiasPointer = 8,
  kBiasStride = 10,
  kAScalePointer = 17,
  kBScalePointer = 18,
  kCScalePointer = 19,
  kDScalePointer = 20,
  kAmaxPointer = 21,
  kAuxAmaxPointer = 24,
  kBiasType = 26,
  kAScaleMode = 31,
  kBScaleMode = 32,
  kCScaleMode = 33,
  kOutScalePointer = 36,
};

// Attributes of a matrix. Source: cuBLAS, cublasLtMatrixLayoutAttribute_t.
enum LayoutAttribute : int {
  kType = 0,
  kOrder = 1,
  kRows = 2,
  kColumns = 3,
  kLeading = 4,
  kBatches = 5,
  kStride = 6,
  kBatchMode = 8,
};

// cublasLtOrder_t, as far as the bytes of a matrix are known.
enum Order : std::int32_t { kColumnMajor = 0, kRowMajor = 1 };

// Bits of cublasLtEpilogue_t.
enum Epilogue : std::uint32_t { kDefault = 1, kRelu = 2, kBias = 4, kGelu = 32 };

/// A layout, a preference or the description of a matrix product: values by attribute. Which one it
/// is, is not checked, as it is not by NVIDIA's library.
struct Description {
  std::map<int, std::vector<std::byte>> values;

  template <typename Value>
  Value get(int attribute, Value otherwise) const {
    const auto found = values.find(attribute);
    if (found == values.end() || found->second.size() != sizeof(Value)) return otherwise;
    Value value;
    std::memcpy(&value, found->second.data(), sizeof(Value));
    return value;
  }
  const void* pointer(int attribute) const { return get<const void*>(attribute, nullptr); }
};

/// cublasLtMatmulAlgo_t. Programs copy it as bytes. A word for each attribute of its configuration
/// (cublasLtMatmulAlgoConfigAttributes_t, of which none is larger): none changes a product here.
struct Algorithm {
  std::uint32_t configuration[16];
};
static_assert(sizeof(Algorithm) == 64);

/// cublasLtMatmulHeuristicResult_t.
struct HeuristicResult {
  Algorithm algorithm;
  std::size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(HeuristicResult) == 96);

int create(Description** description) {
  if (description == nullptr) return kInvalidValue;
  auto* const created = new (std::nothrow) Description;
  if (created == nullptr) return kAllocFailed;
  *description = created;
  return kSuccess;
}

int destroy(Description* description) {
  delete description;  // null is allowed
  return kSuccess;
}

int set(Description* description, int attribute, const void* value, std::size_t bytes) noexcept {
  if (description == nullptr || value == nullptr || bytes == 0) return kInvalidValue;
  try {
    const auto* const begin = static_cast<const std::byte*>(value);
    description->values[attribute].assign(begin, begin + bytes);
  } catch (const std::bad_alloc&) {
    return kAllocFailed;
  }
  return kSuccess;
}

/// Copies a value that is set, or zeros, to `value`, of `bytes`, or if that is 0 only tells the
/// size in `*written`, which may be null.
int get(const Description* description, int attribute, void* value, std::size_t bytes,
        std::size_t* written) noexcept {
  if (description == nullptr || (value == nullptr && bytes != 0)) return kInvalidValue;
  if (bytes == 0 && written == nullptr) return kInvalidValue;
  const auto found = description->values.find(attribute);
  const bool is_set = found != description->values.end();
  if (is_set && bytes != 0 && bytes < found->second.size()) return kInvalidValue;
  if (bytes != 0) std::memset(value, 0, bytes);
  if (is_set && bytes != 0) std::memcpy(value, found->second.data(), found->second.size());
  if (written != nullptr) *written = is_set ? found->second.size() : bytes;
  return kSuccess;
}

/// Whether `configuration` of an algorithm has a word for `attribute`, and `bytes` fit it.
bool is_word(int attribute, std::size_t bytes) noexcept {
  return attribute >= 0 && attribute < 16 && bytes >= 1 && bytes <= sizeof(std::uint32_t);
}

/// The extents of the product, from the layouts of its first factor and of its result.
Product extents_of(const Description& product, const Description& a, const Description& d) {
  const bool transposed = product.get<std::int32_t>(kTransposeA, 0) != 0;
  return product_of(d.get<std::int64_t>(kRows, 1), d.get<std::int64_t>(kColumns, 1),
                    a.get<std::int64_t>(transposed ? kRows : kColumns, 1),
                    d.get<std::int32_t>(kBatches, 1), number_of(a.get<int>(kType, 0)));
}

/// The matrix at `address`, or the matrices, that `layout` describes.
ProductOperand operand_of(const void* address, const Description& layout) {
  const auto order = layout.get<std::int32_t>(kOrder, kColumnMajor);
  constexpr std::int32_t kStrided = 0;
  if (layout.get<std::int32_t>(kBatchMode, kStrided) != kStrided ||
      (order != kColumnMajor && order != kRowMajor)) {
    return {address, 0};
  }
  auto rows = layout.get<std::int64_t>(kRows, 0);
  auto columns = layout.get<std::int64_t>(kColumns, 0);
  if (order == kRowMajor) std::swap(rows, columns);
  const std::uint64_t number = bytes_of(layout.get<int>(kType, 0));
  const std::uint64_t one =
      matrix_bytes(rows, columns, layout.get<std::int64_t>(kLeading, rows), number);
  const auto stride = layout.get<std::int64_t>(kStride, 0) * static_cast<std::int64_t>(number);
  return {address, batch_bytes(one, layout.get<std::int32_t>(kBatches, 1), stride)};
}

/// A number for each row of the result, for each matrix of a batch, or the same for all. Its type
/// is the result's if none is given, save beside results of one byte, where it depends on more.
ProductOperand bias_of(const Description& product, const Description& d) {
  const int of_result = d.get<int>(kType, 0);
  const int otherwise = bytes_of(of_result) == 1 ? -1 : of_result;
  const std::uint64_t number = bytes_of(product.get<int>(kBiasType, otherwise));
  const std::uint64_t one = matrix_bytes(d.get<std::int64_t>(kRows, 0), 1, 0, number);
  const auto stride = product.get<std::int64_t>(kBiasStride, 0) * static_cast<std::int64_t>(number);
  return {product.pointer(kBiasPointer),
          batch_bytes(one, d.get<std::int32_t>(kBatches, 1), stride)};
}

/// The scale of a matrix: one float, unless `mode` says that it has more.
ProductOperand scale_of(const Description& product, int pointer, int mode) {
  const bool is_one = product.get<std::int32_t>(mode, 0) == 0;
  return {product.pointer(pointer), is_one ? sizeof(float) : 0};
}

/// Whether one launch with one output can stand for the product. It cannot where the product writes
/// more than one result (an epilogue with a second matrix or a gradient of the bias, or a largest
/// value) or where its factors lie on the device: the launch has no parameter for them.
bool is_supported(const Description& product) {
  const auto epilogue = product.get<std::uint32_t>(kEpilogue, kDefault);
  const std::uint32_t known = kDefault | kRelu | kBias | kGelu;
  if ((epilogue & ~known) != 0 || product.get<std::int32_t>(kPointerMode, kHost) != kHost) {
    return false;
  }
  for (const int left_out : {kDScalePointer, kOutScalePointer, kAmaxPointer, kAuxAmaxPointer}) {
    if (product.pointer(left_out) != nullptr) return false;
  }
  return true;
}

}  // namespace

SIMGPU_EXPORT std::size_t cublasLtGetVersion() { return kVersion; }
SIMGPU_EXPORT std::size_t cublasLtGetCudartVersion() { return kRuntimeVersion; }
SIMGPU_EXPORT int cublasLtGetProperty(int property, int* value) {
  return version_part(property, value);
}
SIMGPU_EXPORT const char* cublasLtGetStatusName(int status) { return status_name(status); }
SIMGPU_EXPORT const char* cublasLtGetStatusString(int status) { return status_text(status); }

/// Nothing is logged, whatever is asked for.
SIMGPU_EXPORT int cublasLtLoggerSetLevel(int /*level*/) { return kSuccess; }
SIMGPU_EXPORT int cublasLtLoggerSetMask(int /*mask*/) { return kSuccess; }
SIMGPU_EXPORT int cublasLtLoggerForceDisable() { return kSuccess; }

/// The handle has no state: cuBLAS's own handles serve as well, as they do with NVIDIA's library.
SIMGPU_EXPORT int cublasLtCreate(void** handle) {
  if (handle == nullptr) return kInvalidValue;
  if (const auto status = check_context(); status != kSuccess) return status;
  static char the_handle;
  *handle = &the_handle;
  return kSuccess;
}

SIMGPU_EXPORT int cublasLtDestroy(void* handle) {
  return handle == nullptr ? kNotInitialized : kSuccess;
}

SIMGPU_EXPORT int cublasLtMatmulDescCreate(Description** product, int compute_type,
                                           int scale_type) {
  if (const int status = create(product); status != kSuccess) return status;
  const std::uint32_t epilogue = kDefault;
  for (const int status : {set(*product, kComputeType, &compute_type, sizeof(compute_type)),
                           set(*product, kScaleType, &scale_type, sizeof(scale_type)),
                           set(*product, kEpilogue, &epilogue, sizeof(epilogue))}) {
    if (status == kSuccess) continue;
    destroy(*product);
    return status;
  }
  return kSuccess;
}
SIMGPU_EXPORT int cublasLtMatmulDescDestroy(Description* product) { return destroy(product); }
SIMGPU_EXPORT int cublasLtMatmulDescSetAttribute(Description* product, int attribute,
                                                 const void* value, std::size_t bytes) {
  return set(product, attribute, value, bytes);
}
SIMGPU_EXPORT int cublasLtMatmulDescGetAttribute(Description* product, int attribute, void* value,
                                                 std::size_t bytes, std::size_t* written) {
  return get(product, attribute, value, bytes, written);
}

SIMGPU_EXPORT int cublasLtMatrixLayoutCreate(Description** layout, int type, std::uint64_t rows,
                                             std::uint64_t columns, std::int64_t leading) {
  if (const int status = create(layout); status != kSuccess) return status;
  const std::int32_t batches = 1;
  for (const int status :
       {set(*layout, kType, &type, sizeof(type)), set(*layout, kRows, &rows, sizeof(rows)),
        set(*layout, kColumns, &columns, sizeof(columns)),
        set(*layout, kLeading, &leading, sizeof(leading)),
        set(*layout, kBatches, &batches, sizeof(batches))}) {
    if (status == kSuccess) continue;
    destroy(*layout);
    return status;
  }
  return kSuccess;
}
SIMGPU_EXPORT int cublasLtMatrixLayoutDestroy(Description* layout) { return destroy(layout); }
SIMGPU_EXPORT int cublasLtMatrixLayoutSetAttribute(Description* layout, int attribute,
                                                   const void* value, std::size_t bytes) {
  return set(layout, attribute, value, bytes);
}
SIMGPU_EXPORT int cublasLtMatrixLayoutGetAttribute(Description* layout, int attribute, void* value,
                                                   std::size_t bytes, std::size_t* written) {
  return get(layout, attribute, value, bytes, written);
}

SIMGPU_EXPORT int cublasLtMatmulPreferenceCreate(Description** preference) {
  return create(preference);
}
SIMGPU_EXPORT int cublasLtMatmulPreferenceDestroy(Description* preference) {
  return destroy(preference);
}
SIMGPU_EXPORT int cublasLtMatmulPreferenceSetAttribute(Description* preference, int attribute,
                                                       const void* value, std::size_t bytes) {
  return set(preference, attribute, value, bytes);
}
SIMGPU_EXPORT int cublasLtMatmulPreferenceGetAttribute(Description* preference, int attribute,
                                                       void* value, std::size_t bytes,
                                                       std::size_t* written) {
  return get(preference, attribute, value, bytes, written);
}

/// An algorithm by its number, as a program has noted it. All compute the same here.
SIMGPU_EXPORT int cublasLtMatmulAlgoInit(void* handle, int /*compute_type*/, int /*scale_type*/,
                                         int /*a_type*/, int /*b_type*/, int /*c_type*/,
                                         int /*d_type*/, int number, Algorithm* algorithm) {
  if (handle == nullptr) return kNotInitialized;
  if (algorithm == nullptr || number < 0) return kInvalidValue;
  *algorithm = {};
  algorithm->configuration[0] = static_cast<std::uint32_t>(number);
  return kSuccess;
}
SIMGPU_EXPORT int cublasLtMatmulAlgoConfigSetAttribute(Algorithm* algorithm, int attribute,
                                                       const void* value, std::size_t bytes) {
  if (algorithm == nullptr || value == nullptr || !is_word(attribute, bytes)) return kInvalidValue;
  std::uint32_t& word = algorithm->configuration[attribute];
  word = 0;
  std::memcpy(&word, value, bytes);
  return kSuccess;
}
SIMGPU_EXPORT int cublasLtMatmulAlgoConfigGetAttribute(const Algorithm* algorithm, int attribute,
                                                       void* value, std::size_t bytes,
                                                       std::size_t* written) {
  if (algorithm == nullptr || value == nullptr || !is_word(attribute, bytes)) return kInvalidValue;
  std::memcpy(value, &algorithm->configuration[attribute], bytes);
  if (written != nullptr) *written = bytes;
  return kSuccess;
}
SIMGPU_EXPORT int cublasLtMatmulAlgoCheck(void* handle, Description* product, Description* a,
                                          Description* b, Description* c, Description* d,
                                          const Algorithm* algorithm, HeuristicResult* result) {
  if (handle == nullptr) return kNotInitialized;
  if (product == nullptr || a == nullptr || b == nullptr || c == nullptr || d == nullptr ||
      algorithm == nullptr || result == nullptr) {
    return kInvalidValue;
  }
  if (!is_supported(*product)) return kNotSupported;
  const Algorithm checked = *algorithm;  // which may be the result's own
  *result = {};
  result->algorithm = checked;
  result->waves = 1.0F;
  return kSuccess;
}

SIMGPU_EXPORT int cublasLtMatmulAlgoGetHeuristic(void* handle, Description* product, Description* a,
                                                 Description* b, Description* c, Description* d,
                                                 Description* preference, int requested,
                                                 HeuristicResult* results, int* returned) {
  if (handle == nullptr) return kNotInitialized;
  if (product == nullptr || a == nullptr || b == nullptr || c == nullptr || d == nullptr ||
      preference == nullptr || requested < 1 || results == nullptr || returned == nullptr) {
    return kInvalidValue;
  }
  *returned = 0;
  if (!is_supported(*product)) return kNotSupported;
  results[0] = {};
  results[0].waves = 1.0F;
  *returned = 1;
  return kSuccess;
}

SIMGPU_EXPORT int cublasLtMatmul(void* handle, Description* product, const void* alpha,
                                 const void* a, Description* a_layout, const void* b,
                                 Description* b_layout, const void* beta, const void* c,
                                 Description* c_layout, void* d, Description* d_layout,
                                 const void* /*algorithm*/, void* /*workspace*/,
                                 std::size_t /*workspace_bytes*/, CUstream stream) {
  if (handle == nullptr) return kNotInitialized;
  if (product == nullptr || alpha == nullptr || beta == nullptr || a_layout == nullptr ||
      b_layout == nullptr || c_layout == nullptr || d_layout == nullptr || a == nullptr ||
      b == nullptr || d == nullptr) {
    return kInvalidValue;
  }
  if (!is_supported(*product)) return kNotSupported;
  // C may be the same matrix as D, and is not read where it is null, or nothing of it is added.
  const std::uint64_t beta_bytes = bytes_of(product->get<std::int32_t>(kScaleType, 0));
  const void* const added = is_zero(beta, beta_bytes) ? nullptr : c;
  return launch(Routine::kMatmul, stream,
                {operand_of(a, *a_layout), operand_of(b, *b_layout), operand_of(added, *c_layout),
                 bias_of(*product, *d_layout), scale_of(*product, kAScalePointer, kAScaleMode),
                 scale_of(*product, kBScalePointer, kBScaleMode),
                 scale_of(*product, kCScalePointer, kCScaleMode)},
                operand_of(d, *d_layout), extents_of(*product, *a_layout, *d_layout));
}

}  // namespace simgpu::cublas
