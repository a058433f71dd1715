#include "tools/simgpu/driver/memory/pool_blocks.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace simgpu {

void PoolBlocks::add_chunk(Chunk chunk) {
  chunks_.emplace(chunk.base, chunk.size);
  blocks_[chunk.base] = {.size = chunk.size, .freed = {}, .fresh = true};
}

std::optional<PoolBlocks::Taken> PoolBlocks::take(std::uint64_t size, const Usable& usable) {
  auto best = blocks_.end();
  std::uint64_t best_size = 0;
  for (auto first = blocks_.begin(); first != blocks_.end();) {
    if (!usable(first->second.freed)) {
      ++first;
      continue;
    }
    std::uint64_t run = first->second.size;
    auto next = std::next(first);
    while (next != blocks_.end() && next->first == first->first + run &&
           usable(next->second.freed)) {
      run += next->second.size;
      ++next;
    }
    if (run >= size && (best == blocks_.end() || run < best_size)) {
      best = first;
      best_size = run;
    }
    first = next;
  }
  if (best == blocks_.end()) return std::nullopt;
  return carve(best, size);
}

PoolBlocks::Taken PoolBlocks::carve(Blocks::iterator block, std::uint64_t size) {
  Taken taken{.address = block->first, .fresh = true, .pending = {}};
  while (size != 0) {
    const std::uint64_t address = block->first;
    const Block whole = std::move(block->second);
    block = blocks_.erase(block);
    const std::uint64_t used = std::min(size, whole.size);
    taken.fresh = taken.fresh && whole.fresh;
    if (!whole.freed.complete()) taken.pending.push_back(whole.freed.done);
    size -= used;
    if (used == whole.size) continue;
    blocks_[address + used] = {
        .size = whole.size - used, .freed = whole.freed, .fresh = whole.fresh};
  }
  return taken;
}

void PoolBlocks::give_back(std::uint64_t address, std::uint64_t size, FreePoint freed) {
  const bool at_once = freed.done == nullptr;
  blocks_[address] = {.size = size, .freed = std::move(freed), .fresh = false};
  if (at_once) free_for_everybody([](const FreePoint&) { return false; });
}

void PoolBlocks::free_for_everybody(const Usable& is_free) {
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    Block& here = block->second;
    if (!here.for_everybody() && is_free(here.freed)) here.freed = {};
    const auto before = block == blocks_.begin() ? blocks_.end() : std::prev(block);
    if (before != blocks_.end() && before->first + before->second.size == block->first &&
        before->second.for_everybody() && here.for_everybody() &&
        before->second.fresh == here.fresh) {
      before->second.size += here.size;
      block = blocks_.erase(block);
    } else {
      ++block;
    }
  }
}

std::vector<CompletionPtr> PoolBlocks::pending() const {
  std::vector<CompletionPtr> list;
  for (const auto& [address, block] : blocks_) {
    if (!block.freed.complete()) list.push_back(block.freed.done);
  }
  return list;
}

std::vector<PoolBlocks::Chunk> PoolBlocks::idle_chunks(const Usable& usable) const {
  std::vector<Chunk> idle;
  for (const auto& [base, size] : chunks_) {
    std::uint64_t free = 0;
    for (auto block = blocks_.lower_bound(base);
         block != blocks_.end() && block->first < base + size && usable(block->second.freed);
         ++block) {
      free += block->second.size;
    }
    if (free == size) idle.push_back({.base = base, .size = size});
  }
  return idle;
}

void PoolBlocks::remove_chunk(std::uint64_t base) {
  const auto chunk = chunks_.find(base);
  if (chunk == chunks_.end()) return;
  blocks_.erase(blocks_.lower_bound(base), blocks_.lower_bound(base + chunk->second));
  chunks_.erase(chunk);
}

}  // namespace simgpu
