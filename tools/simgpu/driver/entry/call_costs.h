// How long the driver's calls take on the host, and which of its locks they take.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace simgpu {

/// What a call does with the driver's two kinds of locks: one of the process, for what changes the
/// device's address space or its code, and one of each context, for what submits work.
enum class CallLock {
  kNone,     ///< Takes neither.
  kProcess,  ///< Holds the process's lock until it returns. For calls that never wait for work.
  /// Holds the process's lock for its cost, and then may wait for work without it.
  kProcessAtFirst,
  /// Waits for whoever holds the process's lock, holds the context's lock for its cost, and then
  /// may wait for room in a queue without either.
  kContextAtFirst,
};

/// One function.
struct CallCost {
  double nanoseconds = 0;
  CallLock lock = CallLock::kNone;
  /// Where implicit synchronisation is on, the call first waits for all work of its context.
  bool synchronises = false;
};

/// The costs of all functions; none unless set. Changed while the configuration is read, then only
/// read.
class CallCosts {
 public:
  /// All functions cost what they do on a card, times `factor`; pinning runs at `pin_gbps`.
  void set_all(double factor, double pin_gbps);
  /// `function` costs so much, whatever set_all() said.
  void set(std::string_view function, double nanoseconds);
  /// The functions that synchronise implicitly do.
  void set_implicit_sync();

  /// The cost of `function` (a name without ABI suffix); null if it has none. Stays where it is.
  [[nodiscard]] const CallCost* find(std::string_view function) const;
  /// Nanoseconds for pinning one byte of host memory.
  [[nodiscard]] double pin_ns_per_byte() const { return pin_ns_per_byte_; }
  /// Nanoseconds more that an unmapping takes beside a kernel that uses pages on the host.
  [[nodiscard]] double busy_unmap_ns() const { return busy_unmap_ns_; }
  /// Nanoseconds for loading a kernel when it is first launched.
  [[nodiscard]] double loading_ns() const { return loading_ns_; }

 private:
  std::map<std::string, CallCost, std::less<>> costs_;
  double pin_ns_per_byte_ = 0;
  double busy_unmap_ns_ = 0;
  double loading_ns_ = 0;
};

}  // namespace simgpu
