#include "tools/simgpu/driver/memory/program_view.h"

#include <sys/mman.h>

#include "tools/simgpu/driver/process/configuration.h"
#include "tools/simgpu/driver/process/log.h"

namespace simgpu {
namespace {

constexpr int kNoKey = -1;

/// The protection key of the view, or kNoKey. The kernel gives every thread of the process, old or
/// new, no access by a key that is new.
int view_key() {
  static const int key = [] {
    if (configuration().host_access) return kNoKey;
    const int made = pkey_alloc(0, PKEY_DISABLE_ACCESS);
    if (made < 0) {
      log_line(LogLevel::kInfo,
               "no memory protection key is to be had: host code can access device memory");
      return kNoKey;
    }
    return made;
  }();
  return key;
}

}  // namespace

bool protect_program_view(std::uint64_t address, std::uint64_t size, int protection) {
  void* const begin = reinterpret_cast<void*>(address);
  const int key = view_key();
  return (key == kNoKey ? mprotect(begin, size, protection)
                        : pkey_mprotect(begin, size, protection, key)) == 0;
}

bool open_program_view(std::uint64_t address, std::uint64_t size, int protection) {
  void* const begin = reinterpret_cast<void*>(address);
  constexpr int kOfEveryPage = 0;  // the key that all memory has that was given no other
  return (view_key() == kNoKey ? mprotect(begin, size, protection)
                               : pkey_mprotect(begin, size, protection, kOfEveryPage)) == 0;
}

bool host_access_faults() { return view_key() != kNoKey; }

DeviceCode::DeviceCode() {
  if (const int key = view_key(); key != kNoKey) pkey_set(key, 0);
}

DeviceCode::~DeviceCode() {
  if (const int key = view_key(); key != kNoKey) pkey_set(key, PKEY_DISABLE_ACCESS);
}

}  // namespace simgpu
