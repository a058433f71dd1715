// The memory of slabs.
#include "residency/host/slab_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace superpipe::testing {
namespace {

constexpr Bytes kPageOfTheHost = 4_KiB;

std::uint64_t address_of(const std::byte* data) { return reinterpret_cast<std::uintptr_t>(data); }

/// The part of /proc/self/smaps about mappings within a range.
struct Mapped {
  Bytes in_large_pages;
  bool asks_for_large = true;    ///< all of it
  bool is_left_by_forks = true;  ///< all of it
};

Mapped mapped(const std::byte* data, Bytes size) {
  Mapped found;
  std::ifstream smaps("/proc/self/smaps");
  bool counts = false;
  for (std::string line; std::getline(smaps, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (const std::size_t dash = word.find('-'); dash != std::string::npos) {
      const std::uint64_t begin = std::stoull(word, nullptr, 16);
      const std::uint64_t end = std::stoull(word.substr(dash + 1), nullptr, 16);
      const std::uint64_t first = std::max(begin, address_of(data));
      const std::uint64_t last = std::min(end, address_of(data) + size.count());
      counts = first < last;
    }
    if (!counts) continue;
    std::uint64_t kibibytes = 0;
    if (word == "AnonHugePages:" && words >> kibibytes) {
      found.in_large_pages += Bytes{kibibytes << 10};
    }
    if (word == "VmFlags:") {
      const auto has = [&line](const char* flag) {
        return (line + " ").find(flag) != std::string::npos;
      };
      found.asks_for_large = found.asks_for_large && has(" hg ");
      found.is_left_by_forks = found.is_left_by_forks && has(" dc ");
    }
  }
  return found;
}

class SlabMemory {
 public:
  explicit SlabMemory(Bytes size) : size_(size), data_(map_slab_memory(size)) {}
  ~SlabMemory() {
    if (data_ != nullptr) unmap_slab_memory(data_, size_);
  }
  SlabMemory(const SlabMemory&) = delete;
  SlabMemory& operator=(const SlabMemory&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  const Bytes size_;
  std::byte* const data_;
};

TEST(SlabMemoryTest, LargeOnesBeginAtAMultipleOfALargePage) {
  for (const Bytes size : {2_MiB, 2_MiB + kPageOfTheHost, 5_MiB - kPageOfTheHost, 64_MiB}) {
    const SlabMemory odd{12_KiB};  // so that what follows it is not aligned by itself
    const SlabMemory slab{size};
    ASSERT_NE(slab.data(), nullptr);
    EXPECT_EQ(address_of(slab.data()) % kLargeMemoryPage.count(), 0U);
    std::memset(slab.data(), 0x5a, size.count());
  }
}

/// The size of this process's address space. Allocates nothing.
std::uint64_t address_space() {
  std::array<char, 64> text{};
  const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  const ssize_t length = file < 0 ? -1 : read(file, text.data(), text.size() - 1);
  if (file >= 0) close(file);
  if (length <= 0) return 0;
  return std::strtoull(text.data(), nullptr, 10) * static_cast<std::uint64_t>(getpagesize());
}

TEST(SlabMemoryTest, TakesNoByteMoreThanItsSize) {
  for (const Bytes size : {8_KiB, 2_MiB, 5_MiB - kPageOfTheHost}) {
    const std::uint64_t before = address_space();
    ASSERT_GT(before, 0U);
    std::byte* const data = map_slab_memory(size);
    const std::uint64_t with_it = address_space();
    unmap_slab_memory(data, size);
    EXPECT_EQ(with_it - before, size.count());
    EXPECT_EQ(address_space(), before);
  }
}

/// How many memory pages of the range are there.
std::size_t pages_there(const std::byte* data, Bytes size) {
  std::vector<unsigned char> there(size.count() / kPageOfTheHost.count());
  if (mincore(const_cast<std::byte*>(data), size.count(), there.data()) != 0) return 0;
  return static_cast<std::size_t>(
      std::ranges::count_if(there, [](unsigned char page) { return (page & 1) != 0; }));
}

TEST(SlabMemoryTest, IsPopulatedByThreadsWithoutAnotherByteBehindIt) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one processor";
  constexpr Bytes kSize = 17_MiB + 12_KiB;
  const SlabMemory slab{kSize};
  ASSERT_NE(slab.data(), nullptr);
  slab.data()[5] = std::byte{7};
  if (madvise(slab.data(), kPageOfTheHost.count(), 23) != 0)
    GTEST_SKIP() << "the kernel does not populate";
  EXPECT_LT(pages_there(slab.data(), kSize), kSize.count() / kPageOfTheHost.count());
  populate_slab_memory(slab.data(), kSize);
  EXPECT_EQ(pages_there(slab.data(), kSize), kSize.count() / kPageOfTheHost.count());
  EXPECT_EQ(slab.data()[5], std::byte{7});
}

TEST(SlabMemoryTest, IsLeftToTheDriverWhereThreadsWouldNotPay) {
  const SlabMemory slab{4_MiB};
  ASSERT_NE(slab.data(), nullptr);
  populate_slab_memory(slab.data(), 4_MiB);
  EXPECT_EQ(pages_there(slab.data(), 4_MiB), 0U);
}

TEST(SlabMemoryTest, SmallOnesDoNotAskForLargePages) {
  const SlabMemory slab{1_MiB};
  ASSERT_NE(slab.data(), nullptr);
  EXPECT_FALSE(mapped(slab.data(), 1_MiB).asks_for_large);
}

/// Whether the kernel gives large pages to who asks for them as this test does by itself.
bool has_large_pages() {
  const std::size_t size = Bytes{64_MiB}.count();
  void* const memory =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  auto* const data = static_cast<std::byte*>(memory);
  bool has = madvise(memory, size, MADV_HUGEPAGE) == 0;
  std::memset(memory, 1, size);
  has = has && mapped(data, 64_MiB).in_large_pages > Bytes{};
  munmap(memory, size);
  return has;
}

TEST(SlabMemoryTest, HasLargePagesWhereTheKernelHasThem) {
  if (!has_large_pages()) {
    GTEST_SKIP() << "the kernel gives no large pages (/sys/kernel/mm/transparent_hugepage)";
  }
  const Bytes size = 64_MiB + kPageOfTheHost;
  const SlabMemory slab{size};
  ASSERT_NE(slab.data(), nullptr);
  EXPECT_TRUE(mapped(slab.data(), size).asks_for_large);
  std::memset(slab.data(), 1, size.count());
  EXPECT_GT(mapped(slab.data(), size).in_large_pages, Bytes{});
}

TEST(SlabMemoryTest, TheChildOfAForkHasNoCopy) {
  for (const Bytes size : {8_KiB, 4_MiB}) {
    const SlabMemory slab{size};
    ASSERT_NE(slab.data(), nullptr);
    EXPECT_TRUE(mapped(slab.data(), size).is_left_by_forks);
  }
}

}  // namespace
}  // namespace superpipe::testing
