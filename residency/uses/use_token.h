// What a caller of residency holds while an operation uses managed buffers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "policy/units.h"
#include "residency/device_memory.h"

namespace superpipe {

/// The managed buffers that one submitted operation uses, pinned between begin_* and end_use().
///
/// Large and uninitialised on purpose: it lives on the launching thread's stack.
class UseToken {
 public:
  static constexpr std::size_t kInline = 64;
  UseToken() {}  // NOLINT(modernize-use-equals-default): members stay uninitialised
  UseToken(const UseToken&) = delete;
  UseToken& operator=(const UseToken&) = delete;

  [[nodiscard]] bool empty() const { return count_ == 0; }
  /// Whether it is of a copy to or from a host copy, which uses nothing of the device.
  [[nodiscard]] bool is_host_route() const { return count_ > 0 && host_route_; }
  /// The buffers, each once; valid until end_use().
  [[nodiscard]] std::span<const BufferId> buffers() const {
    if (count_ > kInline) return more_;
    return {inline_.data(), count_};
  }
  /// Whether the operation waited until buffers were in place; valid until end_use().
  [[nodiscard]] bool has_waited() const { return count_ > 0 && waited_; }
  /// Of a launch, before it is announced: only the first `count` of its words are more than
  /// leftovers in structs. What only the others name may be left out.
  void set_certain_words(std::size_t count) { certain_words_ = count; }
  /// Of a launch: how many of its buffers, the last ones, were left out: what was not on the device
  /// has not come for it.
  [[nodiscard]] std::size_t left_out() const { return left_out_; }
  /// Of a launch: its number among those that were announced, from 1.
  [[nodiscard]] std::uint64_t launch() const { return launch_; }

 private:
  friend class UseTracker;
  friend class CopyRoutes;
  std::uint32_t count_ = 0;
  std::uint8_t slot_;  // of the stream; kNoSlot if its uses are not tracked
  bool host_route_;    // see is_host_route()
  bool writes_;
  bool waited_;                                  // see has_waited()
  bool marks_end_;                               // of a launch: UseCompletion::note_launch()
  std::uint64_t launch_;                         // see launch()
  std::size_t certain_words_ = ~std::size_t{0};  // see set_certain_words()
  std::uint32_t left_out_ = 0;                   // see left_out()
  std::array<BufferId, kInline> inline_;
  std::vector<BufferId> more_;  // all of them, if they are more than kInline
};

/// What other streams did with a buffer before it is freed in the order of one. By CUDA's rules the
/// program has to wait for that; the allocators of frameworks hide it where the program does not.
enum class OtherUses : std::uint8_t {
  kAwaited,  ///< the memory is used again when that is over
  kIgnored,  ///< a stream may wait for the program, which may need the memory first
};

/// Where a linear copy to or from a managed buffer has to go, or the first part of it.
struct CopyRoute {
  /// Null: use the device address; the buffer is pinned there, its content ordered before `stream`.
  /// Else: the buffer's bytes are in host memory, here; copy there in stream order.
  void* host = nullptr;
  /// The bytes that go there, from the copy's first on: for the rest, ask again after end_use().
  Bytes size;
};

/// A live managed buffer's range.
struct BufferRange {
  Address base;
  Bytes size;
  BufferId id;
};

}  // namespace superpipe
