// What the parts of a residency manager share: the components, and the mutex that guards them.
//
// One mutex guards all that is annotated with it. It is not held across calls of the device
// (I5), except for the last ones of shut_down(): a thread that needs the device marks what it works
// on (PieceState, host.pins, the turn, visitors), opens the mutex, calls, closes it, and looks
// again.
//
// Host memory may run out anywhere (std::bad_alloc). What must not fail half-way allocates nothing:
// its room was made when the buffer, page, slab or operation came to be. See docs/residency.md.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "policy/policy_engine.h"
#include "profiler/pass_meter.h"
#include "profiler/run_figures.h"
#include "profiler/stall_meter.h"
#include "profiler/timeline.h"
#include "residency/device_memory.h"
#include "residency/host/host_store.h"
#include "residency/manager_mutex.h"
#include "residency/manager_waits.h"
#include "residency/pieces/arena.h"
#include "residency/pieces/buffer_cache.h"
#include "residency/pieces/buffer_numbers.h"
#include "residency/pieces/buffer_table.h"
#include "residency/pieces/fetch_queue.h"
#include "residency/pieces/freed_lately.h"
#include "residency/pieces/page_pool.h"
#include "residency/pieces/piece_states.h"
#include "residency/residency_options.h"
#include "residency/residency_trace.h"
#include "residency/room/device_ledger.h"
#include "residency/room/host_backing.h"
#include "residency/room/memory_sampler.h"
#include "residency/room/page_limit.h"
#include "residency/room/passthrough_ledger.h"
#include "residency/room/turn_queue.h"
#include "residency/streams/event_pool.h"
#include "residency/streams/stream_table.h"
#include "residency/transfer/digester.h"
#include "residency/transfer/pacing.h"
#include "residency/transfer/transfer_engine.h"
#include "residency/transfer/transfers_under_way.h"
#include "residency/warning_queue.h"
#include "residency/worker.h"

namespace superpipe {

/// The shared state of one manager. Its functions keep the components in step with each other; what
/// is decided and what is moved is up to the parts (see docs/residency.md, "Rooms").
struct ResidencyCore final : PieceListener {
  using Clock = std::chrono::steady_clock;

  ResidencyCore(DeviceMemory& device_memory, const ResidencyOptions& manager_options);
  ResidencyCore(const ResidencyCore&) = delete;
  ResidencyCore& operator=(const ResidencyCore&) = delete;

  /// Reserves the arena and the windows, creates the streams. @return the device's error.
  Status start() EXCLUDES(manager_lock);

  [[nodiscard]] Clock::time_point now() const { return options.now(); }

  /// Waits until something changed, or runs a round where there is no worker's thread. Opens the
  /// mutex. @return false once `deadline` has passed, or the manager is being given up.
  bool wait_change(Clock::time_point deadline) noexcept REQUIRES(manager_lock);
  /// The same, for a thread that wants nothing of the worker that it does not do by itself.
  bool rest(Clock::time_point deadline) noexcept REQUIRES(manager_lock);
  /// There is work for the worker.
  void wake_worker() noexcept REQUIRES(manager_lock) {
    if (!worker.wake()) ++counters.errors;
  }

  /// Whether the worker has a use for room that comes free. Where all live buffers fit, and nothing
  /// is on its way, it has none, and to wake it would cost the program a system call for each free.
  [[nodiscard]] bool wants_room() const REQUIRES(manager_lock) {
    return ledger.is_under_pressure() || ledger.excess() > Bytes{} || !fetches.empty();
  }

  /// Notes when a launch was the last of the recorded run, or leaves it.
  void follow_recorded() noexcept REQUIRES(manager_lock);
  /// Host memory may be wanted ahead of need, or may be idle from now on.
  void wake_stocker() noexcept REQUIRES(manager_lock) {
    if (host.lacking() || host.has_unwatched()) (void)stocker.wake();
  }

  /// Whether the user forbade to exceed the limit, not even for one launch.
  [[nodiscard]] bool must_keep_limit() const REQUIRES(manager_lock) {
    return ledger.is_hard() && !options.overflow_allowed;
  }
  /// Whether pass-through memory matters to anything but statistics. Where it does not, the worker
  /// does not run for its sake (I6), and the reported peak lacks code and rounding. Any thread.
  [[nodiscard]] bool samples_passthrough() const { return moves || options.policy.budget; }
  /// Tells the trace, if one is recorded, what may have changed of budget and memory.
  void trace_memory(bool at_once = false) noexcept REQUIRES(manager_lock);
  /// Whether the link has enough to do, where policy is asked for each transfer.
  [[nodiscard]] bool has_link_enough() const REQUIRES(manager_lock) {
    return under_way.is_enough(ledger.limit(), link_speed(), now());
  }
  /// The same, and it gets on with it: a transfer may wait for work of the program that does not
  /// end (I7).
  [[nodiscard]] bool is_link_busy() const REQUIRES(manager_lock) {
    return under_way.is_busy(ledger.limit(), link_speed(), now());
  }
  /// Whether a piece of `bytes` keeps the link busy for so long that others need not follow it yet.
  [[nodiscard]] bool takes_long(Bytes bytes) const REQUIRES(manager_lock) {
    return TransfersUnderWay::takes_long(bytes, link_speed());
  }
  /// Bytes a second to the device; 0: it was not measured yet.
  [[nodiscard]] double link_speed() const { return device.measured_link().value_or(0); }

  /// @name Cached buffers that the program is likely to want again (FreedLately)
  /// @{
  /// Whether any are spared: while everything fits, nothing else may leave for them (I6), and
  /// policies that move layers say themselves what comes.
  [[nodiscard]] bool spares_freed() const REQUIRES(manager_lock) {
    return ledger.is_under_pressure() && policy.puller() != nullptr;
  }
  [[nodiscard]] bool is_freed_lately(const Buffer& buffer) const REQUIRES(manager_lock) {
    return spares_freed() &&
           freed_lately.is_lately(FreedLately::span_of(buffer.last_use), FreedLately::span_of(seq));
  }
  /// A launch has waited in vain for room that did not come: such buffers are not spared any more.
  void let_freed_lately_go() REQUIRES(manager_lock) {
    freed_lately.let_go(FreedLately::span_of(seq));
  }
  /// The buffer goes into the cache, or has gone from it, with the same pages.
  void note_freed(const Buffer& buffer) REQUIRES(manager_lock) {
    freed_lately.note(FreedLately::span_of(buffer.last_use), FreedLately::span_of(seq),
                      buffer.bytes_in_place());
  }
  void forget_freed(const Buffer& buffer) REQUIRES(manager_lock) {
    freed_lately.forget(FreedLately::span_of(buffer.last_use), FreedLately::span_of(seq),
                        buffer.bytes_in_place());
  }
  /// @}

  /// Bytes that are free of live buffers, or soon will be.
  [[nodiscard]] Bytes coming() const REQUIRES(manager_lock) {
    return ledger.coming(pool->idle_bytes() + cache.bytes());
  }
  /// The same without the cached buffers that are spared.
  [[nodiscard]] Bytes coming_ahead() const REQUIRES(manager_lock) {
    if (!spares_freed()) return coming();
    const Bytes old =
        saturating_subtract(cache.bytes(), freed_lately.bytes(FreedLately::span_of(seq)));
    return ledger.coming(pool->idle_bytes() + old);
  }
  /// Bytes that prefetches can have without a further eviction: what was freed lately stays for the
  /// program's next allocations.
  [[nodiscard]] Bytes obtainable_ahead() const REQUIRES(manager_lock) {
    return ledger.obtainable(coming_ahead());
  }
  /// Bytes that fetches can have without a further eviction, now or soon.
  [[nodiscard]] Bytes obtainable() const REQUIRES(manager_lock) {
    return ledger.obtainable(coming());
  }
  /// The same, leaving out what is still coming, for it may be stuck behind work of the program.
  [[nodiscard]] Bytes obtainable_now() const REQUIRES(manager_lock) {
    return ledger.obtainable(pool->idle_bytes());
  }

  /// Whether policy may be asked. If host memory ran out in the midst of its last answer, it is
  /// replaced by one that has seen nothing yet, as soon as there is memory for that.
  bool may_ask_policy() noexcept REQUIRES(manager_lock) {
    return asks_policy || (is_policy_needed() && restore_policy());
  }
  bool restore_policy() noexcept REQUIRES(manager_lock);
  /// Whether there is anything to ask policy about, or soon may be
  /// (ResidencyOptions::policy_waits).
  [[nodiscard]] bool is_policy_needed() const noexcept REQUIRES(manager_lock) {
    return !options.policy_waits || must_evict || ledger.live() * 4 > ledger.limit() * 3;
  }

  /// Whether the page of a piece will be idle soon. That waits for no use of the program's, and for
  /// a digest no longer than the evictor does: an operation that needs a page of that size need not
  /// have one created.
  void tell_vacating(PieceId id, bool leaves) noexcept REQUIRES(manager_lock);

  /// Queues the fetch of a piece that is out and that nothing has asked for. Throws std::bad_alloc.
  void want(PieceId id, Want want) REQUIRES(manager_lock);

  /// A number that no digest had before, never 0 (Piece::digest_ticket).
  [[nodiscard]] std::uint64_t next_digest_ticket() REQUIRES(manager_lock) {
    return ++digest_tickets;
  }
  /// No digest of a piece, and no copy of it ahead of need, counts any more, if one is under way:
  /// its page is about to be mapped again or to be given up, or the slab to be written.
  void drop_digest(PieceId id) noexcept REQUIRES(manager_lock);

  /// Has the ledger, the pool, policy and the threads that wait follow the change.
  void on_piece_state(PieceId id, PieceState from) noexcept override REQUIRES(manager_lock);

  /// Tells a policy that is asked for each transfer whether the piece is on the device or on its
  /// way there, if that has changed. What launches were begun without counts as on its way: it
  /// cannot be brought before they have completed, and what is used next can. To be called after
  /// each change of what it depends on beside the piece's state: `live`, `want`, `evict_ticket`,
  /// is_left_out().
  /// Amortised O(log buffers).
  void tell_whereabouts(PieceId id) noexcept REQUIRES(manager_lock);
  /// The same for all pieces of a buffer.
  void tell_whereabouts(BufferId id) noexcept REQUIRES(manager_lock);
  /// The policy to ask for the next transfer; null: policy moves nothing except by its decisions.
  AutoPolicy* puller() noexcept REQUIRES(manager_lock) {
    return moves && may_ask_policy() ? policy.puller() : nullptr;
  }

  /// The size of the pieces into which a buffer of `footprint` is cut: a policy that moves windows
  /// of layers moves buffers whole.
  [[nodiscard]] Bytes piece_size_of(Bytes footprint) const {
    const bool cuts = options.piece_size > Bytes{} && moves_pieces(options.policy.kind);
    return cuts ? std::min(options.piece_size, footprint) : footprint;
  }

  /// Gives the address range and the id of a buffer back. REQUIRES: not mapped, no page.
  void forget_buffer(BufferId id) noexcept REQUIRES(manager_lock);
  /// Caches a buffer that the program does not have, or forgets it if nothing of it is in place.
  void put_away(BufferId id) noexcept REQUIRES(manager_lock);

  /// Tells the user that a wait has come to the wait limit (I7); once for each `awaited`, which
  /// says for what. Not where it ended because the manager does.
  void warn_gave_up(const char* awaited) noexcept REQUIRES(manager_lock);
  /// Writes the queued warnings to the log. Opens the mutex.
  void flush_warnings() noexcept REQUIRES(manager_lock);

  // -- set at the start and never changed
  DeviceMemory& device;
  const ResidencyOptions options;
  const bool moves;             ///< whether the policy ever moves anything
  const bool compares_digests;  ///< whether the policy moves only what a digest finds changed
  const Bytes granule;
  Bytes arena_size;  ///< of the arena, and of the windows
  Address arena_base = 0;
  Address windows_base = 0;

  // -- thread-safe by themselves; declared in the order of dependence: events outlive their holders
  EventPool events;
  HostStore host;
  TransferEngine transfers;
  Digester digester;
  std::unique_ptr<Arena> arena;  ///< lookups from any thread; the rest under the mutex
  std::unique_ptr<PagePool>
      pool;                       ///< creation and destruction without the mutex, the rest under it
  PassthroughLedger passthrough;  ///< notes from any thread; the rest under the mutex

  mutable ManagerMutex mutex;
  ManagerWaits waits{mutex};

  BufferTable buffers;  ///< found without the mutex; the fields of a buffer say what needs it
  PieceStates pieces GUARDED_BY(manager_lock){buffers, *this};
  StreamTable streams GUARDED_BY(manager_lock);
  BufferCache cache GUARDED_BY(manager_lock);
  FreedLately freed_lately GUARDED_BY(manager_lock);
  DeviceLedger ledger GUARDED_BY(manager_lock);
  FetchQueue fetches GUARDED_BY(manager_lock);
  /// When transfers begin that policy is asked for.
  Pacing pacing GUARDED_BY(manager_lock);
  /// Fetches that have begun, in the order of the link, where policy is asked for each transfer.
  TransfersUnderWay under_way GUARDED_BY(manager_lock);
  WarningQueue warnings GUARDED_BY(manager_lock);
  PolicyEngine policy GUARDED_BY(manager_lock);
  bool asks_policy GUARDED_BY(manager_lock);
  HostBacking backing GUARDED_BY(manager_lock);
  PageLimit page_limit GUARDED_BY(manager_lock);
  MemorySampler sampler GUARDED_BY(manager_lock);
  /// A piece is out for as long as its content is copied to the host ahead of need, and comes back
  /// by itself (Evictor::preclean()): meanwhile it cannot go to make room.
  bool is_precleaning GUARDED_BY(manager_lock) = false;
  /// Pieces that are mapped when their content has arrived (ContentMover::settle_arrivals()).
  std::size_t arrivals GUARDED_BY(manager_lock) = 0;
  /// Whether pieces that cannot go at this moment can before long, without anything being done:
  /// they are copied ahead of need, or on their way in.
  [[nodiscard]] bool has_unsettled_pieces() const REQUIRES(manager_lock) {
    return is_precleaning || arrivals > 0;
  }
  bool must_evict GUARDED_BY(manager_lock) = false;  ///< evictions have been asked for
  /// A recorded run is expected to be repeated, and has not come to its end.
  bool follows_recorded GUARDED_BY(manager_lock) = false;
  bool is_other_program GUARDED_BY(manager_lock) = false;  ///< and the user was not told yet
  /// The worker rests until the next launch, though policy may then want a transfer.
  bool pull_awaits_launch GUARDED_BY(manager_lock) = false;

  TurnQueue turn GUARDED_BY(manager_lock);
  /// Grows with each turn, and whenever buffers that could not go are to be asked again.
  std::uint64_t turns GUARDED_BY(manager_lock) = 1;
  std::uint64_t seq GUARDED_BY(manager_lock) = 0;  ///< of the last submitted use
  BufferNumbers numbers GUARDED_BY(manager_lock);
  std::uint64_t digest_tickets GUARDED_BY(manager_lock) = 0;

  ResidencyCounters counters GUARDED_BY(manager_lock);
  std::optional<Refusal> worst_refusal GUARDED_BY(manager_lock);  ///< the one that lacked most
  StallMeter stalls GUARDED_BY(manager_lock);
  PassMeter passes GUARDED_BY(manager_lock){stalls};
  std::unique_ptr<Timeline> timeline GUARDED_BY(manager_lock);   ///< null unless it is recorded
  std::optional<ResidencyTrace> trace GUARDED_BY(manager_lock);  ///< where one is recorded

  Worker worker;
  Worker stocker;  ///< pins host memory ahead of need

 private:
  Status reserve_addresses();
  Status look_at_first();
};

}  // namespace superpipe
