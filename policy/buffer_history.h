// What is known of each buffer, whatever the policy: its size, and when it was used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "policy/eviction.h"
#include "policy/units.h"

namespace superpipe {

/// Remembers the buffers that exist, by id, and counts launches. Not thread-safe.
class BufferHistory {
 public:
  struct Buffer {
    Bytes footprint;
    std::uint64_t last_use = 0;  ///< the launch that named it last, counted from 1; 0: none
    bool exists = false;
  };

  /// A buffer of `footprint` device bytes exists from now on. Amortised O(1).
  void on_allocate(BufferId id, Bytes footprint);
  /// It is gone. Does nothing if there is none.
  void on_free(BufferId id);
  /// A launch is announced that names `buffers`, each once. O(buffers).
  /// @return the footprints of all of them together.
  Bytes on_launch(std::span<const BufferId> buffers) {
    ++launches_;
    Bytes named;
    const std::span<Buffer> all(buffers_);
    for (const BufferId id : buffers) {
      if (index_of(id) >= all.size()) continue;
      Buffer& buffer = all[index_of(id)];
      buffer.last_use = launches_;
      named += buffer.footprint;
    }
    return named;
  }

  /// What is known of a buffer that exists; null if there is none. Valid until the next
  /// on_allocate(). O(1).
  [[nodiscard]] const Buffer* find(BufferId id) const {
    return index_of(id) < buffers_.size() && buffers_[index_of(id)].exists ? &buffers_[index_of(id)]
                                                                           : nullptr;
  }

  /// Of a buffer that exists; else zero. O(1).
  [[nodiscard]] Bytes footprint_of(BufferId id) const {
    const Buffer* const buffer = find(id);
    return buffer == nullptr ? Bytes{} : buffer->footprint;
  }

  /// The footprint of each buffer by id, also of those that are gone. O(ids).
  [[nodiscard]] std::vector<Bytes> footprints() const;

  /// What plan_eviction() needs of those of `candidates` that exist, in their order: with no next
  /// use, so that the least recently used is the first to go. O(candidates).
  [[nodiscard]] std::vector<ResidentBuffer> by_last_use(std::span<const BufferId> candidates) const;

  /// The bytes of the buffers that exist and were named after `launch` launches. O(ids).
  [[nodiscard]] Bytes used_since(std::uint64_t launch) const;

  /// The footprint of the largest buffer that exists; zero if there is none. O(ids).
  [[nodiscard]] Bytes largest() const;

 private:
  std::vector<Buffer> buffers_;
  std::uint64_t launches_ = 0;
};

}  // namespace superpipe
