// What launches that named more than the limit named, by kernel: what of it was likely left over.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "policy/units.h"

namespace superpipe {

/// Finds *suspects* among the buffers that only words of a launch's structs name: such words were
/// the same at the launch of the kernel before, although its operands, which certain words name,
/// were others. A program that fills a struct for each call writes what belongs to the operands;
/// what stays the same was there before.
///
/// Only a guess: a kernel may well use one buffer in each launch. It is asked about launches alone
/// that cannot have all they name, and knows of no others. An identifier may have become another
/// buffer's meanwhile. Not thread-safe. Calls no device.
class OverfullLaunches {
 public:
  /// A launch of `kernel` does not fit. `operands` are the buffers that its certain words name,
  /// `others` those of its structs; in any order. Throws std::bad_alloc; then nothing has changed.
  void note(KernelId kernel, std::span<const BufferId> operands, std::span<const BufferId> others);

  /// Whether `id` is a suspect at the last launch of `kernel` that was noted.
  [[nodiscard]] bool is_suspect(KernelId kernel, BufferId id) const;

 private:
  /// The last one of a kernel. Each list is sorted.
  struct Launch {
    std::vector<BufferId> operands;
    std::vector<BufferId> others;
    std::vector<BufferId> suspects;
  };
  std::unordered_map<KernelId, Launch> last_;
};

}  // namespace superpipe
