// What a program in virtual time can do, and a program that does the same again and again.
#pragma once

#include <cstdint>
#include <span>

#include "policy/timing_model.h"
#include "policy/units.h"

namespace superpipe::virtual_time {

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

/// What a program can do. One thread submits all of it, to one stream unless it says otherwise.
class Program {
 public:
  virtual ~Program() = default;
  /// What follows is submitted to this stream, which is created when it is named for the first
  /// time. A program begins on stream 0.
  virtual void on_stream(std::uint32_t stream) = 0;
  /// Allocates in stream order, as PyTorch does with the backend cudaMallocAsync.
  virtual Handle allocate(Bytes size) = 0;
  /// Frees in stream order.
  virtual void free(Handle buffer) = 0;
  /// Copies the whole buffer from pageable host memory, and waits for that.
  virtual void upload(Handle buffer) = 0;
  /// Launches a kernel that names `buffers` and computes for `compute`. Superpipe is not told of
  /// one that names none.
  virtual void launch(KernelId kernel, std::span<const Named> buffers, Seconds compute) = 0;
  /// Waits until all that was submitted to any stream is over.
  virtual void synchronize() = 0;
  /// Copies `size` bytes from pageable host memory to `offset` of the buffer, and waits for that.
  virtual void copy_in(Handle buffer, Bytes offset, Bytes size) = 0;
  /// Copies them to the host, behind all that was submitted to the stream, and waits for that.
  virtual void copy_out(Handle buffer, Bytes offset, Bytes size) = 0;
  /// A memset or a copy on the device, of which policy is not told.
  virtual void use(std::span<const Named> buffers, Seconds time) = 0;
  /// The program's thread is busy with something else.
  virtual void work(Seconds time) = 0;
  /// The driver holds `bytes` of the device for the program from now on, beside its buffers: code,
  /// memory pools, what superpipe does not manage.
  virtual void hold_besides(Bytes /*bytes*/) {}
};

/// A program that sets itself up once and then does the same again and again, or nearly the same.
///
/// Deterministic: what looks random is drawn from a seed of its own.
class Workload {
 public:
  virtual ~Workload() = default;
  virtual void load(Program& program) = 0;
  /// One pass: what is repeated. `number` counts from 0.
  virtual void run_pass(Program& program, int number) = 0;
};

}  // namespace superpipe::virtual_time
