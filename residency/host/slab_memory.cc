#include "residency/host/slab_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <thread>

#include "residency/own_thread.h"
#include "residency/tuning.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14; older kernels refuse it
#endif

namespace superpipe {

namespace {

std::byte* map_anywhere(Bytes size) {
  void* const data = mmap(nullptr, size.count(), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

void unmap(std::byte* data, std::size_t size) {
  if (size > 0) munmap(data, size);
}

// The range begins at a multiple of a large page: more is mapped, and what is too much unmapped.
std::byte* map_aligned(Bytes size) {
  constexpr std::size_t kAlignment = kLargeMemoryPage.count();
  std::byte* const data = map_anywhere(size + kLargeMemoryPage);
  if (data == nullptr) return nullptr;
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(data) % kAlignment;
  unmap(data, before);
  unmap(data + before + size.count(), kAlignment - before);
  return data + before;
}

}  // namespace

std::byte* map_slab_memory(Bytes size) noexcept {
  const bool is_large = size >= kLargeMemoryPage;
  std::byte* data = is_large ? map_aligned(size) : nullptr;
  if (data == nullptr) data = map_anywhere(size);
  if (data == nullptr) return nullptr;
  if (is_large) (void)madvise(data, size.count(), MADV_HUGEPAGE);
  (void)madvise(data, size.count(), MADV_DONTFORK);
  return data;
}

void populate_slab_memory(std::byte* data, Bytes size) noexcept {
  const auto threads = std::min<std::size_t>({tuning::kPopulateMostThreads,
                                              size.count() / tuning::kPopulateLeastOfThread.count(),
                                              std::thread::hardware_concurrency()});
  if (threads < 2) return;
  // Whole large pages for each thread, so that no two of them need the same one.
  const Bytes part = round_up(Bytes{size.count() / threads}, kLargeMemoryPage);
  const auto populate = [data, size, part](std::size_t number) {
    const Bytes begin = std::min(Bytes{number * part.count()}, size);
    const Bytes end = std::min(begin + part, size);
    if (begin < end) {
      (void)madvise(data + begin.count(), (end - begin).count(), MADV_POPULATE_WRITE);
    }
  };
  std::array<OwnThread, tuning::kPopulateMostThreads - 1> helpers;
  for (std::size_t i = 1; i < threads; ++i) {
    if (!helpers[i - 1].start("superpipe-pins", [&populate, i] { populate(i); })) break;
  }
  populate(0);
  for (OwnThread& helper : helpers) helper.join();
}

void unmap_slab_memory(std::byte* data, Bytes size) noexcept { munmap(data, size.count()); }

}  // namespace superpipe
