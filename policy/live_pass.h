// A pass that was seen, with those of its buffers that are still live, and the layers of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "policy/pass_order.h"
#include "policy/units.h"

namespace superpipe {

/// What is needed of a pass to group its live persistent buffers into layers: a copy, so that they
/// can be grouped while the program goes on. Of bounded size: at most 4 MiB.
struct LivePass {
  /// Longer passes are not copied, so that to copy one takes no more than about two milliseconds:
  /// 0.3, and the rest for memory that the process did not have yet.
  static constexpr std::size_t kMostLaunches = std::size_t{1} << 16;
  static constexpr std::size_t kMostAccesses = std::size_t{1} << 17;
  static constexpr std::size_t kMostBuffers = std::size_t{1} << 14;

  struct Launch {
    KernelId kernel;
    std::uint32_t end = 0;  ///< of its names in `names`
  };
  struct Buffer {
    std::uint32_t name = 0;  ///< as it stands in `names`
    BufferId id{};
    Bytes bytes;
  };

  std::vector<Launch> launches;      ///< in order
  std::vector<std::uint32_t> names;  ///< of all launches, also of buffers that are not in `buffers`
  std::vector<Buffer> buffers;       ///< live and persistent, each once, in any order
};

/// The layers and visits that learn_pass() finds in `pass`. Throws std::bad_alloc. O(accesses * log
/// buffers), and as learn_pass().
[[nodiscard]] PassOrder order_of(const LivePass& pass);

}  // namespace superpipe
