// What a launch is to a trace, for as long as the launch is submitted.
#pragma once

#include <cstdint>

#include "policy/units.h"

namespace superpipe {

class CuptiCollector;

/// A launch as a trace names it.
struct MarkedLaunch {
  std::uint64_t number = 0;  ///< of the last launch that names buffers: this one, if it does
  KernelId kernel{};
  bool names_buffers = false;
};

/// Marks what the calling thread launches while it lives, for `collector`. Marks do not nest.
class LaunchMark {
 public:
  LaunchMark(CuptiCollector& collector, const MarkedLaunch& launch) noexcept
      : collector_(collector), launch_(launch) {
    current_ = this;
  }
  ~LaunchMark() { current_ = nullptr; }
  LaunchMark(const LaunchMark&) = delete;
  LaunchMark& operator=(const LaunchMark&) = delete;

  /// The calling thread's; null: it has none.
  [[nodiscard]] static const LaunchMark* current() noexcept { return current_; }

  [[nodiscard]] CuptiCollector& collector() const noexcept { return collector_; }
  [[nodiscard]] const MarkedLaunch& launch() const noexcept { return launch_; }

 private:
  // Initial-exec: see hook_depth.
  static inline constinit thread_local const LaunchMark* current_
      __attribute__((tls_model("initial-exec"))) = nullptr;

  CuptiCollector& collector_;
  const MarkedLaunch launch_;
};

}  // namespace superpipe
