#include "residency/residency_manager.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "policy/budget.h"
#include "profiler/pass_times.h"
#include "residency/mover_rounds.h"
#include "residency/pieces/page_supply.h"
#include "residency/pieces/piece_access.h"
#include "residency/residency_core.h"
#include "residency/room/admission.h"
#include "residency/room/eviction_queue.h"
#include "residency/room/left_out_buffers.h"
#include "residency/room/passthrough_admission.h"
#include "residency/room/precleaner.h"
#include "residency/shown_layers.h"
#include "residency/stock_rounds.h"
#include "residency/transfer/content_mover.h"
#include "residency/transfer/evictor.h"
#include "residency/transfer/host_digests.h"
#include "residency/transfer/stream_marker.h"
#include "residency/transfer/use_completion.h"
#include "residency/tuning.h"
#include "residency/uses/buffer_lifetimes.h"
#include "residency/uses/copy_routes.h"
#include "residency/uses/listed_buffers.h"
#include "residency/uses/use_tracker.h"

namespace superpipe {

/// The parts of a manager over what they share, each knowing those above it.
class ResidencyManager::Impl {
 public:
  Impl(DeviceMemory& device, const ResidencyOptions& options) : core(device, options) {
    core.worker.attach(rounds);
    core.stocker.attach(stock_rounds);
  }
  ~Impl() { shut_down(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::optional<BufferRange> find(Address address) const noexcept;
  void trim() EXCLUDES(manager_lock);
  Capacity capacity() EXCLUDES(manager_lock);
  ResidencyStats stats() const EXCLUDES(manager_lock);
  std::optional<LearnedSnapshot> learned_layers() const EXCLUDES(manager_lock);
  std::shared_ptr<const PassLaunches> foreseen_pass() const EXCLUDES(manager_lock);
  std::vector<AbsentBuffer> absent_buffers() const EXCLUDES(manager_lock);
  std::optional<NearBuffer> near(Address address) const noexcept EXCLUDES(manager_lock);
  LiveState live_state() EXCLUDES(manager_lock);
  BudgetAnswer set_budget(Bytes budget) noexcept EXCLUDES(manager_lock);
  void shut_down() noexcept EXCLUDES(manager_lock);
  void abandon() noexcept;

  /// Whether abandon() had to leave the worker's thread to itself.
  bool left_running = false;

  ResidencyCore core;
  StreamMarker streams{core};
  PageSupply pages{core};
  PageMover page_mover{core.device, core.events, core.transfers, core.digester};
  ContentMover mover{core, streams, pages, page_mover};
  Evictor evictor{core, streams, mover, page_mover};
  UseCompletion completion{core, streams};
  EvictionQueue evictions{core, streams, mover, completion};
  HostDigests digests{core};
  Admission admission{core, pages, evictions};
  PassthroughAdmission passthrough{core, admission};
  LeftOutBuffers left_out{core};
  UseTracker uses{core, streams, evictions, completion, admission, left_out};
  CopyRoutes copies{core, streams, mover, uses, digests};
  Precleaner precleaner{core, evictor, evictions, completion};
  BufferLifetimes lifetimes{core, streams, pages, mover, evictions, left_out, digests, precleaner};
  ListedBuffers listed{core, uses, lifetimes};
  MoverRounds rounds{core, pages, mover, evictor, completion, evictions, left_out, precleaner};
  StockRounds stock_rounds{core, evictions, evictor, completion, uses, digests};
  PieceAccess access{core};
  ShownLayers shown_layers{core};

 private:
  ResidencyCounters counters() const REQUIRES(manager_lock);
  void warn_of_pinned() REQUIRES(manager_lock);
  void wait_for_open_sections() REQUIRES(manager_lock);
  void forget_everything() REQUIRES(manager_lock);
  void give_back(Buffer& buffer) REQUIRES(manager_lock);
  void give_back_pages_and_addresses() REQUIRES(manager_lock);
};

std::optional<BufferRange> ResidencyManager::Impl::find(Address address) const noexcept {
  const std::uint32_t index = core.arena->index_at(address);
  if (index == Arena::kNobody) return std::nullopt;
  const Buffer& buffer = core.buffers[BufferId{index}];
  const Address base = buffer.base.load(std::memory_order_relaxed);
  const Bytes size{buffer.size.load(std::memory_order_relaxed)};
  if (address < base || address - base >= size.count()) return std::nullopt;
  return BufferRange{base, size, BufferId{index}};
}

void ResidencyManager::Impl::trim() {
  {
    const ManagerLock lock(core.mutex);
    while (!core.waits.stopped && pages.reclaim_one()) {
    }
  }
  core.host.trim();
}

ResidencyManager::Capacity ResidencyManager::Impl::capacity() {
  const ManagerLock lock(core.mutex);
  const bool can_ask = core.moves && !core.waits.are_over();
  if (can_ask) (void)core.sampler.sample();
  const Bytes live = core.ledger.live();
  const Bytes limit = core.ledger.limit();
  return {live + core.passthrough.bytes(), core.backing.obtainable(live, limit),
          saturating_subtract(limit, live), saturating_subtract(core.ledger.pages(), live)};
}

ResidencyCounters ResidencyManager::Impl::counters() const {
  ResidencyCounters counters = core.counters;
  counters.launches = uses.launches();
  counters.peak_device_bytes = core.ledger.peak_device(core.passthrough.likely());
  counters.peak_managed_demand = core.ledger.peak_managed();
  counters.peak_padding = core.ledger.peak_padding();
  counters.managed_bytes = core.ledger.managed();
  counters.passthrough_bytes = core.passthrough.bytes();
  counters.peak_passthrough_bytes = std::max(core.sampler.peak(), core.passthrough.likely());
  counters.budget_changes = core.page_limit.budget_changes();
  counters.stall_ms = core.stalls.stall_ms();
  counters.pinned_host_bytes = core.host.pinned();
  counters.managed_limit = core.ledger.limit();
  counters.budget = core.passthrough.budget().value_or(Bytes{});
  return counters;
}

ResidencyStats ResidencyManager::Impl::stats() const {
  const ManagerLock lock(core.mutex);
  ResidencyStats stats;
  static_cast<ResidencyCounters&>(stats) = counters();
  try {
    stats.measured_passes = core.passes.passes();
    stats.forgotten_passes = core.passes.count() - stats.measured_passes.size();
    stats.learned = core.policy.learned();
    if (core.timeline != nullptr) stats.timeline = core.timeline->events();
    stats.worst_refusal = core.worst_refusal;
  } catch (const std::bad_alloc&) {
    // Without host memory the counters are all there is to tell.
  }
  return stats;
}

std::optional<LearnedSnapshot> ResidencyManager::Impl::learned_layers() const {
  const ManagerLock lock(core.mutex);
  if (core.policy.outline().layers == 0) return std::nullopt;
  return LearnedSnapshot{core.policy.learned(), core.ledger.limit()};
}

std::shared_ptr<const PassLaunches> ResidencyManager::Impl::foreseen_pass() const try {
  const ManagerLock lock(core.mutex);
  const StreamReplays& replay = core.policy.replay();
  const auto pass = typical_pass(core.passes.passes(), replay.first_remembered());
  if (!pass) return nullptr;
  const auto [begin, end] = replay.aligned({pass->begin, pass->end});
  auto launches = replay.pass(begin, end);
  return launches != nullptr ? launches : replay.pass(pass->begin, pass->end);
} catch (const std::bad_alloc&) {
  return nullptr;
}

std::vector<AbsentBuffer> ResidencyManager::Impl::absent_buffers() const {
  const ManagerLock lock(core.mutex);
  std::vector<const Buffer*> absent;
  for (std::uint32_t i = 0; i < core.buffers.end(); ++i) {
    const Buffer& buffer = core.buffers[BufferId{i}];
    if (buffer.live && buffer.missing > 0) absent.push_back(&buffer);
  }
  std::ranges::stable_sort(absent, [](const Buffer* a, const Buffer* b) REQUIRES(manager_lock) {
    return a->last_use > b->last_use;
  });
  std::vector<AbsentBuffer> told;
  for (const Buffer* const buffer : absent) {
    const bool is_left_out = buffer->is_left_out();
    told.push_back({buffer->number, Bytes{buffer->size.load()},
                    is_left_out ? core.options.kernel_name(buffer->left_out_by) : std::string()});
  }
  return told;
}

std::optional<NearBuffer> ResidencyManager::Impl::near(Address address) const noexcept {
  const ManagerLock lock(core.mutex);
  const auto begins_before = [&](std::uint32_t index) {
    return index != Arena::kNobody && core.buffers[BufferId{index}].base.load() <= address;
  };
  // In a guard, rather what lies before it: more kernels read too far than too early.
  std::uint32_t index = core.arena->index_at(address);
  for (Address at = address, guard = 0; !begins_before(index) && guard < 2; ++guard) {
    at -= core.granule.count();
    index = core.arena->index_at(at);
  }
  if (!begins_before(index)) return std::nullopt;
  const Buffer& buffer = core.buffers[BufferId{index}];
  const Bytes size{buffer.size.load()};
  const Bytes offset{address - buffer.base.load()};
  if (offset >= size) {
    return NearBuffer{buffer.number, size, offset - size + Bytes{1}, false};
  }
  const std::span<const Piece> piece = buffer.pieces_at(offset, Bytes{1});
  return NearBuffer{buffer.number, size, Bytes{}, piece.empty() || !piece.front().is_in()};
}

ResidencyManager::LiveState ResidencyManager::Impl::live_state() {
  shown_layers.look();
  const ManagerLock lock(core.mutex);
  LiveState state;
  state.counters = counters();
  state.pages = core.ledger.pages();
  state.live = core.ledger.live();
  state.host_limit = core.host.limit();
  const std::vector<MeasuredPass>& passes = core.passes.passes();
  state.passes = core.passes.count();
  if (!passes.empty()) state.last_pass = passes.back();
  state.learned = core.policy.outline();
  const ShownLayers::Layers layers = shown_layers.layers(state.learned.layers);
  state.learned.layers = layers.count;
  state.layer_percent = layers.percent;
  return state;
}

BudgetAnswer ResidencyManager::Impl::set_budget(Bytes budget) noexcept {
  if (core.waits.abandoned) return BudgetAnswer::kEnded;
  const ManagerLock lock(core.mutex);
  if (core.waits.are_over()) return BudgetAnswer::kEnded;
  const BudgetAnswer answer = core.page_limit.set_budget(budget);
  if (answer != BudgetAnswer::kChanged) return answer;
  warn_of_pinned();
  // What was freed since the last sample is room, and what could not go is asked again.
  (void)core.sampler.sample();
  core.waits.announce();
  core.wake_worker();
  core.flush_warnings();
  return answer;
}

// Says once that pinned buffers alone exceed the limit.
void ResidencyManager::Impl::warn_of_pinned() {
  Bytes pinned;
  for (std::uint32_t i = 0; i < core.buffers.end(); ++i) {
    const Buffer& buffer = core.buffers[BufferId{i}];
    if (buffer.live && (buffer.pinned_forever || buffer.stays)) pinned += buffer.footprint;
  }
  const Bytes limit = core.ledger.limit();
  if (pinned <= limit) return;
  core.warnings.once("pinned", [&] {
    return "the budget now leaves " + exact_bytes(limit) + ", but buffers of " +
           exact_bytes(pinned) +
           " cannot be moved (captured, exported, pinned, or without "
           "host memory)";
  });
}

// Waits, bounded, for transfers of ours; for work of the program its context's end has waited. What
// other threads may still look at stays as it is, so that they find no buffers.
void ResidencyManager::Impl::shut_down() noexcept {
  if (core.waits.abandoned) return;  // not even the mutex may be trusted, in the child of a fork
  {
    const ManagerLock lock(core.mutex);
    if (core.waits.stopped) return;
    core.waits.stopped = true;
    core.worker.end();
    core.stocker.end();
    core.waits.announce();
  }
  core.worker.join();
  core.stocker.join();
  // While a transfer still runs, nothing under it may go away: better leaked than torn.
  const bool copied = core.transfers.stop(core.options.wait_limit) == Status::kOk;
  const bool quiet = core.digester.stop(core.options.wait_limit) == Status::kOk && copied;
  // Held to the end, across calls of the device: only threads that look in late wait for it.
  const ManagerLock lock(core.mutex);
  wait_for_open_sections();
  for (std::uint32_t i = 0; core.arena != nullptr && i < core.buffers.end(); ++i) {
    const Buffer& buffer = core.buffers[BufferId{i}];
    if (buffer.live) core.arena->set_owner(buffer.base.load(), buffer.footprint, Arena::kNobody);
  }
  // Operations that did not come to their end find all as they left it.
  if (core.mutex.open_sections() > 0) return;
  forget_everything();
  for (std::uint32_t i = 0; i < core.buffers.end(); ++i) {
    Buffer& buffer = core.buffers[BufferId{i}];
    if (quiet) give_back(buffer);
    buffer.freed = nullptr;
    *buffer.rare = RareUses{};
    buffer.host = HostCopy{};
    buffer.uncut();
  }
  if (quiet) give_back_pages_and_addresses();
  core.events.clear();
}

// Lets operations of other threads that are in the midst of a call of the device, or of a wait for
// a change, come to their end.
void ResidencyManager::Impl::wait_for_open_sections() {
  using Clock = std::chrono::steady_clock;  // the manager's may stand still in tests
  const auto deadline = Clock::now() + core.options.wait_limit;
  while ((core.mutex.open_sections() > 0 || core.waits.waiters > 0) && Clock::now() < deadline) {
    core.mutex.wait_for(core.waits.change, tuning::kEndLookInterval);
  }
}

void ResidencyManager::Impl::forget_everything() {
  core.fetches.clear();
  evictions.clear();
  mover.clear();
  evictor.clear();
  digests.clear();
  left_out.clear();
  core.under_way.clear();
  core.stalls.clear();
  core.passes.clear();
  core.timeline.reset();
  core.trace.reset();
  core.cache.clear();
  core.freed_lately = FreedLately{};
  core.streams = StreamTable{};
}

void ResidencyManager::Impl::give_back(Buffer& buffer) {
  for (std::uint32_t index = 0; index < buffer.pieces.size(); ++index) {
    Piece& piece = buffer.pieces[index];
    if (!piece.has_page()) continue;
    if (piece.is_in()) {
      (void)core.device.unmap(buffer.address_of(index), buffer.bytes_of(index));
    }
    (void)core.pool->destroy(piece.page());
  }
  core.host.release(buffer.host.slab, {});
}

void ResidencyManager::Impl::give_back_pages_and_addresses() {
  core.host.release_untracked();
  core.host.trim();
  while (core.pool != nullptr) {
    auto page = core.pool->take_any();
    if (!page) page = core.pool->take_untracked();
    if (!page) break;
    (void)core.pool->destroy(*page);
  }
  const Bytes size = core.arena_size;
  if (core.windows_base != 0) (void)core.device.release_reservation(core.windows_base, size);
  if (core.arena_base != 0) (void)core.device.release_reservation(core.arena_base, size);
}

// Takes no lock: in the child of a fork the mutex may be held by a thread that no longer exists.
void ResidencyManager::Impl::abandon() noexcept {
  core.waits.abandoned = true;
  core.worker.end();
  core.stocker.end();
  if (core.worker.is_owner()) core.waits.change.notify_all();
  left_running = !core.worker.abandon();
  left_running = !core.stocker.abandon() || left_running;
}

ResidencyManager::ResidencyManager() = default;

ResidencyManager::~ResidencyManager() {
  if (impl_ != nullptr && impl_->left_running) {
    // A thread that cannot be stopped may still use it.
    (void)impl_.release();  // NOLINT(bugprone-unused-return-value)
  }
}

Result<std::unique_ptr<ResidencyManager>> ResidencyManager::create(
    DeviceMemory& device, const ResidencyOptions& options) {
  try {
    std::unique_ptr<ResidencyManager> manager(new ResidencyManager());
    manager->impl_ = std::make_unique<Impl>(device, options);
    if (const Status status = manager->impl_->core.start(); status != Status::kOk) return status;
    manager->arena_base_ = manager->impl_->core.arena_base;
    manager->arena_size_ = manager->impl_->core.arena_size.count();
    return manager;
  } catch (const std::bad_alloc&) {
    return Status::kOutOfHostMemory;
  }
}

std::optional<BufferRange> ResidencyManager::find(Address address) const noexcept {
  return impl_->find(address);
}

Result<Address> ResidencyManager::allocate(Bytes size, std::optional<StreamHandle> stream) {
  return impl_->listed.allocate(size, stream);
}

Status ResidencyManager::free(Address base) { return impl_->lifetimes.free(base, std::nullopt); }

Status ResidencyManager::free_async(Address base, StreamHandle stream, OtherUses others) {
  return impl_->lifetimes.free(base, stream, others);
}

Status ResidencyManager::begin_launch(KernelId kernel, std::span<const std::uint64_t> words,
                                      StreamHandle stream, UseToken& token) {
  return impl_->uses.begin_launch(kernel, words, stream, token);
}

std::uint64_t ResidencyManager::launches() const noexcept { return impl_->uses.launches(); }

Status ResidencyManager::begin_use(std::span<const std::uint64_t> words, bool writes,
                                   StreamHandle stream, UseToken& token, bool may_shrink) {
  return impl_->uses.begin_use(words, writes, stream, token, may_shrink);
}

Status ResidencyManager::begin_hold(std::span<const std::uint64_t> words, UseToken& token) {
  return impl_->uses.begin_hold(words, token);
}

void ResidencyManager::end_hold(UseToken& token) noexcept {
  impl_->uses.end_use(token, StreamHandle{}, /*submitted=*/false);
}

Result<CopyRoute> ResidencyManager::begin_copy_in(Address address, Bytes size, StreamHandle stream,
                                                  UseToken& token) {
  return impl_->copies.begin(address, size, stream, true, token);
}

Result<CopyRoute> ResidencyManager::begin_copy_where_it_is(Address address, Bytes size,
                                                           StreamHandle stream, bool in,
                                                           UseToken& token) {
  return impl_->copies.begin(address, size, stream, in, token, /*may_come_in=*/false);
}

Result<CopyRoute> ResidencyManager::begin_copy_in_place(Address address, Bytes size,
                                                        StreamHandle stream, bool in,
                                                        UseToken& token) {
  return impl_->copies.begin_in_place(address, size, stream, in, token);
}

Result<CopyRoute> ResidencyManager::begin_copy_out(Address address, Bytes size, StreamHandle stream,
                                                   UseToken& token) {
  return impl_->copies.begin(address, size, stream, false, token);
}

void ResidencyManager::end_use(UseToken& token, StreamHandle stream, bool submitted) noexcept {
  if (token.is_host_route()) {
    impl_->copies.end(token, stream, submitted);
  } else {
    impl_->uses.end_use(token, stream, submitted);
  }
}

Status ResidencyManager::pin_forever(std::span<const std::uint64_t> words, const char* reason) {
  return impl_->uses.pin_forever(words, reason);
}

Status ResidencyManager::renew_access() noexcept { return impl_->access.renew(); }

bool ResidencyManager::expects_evictions() const noexcept {
  if (impl_->core.waits.abandoned) return true;
  const ManagerLock lock(impl_->core.mutex);
  return impl_->core.is_policy_needed();
}

void ResidencyManager::on_stream_destroy(StreamHandle stream) noexcept {
  const ManagerLock lock(impl_->core.mutex);
  if (!impl_->core.waits.abandoned) impl_->streams.retire(stream);
}

void ResidencyManager::on_streams_detach() noexcept {
  const ManagerLock lock(impl_->core.mutex);
  if (!impl_->core.waits.abandoned) impl_->streams.mark_all_ends();
}

bool ResidencyManager::begin_passthrough_allocation(Bytes size) noexcept {
  return impl_->passthrough.begin_allocation(size);
}

void ResidencyManager::end_passthrough_allocation(Bytes size, bool made) noexcept {
  impl_->passthrough.end_allocation(size, made);
}

bool ResidencyManager::begin_foreseen_growth(Bytes size) noexcept {
  return impl_->passthrough.begin_foreseen(size);
}

void ResidencyManager::end_foreseen_growth(Bytes size, bool taken) noexcept {
  impl_->passthrough.end_foreseen(size, taken);
}

void ResidencyManager::begin_passthrough_change(PassthroughChange change) noexcept {
  impl_->core.passthrough.begin_change(change);
}

void ResidencyManager::end_passthrough_change(PassthroughChange change) noexcept {
  impl_->passthrough.end_change(change);
}

bool ResidencyManager::make_room(Bytes size) noexcept { return impl_->passthrough.make_room(size); }

void ResidencyManager::trim() { impl_->trim(); }

bool ResidencyManager::run_stocker_once() {
  const ManagerLock lock(impl_->core.mutex);
  return impl_->core.stocker.run_once();
}

bool ResidencyManager::run_worker_once() {
  const ManagerLock lock(impl_->core.mutex);
  return impl_->core.worker.run_once();
}

ResidencyManager::Capacity ResidencyManager::capacity() { return impl_->capacity(); }

bool ResidencyManager::has_spare_pages() const {
  const ManagerLock lock(impl_->core.mutex);
  return impl_->core.ledger.pages() > impl_->core.ledger.live();
}

ResidencyStats ResidencyManager::stats() const { return impl_->stats(); }
std::optional<LearnedSnapshot> ResidencyManager::learned_layers() const {
  return impl_->learned_layers();
}

std::vector<Bytes> ResidencyManager::slabs_for_evictions() const {
  return impl_->core.host.needed_for_evictions();
}

std::vector<RecordedRun::PieceOf> ResidencyManager::write_backs() const {
  const ManagerLock lock(impl_->core.mutex);
  return impl_->evictor.noted_write_backs();
}

std::vector<AbsentBuffer> ResidencyManager::absent_buffers() const {
  return impl_->absent_buffers();
}

std::uint64_t ResidencyManager::buffers_so_far() const noexcept {
  const ManagerLock lock(impl_->core.mutex);
  return impl_->core.numbers.so_far();
}

std::optional<NearBuffer> ResidencyManager::near(Address address) const noexcept {
  return impl_->near(address);
}

std::shared_ptr<const PassLaunches> ResidencyManager::foreseen_pass() const {
  return impl_->foreseen_pass();
}

ResidencyManager::LiveState ResidencyManager::live_state() const { return impl_->live_state(); }

BudgetAnswer ResidencyManager::set_budget(Bytes budget) noexcept {
  return impl_->set_budget(budget);
}

void ResidencyManager::shut_down() noexcept { impl_->shut_down(); }

void ResidencyManager::abandon() noexcept { impl_->abandon(); }

}  // namespace superpipe
