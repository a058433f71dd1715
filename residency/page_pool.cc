#include "residency/page_pool.h"

#include <utility>

namespace superpipe {

PagePool::PagePool(DeviceMemory& device, Address windows, Bytes size, Bytes granule)
    : device_(device), windows_(windows, size, granule) {}

std::optional<Page> PagePool::take(Bytes size) {
  const auto found = idle_.find(size.count());
  if (found == idle_.end()) return std::nullopt;
  Page page = std::move(found->second.front());
  found->second.erase(found->second.begin());
  if (found->second.empty()) idle_.erase(found);
  idle_bytes_ -= page.size;
  return page;
}

std::optional<Page> PagePool::take_any() {
  if (idle_.empty()) return std::nullopt;
  return take(Bytes{idle_.rbegin()->first});
}

void PagePool::put(Page page) {
  idle_bytes_ += page.size;
  auto& pages = idle_[page.size.count()];
  pages.push_back(std::move(page));
}

Result<Page> PagePool::build(Bytes size) {
  std::optional<Address> window;
  {
    const std::lock_guard lock(windows_mutex_);
    window = windows_.take(size);
  }
  if (!window) return Status::kOutOfDeviceMemory;
  const auto give_window_back = [&] {
    const std::lock_guard lock(windows_mutex_);
    windows_.give_back(*window, size);
  };
  const auto handle = device_.create_pages(size);
  if (!handle.ok()) {
    give_window_back();
    return handle.status();
  }
  if (const Status status = device_.map(*window, size, *handle); status != Status::kOk) {
    (void)device_.destroy_pages(*handle);
    give_window_back();
    return status;
  }
  return Page{*handle, size, *window, size, {}};
}

Status PagePool::demolish(Page& page) {
  if (page.window != 0) {
    // A window that could not be unmapped is never handed out again.
    const Status status = device_.unmap(page.window, page.size);
    if (status != Status::kOk) return status;
    const std::lock_guard lock(windows_mutex_);
    windows_.give_back(std::exchange(page.window, 0), page.size);
  }
  return device_.destroy_pages(page.handle);
}

}  // namespace superpipe
