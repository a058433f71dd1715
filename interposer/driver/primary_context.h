// The context of a device that its users share.
#pragma once

#include "interposer/driver/cuda_api.h"

namespace superpipe {

/// The primary context of `device` if it is active, else null: none is made. Asks the driver, in
/// whichever context is current. Thread-safe.
[[nodiscard]] CUcontext active_primary_context(CUdevice device) noexcept;

}  // namespace superpipe
