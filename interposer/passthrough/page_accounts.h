// The program's own physical pages (cuMemCreate): how long they take device memory.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policy/units.h"

namespace superpipe {

/// Which pages exist: they go when their handle's last reference is released AND their last mapping
/// is gone, in whichever order. Thread-safe; must outlive all Pages that it gave out.
///
/// What goes away is taken out before the driver is asked, because its handle or address may come
/// again in another thread as soon as the driver has answered, and is put back if the driver
/// refuses. Where memory is out, pages stay counted for good: too much counted is safe.
/// Source: CUDA Driver API, cuMemRelease, cuMemRetainAllocationHandle, cuMemUnmap.
class PageAccounts {
 public:
  struct Record {
    Bytes size;
    bool for_good = false;  ///< guarded by mutex_
  };
  /// Keeps pages counted; when the last one goes, their bytes are given back.
  using Pages = std::shared_ptr<Record>;
  struct Mapping {
    std::uint64_t address = 0;
    Bytes size;
    Pages pages;
  };

  /// `give_back` is called with the size of pages that came free, under no lock of this class.
  explicit PageAccounts(std::function<void(Bytes)> give_back) : give_back_(std::move(give_back)) {}

  /// The driver made `size` bytes of pages and gave out `handle`.
  void create(std::uint64_t handle, Bytes size) noexcept {
    try {
      // For good at first: if what shares it cannot be allocated, the deleter runs.
      Pages pages(new Record{size, true}, [this](Record* record) {
        const Record last = *record;
        delete record;
        if (!last.for_good) give_back_(last.size);
      });
      pages->for_good = false;
      add_reference(handle, pages);
    } catch (const std::bad_alloc&) {
      // Nobody will give them back.
    }
  }

  /// The driver gave out `handle`, one more reference to the pages that are mapped at `address`.
  void retain(std::uint64_t handle, std::uint64_t address) noexcept {
    Pages pages;
    {
      const std::lock_guard lock(mutex_);
      auto found = mappings_.upper_bound(address);
      if (found == mappings_.begin()) return;
      --found;
      if (address - found->first >= found->second.size.count()) return;
      pages = found->second.pages;
    }
    add_reference(handle, pages);
  }

  /// One reference of `handle` is about to be released. @return what it holds: let it go once the
  /// driver has agreed, else put it back. Null if the pages are not known.
  [[nodiscard]] Pages take_reference(std::uint64_t handle) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = references_.find(handle);
    if (found == references_.end()) return nullptr;
    Pages pages = std::move(found->second);
    references_.erase(found);
    return pages;
  }
  void put_back(std::uint64_t handle, const Pages& pages) noexcept {
    if (pages != nullptr) add_reference(handle, pages);
  }

  /// The driver mapped pages of `handle` at `address`.
  void map(std::uint64_t address, Bytes size, std::uint64_t handle) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = references_.find(handle);
    if (found != references_.end()) add_mapping({address, size, found->second});
  }

  /// All that is mapped inside [address, address + size) is about to be unmapped. @return what held
  /// it, as take_reference().
  [[nodiscard]] std::vector<Mapping> take_mappings(std::uint64_t address, Bytes size) noexcept {
    std::vector<Mapping> taken;
    const std::lock_guard lock(mutex_);
    auto at = mappings_.lower_bound(address);
    while (at != mappings_.end() && at->first - address < size.count()) {
      try {
        taken.push_back(at->second);
      } catch (const std::bad_alloc&) {
        at->second.pages->for_good = true;
      }
      at = mappings_.erase(at);
    }
    return taken;
  }
  void put_back(const std::vector<Mapping>& mappings) noexcept {
    const std::lock_guard lock(mutex_);
    for (const Mapping& mapping : mappings) add_mapping(mapping);
  }

  /// From now on others may hold the pages of `handle`, unseen by us: counted until the end.
  void keep_for_good(std::uint64_t handle) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = references_.find(handle);
    if (found != references_.end()) found->second->for_good = true;
  }

 private:
  void add_reference(std::uint64_t handle, const Pages& pages) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      references_.emplace(handle, pages);
    } catch (const std::bad_alloc&) {
      pages->for_good = true;
    }
  }
  void add_mapping(const Mapping& mapping) noexcept {
    try {
      mappings_[mapping.address] = mapping;
    } catch (const std::bad_alloc&) {
      mapping.pages->for_good = true;
    }
  }

  std::function<void(Bytes)> give_back_;
  std::mutex mutex_;
  std::unordered_multimap<std::uint64_t, Pages> references_;  // by handle
  std::map<std::uint64_t, Mapping> mappings_;                 // by address
};

}  // namespace superpipe
