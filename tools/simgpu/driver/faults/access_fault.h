// Faults of simulated device code: accesses to memory that is not mapped.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tools/simgpu/driver/entry/api.h"

namespace simgpu {

class Context;

/// Throw this from Operation::work or ::finish when software finds an access that the device would
/// fault on (a mixer's argument in a reserved but unmapped range). The stream's worker counts it in
/// unmapped_accesses, writes the line and makes the context's error sticky. Throw it while holding
/// no lock.
struct AccessFault {
  std::uint64_t address;
  bool is_write = false;
};

/// While one exists, faults of the calling thread are reported at the address that `translate`
/// makes of theirs, for device code that works on copies of what the program has. Ends with the
/// body that run_guarded() runs at the latest.
class FaultAddresses {
 public:
  using Translate = std::uint64_t (*)(const void* argument, std::uint64_t address);
  FaultAddresses(Translate translate, const void* argument) noexcept;
  ~FaultAddresses();
  FaultAddresses(const FaultAddresses&) = delete;
  FaultAddresses& operator=(const FaultAddresses&) = delete;
};

/// Runs `body`, and turns a SIGSEGV or SIGBUS in it, an AccessFault, or any other exception into
/// the sticky error of `context`: 700 with one line naming `label` and the address, counted in
/// unmapped_accesses; or 719. Destructors of frames left by a signal do not run: `body` must hold
/// no lock while it touches device memory. @return whether `body` ended normally.
bool run_guarded(Context& context, const std::string& label, const std::function<void()>& body);

/// Installs the signal handlers, chained to what was there. At cuInit; run_guarded() installs them
/// again if the program has replaced them since (it looks at most every millisecond).
void install_fault_handlers() noexcept;

}  // namespace simgpu
