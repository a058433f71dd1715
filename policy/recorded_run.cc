#include "policy/recorded_run.h"

#include <map>

namespace superpipe {

std::vector<Bytes> merged_slabs(std::span<const Bytes> latest, std::span<const Bytes> earlier) {
  std::map<Bytes, std::size_t> counts;
  for (const Bytes size : latest) ++counts[size];
  std::vector<Bytes> merged(latest.begin(), latest.end());
  for (const Bytes size : earlier) {
    std::size_t& count = counts[size];
    if (count > 0) {
      --count;
    } else {
      merged.push_back(size);
    }
  }
  return merged;
}

}  // namespace superpipe
