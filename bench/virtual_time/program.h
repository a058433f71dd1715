// What a program in virtual time can do, and the kernels that it launches.
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

namespace superpipe::bench {

/// Names a buffer of a program. Never used again for another one.
enum class Handle : std::uint32_t {};

constexpr std::uint32_t index_of(Handle handle) { return static_cast<std::uint32_t>(handle); }

/// A buffer that a launch names.
struct Named {
  Handle buffer{};
  bool is_written = false;  ///< the kernel changes it; superpipe is not told
};
/// The kernel only reads it.
constexpr Named reads(Handle buffer) { return {buffer, false}; }
/// The kernel changes it.
constexpr Named writes(Handle buffer) { return {buffer, true}; }

/// What a program can do. All of it takes place on one stream.
class Program {
 public:
  virtual ~Program() = default;
  /// Allocates in stream order, as PyTorch does with the backend cudaMallocAsync.
  virtual Handle allocate(Bytes size) = 0;
  /// Frees in stream order.
  virtual void free(Handle buffer) = 0;
  /// Copies the whole buffer from pageable host memory, and waits for that.
  virtual void upload(Handle buffer) = 0;
  /// Launches a kernel that names `buffers` and computes for `compute`.
  virtual void launch(KernelId kernel, std::span<const Named> buffers, Seconds compute) = 0;
  /// Waits until all that was submitted is over.
  virtual void synchronize() = 0;
};

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
