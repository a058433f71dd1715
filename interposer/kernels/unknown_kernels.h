// Kernels of which the driver does not tell the parameters.
#pragma once

#include <mutex>
#include <unordered_set>

#include "interposer/driver/cuda_api.h"
#include "interposer/kernels/tensor_maps.h"
#include "interposer/kernels/word_list.h"
#include "residency/residency_manager.h"

namespace superpipe {

/// What launches of kernels name whose parameters nobody knows: how many there are, and how large.
///
/// Their buffers have to be pinned, since no launch shows for sure which it uses. Thread-safe. No
/// call throws.
class UnknownKernels {
 public:
  /// So many pointers to parameters are followed, each to so many bytes, as far as there are any:
  /// what parameters take together on most devices.
  static constexpr std::size_t kParameters = 64;
  static constexpr std::size_t kParameterBytes = 4096;

  /// Says once for each kernel that nothing is known of it. Asks the driver for its name.
  void say(CUfunction function) noexcept;

  /// Adds every address of a live buffer of `residency` among the bytes that `parameters`, a
  /// launch's kernelParams, lead to and that can be read. What lies behind the last parameter is
  /// read as well, so that there may be too many. Some hundred system calls.
  /// The same for addresses behind `maps`. `words` has failed if memory could not be read that may
  /// be readable.
  static void collect(const ResidencyManager& residency, const TensorMaps& maps,
                      void* const* parameters, WordList& words) noexcept;

 private:
  std::mutex mutex_;
  std::unordered_set<CUfunction> said_;  ///< guarded by mutex_
};

}  // namespace superpipe
