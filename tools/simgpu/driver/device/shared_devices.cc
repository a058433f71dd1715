#include "tools/simgpu/driver/device/shared_devices.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace simgpu {
namespace {

bool is_gone(std::int32_t process) { return ::kill(process, 0) != 0 && errno == ESRCH; }

}  // namespace

bool SharedDevice::take(std::uint64_t bytes) noexcept {
  Entry* const own = own_entry();
  if (own != nullptr) own->bytes.fetch_add(bytes);
  return own != nullptr;
}

void SharedDevice::give_back(std::uint64_t bytes) noexcept {
  Entry* const own = own_entry();
  if (own != nullptr) own->bytes.fetch_sub(bytes);
}

SharedDevice::Entry* SharedDevice::own_entry() noexcept {
  const std::int32_t process = ::getpid();
  for (Entry& entry : entries_) {
    if (entry.process.load() == process) return &entry;
  }
  return nullptr;
}

// Gives an entry that is `from`'s to another one, without what was in use. Whoever dies meanwhile
// leaves an entry that serves nobody any more.
bool SharedDevice::pass_on(Entry& entry, std::int32_t from, std::int32_t to) noexcept {
  if (!entry.process.compare_exchange_strong(from, kChanging)) return false;
  entry.bytes.store(0);
  entry.process.store(to);
  return true;
}

bool SharedDevice::join() noexcept {
  const std::int32_t process = ::getpid();
  for (Entry& entry : entries_) {
    const std::int32_t holder = entry.process.load();
    if (holder == kChanging) continue;
    // An earlier process may have had the same number.
    const bool is_free = holder == kNobody || holder == process || is_gone(holder);
    if (is_free && pass_on(entry, holder, process)) return true;
  }
  return false;
}

std::uint64_t SharedDevice::used_by_others() noexcept {
  std::uint64_t sum = 0;
  for_each_other([&sum](std::int32_t /*process*/, std::uint64_t bytes) { sum += bytes; });
  return sum;
}

// Entries of processes that have died serve others.
void SharedDevice::for_each_other(
    const std::function<void(std::int32_t process, std::uint64_t bytes)>& tell) noexcept {
  const std::int32_t own = ::getpid();
  for (Entry& entry : entries_) {
    const std::int32_t holder = entry.process.load();
    if (holder == kNobody || holder == kChanging || holder == own) continue;
    if (is_gone(holder)) {
      (void)pass_on(entry, holder, kNobody);
    } else {
      tell(holder, entry.bytes.load());
    }
  }
}

void SharedDevice::push_back(int direction, Nanoseconds end) noexcept {
  Nanoseconds seen = free_at(direction);
  while (seen < end && !take_link(direction, seen, end)) {
  }
}

SharedDevice* map_shared_devices(const char* path, int count) noexcept {
  const std::size_t size = static_cast<std::size_t>(count) * sizeof(SharedDevice);
  const int file = ::open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return nullptr;
  struct stat status {};
  // What a file has beyond its end reads as zero, which is a device that nobody uses.
  const bool is_large_enough =
      ::fstat(file, &status) == 0 && (static_cast<std::size_t>(status.st_size) >= size ||
                                      ::ftruncate(file, static_cast<off_t>(size)) == 0);
  void* const mapped = is_large_enough
                           ? ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                           : MAP_FAILED;
  const int problem = errno;
  ::close(file);
  errno = problem;
  if (mapped == MAP_FAILED) return nullptr;
  auto* const all = static_cast<SharedDevice*>(mapped);
  for (int device = 0; device < count; ++device) {
    if (!all[device].join()) {
      errno = EUSERS;
      return nullptr;
    }
  }
  return all;
}

}  // namespace simgpu
