// What a workload does in each pass, recorded without a device: what bounds are computed from.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "policy/timing_model.h"
#include "policy/units.h"
#include "residency/virtual_time/program.h"
#include "residency/virtual_time/virtual_device.h"

namespace superpipe::virtual_time {

/// One launch: which buffers it names, and how long it computes.
struct TracedLaunch {
  KernelId kernel{};
  std::vector<Handle> buffers;
  /// Those that have no content yet, and of what passes allocate those that it is the first to
  /// name: nothing crosses the link for them.
  std::vector<Handle> makes;
  std::vector<Handle> writes;  ///< those whose content it changes
  std::vector<Handle> ends;    ///< those that it is the last to name before they are freed
  Seconds compute{};
  bool follows_wait = false;  ///< the program submits it when all before it has ended
  /// What the program copies to the host right behind it, of what it wrote, and waits for.
  Bytes copied_out{};
};

/// The launches of one pass.
struct TracedPass {
  std::vector<TracedLaunch> launches;
  std::size_t earlier = 0;  ///< handles below it were made before the pass
  Seconds compute{};        ///< the sum over all launches
  Bytes persistent;         ///< W: sizes of what was named and had content before the pass
  Bytes peak;               ///< of footprints of all live buffers
  Bytes transients;         ///< peak of footprints of what the pass allocated and freed itself
};

/// A program that runs nowhere.
struct PassTrace {
  Bytes granule;
  std::vector<Bytes> sizes;       ///< by handle: what crosses the link
  std::vector<Bytes> footprints;  ///< by handle: what it takes on the device
  /// Those to which nothing was copied and that no kernel wrote when the first pass begins.
  std::vector<Handle> without_content;
  /// The last launch of loading; nullopt: there is none, or a memset is behind it.
  std::optional<TracedLaunch> last_of_load;
  std::vector<TracedPass> passes;

  /// The most that all live buffers take in a pass: what the workload needs without superpipe.
  [[nodiscard]] Bytes peak() const;
};

/// Records `passes` passes of `workload`, whose buffers take whole granules of `granule`.
[[nodiscard]] PassTrace record_passes(Workload& workload, int passes, Bytes granule);

/// How fast a device is at what bounds count.
struct Speeds {
  Bandwidth to_device;
  Bandwidth to_host;
  /// From the end of what the program waited for to the beginning of its next launch.
  Seconds launch{};
};
[[nodiscard]] Speeds speeds_of(const VirtualDeviceOptions& device);

/// What no schedule can beat, and what others move, as means over passes from the `first` on.
///
/// Bounds hold for every schedule: they give buffers the whole budget, let them fill it without the
/// padding of their last granules, and what the program makes in a pass has to be brought only
/// after that. While the program waits for what
/// it submitted, or copies out what its last launch wrote, the device has nothing else to do.
/// Reference figures are about buffers that were made before the first pass; what passes make
/// themselves takes its peak off the budget there.
struct Bounds {
  Seconds compute{};      ///< of the kernels alone
  Seconds physical{};     ///< policy/timing_model.h
  Seconds fetches{};      ///< policy/windowed_bound.h
  Seconds write_backs{};  ///< the same of what has to go to the host
  Seconds windowed{};     ///< the largest of the three before
  Seconds repeated{};     ///< that of fetches of the last pass, if it is repeated without end
  Bytes min_bytes;        ///< fetched by MIN (policy/reference_traffic.h)
  Bytes lru_bytes;        ///< fetched by plain last use
  Bytes bip_bytes;        ///< fetched by bimodal insertion
};

/// The windowed bound of one pass, whatever the device holds when it begins. REQUIRES: there is
/// such a pass.
[[nodiscard]] Seconds bound_of_pass(const PassTrace& trace, std::size_t pass, Bytes budget,
                                    const Speeds& speeds);

/// The windowed bound of the first pass behind its loading, which began `since_launch` after the
/// last launch of loading had ended: what that named was on the device then. REQUIRES: there is a
/// pass.
[[nodiscard]] Seconds bound_of_first_pass(const PassTrace& trace, Bytes budget,
                                          const Speeds& speeds, Seconds since_launch);

/// REQUIRES: first < trace.passes.size().
[[nodiscard]] Bounds bounds_of(const PassTrace& trace, std::size_t first, Bytes budget,
                               const Speeds& speeds);

}  // namespace superpipe::virtual_time
