#include "tools/simgpu/driver/launch/private_operands.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "tools/simgpu/driver/memory/physical_memory.h"

namespace simgpu {
namespace {

constexpr std::size_t kWordBytes = sizeof(std::uint32_t);
constexpr std::uint64_t kBlockWords = std::numeric_limits<std::uint64_t>::digits;
constexpr std::uint64_t kBlockBytes = kBlockWords * kWordBytes;

std::uint32_t word_at(const unsigned char* bytes) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes, kWordBytes);
  return word;
}

/// A read of one page of a file's mapping makes others present, in the aligned block of this size
/// around it. Source: Linux, mm/memory.c, fault_around_bytes.
constexpr std::uint64_t kTouched = 65536;

/// Address space between two pages without access. Blocks of one size that were given back are
/// kept for the next kernel, a few of each, since most kernels are launched again and again.
/// Thread-safe.
class GuardedBlocks {
 public:
  static GuardedBlocks& instance() {
    static auto* const blocks = new GuardedBlocks;  // never destroyed: streams outlive main()
    return *blocks;
  }

  /// A block of `size` bytes, whole pages, to read and write, with what its last user left in it.
  /// @throws std::bad_alloc
  unsigned char* take(std::uint64_t size) {
    {
      const std::lock_guard lock{mutex_};
      std::vector<unsigned char*>& kept = kept_[size];
      if (!kept.empty()) {
        unsigned char* const block = kept.back();
        kept.pop_back();
        kept_bytes_ -= size;
        return block;
      }
    }
    unsigned char* const block = reserve(size, 0);
    if (mprotect(block, size, PROT_READ | PROT_WRITE) != 0) {
      give_up(block, size);
      throw std::bad_alloc{};
    }
    return block;
  }

  void give_back(unsigned char* block, std::uint64_t size) {
    constexpr std::uint64_t kMostKept = std::uint64_t{16} << 20;
    {
      const std::lock_guard lock{mutex_};
      if (kept_bytes_ + size <= kMostKept) {
        kept_[size].push_back(block);
        kept_bytes_ += size;
        return;
      }
    }
    give_up(block, size);
  }

  /// A block that nobody may access yet, to map something at, which begins as far behind a multiple
  /// of kTouched as `alike` does. @throws std::bad_alloc
  static unsigned char* reserve(std::uint64_t size, std::uint64_t alike) {
    const std::uint64_t with_guards = size + 2 * kPage;
    void* const all = mmap(nullptr, with_guards + kTouched, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) throw std::bad_alloc{};
    auto* const first = static_cast<unsigned char*>(all);
    const std::uint64_t lowest = reinterpret_cast<std::uint64_t>(first) + kPage;
    const std::uint64_t skip = (alike / kPage * kPage - lowest) % kTouched;
    if (skip != 0) munmap(first, skip);
    if (skip != kTouched) munmap(first + skip + with_guards, kTouched - skip);
    return first + skip + kPage;
  }

  /// Ends what take() or reserve() gave.
  static void give_up(unsigned char* block, std::uint64_t size) {
    munmap(block - kPage, size + 2 * kPage);
  }

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::vector<unsigned char*>> kept_;  ///< by size
  std::uint64_t kept_bytes_ = 0;
};

/// What the process has done to the pages of a private mapping of a file.
///
/// Source: Linux, Documentation/admin-guide/mm/pagemap.rst: bit 63 of a page's entry says that it
/// is present, bit 62 that it is swapped out, bit 61 that it is the file's.
class PageMap {
 public:
  struct Page {
    bool touched = true;
    bool written = true;
  };

  static const PageMap& instance() {
    static const auto* const map = new PageMap;
    return *map;
  }

  /// One entry per page from `pages` on; all true if the system does not tell.
  [[nodiscard]] std::vector<Page> look(const unsigned char* pages, std::uint64_t count) const {
    std::vector<Page> found(count);
    std::vector<std::uint64_t> entries(count);
    const std::uint64_t at = reinterpret_cast<std::uint64_t>(pages) / kPage * sizeof(entries[0]);
    const std::size_t size = count * sizeof(entries[0]);
    if (file_ < 0 ||
        pread(file_, entries.data(), size, static_cast<off_t>(at)) != static_cast<ssize_t>(size)) {
      return found;
    }
    for (std::uint64_t page = 0; page < count; ++page) {
      found[page].touched = (entries[page] >> 62) != 0;
      found[page].written = found[page].touched && (entries[page] >> 61 & 1) == 0;
    }
    return found;
  }

 private:
  PageMap() : file_(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) {}
  const int file_;
};

}  // namespace

PrivateOperands::~PrivateOperands() { clear(); }

void PrivateOperands::add(std::uint64_t begin, std::uint64_t end,
                          const std::vector<Segment>& segments) {
  for (const Range& range : ranges_) {
    if (range.begin == begin) return;
  }
  ranges_.push_back({begin, end - begin, nullptr, 0, nullptr, {}, segments, {}});
  if (end - begin <= copied_) {
    copy(ranges_.back());
  } else {
    map(ranges_.back());
  }
}

void PrivateOperands::add_guard(std::uint64_t address) {
  for (const Range& range : ranges_) {
    if (address == range.begin + range.size) return;
  }
  Range guard{address, 0, nullptr, kTouched, nullptr, {}, {}, {}};
  guard.pages = GuardedBlocks::reserve(guard.page_bytes, address);
  guard.copy = guard.pages;
  ranges_.push_back(std::move(guard));
}

void PrivateOperands::copy(Range& range) {
  const std::uint64_t skew = range.begin % kPage;  // the copy begins where its page does
  range.page_bytes = align_up(skew + range.size, kPage);
  range.pages = GuardedBlocks::instance().take(range.page_bytes);
  range.copy = range.pages + skew;
  range.before.resize(range.size);
  for_each_part(range.segments, 0, range.size,
                [&](const unsigned char* bytes, std::uint64_t part, std::uint64_t offset) {
                  std::memcpy(range.before.data() + offset, bytes, part);
                });
  std::memcpy(range.copy, range.before.data(), range.size);
}

void PrivateOperands::map(Range& range) {
  const auto offset_in_file = [](const Segment& segment) {
    return static_cast<std::uint64_t>(segment.bytes - segment.physical->window());
  };
  const std::uint64_t skew = offset_in_file(range.segments.front()) % kPage;
  range.page_bytes = align_up(skew + range.size, kPage);
  range.pages = GuardedBlocks::reserve(range.page_bytes, range.begin);
  range.copy = range.pages + skew;
  // Segments meet at page boundaries: each but the first begins a physical allocation's mapping.
  auto address = reinterpret_cast<std::uint64_t>(range.copy);
  for (const Segment& segment : range.segments) {
    const std::uint64_t before = offset_in_file(segment) % kPage;
    const std::uint64_t size = align_up(before + segment.size, kPage);
    if (!segment.physical->map_private_at(address - before, offset_in_file(segment) - before,
                                          size)) {
      throw std::bad_alloc{};
    }
    address += segment.size;
  }
}

std::uint64_t PrivateOperands::to_copy(std::uint64_t address) const {
  for (const Range& range : ranges_) {
    if (address - range.begin < range.size) {
      return reinterpret_cast<std::uint64_t>(range.copy) + (address - range.begin);
    }
  }
  return address;
}

std::uint64_t PrivateOperands::end_to_copy(std::uint64_t address) const {
  for (const Range& range : ranges_) {
    if (address == range.begin + range.size) {
      return reinterpret_cast<std::uint64_t>(range.copy) + range.size;
    }
  }
  return to_copy(address);
}

std::uint64_t PrivateOperands::to_program(std::uint64_t address) const {
  for (const Range& range : ranges_) {
    const auto copy = reinterpret_cast<std::uint64_t>(range.copy);
    if (address + kPage - copy < range.size + 2 * kPage) return range.begin + (address - copy);
  }
  return address;
}

void PrivateOperands::collect() {
  for (std::size_t index = 0; index < ranges_.size(); ++index) collect(index);
}

void PrivateOperands::collect(std::size_t index) {
  const Range& range = ranges_[index];
  if (range.before.empty()) {
    collect_mapped(index);
  } else {
    compare(index, 0, range.before.data(), range.size);
  }
}

void PrivateOperands::collect_mapped(std::size_t index) {
  Range& range = ranges_[index];
  const auto skew = static_cast<std::uint64_t>(range.copy - range.pages);
  const std::vector<PageMap::Page> pages =
      PageMap::instance().look(range.pages, range.page_bytes / kPage);
  std::uint64_t begin = 0;  // of the segment, in the range
  for (const Segment& segment : range.segments) {
    const std::uint64_t end = begin + segment.size;
    bool touched = false;
    for (std::uint64_t at = begin; at < end;) {
      const std::uint64_t page_end = std::min((at + skew) / kPage * kPage + kPage - skew, end);
      const PageMap::Page& page = pages[(at + skew) / kPage];
      touched = touched || page.touched;
      if (page.written) compare(index, at, segment.bytes + (at - begin), page_end - at);
      at = page_end;
    }
    range.touched.push_back(touched);
    begin = end;
  }
}

bool PrivateOperands::touched(std::uint64_t begin, std::size_t index) const {
  const auto range = std::find_if(ranges_.begin(), ranges_.end(),
                                  [&](const Range& each) { return each.begin == begin; });
  return range == ranges_.end() || range->touched.empty() || range->touched[index];
}

void PrivateOperands::compare(std::size_t index, std::uint64_t offset, const unsigned char* before,
                              std::uint64_t size) {
  const unsigned char* const after = ranges_[index].copy + offset;
  for (std::uint64_t at = 0; at < size; at += kBlockBytes) {
    const std::uint64_t length = std::min(kBlockBytes, size - at);
    if (std::memcmp(after + at, before + at, length) == 0) continue;
    std::uint64_t written = 0;
    const std::uint64_t words = length / kWordBytes;
    for (std::uint64_t word = 0; word < words; ++word) {
      const std::uint64_t bytes = at + word * kWordBytes;
      written |= std::uint64_t{word_at(after + bytes) != word_at(before + bytes)} << word;
    }
    const std::uint64_t rest = at + words * kWordBytes;
    if (std::memcmp(after + rest, before + rest, at + length - rest) != 0)
      written |= std::uint64_t{1} << words;
    blocks_.push_back({index, offset + at, length, written});
  }
}

void PrivateOperands::publish() {
  for (const Block& block : blocks_) {
    const Range& range = ranges_[block.range];
    for (std::uint64_t left = block.written; left != 0;) {
      const auto first = static_cast<std::uint64_t>(std::countr_zero(left));
      const auto words = static_cast<std::uint64_t>(std::countr_one(left >> first));
      const std::uint64_t begin = first * kWordBytes;
      const std::uint64_t end = std::min(begin + words * kWordBytes, block.size);
      for_each_part(range.segments, block.offset + begin, end - begin,
                    [&](unsigned char* bytes, std::uint64_t part, std::uint64_t offset) {
                      std::memcpy(bytes, range.copy + block.offset + begin + offset, part);
                    });
      left = first + words < kBlockWords ? left >> (first + words) << (first + words) : 0;
    }
  }
  clear();
}

void PrivateOperands::clear() {
  for (const Range& range : ranges_) {
    if (range.pages == nullptr) continue;
    if (range.before.empty()) {
      GuardedBlocks::give_up(range.pages, range.page_bytes);
    } else {
      GuardedBlocks::instance().give_back(range.pages, range.page_bytes);
    }
  }
  ranges_.clear();
  blocks_.clear();
}

}  // namespace simgpu
