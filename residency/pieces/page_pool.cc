#include "residency/pieces/page_pool.h"

#include <new>
#include <utility>

namespace superpipe {

PagePool::PagePool(DeviceMemory& device, Address windows, Bytes size, Bytes granule)
    : device_(device), windows_(windows, size, granule) {}

std::optional<Page> PagePool::take(Bytes size) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = by_size_.find(size);
  if (found == by_size_.end() || found->second.idle.empty()) return std::nullopt;
  return take_idle(found->second.idle);
}

Bytes PagePool::idle_bytes_of(Bytes size) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = by_size_.find(size);
  return found == by_size_.end() ? Bytes{} : found->second.idle.size() * size;
}

void PagePool::expect(Bytes size) noexcept {
  const std::lock_guard lock(mutex_);
  ++by_size_.find(size)->second.expected;
}

void PagePool::cease_to_expect(Bytes size) noexcept {
  const std::lock_guard lock(mutex_);
  --by_size_.find(size)->second.expected;
}

bool PagePool::expects(Bytes size) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = by_size_.find(size);
  return found != by_size_.end() && found->second.expected > 0;
}

std::optional<Page> PagePool::take_any() noexcept {
  const std::lock_guard lock(mutex_);
  for (auto same_size = by_size_.rbegin(); same_size != by_size_.rend(); ++same_size) {
    if (!same_size->second.idle.empty()) return take_idle(same_size->second.idle);
  }
  return std::nullopt;
}

void PagePool::put(Page page) noexcept {
  const std::lock_guard lock(mutex_);
  idle_bytes_ += page.size;
  ++idle_pages_;
  Pages& idle = by_size_.find(page.size)->second.idle;
  put_to(idle, std::move(page));
}

void PagePool::keep_untracked(Page page) noexcept {
  const std::lock_guard lock(mutex_);
  put_to(untracked_, std::move(page));
}

std::optional<Page> PagePool::take_untracked() noexcept {
  const std::lock_guard lock(mutex_);
  if (untracked_.empty()) return std::nullopt;
  return take_first(untracked_);
}

std::optional<Page> PagePool::take_idle(Pages& idle) noexcept {
  idle_bytes_ -= idle.front().size;
  --idle_pages_;
  return take_first(idle);
}

std::optional<Page> PagePool::take_first(Pages& pages) noexcept {
  std::optional<Page> page{std::move(pages.front())};
  pages.front() = Page{};
  spare_.splice(spare_.end(), pages, pages.begin());
  return page;
}

void PagePool::put_to(Pages& pages, Page page) noexcept {
  pages.splice(pages.end(), spare_, spare_.begin());
  pages.back() = std::move(page);
}

Result<Page> PagePool::create(Bytes size) {
  Pages node;
  std::optional<Address> window;
  try {
    node.emplace_back();
    const std::lock_guard lock(mutex_);
    SameSize& same_size = by_size_[size];
    window = windows_.take(size);
    ++same_size.pages;
  } catch (const std::bad_alloc&) {
    return Status::kOutOfHostMemory;
  }
  const auto undo = [&] {
    const std::lock_guard lock(mutex_);
    if (window) windows_.give_back(*window, size);
    uncount(size);
  };
  if (!window) {
    undo();
    return Status::kOutOfDeviceMemory;
  }
  const auto handle = device_.create_pages(size);
  if (!handle.ok()) {
    undo();
    return handle.status();
  }
  if (const Status status = device_.map(*window, size, *handle); status != Status::kOk) {
    (void)device_.destroy_pages(*handle, size);
    undo();
    return status;
  }
  const std::lock_guard lock(mutex_);
  spare_.splice(spare_.end(), node);
  return Page{*handle, size, *window, size, {}, nullptr, {}};
}

Status PagePool::destroy(Page& page) {
  if (page.window != 0) {
    // A window that could not be unmapped is never handed out again.
    const Status status = device_.unmap(page.window, page.size);
    if (status != Status::kOk) return status;
    const std::lock_guard lock(mutex_);
    windows_.give_back(std::exchange(page.window, 0), page.size);
  }
  const Status status = device_.destroy_pages(page.handle, page.size);
  if (status != Status::kOk) return status;
  const std::lock_guard lock(mutex_);
  spare_.pop_back();
  uncount(page.size);
  return Status::kOk;
}

// A page of that size is no more, or did not come to be.
void PagePool::uncount(Bytes size) noexcept {
  const auto found = by_size_.find(size);
  if (--found->second.pages == 0) by_size_.erase(found);
}

}  // namespace superpipe
