// The kernel that digests device memory, loaded into a context.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "interposer/driver/cuda_api.h"
#include "policy/units.h"
#include "residency/content_digest.h"

namespace superpipe {

/// The digest kernel in one context, and the proof that this device computes with it what the host
/// does. Takes no device memory but that of its code.
///
/// Everywhere: REQUIRES that its context is current. Calls the driver alone, never a hook.
class DigestProgram {
 public:
  /// Loads the kernel for `device`, that of the current context, and has it digest contents that
  /// are known, in pinned host memory of its own. Loading code and pinning memory may wait for work
  /// of the program; the kernel is waited for no longer than `limit`.
  /// @return null if the driver refuses any of it, if the kernel is not done in time, or if its
  /// digests are not the host's. One line in the log says so, and all is released, except what a
  /// kernel that is not done may still use: the context's end frees that. @throws std::bad_alloc
  static std::unique_ptr<DigestProgram> create(const DigestKey& key, CUdevice device,
                                               std::chrono::milliseconds limit);

  /// Unloads the code, which may wait for the context's work.
  ~DigestProgram();
  DigestProgram(const DigestProgram&) = delete;
  DigestProgram& operator=(const DigestProgram&) = delete;

  /// Has the destructor leave everything to the end of the context: for one that is no longer
  /// there, whose addresses may be another's by now.
  void abandon() noexcept { abandoned_ = true; }

  /// Enqueues the digest of `size` bytes at `content`, which is a multiple of 16, on `stream`; its
  /// parts are at `parts`, in pinned memory, when that is complete. Any thread. @return the
  /// driver's answer; CUDA_ERROR_INVALID_VALUE if the address is no such multiple, or size is 0.
  CUresult enqueue(CUdeviceptr content, Bytes size, DigestParts* parts, CUstream stream) const;
  /// How many parts that of `size` bytes has.
  [[nodiscard]] std::size_t parts_of(Bytes size) const;

 private:
  struct CheckedMemory;

  explicit DigestProgram(const DigestKey& key);
  /// These answer what is wrong; nothing if all is well.
  std::string load();
  std::string set_up(CUdevice device);
  std::string check(std::chrono::milliseconds limit);
  std::string await_check(std::chrono::milliseconds limit);

  CUresult launch(CUdeviceptr content, Bytes size, DigestParts* parts, CUstream stream,
                  unsigned blocks) const;

  const DigestKey key_;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
  CUstream stream_ = nullptr;  ///< of the check
  CUevent checked_ = nullptr;
  unsigned multiprocessors_ = 1;
  std::unique_ptr<CheckedMemory> memory_;  ///< pinned: of the check
  bool is_pinned_ = false;
  bool abandoned_ = false;
};

}  // namespace superpipe
