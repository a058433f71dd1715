#include "tools/simgpu/driver/memory/unwritten.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "tools/simgpu/driver/process/configuration.h"

namespace simgpu {
namespace {

/// Bits that look random, for each number others (the finalizer of SplitMix64).
std::uint64_t scramble(std::uint64_t number) {
  number += 0x9E37'79B9'7F4A'7C15ULL;
  number = (number ^ (number >> 30)) * 0xBF58'476D'1CE4'E5B9ULL;
  number = (number ^ (number >> 27)) * 0x94D0'49BB'1331'11EBULL;
  return number ^ (number >> 31);
}

}  // namespace

Unwritten Unwritten::next() {
  if (configuration().fill == FillPolicy::kZero) return Unwritten{0};
  static std::atomic<std::uint64_t> last{0};
  // The top bit of each byte is set: as an address no word is one that a program can have.
  return Unwritten{scramble(last.fetch_add(1, std::memory_order_relaxed)) | 0x8080'8080'8080'8080};
}

void Unwritten::write(unsigned char* bytes, std::uint64_t size) const {
  if (zero()) {
    std::memset(bytes, 0, size);
    return;
  }
  for (std::uint64_t done = 0; done < size; done += sizeof(word_)) {
    std::memcpy(bytes + done, &word_, std::min<std::uint64_t>(sizeof(word_), size - done));
  }
}

}  // namespace simgpu
