#include "interposer/graphs/noted_words.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "interposer/log.h"

namespace superpipe {

Status NotedWords::add(std::span<const std::uint64_t> words) noexcept {
  if (words.empty()) return Status::kOk;
  try {
    const std::lock_guard lock(mutex_);
    if (words_.size() >= forget_at_) forget_freed();
    words_.insert(words.begin(), words.end());
    return Status::kOk;
  } catch (const std::bad_alloc&) {
    return Status::kOutOfHostMemory;
  }
}

// REQUIRES: mutex_ is held.
void NotedWords::forget_freed() {
  const std::size_t before = words_.size();
  for (auto word = words_.begin(); word != words_.end();) {
    word = residency_.find(*word) ? std::next(word) : words_.erase(word);
  }
  forget_at_ = std::max<std::size_t>(forget_at_, 2 * words_.size());
  if (words_.size() == before || std::exchange(has_forgotten_, true)) return;
  log_line(LogLevel::kWarning,
           "graphs name so many addresses that those of freed buffers are forgotten: a graph of "
           "which the driver does not tell what it uses may fail for memory that it gets back");
}

std::vector<std::uint64_t> NotedWords::all() const {
  const std::lock_guard lock(mutex_);
  return {words_.begin(), words_.end()};
}

}  // namespace superpipe
