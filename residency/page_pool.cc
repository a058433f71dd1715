#include "residency/page_pool.h"

#include <algorithm>
#include <new>
#include <utility>

namespace superpipe {

PagePool::PagePool(DeviceMemory& device, Address windows, Bytes size, Bytes granule)
    : device_(device), windows_(windows, size, granule) {}

std::optional<Page> PagePool::take(Bytes size) noexcept {
  const auto found = std::find_if(idle_.begin(), idle_.end(),
                                  [size](const Page& page) { return page.size == size; });
  if (found == idle_.end()) return std::nullopt;
  idle_bytes_ -= size;
  return take_from(idle_, found);
}

std::optional<Page> PagePool::take_any() noexcept {
  const auto largest = std::max_element(
      idle_.begin(), idle_.end(), [](const Page& a, const Page& b) { return a.size < b.size; });
  if (largest == idle_.end()) return std::nullopt;
  idle_bytes_ -= largest->size;
  return take_from(idle_, largest);
}

void PagePool::put(Page page) noexcept {
  idle_bytes_ += page.size;
  put_to(idle_, std::move(page));
}

void PagePool::keep_untracked(Page page) noexcept { put_to(untracked_, std::move(page)); }

std::optional<Page> PagePool::take_untracked() noexcept {
  if (untracked_.empty()) return std::nullopt;
  return take_from(untracked_, untracked_.begin());
}

std::optional<Page> PagePool::take_from(Pages& pages, Pages::iterator at) noexcept {
  std::optional<Page> page{std::move(*at)};
  *at = Page{};
  const std::lock_guard lock(mutex_);
  spare_.splice(spare_.end(), pages, at);
  return page;
}

void PagePool::put_to(Pages& pages, Page page) noexcept {
  {
    const std::lock_guard lock(mutex_);
    pages.splice(pages.end(), spare_, spare_.begin());
  }
  pages.back() = std::move(page);
}

Result<Page> PagePool::create(Bytes size) {
  Pages node;
  std::optional<Address> window;
  try {
    node.emplace_back();
    const std::lock_guard lock(mutex_);
    window = windows_.take(size);
  } catch (const std::bad_alloc&) {
    return Status::kOutOfHostMemory;
  }
  if (!window) return Status::kOutOfDeviceMemory;
  const auto give_window_back = [&] {
    const std::lock_guard lock(mutex_);
    windows_.give_back(*window, size);
  };
  const auto handle = device_.create_pages(size);
  if (!handle.ok()) {
    give_window_back();
    return handle.status();
  }
  if (const Status status = device_.map(*window, size, *handle); status != Status::kOk) {
    (void)device_.destroy_pages(*handle, size);
    give_window_back();
    return status;
  }
  const std::lock_guard lock(mutex_);
  spare_.splice(spare_.end(), node);
  return Page{*handle, size, *window, size, {}};
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
  return Status::kOk;
}

}  // namespace superpipe
