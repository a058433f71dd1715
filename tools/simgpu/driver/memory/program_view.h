// The program's view of device memory, by device addresses: open to device code alone.
#pragma once

#include <cstdint>

namespace simgpu {

/// Sets what device code may do with [address, address + size) of the program's view: `protection`
/// is mprotect's. Host code may do nothing with it, where the processor has memory protection keys
/// and SIMGPU_HOST_ACCESS does not say "allowed": a GPU's memory is not the host's to touch, and a
/// program that touches it is wrong. Thread-safe.
/// @return whether the system took it.
bool protect_program_view(std::uint64_t address, std::uint64_t size, int protection);

/// The same for memory of the host that was opened to it (cuMemSetAccess): host code may do what
/// `protection` says, too.
bool open_program_view(std::uint64_t address, std::uint64_t size, int protection);

/// Whether a host access to the view is a fault.
bool host_access_faults();

/// While one exists, the calling thread is device code: it may access the program's view, as far as
/// protect_program_view() allows. A few nanoseconds. A signal that arrives meanwhile closes the
/// view for its handler; whoever leaves a handler by a jump stays without access.
class DeviceCode {
 public:
  DeviceCode();
  ~DeviceCode();
  DeviceCode(const DeviceCode&) = delete;
  DeviceCode& operator=(const DeviceCode&) = delete;
};

}  // namespace simgpu
