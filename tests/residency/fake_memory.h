// The memory of a fake device: physical pages, address ranges, what is mapped where, and for whom.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "policy/units.h"
#include "residency/device_memory.h"
#include "residency/result.h"

namespace superpipe::testing {

/// What a real device would punish is told to `violate`. Not thread-safe: the fake device locks.
class FakeMemory {
 public:
  using Violate = std::function<void(const std::string&)>;

  FakeMemory(Bytes granularity, Bytes capacity, Violate violate)
      : granularity_(granularity), capacity_(capacity), violate_(std::move(violate)) {}

  Address reserve(Bytes size);
  void release_reservation(Address address, Bytes size);
  /// Makes pages under that handle, with bytes that are not zero.
  Status create_pages(PageHandle handle, Bytes size);
  Status destroy_pages(PageHandle handle, Bytes size);
  /// `peers`: how many of the devices that may access what is mapped now may access this.
  Status map(Address address, Bytes size, PageHandle handle, int peers);
  Status renew_access(Address address, Bytes size);
  Status unmap(Address address, Bytes size);
  void pin(const void* host, Bytes size);
  void unpin(const void* host);

  /// One more device may access what is mapped from now on.
  void add_peer() { ++peers_; }
  [[nodiscard]] int peers() const { return peers_; }
  /// How many such devices there are that may not access all of [address, address + size).
  [[nodiscard]] int peers_without_access(Address address, std::size_t size) const;

  /// Copies bytes of the device to `out` and from `in`, where these are not null.
  /// @return false: some were not mapped, which is a violation; they are not touched.
  bool transfer(Address address, std::size_t size, std::byte* out, const std::byte* in);
  /// Whether what is mapped at `address` is mapped elsewhere as well.
  [[nodiscard]] bool is_mapped_twice(Address address) const;
  [[nodiscard]] bool is_pinned(const void* host, std::size_t size) const;

  /// What the device holds besides pages: it counts against the capacity.
  void set_passthrough(Bytes bytes) { passthrough_ = bytes; }
  /// What other processes hold: likewise, but not in peak().
  void set_others(Bytes bytes) { others_ = bytes; }
  [[nodiscard]] Bytes used() const { return pages_bytes_ + passthrough_ + others_; }
  /// Of that, this process's.
  [[nodiscard]] Bytes own() const { return pages_bytes_ + passthrough_; }
  [[nodiscard]] Bytes pages_bytes() const { return pages_bytes_; }
  /// The most that pages and pass-through bytes together took when a page was created.
  [[nodiscard]] Bytes peak() const { return peak_; }
  void forget_peak() { peak_ = Bytes{}; }
  [[nodiscard]] std::size_t mapped_ranges() const { return mappings_.size(); }
  [[nodiscard]] std::size_t pinned_ranges() const { return pinned_.size(); }

 private:
  struct Physical {
    std::vector<std::byte> bytes;
    int mappings = 0;
  };
  struct Mapping {
    std::size_t size;
    std::shared_ptr<Physical> pages;
    int peers;  ///< that may access it: the first so many of peers_
  };

  const Bytes granularity_;
  const Bytes capacity_;
  const Violate violate_;
  std::map<PageHandle, std::shared_ptr<Physical>> pages_;
  std::map<Address, Mapping> mappings_;
  std::map<Address, std::size_t> reservations_;
  std::map<const std::byte*, std::size_t> pinned_;
  Address next_address_ = Address{1} << 44;
  int peers_ = 0;
  Bytes pages_bytes_;
  Bytes passthrough_;
  Bytes others_;
  Bytes peak_;
};

}  // namespace superpipe::testing
