#pragma once

namespace wrong_programs {

/// What `copy_as_told` is to do. It lies in device memory, where the kernel reads it when it runs.
struct Request {
  unsigned* out;
  const unsigned* in;
  unsigned count;
};

/// The words of a gate: a kernel sets the first when it runs, and waits for the second.
inline constexpr unsigned kStarted = 0;
inline constexpr unsigned kOpen = 1;

}  // namespace wrong_programs
