// Pinned host memory for evicted content: of exact sizes except where they grow, capped, recycled.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "policy/units.h"
#include "residency/device_memory.h"
#include "residency/host/host_cap.h"
#include "residency/host/host_ledger.h"
#include "residency/host/idle_patience.h"
#include "residency/result.h"
#include "residency/streams/event_pool.h"
#include "residency/tuning.h"

namespace superpipe {

/// Pinned host memory that backs one buffer. Owned by the caller that acquired it, until released.
struct Slab {
  std::byte* data = nullptr;
  Bytes size;

  [[nodiscard]] explicit operator bool() const { return data != nullptr; }
};

/// Hands out slabs within a cap (HostCap). Thread-safe; calls the device without holding its lock.
///
/// Backing is reserved when a buffer is allocated (so that it is never missing at an eviction), but
/// mapped and pinned only when first needed. Slabs keep their pin when released, for the next
/// buffer of that size, as long as the cap allows and unpin_expired() was not called after they
/// were idle for long. Pinning takes long (5 GB/s), so a thread that has time for it may stock() a
/// slab of a size that is asked for again and again.
///
/// Of sizes that grow from one use to the next, as of a cache that is copied into a longer one for
/// each token, none is asked for again. Their slabs are pinned with room for more, so that they
/// serve several sizes; what is reserved finds its room under the cap all the same.
///
/// Sizes that never come again leave slabs that no size asks for, and a device that is never idle
/// keeps them all. So once twice as much is pinned as was ever reserved, sizes need not be exact:
/// an idle slab is lent to what is smaller by an eighth, and new ones have one of eight sizes from
/// each power of two to the next.
class HostStore {
 public:
  using Clock = IdlePatience::Clock;

  /// `ledger`: in which what is reserved is entered, and which may refuse it; null: there is none.
  /// It must outlive the store, and so must `limit.host`. `now`: the clock by which slabs are idle;
  /// it may be asked under any lock.
  HostStore(DeviceMemory& device, EventPool& events, const HostLimit& limit,
            std::chrono::milliseconds wait_limit, HostLedger* ledger = nullptr,
            std::function<Clock::time_point()> now = Clock::now);
  HostStore(const HostStore&) = delete;
  HostStore& operator=(const HostStore&) = delete;

  /// The bytes that backing of `size` takes: whole memory pages, never a power of two.
  [[nodiscard]] static Bytes backing_of(Bytes size) { return round_up(size, Bytes{4096}); }

  /// @name The cap
  /// Sizes as backing_of() gives them. As HostCap has it.
  /// @{
  bool reserve(Bytes size) { return cap_.reserve(size); }
  void unreserve(Bytes size) { cap_.unreserve(size); }
  [[nodiscard]] Bytes reserved() const { return cap_.reserved(); }
  [[nodiscard]] Bytes reachable() const { return cap_.reachable(); }
  [[nodiscard]] std::string words_of_others() const { return cap_.words_of_others(); }
  [[nodiscard]] Bytes pinned() const { return cap_.pinned(); }
  [[nodiscard]] Bytes limit() const { return cap_.limit(); }
  /// @}

  /// What a slab is for.
  enum class User { kEviction, kProgram };

  /// A pinned slab of `size` bytes within what was reserved; `zeroed`: it reads as zero.
  ///
  /// Takes as long as pinning does, and waits, bounded, for a slab that is being stocked. Waits for
  /// no transfer, since that may come behind work of the program that does not end (I7).
  /// `user`: an eviction may have what expect() had pinned.
  /// @return kNotYet: the cap has room only when transfers of slabs that were released have
  /// completed; kOutOfHostMemory (also when pinning is refused), kDeviceError.
  Result<Slab> acquire(Bytes size, bool zeroed, User user = User::kEviction);

  /// Evictions will need new slabs of these sizes, in this order, as an earlier run did. lacking()
  /// names them until as many were pinned for evictions, of whichever buffers. `sizes` as
  /// backing_of() gives them. To be called once at most, before any use. Throws std::bad_alloc.
  void expect(std::span<const Bytes> sizes);
  /// Nothing is evicted as was expected: what is pinned serves every User. Allocates nothing.
  void stop_expecting() noexcept;
  /// The sizes of the slabs that evictions needed, and that no earlier user had given back: the
  /// first `kMostNoted` of them.
  [[nodiscard]] std::vector<Bytes> needed_for_evictions() const;

  /// The size of which a slab should be pinned ahead of need: one of the latest slabs was of that
  /// size, and one of those shortly before. nullopt: there is none.
  [[nodiscard]] std::optional<Bytes> lacking() const;

  /// Whether an idle slab that was pinned ahead, and never used, serves an eviction of `size` at
  /// once. O(idle).
  [[nodiscard]] bool has_stock(Bytes size) const;

  /// Pins a slab of `size` for the next acquire(), if what is reserved and what is idle already
  /// leave room for it under the cap, and no such pin was ever refused. Takes as long as pinning
  /// does.
  /// @return whether it did.
  bool stock(Bytes size) noexcept;

  /// Gives a slab back; it is touched again only when all of `after` has completed. Allocates
  /// nothing.
  void release(Slab slab, std::vector<EventRef> after) noexcept;

  /// Keeps a slab on which a transfer with an unknown end may still run: it serves nothing any
  /// more, until release_untracked(), when all work has ended.
  void keep_untracked(Slab slab) noexcept;
  void release_untracked() noexcept;

  /// Unpins and unmaps every idle slab whose transfers have completed.
  void trim();

  /// When the first of the idle slabs will have been idle for as long as IdlePatience allows, if
  /// nothing takes it: unpin_expired() may be called then. That may have passed, and be too early
  /// where that slab was taken, until unpin_expired() finds none. nullopt: none is idle. O(1).
  [[nodiscard]] std::optional<Clock::time_point> next_expiry();
  /// Whether slabs may be idle of which the latest next_expiry() did not know: it said that there
  /// were none, or was never called.
  [[nodiscard]] bool has_unwatched() const;
  /// Unpins and unmaps one slab that has been idle for so long. One whose transfers have not
  /// completed counts as released just now. Takes as long as unpinning does, which may wait for
  /// other calls of the driver; holds up no thread that does not need the room that it makes.
  /// @return whether there was one.
  bool unpin_expired() noexcept;

 private:
  struct Idle {
    Slab slab;
    std::vector<EventRef> after;
    Clock::time_point since;   ///< when it was released, or pinned ahead
    bool is_new = false;       ///< pinned ahead, and never used
    bool is_expected = false;  ///< and for an eviction that is expected
    bool has_slack = false;    ///< serves sizes that are smaller by an eighth, too
  };
  /// A slab that evictions are expected to need.
  struct Expected {
    Bytes size;
    std::size_t ordinal = 0;  ///< among those of its size, from 1
  };

  using Slabs = std::list<Idle>;
  /// A slab in use that is larger than what was asked for.
  struct Whole {
    Bytes size;
    bool has_slack = false;  ///< pinned with slack; else lent, and as large as its size before
  };
  using Wholes = std::map<const std::byte*, Whole>;

  static constexpr Bytes kMemoryPage = 4_KiB;
  static constexpr std::size_t kMostNoted = 65'536;

  /// What is idle for a caller that asks for a size.
  struct Found {
    Idle idle;                   ///< without a slab: there is none
    bool is_lent = false;        ///< it is of a larger size
    bool is_grown = false;       ///< many are just too small
    bool is_beyond_use = false;  ///< there is none, and more would be pinned than is of use
  };

  Found take_idle_of(Bytes size, User user);
  Slabs::iterator lent_of(Slabs& idle, Bytes size);
  [[nodiscard]] static bool is_outgrown(Bytes slab, Bytes size);
  [[nodiscard]] static bool serves(const Idle& entry, Bytes size);
  void note_whole(const Slab& slab, bool has_slack, Wholes entry) noexcept;
  void forget_whole(const Slab& slab) noexcept;
  bool make_whole(Slab& slab) noexcept;
  [[nodiscard]] static Bytes common_size(Bytes size);
  Result<Bytes> make_room_for_new(Bytes size, const Found& found);
  void note_new(Bytes size, User user, bool counts) noexcept;
  void count_for_eviction(Bytes size) noexcept;
  Result<Slab> pin(Bytes size) noexcept;
  void note_wanted(Bytes size, const Idle& found, bool grows) noexcept;
  bool begin_stocking(Bytes size, bool is_expected);

  // The list of idle slabs is taken out to be asked about without the lock, by one thread at a
  // time: to another it would look as if there were none.
  std::optional<Slabs> take_idle();
  void note_expiry(Clock::time_point expiry) noexcept;
  void put_idle(Slabs idle);
  Slabs take_complete(std::size_t most);
  Slabs take_expired();
  bool is_over(const Idle& entry) noexcept;
  /// What decides when idle slabs expire.
  struct Terms {
    Clock::time_point now;
    Clock::duration patience;
    bool expects;
    Clock::time_point expected_until;
  };
  [[nodiscard]] Terms terms() const;
  [[nodiscard]] static Clock::time_point expiry_of(const Idle& entry, const Terms& terms);
  void destroy(const Slabs& slabs) noexcept;
  Status make_room(Bytes size);

  DeviceMemory& device_;
  EventPool& events_;
  const std::chrono::milliseconds wait_limit_;
  const std::function<Clock::time_point()> now_;
  HostCap cap_;  ///< has a lock of its own, which is taken last
  mutable std::mutex mutex_;
  std::condition_variable returned_;
  bool taken_ = false;
  std::size_t leaving_ = 0;        ///< slabs that are being destroyed
  std::optional<Bytes> stocking_;  ///< what stock() is pinning
  bool stocks_expected_ = false;   ///< for an eviction that is expected
  std::optional<Bytes> lacking_;
  bool may_stock_ = true;  ///< the device has not refused to pin one
  /// Sizes of the latest slabs, in a ring.
  std::array<Bytes, tuning::kStockSlabsRemembered> lately_{};
  std::size_t next_ = 0;  ///< where the next one goes in it
  std::vector<Expected> expected_;
  std::size_t next_expected_ = 0;
  bool expects_ = false;  ///< what was pinned for evictions is for them alone
  std::map<Bytes, std::size_t> pinned_for_evictions_;  ///< slabs, as long as some are expected
  std::vector<Bytes> noted_;
  Wholes whole_;  ///< what was pinned for slabs with slack, or lent, by their memory
  IdlePatience patience_;
  bool is_watched_ = false;  ///< next_expiry() told when the first idle slab expires
  /// None of idle_, or of those that a thread has taken out to ask about, expires before.
  std::optional<Clock::time_point> earliest_;
  std::optional<Clock::time_point> earliest_taken_;
  /// When what was pinned for evictions became free for every User.
  Clock::time_point expected_until_;
  Slabs idle_;   // released last at the back
  Slabs spare_;  // as many nodes as slabs are out, so that giving one back allocates nothing
  Slabs untracked_;
};

}  // namespace superpipe
