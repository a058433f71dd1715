// The inside of ResidencyManager. See docs/residency.md for the states and for who waits for what.
//
// One mutex guards everything here. It is never held across a call of the device port (I5): code
// that needs the device marks what it works on (Place, host_pins, turn_, visitors), unlocks, calls,
// locks, and looks again.
//
// Host memory may run out anywhere (std::bad_alloc). What must not fail half-way allocates nothing:
// its room was made when the buffer, page, slab or operation came to be. See docs/residency.md.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policy/policy_engine.h"
#include "residency/arena.h"
#include "residency/buffer_table.h"
#include "residency/device_memory.h"
#include "residency/event_pool.h"
#include "residency/host_store.h"
#include "residency/page_pool.h"
#include "residency/passthrough_ledger.h"
#include "residency/residency_manager.h"
#include "residency/stream_table.h"
#include "residency/timeline.h"
#include "residency/transfer_engine.h"
#include "residency/turn_queue.h"

namespace superpipe {

/// The manager's mutex, which operations open in their midst to call the device.
class OpenableMutex : public std::mutex {
 public:
  int open_sections = 0;  ///< operations that have it open; guarded by the mutex
};

/// Opens the mutex for a scope. REQUIRES: `lock` is of an OpenableMutex.
class Unlocked {
 public:
  explicit Unlocked(std::unique_lock<std::mutex>& lock) : lock_(lock) {
    ++mutex().open_sections;
    lock_.unlock();
  }
  ~Unlocked() {
    lock_.lock();
    --mutex().open_sections;
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  OpenableMutex& mutex() { return *static_cast<OpenableMutex*>(lock_.mutex()); }
  std::unique_lock<std::mutex>& lock_;
};

class ResidencyManager::Impl {
 public:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;

  Impl(DeviceMemory& device, const ResidencyOptions& options);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// Reserves the arena and the windows, creates the streams. @return the device's error.
  Status start();
  [[nodiscard]] Address arena_base() const { return arena_base_; }
  [[nodiscard]] Bytes arena_size() const { return options_.arena_size; }

  // The public interface, as ResidencyManager documents it.
  std::optional<BufferRange> find(Address address) const noexcept;
  Result<Address> allocate(Bytes size, std::optional<StreamHandle> stream);
  Status free(Address base, std::optional<StreamHandle> stream);
  Status begin_launch(KernelId kernel, std::span<const std::uint64_t> words, StreamHandle stream,
                      UseToken& token);
  Status begin_use(std::span<const std::uint64_t> words, bool writes, StreamHandle stream,
                   UseToken& token);
  Result<CopyRoute> begin_copy(Address address, Bytes size, StreamHandle stream, bool synchronous,
                               bool in, UseToken& token);
  void end_use(UseToken& token, StreamHandle stream, bool submitted) noexcept;
  Status pin_forever(std::span<const std::uint64_t> words, const char* reason);
  void on_stream_destroy(StreamHandle stream) noexcept;
  bool admits_passthrough(Bytes size);
  void on_passthrough_allocation(Bytes size);
  void on_passthrough_change();
  bool make_room(Bytes size);
  void trim();
  bool run_worker_once();
  Capacity capacity(Bytes device_total);
  ResidencyStats stats() const;
  void shut_down() noexcept;
  void abandon() noexcept;
  /// Whether abandon() had to leave the worker to itself.
  [[nodiscard]] bool left_running() const { return abandoned_ && !worker_exited_; }

 private:
  static constexpr Slot kNoSlot = 0xFF;

  /// One operation that needs buffers on the device.
  struct Use {
    std::span<const std::uint64_t> words;
    StreamHandle stream{};
    Slot slot = kNoSlot;
    bool writes = true;
    bool capturing = false;  ///< the stream is being captured: no event of ours may touch it
    KernelId kernel{};
  };

  /// An eviction decided on, to be carried out when `events` have completed.
  struct Eviction {
    BufferId id;
    std::uint64_t generation;
    std::uint64_t ticket;
    std::uint64_t seq;  ///< uses after it revoke the eviction
    std::vector<EventRef> events;
    Clock::time_point since;
  };

  struct WantedFetch {
    BufferId id;
    std::uint64_t generation;
  };

  /// Buffers of one footprint.
  struct SameSize {
    std::vector<BufferId> cached;  ///< oldest first; has room for all
    std::size_t buffers = 0;       ///< that exist, cached or not
  };

  /// What tells how long a launch's stream waited for fetches (DESIGN section 8, stall_ms).
  struct StallProbe {
    Clock::time_point begun;                        ///< when the launch asked for its buffers
    EventRef tail;                                  ///< the stream's end at that moment
    std::optional<Clock::time_point> stream_ready;  ///< when `tail` was seen complete
    std::vector<EventRef> fetches;                  ///< what the launch waits for
    std::optional<Clock::time_point> submitted;     ///< set when `fetches` is final
  };

  // launch_path.cc -- naming, pinning and ordering what an operation uses.
  Result<bool> is_capturing(StreamHandle stream);
  bool names_arena(std::span<const std::uint64_t> words) const;
  Slot slot_of(Lock& lock, StreamHandle stream);
  void collect(std::span<const std::uint64_t> words, UseToken& token);
  static std::span<const BufferId> ids(const UseToken& token);
  bool all_ready(const UseToken& token, const Use& use) const;
  void pin(const UseToken& token);
  void mark_used(const UseToken& token, const Use& use);
  void unpin(const UseToken& token);
  Status acquire(Lock& lock, UseToken& token, const Use& use, const Decision& decision);
  Status order_behind_fetches(Lock& lock, std::span<const BufferId> buffers, const Use& use,
                              StallProbe* probe);
  std::shared_ptr<StallProbe> open_stall_probe(Lock& lock, const UseToken& token, const Use& use);
  void note_pass(Lock& lock, const Use& use) noexcept;
  void note_launch(const UseToken& token);
  void give_up_demands(const UseToken& token) noexcept;
  bool restore_policy() noexcept;

  // pressure.cc -- making room: limits, victims, pages.
  Status bring_in(Lock& lock, const UseToken& token, const Use& use, const Decision& decision);
  bool take_turn(Lock& lock, Clock::time_point deadline) noexcept;
  void end_turn() noexcept;
  bool wait_change(Lock& lock, Clock::time_point deadline) noexcept;
  void record_ends(Lock& lock, std::uint64_t slots);
  void queue_prefetches(const std::vector<BufferId>& buffers);
  Bytes request_evictions(Lock& lock, std::span<const BufferId> victims);
  Bytes evict_for(Lock& lock, Bytes needed);
  bool evictable(const Buffer& buffer) const;
  void refresh_limit();
  [[nodiscard]] Bytes excess() const;
  [[nodiscard]] Bytes coming() const;
  [[nodiscard]] Bytes obtainable(bool only_idle) const;
  bool others_move(const UseToken& token) const;
  [[nodiscard]] bool pressure() const { return live_footprint_ > limit_; }
  void note_peak();

  // reclaim.cc -- pages: new ones, and what nobody holds any more.
  Result<Page> acquire_page(Lock& lock, Bytes size, bool force);
  bool reclaim_one(Lock& lock) noexcept;
  bool strip_cached(Lock& lock);
  bool demolish_idle(Lock& lock);
  bool shrink_to(Lock& lock, Bytes bytes, std::chrono::milliseconds wait);
  bool sample_passthrough(Lock& lock) noexcept;
  bool enforce_limit(Lock& lock);
  void wake_for_sample();

  // worker.cc -- carrying out evictions and fetches.
  void start_worker() noexcept;
  void worker_main();
  bool step(Lock& lock) noexcept;
  bool poll(Lock& lock) noexcept;
  bool relieve(Lock& lock) noexcept;
  [[nodiscard]] bool work_pending() const;
  bool fetch_next(Lock& lock);
  bool evict_next(Lock& lock);
  bool poll_probes(Lock& lock);
  bool poll_passes(Lock& lock);
  bool poll_timeline(Lock& lock);
  bool run_fetch(Lock& lock, BufferId id, bool demand);
  Status attach(Lock& lock, BufferId id, Page page) noexcept;
  void run_eviction(Lock& lock, const Eviction& eviction) noexcept;
  Status resolve_host_operations(Lock& lock, Buffer& buffer, bool writes_only,
                                 std::vector<EventRef>& events) noexcept;
  Status ensure_slab(Lock& lock, Buffer& buffer, bool zeroed);

  // allocation_path.cc
  Result<Address> allocate_backed(Lock& lock, Bytes size, Bytes backing,
                                  std::optional<StreamHandle> stream);
  std::optional<BufferId> claim_cached(Lock& lock, Bytes footprint,
                                       std::optional<StreamHandle> stream);
  Status renew(Lock& lock, Buffer& buffer, std::optional<StreamHandle> stream);
  Result<BufferId> create_buffer(Lock& lock, Bytes size, Bytes footprint);
  void begin_life(BufferId id, Bytes size, Bytes backing);
  void let_go(BufferId id, EventRef freed, Slot slot);
  void drop(BufferId id) noexcept;
  void expect(Bytes footprint);
  void unexpect(Bytes footprint) noexcept;
  void cache(BufferId id, bool oldest = false) noexcept;
  bool uncache(BufferId id) noexcept;

  // copy_path.cc
  Status begin_host_route(Lock& lock, BufferId id, StreamHandle stream, bool synchronous, bool in,
                          UseToken& token);

  void changed() {
    ++changes_;
    change_cv_.notify_all();
  }
  void work() { work_cv_.notify_one(); }
  template <typename Text>
  void warn_once(Text text) noexcept;
  void flush_warnings(Lock& lock) noexcept;
  [[nodiscard]] Clock::time_point now() const { return options_.now(); }
  [[nodiscard]] bool moves() const { return moves_; }

  DeviceMemory& device_;
  const ResidencyOptions options_;
  const bool moves_;  // whether the policy ever moves anything
  const Bytes granule_;
  Address arena_base_ = 0;
  Address windows_base_ = 0;

  // Declared in the order of dependence: events outlive everything that holds one.
  EventPool events_;
  HostStore host_;
  TransferEngine transfers_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<PagePool> pool_;

  mutable OpenableMutex mutex_;
  std::condition_variable work_cv_;    // the worker waits
  std::condition_variable change_cv_;  // everybody else waits
  std::uint32_t waiters_ = 0;
  BufferTable buffers_;
  StreamTable streams_;
  PolicyEngine policy_;

  std::uint64_t mark_ = 0;
  std::uint64_t seq_ = 0;
  std::uint64_t tickets_ = 0;
  std::uint64_t turns_ = 1;  // never 0, which is no turn
  TurnQueue turn_;    // one operation at a time may hold pins while it waits for room
  bool asks_policy_;  // false: it has nothing to say, or was lost for want of host memory

  Bytes limit_;
  bool hard_ = false;
  Bytes device_bytes_;    // of all pages that exist
  Bytes cached_bytes_;    // of pages that freed buffers keep
  Bytes evicting_bytes_;  // of pages that evictions under way are about to free
  Bytes live_footprint_;
  Bytes managed_bytes_;
  PassthroughLedger passthrough_;
  Bytes reserved_;                  ///< what policy was told last to leave to the driver
  std::uint64_t pages_moving_ = 0;  ///< pages that are being created or destroyed
  std::uint64_t page_changes_ = 0;  ///< pages that were created or destroyed so far
  std::uint64_t changes_ = 0;       ///< calls of changed()
  std::uint64_t excess_in_vain_ = ~std::uint64_t{0};  ///< changes_ when nothing could be evicted

  std::deque<WantedFetch> demands_;
  std::deque<WantedFetch> prefetches_;
  std::list<Eviction> evictions_;
  std::list<std::shared_ptr<StallProbe>> probes_;
  std::unordered_map<std::uint64_t, SameSize> by_footprint_;

  std::atomic<std::uint64_t> launches_{0};
  ResidencyStats stats_;
  std::unique_ptr<Timeline> timeline_;  // null unless it is recorded
  std::deque<EventRef> pass_starts_;  // of passes whose start the device has not reached, in order
  std::optional<Clock::time_point> pass_start_;
  std::set<std::string> warned_;
  std::vector<std::string> warnings_;

  std::thread worker_;
  bool stop_ = false;
  std::atomic<bool> worker_exited_{false};
  std::atomic<bool> abandoned_{false};
  int owner_pid_ = 0;
};

// A warning is its key and its text; one that there is no memory for is left out.
template <typename Text>
void ResidencyManager::Impl::warn_once(Text text) noexcept {
  try {
    auto [key, warning] = text();
    warnings_.reserve(warnings_.size() + 1);
    if (warned_.insert(std::move(key)).second) warnings_.push_back(std::move(warning));
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace superpipe
