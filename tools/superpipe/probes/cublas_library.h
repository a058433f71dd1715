// cuBLAS, found and loaded where it is there: the command does not need it.
#pragma once

#include <string>

#include "tools/superpipe/probes/driver.h"
#include "tools/superpipe/probes/probe.h"

namespace superpipe::cli {

/// Numbers as cuBLAS names them (cudaDataType).
enum class NumberType : int { kSingle = 0, kHalf = 2 };

/// A cuBLAS that is loaded, with a handle for the current context. Ends with the process.
class CublasLibrary {
 public:
  /// Looks for cuBLAS of CUDA 13 or 12, as the driver allows; simgpu has its own. REQUIRES a
  /// driver that is loaded and a context. Throws Skipped if there is none, std::runtime_error if it
  /// does not start.
  explicit CublasLibrary(const ProbeSetting& setting);

  [[nodiscard]] const std::string& path() const { return path_; }
  /// Products are computed on that stream from now on. Throws std::runtime_error.
  void use_stream(CUstream stream) const;
  /// c = a * b, enqueued: a has m x k numbers of `type` in columns, b k x n, c m x n, without gaps.
  /// Sums are of 32 bits. Throws std::runtime_error.
  void multiply(NumberType type, int m, int n, int k, CUdeviceptr a, CUdeviceptr b,
                CUdeviceptr c) const;

 private:
  /// What points to cuBLAS's own state. The command is built without cuBLAS's header: these three
  /// functions have kept their binary interface since CUDA 11.
  using Handle = void*;
  using Create = int(Handle*);
  using SetStream = int(Handle, CUstream);
  using GemmEx = int(Handle, int transa, int transb, int m, int n, int k, const void* alpha,
                     CUdeviceptr a, int a_type, int lda, CUdeviceptr b, int b_type, int ldb,
                     const void* beta, CUdeviceptr c, int c_type, int ldc, int compute_type,
                     int algorithm);

  template <typename Pointer>
  void resolve(Pointer& pointer, const char* name) const;

  std::string path_;
  void* library_ = nullptr;
  Handle handle_ = nullptr;
  Create* create_ = nullptr;
  SetStream* set_stream_ = nullptr;
  GemmEx* gemm_ = nullptr;
};

}  // namespace superpipe::cli
