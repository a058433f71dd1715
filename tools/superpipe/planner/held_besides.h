// What the driver held of the device for a traced program, beside superpipe's pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "policy/units.h"

namespace superpipe::cli {

/// Corrects what a trace tells of pass-through memory: what the device said when it was last asked,
/// and all that was allocated since, freed or not. That is too much until it is asked again, which
/// is some milliseconds later, or tens on a busy machine. Times are in ns since the trace's start.
/// Not thread-safe.
class HeldBesides {
 public:
  struct Answer {
    Bytes most;         ///< that the driver held, in whole granules
    Bytes peak_device;  ///< the most that it and pages took together
    /// How many granules it held from each change on, in the order of tell()'s.
    std::vector<std::uint32_t> granules;
  };

  /// At `time` pages took `pages`, and pass-through memory was taken for `passthrough`, under
  /// `budget`; 0: there was none. @return whether that of pass-through memory is a change. Throws
  /// std::bad_alloc.
  bool tell(std::int64_t time, Bytes pages, Bytes passthrough, Bytes budget);
  /// What there was, in granules of `granule` bytes, in a trace that ends at `end`. `asks`: whether
  /// superpipe asked the device at all, which it does under a budget.
  [[nodiscard]] Answer answer(Bytes granule, bool asks, std::int64_t end) const;

 private:
  struct Told {
    std::int64_t time;
    Bytes pages;
    Bytes passthrough;
    Bytes budget;
    bool is_change;
  };

  [[nodiscard]] Bytes least_until_asked(std::size_t at) const;
  [[nodiscard]] Bytes most_held(std::size_t first, std::size_t last, Bytes before,
                                std::int64_t end) const;

  std::vector<Told> told_;
};

}  // namespace superpipe::cli
