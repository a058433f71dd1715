#include "policy/launch_sequence.h"

#include <algorithm>

namespace superpipe {

WorkingSets::WorkingSets(const LaunchSequence& sequence) {
  std::vector<std::size_t> named_by(sequence.buffer_bytes.size(), 0);  // 1 + the last launch
  for (const TimedLaunch& launch : sequence.launches) {
    Bytes bytes;
    for (const BufferId id : launch.buffers) {
      const std::size_t at = index_of(id);
      if (at >= sequence.buffer_bytes.size() || sequence.buffer_bytes[at] == Bytes{}) continue;
      if (named_by[at] == begins_.size()) continue;
      named_by[at] = begins_.size();
      buffers_.push_back(id);
      makes_.push_back(std::find(launch.makes.begin(), launch.makes.end(), id) !=
                       launch.makes.end());
      bytes += sequence.buffer_bytes[at];
    }
    begins_.push_back(buffers_.size());
    bytes_.push_back(bytes);
    largest_ = std::max(largest_, bytes);
  }
}

}  // namespace superpipe
