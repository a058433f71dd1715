// What a running process shows of itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "policy/policy_engine.h"
#include "policy/units.h"
#include "profiler/budget_answer.h"

namespace superpipe {

/// What does not change while a process manages a context.
struct LiveDescription {
  PolicyKind policy = PolicyKind::kResident;
  Bytes device_total;
  /// What every request for another budget would be answered with; kChanged: depends on the
  /// request.
  BudgetAnswer refusal = BudgetAnswer::kChanged;
};

/// Of so many layers, the first ones, a process says how much of each is on the device.
inline constexpr std::size_t kShownLayers = 256;

/// What changes. All figures are of one moment.
struct LiveFigures {
  Bytes budget;  ///< of the whole process, its context included; 0: none
  Bytes limit;   ///< what the pages of buffers may take now
  Bytes pages;   ///< what they take
  Bytes live;    ///< what those of all live buffers would take together

  Bytes context{};             ///< what the context alone took as it was made
  Bytes passthrough{};         ///< what is left to the driver
  Bytes pinned_host{};         ///< host memory that is pinned for what is not on the device
  Bytes host_limit{};          ///< the most that there may be of it
  std::uint64_t taken_ns = 0;  ///< when the figures were taken, by std::chrono::steady_clock

  /// @name Counts since the context was made
  /// @{
  std::uint64_t launches = 0;
  std::uint64_t passes = 0;  ///< that were measured
  Bytes h2d{}, d2h{};        ///< superpipe's own transfers
  std::uint64_t demand_fetches = 0, prefetches = 0;
  std::uint64_t clean_evictions = 0, write_backs = 0;
  std::uint64_t stall_ns = 0;  ///< how long streams waited for fetches, added up over streams
  std::uint64_t budget_changes = 0;
  std::uint64_t errors = 0;
  /// @}

  /// @name The last pass; 0: not known
  /// @{
  std::uint64_t pass_ns = 0;
  std::uint64_t pass_stall_ns = 0;  ///< of that, how long launches waited for fetches
  std::uint64_t bound_ns = 0;       ///< no schedule can make it shorter (least_pass_ms())
  /// @}

  std::uint64_t link_bytes_per_second = 0;  ///< from the host to the device; 0: not measured
  Bytes pass_bytes{};                       ///< persistent bytes of a pass; 0: not known
  std::uint32_t layers = 0;                 ///< as policy learned them; 0: not known
  std::uint32_t k = 0, k_prime = 0;         ///< as scheduled; 0: none, or not known
  /// How much of each layer is on the device, in percent of its bytes, in order of first access.
  std::array<std::uint8_t, kShownLayers> layer_percent{};

  [[nodiscard]] std::uint64_t fetches() const { return demand_fetches + prefetches; }
  [[nodiscard]] std::uint64_t evictions() const { return clean_evictions + write_backs; }

  bool operator==(const LiveFigures&) const = default;
};

}  // namespace superpipe
