// What every file that exports driver functions includes: the driver's types with all ABI versions,
// the export macro, and the entry check that counts, injects faults, refuses uninitialised use and
// takes the time that a call takes.
#pragma once

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL  // NOLINT: cuda.h then declares every ABI version as it is
#endif
#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "tools/simgpu/driver/entry/call_scope.h"
#include "tools/simgpu/export.h"

namespace simgpu {

/// What a driver function requires before it looks at its arguments.
enum class Requires {
  kNothing,      ///< callable before cuInit
  kInitialized,  ///< cuInit has succeeded in this process
};

/// One driver function by its base name (no ABI suffix): counts its calls and carries out the
/// faults that SIMGPU_FAULTS asks for. All ABI variants of a function share one through a common
/// implementation. Static storage only: entries link themselves into a list that is never freed.
class EntryPoint {
 public:
  /// `name` must be a literal. Thread-safe.
  explicit EntryPoint(const char* name) noexcept;
  EntryPoint(const EntryPoint&) = delete;
  EntryPoint& operator=(const EntryPoint&) = delete;

  /// Counts a call and says whether it may go on: CUDA_SUCCESS, the code of an injected fault,
  /// CUDA_ERROR_NOT_INITIALIZED (also in a forked child) or CUDA_ERROR_NOT_PERMITTED (inside a
  /// host function). Thread-safe, never waits, about 20 ns.
  CUresult enter(Requires needs) noexcept;

  /// What a call costs on the host, or null.
  [[nodiscard]] const CallCost* cost() const noexcept { return cost_; }

  [[nodiscard]] const char* name() const noexcept { return name_; }
  [[nodiscard]] std::uint64_t calls() const noexcept {
    return calls_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] const EntryPoint* next() const noexcept { return next_; }
  /// The most recently registered entry; walk with next().
  static const EntryPoint* first() noexcept;

 private:
  const char* name_;
  std::atomic<std::uint64_t> calls_{0};
  bool has_faults_ = false;
  const CallCost* cost_ = nullptr;
  const EntryPoint* next_ = nullptr;
};

/// True once cuInit has succeeded in this process and it is not a forked child.
bool initialized() noexcept;

/// True in a child of the process that called cuInit: every call is refused there, as CUDA does.
bool forked() noexcept;

/// Marks the calling thread as running a host function for its lifetime: driver calls made by it
/// return CUDA_ERROR_NOT_PERMITTED.
class HostFunctionScope {
 public:
  HostFunctionScope() noexcept;
  ~HostFunctionScope();
  HostFunctionScope(const HostFunctionScope&) = delete;
  HostFunctionScope& operator=(const HostFunctionScope&) = delete;
};

}  // namespace simgpu

/// First statement of a driver function (or of the implementation that its ABI variants share):
/// `name` is the base name, without ABI suffix.
#define SIMGPU_ENTER_WITH(name, needs)                                                             \
  static ::simgpu::EntryPoint simgpu_entry{#name};                                                 \
  const ::simgpu::CallScope simgpu_call{simgpu_entry.cost()};                                      \
  if (const CUresult simgpu_refused = simgpu_entry.enter(needs); simgpu_refused != CUDA_SUCCESS) { \
    return simgpu_refused;                                                                         \
  }                                                                                                \
  static_assert(true, "take a semicolon")
#define SIMGPU_ENTER(name) SIMGPU_ENTER_WITH(name, ::simgpu::Requires::kInitialized)

/// After SIMGPU_ENTER: names the current context `variable`, or returns CUDA_ERROR_INVALID_CONTEXT,
/// or the context's sticky error. Needs context.h.
#define SIMGPU_CONTEXT(variable)                                        \
  ::simgpu::Context* const variable = ::simgpu::current_context();      \
  if (const CUresult simgpu_broken = ::simgpu::check_context(variable); \
      simgpu_broken != CUDA_SUCCESS) {                                  \
    return simgpu_broken;                                               \
  }                                                                     \
  static_assert(true, "take a semicolon")
