// The configuration of this process.
#pragma once

#include "interposer/configuration.h"

namespace superpipe {

/// Sets what process_configuration() returns. Not thread-safe: the library's start calls it once,
/// before any hook runs. Tests call it while no context is managed.
void set_process_configuration(Configuration configuration);

/// What the user asked for; the defaults until it was set. Any thread. Lives as long as the
/// process.
[[nodiscard]] const Configuration& process_configuration() noexcept;

}  // namespace superpipe
