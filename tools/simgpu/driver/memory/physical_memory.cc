#include "tools/simgpu/driver/memory/physical_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <mutex>
#include <optional>
#include <utility>

#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/memory/extents.h"
#include "tools/simgpu/driver/memory/host_pages.h"
#include "tools/simgpu/driver/memory/program_view.h"
#include "tools/simgpu/driver/memory/unwritten.h"
#include "tools/simgpu/driver/process/log.h"

namespace simgpu {

/// A memory file, sparse and far larger than the memory of its device or of the host, so that
/// fragmentation of the file never refuses what the capacity allows; and a mapping of all of it,
/// the window.
class MemoryFile {
 public:
  /// Of the device `ordinal`, or of the host if that is -1.
  MemoryFile(int ordinal, std::uint64_t capacity) {
    for (std::uint64_t factor = 16; factor >= 2 && window_ == nullptr; factor /= 2) {
      open_file(ordinal, align_up(capacity * factor, kGranularity));
    }
    if (window_ == nullptr) {
      log_line(LogLevel::kError, "cannot reserve address space for memory of %llu bytes",
               static_cast<unsigned long long>(capacity));
    }
  }

  std::optional<std::uint64_t> take(std::uint64_t size, std::uint64_t alignment) {
    const std::lock_guard lock{mutex_};
    return extents_.take(size, alignment);
  }

  /// Drops the bytes, so that the extent reads zero when it is taken again.
  void give_back(std::uint64_t offset, std::uint64_t size) {
    fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(size));
    const std::lock_guard lock{mutex_};
    extents_.give_back(offset, size);
  }

  [[nodiscard]] unsigned char* window() const { return window_; }
  [[nodiscard]] int file() const { return file_; }

 private:
  void open_file(int ordinal, std::uint64_t size) {
    const int file = memfd_create("simgpu", MFD_CLOEXEC);
    if (file < 0) return;
    void* window = MAP_FAILED;
    if (ftruncate(file, static_cast<off_t>(size)) == 0) {
      window = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    }
    if (window == MAP_FAILED) {
      close(file);
      return;
    }
    madvise(window, size, MADV_DONTDUMP);
    // A child of fork() has no business with device memory, and copying its tables is slow.
    madvise(window, size, MADV_DONTFORK);
    file_ = file;
    window_ = static_cast<unsigned char*>(window);
    extents_ = Extents{0, size};
    log_line(LogLevel::kDebug, "device %d: memory file of %llu bytes", ordinal,
             static_cast<unsigned long long>(size));
  }

  std::mutex mutex_;
  Extents extents_{0, 0};
  int file_ = -1;
  unsigned char* window_ = nullptr;
};

namespace {

MemoryFile& file_of(const Device& device) {
  static std::mutex mutex;
  static std::array<MemoryFile*, kMaxDevices> files{};  // never destroyed
  const std::lock_guard lock{mutex};
  MemoryFile*& file = files[static_cast<std::size_t>(device.ordinal())];
  if (file == nullptr) file = new MemoryFile{device.ordinal(), device.capacity()};
  return *file;
}

MemoryFile& file_of_host() {
  static auto* const file = new MemoryFile{-1, HostPages::limit()};  // never destroyed
  return *file;
}

/// Takes the host's memory behind an extent when the device's is taken, so that page faults do not
/// delay the copies and kernels that have modelled times. Very large extents are left alone: a
/// program may never touch them.
void populate(unsigned char* bytes, std::uint64_t size) {
  constexpr std::uint64_t kLargest = std::uint64_t{64} << 20;
  if (size <= kLargest) madvise(bytes, size, MADV_POPULATE_WRITE);  // older kernels refuse it
}

}  // namespace

Physical::Physical(MemoryFile& file, std::shared_ptr<SmallBlocks> small, std::uint64_t size,
                   std::uint64_t small_bytes, std::uint64_t offset)
    : file_(file),
      small_(std::move(small)),
      size_(size),
      small_bytes_(small_bytes),
      offset_(offset) {}

std::shared_ptr<Physical> Physical::create(const std::shared_ptr<SmallBlocks>& small,
                                           std::uint64_t size) {
  Device& device = small->device();
  if (size == 0 || size > device.capacity()) return nullptr;
  const bool is_small = size <= kGranularity / 2;
  const std::uint64_t small_bytes = is_small ? align_up(size, 512) : 0;
  const std::uint64_t rounded = align_up(size, is_small ? kPage : kGranularity);
  if (!(is_small ? small->take(small_bytes) : device.take(rounded))) return nullptr;
  MemoryFile& file = file_of(device);
  const auto offset = file.take(rounded, is_small ? kPage : kGranularity);
  if (!offset) {
    is_small ? small->give_back(small_bytes) : device.give_back(rounded);
    return nullptr;
  }
  unsigned char* const bytes = file.window() + *offset;
  const Unwritten unwritten = Unwritten::next();
  unwritten.zero() ? populate(bytes, rounded) : unwritten.write(bytes, rounded);
  return std::shared_ptr<Physical>{new Physical{file, small, rounded, small_bytes, *offset}};
}

std::shared_ptr<Physical> Physical::create_on_host(std::uint64_t size) {
  HostPages& pages = HostPages::instance();
  if (size == 0 || size > HostPages::limit()) return nullptr;
  const std::uint64_t rounded = align_up(size, kGranularity);
  if (!pages.take(rounded)) return nullptr;
  MemoryFile& file = file_of_host();
  const auto offset = file.take(rounded, kGranularity);
  if (!offset) {
    pages.give_back(rounded);
    return nullptr;
  }
  populate(file.window() + *offset, rounded);
  return std::shared_ptr<Physical>{new Physical{file, nullptr, rounded, 0, *offset}};
}

Physical::~Physical() {
  give_back();
  file_.give_back(offset_, size_);
}

void Physical::give_back() {
  if (!is_charged_.exchange(false)) return;
  if (on_host()) {
    HostPages::instance().give_back(size_);
  } else if (small_bytes_ != 0) {
    small_->give_back(small_bytes_);
  } else {
    device().give_back(size_);
  }
}

Device& Physical::device() const { return small_->device(); }

int Physical::ordinal() const { return on_host() ? -1 : device().ordinal(); }

unsigned char* Physical::window() const { return file_.window() + offset_; }

bool Physical::map_at(std::uint64_t address, int protection) const {
  // Without access until the view's own protection holds, so that it is never open to host code.
  return mmap(reinterpret_cast<void*>(address), size_, PROT_NONE, MAP_SHARED | MAP_FIXED,
              file_.file(), static_cast<off_t>(offset_)) != MAP_FAILED &&
         (protection == PROT_NONE || protect_program_view(address, size_, protection));
}

bool Physical::map_private_at(std::uint64_t address, std::uint64_t offset,
                              std::uint64_t size) const {
  return mmap(reinterpret_cast<void*>(address), size, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, file_.file(),
              static_cast<off_t>(offset_ + offset)) != MAP_FAILED;
}

}  // namespace simgpu
