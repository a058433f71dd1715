// The device's side of the twin (twin.py): two kernels, launched like any others through the
// driver, that compare device memory with bytes on the host, or put such bytes into it.
//
// One library, twin.simgpu.so, is both the plugin of simgpu that computes the kernels and what
// twin.py calls, so that kernels and calls share their state. Every function can be called from any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tools/simgpu/kernel_plugin.h"

#if defined(__GNUC__)
#define TWIN_EXPORT __attribute__((visibility("default")))
#else
#define TWIN_EXPORT
#endif

extern "C" {

/// Bytes as they were at one moment. A launch keeps those that it names until it has run.
struct TwinSnapshot;

/// Device memory and what belongs in it.
struct TwinOperand {
  std::uint64_t address;   ///< In device memory; of the first byte.
  TwinSnapshot* snapshot;  ///< Has at least `offset + size` bytes.
  std::uint64_t offset;    ///< Of the first byte in the snapshot.
  std::uint64_t size;      ///< In bytes.
  std::uint64_t name;      ///< A number by which the report names it.
};

/// What all comparisons came to so far.
struct TwinReport {
  std::uint64_t launches;    ///< Kernels that have run, of both kinds.
  std::uint64_t compared;    ///< Operands that were compared.
  std::uint64_t bytes;       ///< Bytes that were compared.
  std::uint64_t mismatches;  ///< Operands with at least one byte that differs.
  // Of the first mismatch; meaningless without one.
  std::uint64_t operation;  ///< What its launch was called with.
  std::uint64_t name;       ///< Of its operand.
  std::uint64_t size;       ///< Of its operand, in bytes.
  std::uint64_t offset;     ///< Of the first byte that differs, within the operand.
  std::uint64_t differing;  ///< How many bytes of the operand differ.
  std::uint8_t found;       ///< That byte in device memory.
  std::uint8_t expected;    ///< That byte of the twin.
};

/// Copies `size` bytes. @return a snapshot with one reference, which is the caller's; null if there
/// is no memory.
TWIN_EXPORT TwinSnapshot* twin_snapshot(const void* bytes, std::size_t size);

/// Gives up the caller's reference. Launches that name the snapshot keep theirs.
TWIN_EXPORT void twin_release(TwinSnapshot* snapshot);

/// Loads the kernels into the current context; once is enough. @return a CUresult.
TWIN_EXPORT int twin_open();

/// Launches on `stream` (a CUstream) what compares each operand's device memory with its snapshot
/// and counts what differs; a launch for every four operands. `operation`: a number by which the
/// report names the launch. Does not wait. REQUIRES: twin_open(). @return a CUresult.
TWIN_EXPORT int twin_compare(void* stream, const TwinOperand* operands, std::size_t count,
                             std::uint64_t operation);

/// As twin_compare(), but writes the snapshots' bytes into device memory.
TWIN_EXPORT int twin_poke(void* stream, const TwinOperand* operands, std::size_t count,
                          std::uint64_t operation);

/// Copies the counts of the launches that have run to `*report`.
TWIN_EXPORT void twin_report(TwinReport* report);

}  // extern "C"
