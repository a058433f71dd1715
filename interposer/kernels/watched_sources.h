// Host memory that copies to the device, which are under way, have yet to read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "interposer/driver/cuda_api.h"
#include "residency/device_memory.h"

namespace superpipe {

/// Sources that the program may change until their copies read them, to be looked at again and
/// again until then, but not without a bound. What the program frees meanwhile does no harm: the
/// kernel reads it for us.
///
/// Not thread-safe. The caller has the context of the streams current.
class WatchedSources {
 public:
  /// So many at once.
  static constexpr std::size_t kMost = 64;
  /// Each is looked at so often, and for the last time when its copy may begin.
  static constexpr int kMostLooks = 1000;
  /// One look at all of them reads so many bytes, and goes on there the next time.
  static constexpr std::size_t kBytesOfALook = 64 << 10;

  WatchedSources() = default;
  WatchedSources(const WatchedSources&) = delete;
  WatchedSources& operator=(const WatchedSources&) = delete;

  /// An event at the present end of `stream`; null if there can be none. Any thread. The driver may
  /// hold its thread up where the stream has no room.
  [[nodiscard]] static CUevent mark(StreamHandle stream) noexcept;

  /// A copy of `size` bytes at `data` to `to` is about to be submitted to a stream, right behind
  /// `before_copy`, which is destroyed when it is not watched any more.
  /// @return false: it is not watched, because there are too many, or memory is out.
  bool add(const void* data, std::size_t size, std::uint64_t to, CUevent before_copy) noexcept;

  [[nodiscard]] bool empty() const { return sources_.empty(); }

  /// Calls `look(bytes, size, to)` with what sources hold now. Those whose copies may have begun
  /// before are watched no more, nor those that cannot be read. Throws std::bad_alloc.
  /// @return false: one is watched no more, though its copy may not have begun.
  template <typename Look>
  bool look_at_all(const Look& look) {
    bool is_complete = true;
    std::size_t looked = 0;
    for (std::size_t left = sources_.size(); left > 0 && looked < kBytesOfALook; --left) {
      if (next_ >= sources_.size()) next_ = 0;
      Source& source = sources_[next_];
      // Asked first: what the program has written before the copy could begin is there by then.
      const bool begun = has_begun(source);
      const bool is_last = ++source.looks >= kMostLooks || begun;
      looked += source.size;
      const Read outcome = read(source);
      if (outcome == Read::kAll) look(bytes_.data(), source.size, source.to);
      if (is_last || outcome == Read::kGone) {
        is_complete = is_complete && (begun || outcome == Read::kGone);
        remove(next_);
      } else {
        ++next_;
      }
    }
    return is_complete;
  }

  /// Watches nothing from here on, and gives the events back: the context is about to go. One that
  /// has gone took them along.
  void stop() noexcept;

 private:
  struct Source {
    const void* data;
    std::size_t size;
    std::uint64_t to;
    CUevent before_copy;
    int looks;
  };

  enum class Read { kAll, kGone, kNotNow };

  static bool has_begun(const Source& source) noexcept;
  Read read(const Source& source);
  void remove(std::size_t index) noexcept;

  std::vector<Source> sources_;
  std::size_t next_ = 0;
  bool is_stopped_ = false;
  std::vector<std::byte> bytes_;  ///< of the source that is looked at
};

}  // namespace superpipe
