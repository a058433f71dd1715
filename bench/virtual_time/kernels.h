// The kernels that workloads launch, and how long they compute.
//
// Compute times are estimates for one device of the class of an RTX 4090 or A6000 (kSpeed): a
// kernel that reads each byte once takes bytes / memory speed, one that multiplies large matrices
// takes operations / speed of arithmetic. Kernels that name no buffer of 1 MiB or more are
// pass-through and are left out; their time is taken to be part of the others'.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include "policy/timing_model.h"
#include "policy/units.h"
#include "residency/virtual_time/program.h"

namespace superpipe::bench {

using namespace virtual_time;

/// The device that kernels compute on. An RTX 4090 reads 1008 GB/s and an A6000 768 GB/s; matrices
/// of halves run at 60 to 150 TFLOP/s on them in practice.
struct ComputeSpeed {
  Bandwidth memory{800e9};
  double operations = 80e12;            ///< per second, of large matrices of halves
  double operations_of_floats = 40e12;  ///< the same with TF32
  Seconds least{3e-6};                  ///< of any kernel
};
inline constexpr ComputeSpeed kSpeed;

/// How long a kernel takes that reads or writes `bytes`, each once.
inline Seconds reading(Bytes bytes) { return kSpeed.least + kSpeed.memory.time_for(bytes); }
/// How long a kernel takes that does `operations`.
inline Seconds multiplying(double operations, double per_second) {
  return kSpeed.least + Seconds{operations / per_second};
}

/// Kernels are told apart by what they do; the number means nothing else.
enum class Kernel : std::uint64_t {
  kGather = 1,
  kMatrixVector,
  kAttention,
  kConvert,
  kConcatenate,
  kMatrixMatrix,
  kGradientOfInput,
  kGradientOfWeight,
  kZero,
  kAdam,
};

/// Launches `kernel`.
inline void launch(Program& program, Kernel kernel, std::initializer_list<Named> buffers,
                   Seconds compute) {
  program.launch(KernelId{static_cast<std::uint64_t>(kernel)}, {buffers.begin(), buffers.size()},
                 compute);
}

inline constexpr std::uint64_t kHalf = 2;   ///< bytes of a number
inline constexpr std::uint64_t kFloat = 4;  ///< bytes of a number

/// A matrix of weights, or another tensor.
struct Weight {
  Handle buffer{};
  Bytes size;
};

/// A new buffer whose content is copied from the host.
inline Weight load_weight(Program& program, Bytes size) {
  const Weight weight{program.allocate(size), size};
  program.upload(weight.buffer);
  return weight;
}

/// Multiplies a vector, for one token, by `weight`.
inline void multiply(Program& program, const Weight& weight) {
  launch(program, Kernel::kMatrixVector, {reads(weight.buffer)}, reading(weight.size));
}

}  // namespace superpipe::bench
