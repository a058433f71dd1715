// A communicator of one rank.
#pragma once

namespace simgpu::nccl {

/// All that there is of one: its rank is 0.
struct Communicator {
  int device = 0;  ///< the ordinal that was current when it was made
};

}  // namespace simgpu::nccl
