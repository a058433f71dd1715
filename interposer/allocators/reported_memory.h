// What a program is told of a device's memory: how much there is, and how much of it is free.
#pragma once

#include <optional>

#include "interposer/configuration.h"
#include "policy/units.h"
#include "residency/residency_manager.h"

namespace superpipe {

/// The one total that a process is told of a device, wherever it asks, and what is free of it
/// (docs/decisions/0030-memory-that-programs-see.md).
///
/// Programs ask for the total before they have a context, multiply it with a share, and compare the
/// product with what they learn later. So the total follows from facts that are there from the
/// start and stay as they are: the settings, the device, and the host's memory when the process
/// first asked. Pure.
class ReportedMemory {
 public:
  /// `report`: as configured, or what kAuto was resolved to. `host`: what the host store may take.
  /// `configuration` must outlive the result.
  ReportedMemory(const Configuration& configuration, MemoryReport report, Bytes host)
      : configuration_(configuration), report_(report), host_(host) {}

  /// What this process is told; nullopt where the device's own figures stand, because nothing
  /// moves. The first call reads what host memory there is (0.1 ms) and says in a line what `auto`
  /// stands for if that is the budget; both stay for the life of the process. Any thread.
  [[nodiscard]] static std::optional<ReportedMemory> of_process() noexcept;

  /// The total of a device that has `device` bytes.
  [[nodiscard]] Bytes total(Bytes device) const;
  /// What is free of it where a context is managed that has this `capacity`: no more than the total
  /// less what the program has. REQUIRES: needs_capacity().
  [[nodiscard]] Bytes free(const ResidencyManager::Capacity& capacity, Bytes device) const;
  /// Whether free memory is what free() says; else it is what the driver says.
  [[nodiscard]] bool needs_capacity() const { return report_ != MemoryReport::kReal; }

 private:
  const Configuration& configuration_;
  MemoryReport report_;
  Bytes host_;
};

}  // namespace superpipe
