// Where every managed buffer of one device is, and how it gets where a launch needs it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "policy/policy_engine.h"
#include "policy/units.h"
#include "profiler/budget_answer.h"
#include "profiler/live_figures.h"
#include "profiler/pass_meter.h"
#include "profiler/run_figures.h"
#include "residency/device_memory.h"
#include "residency/residency_options.h"
#include "residency/result.h"
#include "residency/room/passthrough_change.h"
#include "residency/uses/use_token.h"

namespace superpipe {

/// A live buffer that is not, or not all, on the device.
struct AbsentBuffer {
  std::uint64_t number;  ///< counted from 1 in the order of allocation (BufferNumbers)
  Bytes size;
  std::string left_out_by;  ///< the last kernel that was launched without it; empty: none was
};

/// The live buffer in or before which an address lies.
struct NearBuffer {
  std::uint64_t number;
  Bytes size;
  Bytes past_end;  ///< by how much the address lies behind it, and one byte; 0: it does not
  bool is_out;     ///< the buffer is not on the device at the address
};

/// Keeps the invariants I1 to I7 of docs/design.md for the buffers of one device.
///
/// Thread-safe. Owns a worker thread, started at the first eviction or fetch or, where there is a
/// budget, with the first buffer. `device` must outlive it. No call throws: one for which host
/// memory does not suffice fails with kOutOfHostMemory (or, where it returns no status, does what
/// it can), and leaves everything as it was.
class ResidencyManager {
 public:
  static Result<std::unique_ptr<ResidencyManager>> create(DeviceMemory& device,
                                                          const ResidencyOptions& options);
  ~ResidencyManager();

  /// Whether `word` lies in the arena: one compare.
  [[nodiscard]] bool in_arena(std::uint64_t word) const noexcept {
    return word - arena_base_ < arena_size_;
  }

  /// The live buffer that holds `address`, if any.
  [[nodiscard]] std::optional<BufferRange> find(Address address) const noexcept;

  /// Reserves a managed buffer. `stream`: the stream of a stream-ordered allocation, whose reuse of
  /// a freed buffer is ordered; nullopt for a synchronous one. One on the list of buffers to pin
  /// is brought in, for which others may have to leave, and stays. Only allocations that succeed
  /// count, so that a program which tries again gets the number that it did not get.
  /// @return kOutOfHostMemory, kOutOfDeviceMemory; of one to be pinned also as pin_forever().
  Result<Address> allocate(Bytes size, std::optional<StreamHandle> stream);

  /// Frees the buffer at `base`. REQUIRES: all work that names it has completed (the hook has
  /// synchronised, as cuMemFree does). @return kInvalidValue if no live buffer starts there.
  Status free(Address base);
  /// Frees in the order of `stream`; waits for none of its work. Frees need no host memory.
  Status free_async(Address base, StreamHandle stream, OtherUses others = OtherUses::kAwaited);

  /// Makes every live buffer that `words` name resident and its content ordered before what is next
  /// submitted to `stream`, and pins them until end_use(). Words outside live buffers are ignored.
  ///
  /// Waits only when a buffer is not mapped yet. On failure nothing is pinned.
  /// @return kWorkingSetTooLarge (I4), kOutOfDeviceMemory, kDeviceError, kTimedOut.
  Status begin_launch(KernelId kernel, std::span<const std::uint64_t> words, StreamHandle stream,
                      UseToken& token);

  /// How many launches were announced. Any thread; one load.
  [[nodiscard]] std::uint64_t launches() const noexcept;
  /// The same as begin_launch() for operations that are not launches (copies in 2D, memsets, ...):
  /// policy is not told. `writes`: whether the operation may write the buffers. `may_shrink`: where
  /// the buffers do not fit together, the caller asks for fewer, so that the user need not be told.
  Status begin_use(std::span<const std::uint64_t> words, bool writes, StreamHandle stream,
                   UseToken& token, bool may_shrink = false);

  /// Keeps the buffers that `words` name on the device until end_hold(), for a call of the driver
  /// that looks addresses up and runs nothing. Waits until they are there. @return as begin_use().
  Status begin_hold(std::span<const std::uint64_t> words, UseToken& token);
  void end_hold(UseToken& token) noexcept;

  /// Decides where a linear copy into / out of [address, address + size) goes, and pins it there.
  /// A buffer may be on the device in part: then the route is that of the first bytes alone.
  ///
  /// A host route (evicted buffer) is given only when it is safe to touch the host copy in the
  /// order of `stream`. A caller that touches it by itself, before end_use(), has to find `stream`
  /// idle first.
  Result<CopyRoute> begin_copy_in(Address address, Bytes size, StreamHandle stream,
                                  UseToken& token);
  Result<CopyRoute> begin_copy_out(Address address, Bytes size, StreamHandle stream,
                                   UseToken& token);

  /// The same, but that nothing comes in: another use may be held meanwhile. `in`: the copy writes
  /// the buffer. @return kNotYet if the bytes can be used on the device alone, and are not there.
  Result<CopyRoute> begin_copy_where_it_is(Address address, Bytes size, StreamHandle stream,
                                           bool in, UseToken& token);

  /// The same, of a copy for which the buffer comes in if it is out. `in`: the copy writes the
  /// buffer. @return a route of no host copy; as begin_use().
  Result<CopyRoute> begin_copy_in_place(Address address, Bytes size, StreamHandle stream, bool in,
                                        UseToken& token);

  /// The operation has been submitted to `stream`; or, `submitted` false, it has failed or, with a
  /// host route, is done. Unpins.
  void end_use(UseToken& token, StreamHandle stream, bool submitted) noexcept;

  /// Makes the buffers that `words` name resident for the rest of their lives: captured in a graph,
  /// exported, named by device memory, ... `reason` for the log.
  Status pin_forever(std::span<const std::uint64_t> words, const char* reason);

  /// The device's map() gives further devices access from now on: gives it to what is mapped, too.
  /// Waits for transfers that begin at this moment, at most the wait limit in all; not for work of
  /// the program. One call of the device for each piece in place.
  /// @return kTimedOut, or what the device answered: then not all of it is accessible to them.
  Status renew_access() noexcept;

  /// Whether buffers may have to leave before long: always where the user gave a budget or a k,
  /// else once live buffers take three quarters of the limit, or an eviction was asked for. Any
  /// thread.
  [[nodiscard]] bool expects_evictions() const noexcept;

  /// The program is about to destroy `stream`: marks its end while that can still be done.
  void on_stream_destroy(StreamHandle stream) noexcept;
  /// Some streams, which the program destroys later, are about to take no more events: marks the
  /// ends of all. Costs an event for each stream that was used since its last one.
  void on_streams_detach() noexcept;

  /// @name Pass-through memory (I4). Only begin_foreseen_growth(), make_room() and
  /// begin_passthrough_allocation() wait for room or ask the device anything.
  /// @{
  /// The driver is about to be asked for a pass-through allocation of `size` bytes. Mostly some
  /// loads and an atomic add. Where the headroom is used up since the last sample, it asks the
  /// device, and pages leave first: it waits for that for the patience (ResidencyOptions) at most.
  /// @return false if it does not fit the budget even with every managed page evicted: the caller
  /// then does not ask, and answers as the driver does when it is out of memory.
  bool begin_passthrough_allocation(Bytes size) noexcept;
  /// The driver has `made` it, or has failed. REQUIRES: begin_passthrough_allocation(size) was
  /// true. Mostly two atomic adds.
  void end_passthrough_allocation(Bytes size, bool made) noexcept;
  /// A call of the driver is about to take about `size` bytes that it is not asked for as such.
  /// They count from now on, and pages of buffers leave room for them first, evicted if need be:
  /// waits for that, at most the wait limit; work that does not end is not waited for long (I7).
  /// @return as begin_passthrough_allocation().
  bool begin_foreseen_growth(Bytes size) noexcept;
  /// The call has `taken` them, or failed. REQUIRES: begin_foreseen_growth(size) was true.
  void end_foreseen_growth(Bytes size, bool taken) noexcept;
  /// A call of the driver is about to change pass-through memory by an amount that only the device
  /// knows. One atomic add.
  void begin_passthrough_change(PassthroughChange change) noexcept;
  /// The call has returned. REQUIRES: one begin_passthrough_change(change). Mostly two atomics.
  void end_passthrough_change(PassthroughChange change) noexcept;
  /// The driver was out of memory for `size` bytes: gives back as many bytes of pages, evicting if
  /// need be. Waits for that, at most the wait limit; work that does not end is not waited for long
  /// (I7). @return whether as much came free, and asking the driver again is worthwhile.
  bool make_room(Bytes size) noexcept;
  /// @}

  /// Gives cached and idle pages back to the driver (cuMemPoolTrimTo).
  void trim();

  /// Does one piece of the worker's pending work that needs no waiting, on the calling thread.
  /// REQUIRES: options.worker_thread was false. @return false if there was none.
  bool run_worker_once();
  /// The same for the thread that pins host memory ahead of need.
  bool run_stocker_once();

  /// Whether there are pages that no live buffer has: cached or idle ones.
  [[nodiscard]] bool has_spare_pages() const;

  /// What the program has of the device's memory, and what it could still have.
  struct Capacity {
    Bytes used;            ///< live buffers, by their pages, and pass-through memory
    Bytes left;            ///< on device and host together
    Bytes left_on_device;  ///< while nothing has to leave for it
    Bytes spare;           ///< pages that no live buffer has
  };
  /// That of this moment. Where buffers move, it asks the device about pass-through memory, so that
  /// the program sees what it has just freed.
  [[nodiscard]] Capacity capacity();

  [[nodiscard]] ResidencyStats stats() const;

  /// What policy has learned and the limit, if it knows layers now; else nullopt. Any thread; other
  /// calls wait meanwhile, for some nanoseconds per layer and buffer. Throws std::bad_alloc.
  [[nodiscard]] std::optional<LearnedSnapshot> learned_layers() const;

  /// The launches of the typical_pass(): what stats() tells of a pass lacks them, because to put
  /// them together takes milliseconds for a pass of many launches. Any thread; other calls wait
  /// meanwhile. @return null without a typical pass, or where host memory has run out.
  [[nodiscard]] std::shared_ptr<const PassLaunches> foreseen_pass() const;

  /// The sizes of the slabs that evictions have needed so far and that no earlier user had given
  /// back, in order: RecordedRun::slabs. Throws std::bad_alloc. Any thread.
  [[nodiscard]] std::vector<Bytes> slabs_for_evictions() const;

  /// The pieces that evictions have written back so far, or would have without a copy ahead of
  /// need, in order: RecordedRun::write_backs. Throws std::bad_alloc. Any thread; other calls wait
  /// meanwhile, for a nanosecond per piece.
  [[nodiscard]] std::vector<RecordedRun::PieceOf> write_backs() const;

  /// Buffers that are not, or not all, on the device at this moment, last used first. Throws
  /// std::bad_alloc. Any thread; other calls wait meanwhile, for some nanoseconds per buffer.
  [[nodiscard]] std::vector<AbsentBuffer> absent_buffers() const;
  /// How many buffers the process has had so far (ResidencyOptions::buffers_before). Any thread.
  [[nodiscard]] std::uint64_t buffers_so_far() const noexcept;
  /// The buffer that has `address`, or that it lies behind within a granule; nullopt: none. Any
  /// thread.
  [[nodiscard]] std::optional<NearBuffer> near(Address address) const noexcept;

  /// What is cheap to tell at any moment.
  struct LiveState {
    ResidencyCounters counters;
    Bytes pages;  ///< cached and idle ones included
    Bytes live;   ///< what those of all live buffers would take together
    Bytes host_limit;
    std::uint64_t passes = 0;  ///< that were measured
    std::optional<MeasuredPass> last_pass;
    /// Under a policy that learns no layers, `layers` are those of a pass that was seen.
    PolicyEngine::Outline learned;
    /// How much of each of the first layers is on the device, in percent of its buffers' bytes.
    std::array<std::uint8_t, kShownLayers> layer_percent{};
  };
  /// Any thread. Asks the device nothing. Other calls wait meanwhile, for a few nanoseconds per
  /// buffer, of at most 16,384 that are in layers; and under a policy that learns no layers, where
  /// a pass is grouped anew now and then, for as long as ShownLayers::look() says.
  [[nodiscard]] LiveState live_state() const;

  /// Allows managed and pass-through memory `budget` bytes together from now on, as a promise (I4).
  ///
  /// The limit is another one when this returns. If pages exceed it, none is created from then on,
  /// and the worker evicts and gives pages back to the driver until they fit: buffers in use go
  /// when their uses are over, pinned ones never. What a launch needs beyond the limit is dealt
  /// with as ever (SUPERPIPE_OVERFLOW). If the limit grew, what policy wants next comes at once.
  /// The size of pieces, which followed from the first budget, stays.
  ///
  /// Any thread, at any time. Asks the device for a sample, which waits for calls of the device
  /// that are under way; waits for no work of the program. @return why all is as it was:
  /// kCountsLayers, kNothingMoves, kTooSmall, kHostMemoryShort, kEnded.
  BudgetAnswer set_budget(Bytes budget) noexcept;

  /// Gives everything back to the device and stops: afterwards there are no buffers, and
  /// none can be allocated. Any thread may go on calling. REQUIRES: all work of the program on
  /// buffers has completed. Waits for transfers under way, at most the wait limit.
  void shut_down() noexcept;

  /// Stops the worker without touching the device: process exit and fork.
  void abandon() noexcept;

 private:
  ResidencyManager();
  class Impl;
  std::uint64_t arena_base_ = 0;
  std::uint64_t arena_size_ = 0;
  std::unique_ptr<Impl> impl_;
};

}  // namespace superpipe
