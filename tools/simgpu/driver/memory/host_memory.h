// Pinned host memory, for the context that owns it.
#pragma once

namespace simgpu {

class Context;

/// Frees what cuMemHostAlloc made in `context`, and unregisters what was registered in it.
void release_host_memory_of(const Context& context);

}  // namespace simgpu
