// The shape of a transform, and where the numbers of its two sides lie.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/simgpu/product_kernel.h"

namespace simgpu::cufft {

/// cufftType. Source: cuFFT, "cufftType".
enum Type : int {
  kR2C = 0x2a,
  kC2R = 0x2c,
  kC2C = 0x29,
  kD2Z = 0x6a,
  kZ2D = 0x6c,
  kZ2Z = 0x69,
};

/// One side of a transform: what it reads, or what it writes.
struct Side {
  std::uint64_t number_bytes = 8;     ///< of a number, a complex one whole
  bool is_real = false;               ///< real numbers; the other side has complex ones
  std::vector<std::int64_t> storage;  ///< extents of the array that has it; empty: the basic layout
  std::int64_t stride = 1;            ///< numbers from one to the next of the last dimension
  std::int64_t distance = 0;          ///< numbers from one transform of a batch to the next
};

/// A batch of transforms of `extents`, the last one of which varies fastest.
struct Transform {
  std::vector<std::int64_t> extents;
  std::int64_t batch = 1;
  Side input;
  Side output;
};

/// Gives the sides the numbers of `type`. @return false for one that is no type.
bool set_type(Transform& transform, int type);

/// Whether extents, strides and batch are possible ones: there is a dimension, at most three, and
/// none is below 1.
bool is_valid(const Transform& transform);

/// The bytes of a side, from its first number to its last; 0, which is not known, where an array is
/// smaller than what it has. A side of complex numbers whose other side is real has n / 2 + 1 of
/// them in the last dimension. `in_place`: in the basic layout real numbers have room for the
/// complex ones that are written in their place. Source: cuFFT, "Data Layout".
std::uint64_t bytes_of(const Transform& transform, const Side& side, bool in_place);

/// What the transform computes, as a product that takes as long: 5 N log2(N) operations for each
/// transform of N complex numbers, which is how FFTW's authors count them.
Product work_of(const Transform& transform);

/// The bytes of intermediate results that a plan asks for: those of all complex numbers once.
std::uint64_t work_area_of(const Transform& transform);

}  // namespace simgpu::cufft
