// What superpipe says when work of the program used memory that was not there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "residency/residency_manager.h"

namespace superpipe {

/// What is known of a fault.
struct Fault {
  std::string error;  ///< its name, as the driver has it
  /// Where the access was, if the driver tells.
  std::optional<Address> address;
  /// Readable names of the kernels launched last, the latest first.
  std::vector<std::string> kernels;
  /// What was not on the device when the fault was seen, last used first.
  std::vector<AbsentBuffer> absent;
  std::string pins;  ///< what SUPERPIPE_PIN is; empty: it is not set
  /// The buffer in or before which `address` lies, and whether it is there.
  std::optional<NearBuffer> near;
};

/// The report, line by line: what happened, what superpipe may have to do with it, and what to set.
/// Pure. Throws std::bad_alloc.
[[nodiscard]] std::vector<std::string> fault_report(const Fault& fault);

/// The last number in hexadecimal digits behind 0x of a driver's log that lies in the arena of
/// `residency`.
[[nodiscard]] std::optional<Address> address_in(std::string_view log,
                                                const ResidencyManager& residency);

}  // namespace superpipe
