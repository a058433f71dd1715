// The routines of cuSOLVER, whatever the type of numbers: those of single types (S, D, C, Z) and
// those for any type (X) have the same operands.
//
// Each returns what execute() does. `info`: where the device reports success. Operands are void
// pointers: the kernels have no code that would look at them.
#pragma once

#include <cstdint>

#include "tools/simgpu/cusolver/execution.h"

namespace simgpu::cusolver {

/// A matrix that a routine gets, or a batch of them.
struct Matrix {
  const void* address;
  std::int64_t leading;
  std::int64_t stride = 0;  ///< of a batch, in numbers; 0: there is no gap
};

/// Of eigenvectors or singular vectors. Source: cuSOLVER, "cusolverEigMode_t".
inline constexpr int kVectors = 1;

/// The triangular factor of `a`, n x n, in its place; of a symmetric matrix too.
Status factor_triangle(const Handle* handle, std::int64_t n, const Matrix& a, Number number,
                       void* info, const Pivots& pivots = {}, std::int64_t matrices = 1);

/// The LU factors of `a`, m x n, in its place.
Status factor_lu(const Handle* handle, std::int64_t m, std::int64_t n, const Matrix& a,
                 void* pivots, std::uint64_t pivot_bytes, Number number, void* info);

/// Solves with n x n factors `a`, and pivots if there are any, in the place of `b`, n x `sides`.
Status solve(const Handle* handle, std::int64_t n, std::int64_t sides, const Matrix& a,
             const Pivots& pivots, const Matrix& b, Number number, void* info);

/// The QR factors of `a`, m x n, in its place, and `tau`.
Status factor_qr(const Handle* handle, std::int64_t m, std::int64_t n, const Matrix& a,
                 const void* tau, Number number, void* info);

/// The eigenvalues `w` of `a`, n x n, and its eigenvectors in its place.
Status eigenvalues(const Handle* handle, std::int64_t n, const Matrix& a, const void* w,
                   Number number, void* info, std::int64_t matrices = 1);

/// The singular values and vectors of matrices of m x n.
struct SingularValues {
  std::int64_t m;
  std::int64_t n;
  Matrix a;       ///< which is overwritten
  const void* s;  ///< min(m, n) of each
  Matrix u;       ///< m x u_columns; an address that is null: not wanted
  std::int64_t u_columns;
  Matrix v;  ///< v_rows x v_columns
  std::int64_t v_rows;
  std::int64_t v_columns;
};
Status singular_values(const Handle* handle, const SingularValues& wanted, Number number,
                       void* info, std::int64_t matrices = 1);

/// The columns of U, or rows of VT, that a job asks for of `all`, of which `least` are not
/// arbitrary. Source: cuSOLVER, gesvd: 'A', 'S', 'O' and 'N'.
inline std::int64_t vectors_of(signed char job, std::int64_t all, std::int64_t least) {
  if (job == 'A') return all;
  return job == 'S' ? least : 0;
}

}  // namespace simgpu::cusolver
