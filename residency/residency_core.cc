#include "residency/residency_core.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "policy/budget.h"
#include "residency/tuning.h"

namespace superpipe {

namespace {

/// Far above any device, far below an overflow.
constexpr Bytes kUnlimited{std::uint64_t{1} << 60};

}  // namespace

ResidencyCore::ResidencyCore(DeviceMemory& device_memory, const ResidencyOptions& manager_options)
    : device(device_memory),
      options(manager_options),
      moves(manager_options.policy.kind != PolicyKind::kResident),
      compares_digests(moves && manager_options.compares_digests &&
                       !writes_back_all(manager_options.policy.kind)),
      granule(device_memory.granularity()),
      events(device_memory),
      host(device_memory, events,
           {manager_options.host_limit, manager_options.host_allowed, manager_options.host_memory},
           manager_options.wait_limit, manager_options.host_ledger, manager_options.now),
      transfers(device_memory, events),
      digester(device_memory, events),
      passthrough(manager_options.policy.budget, manager_options.headroom, granule),
      pressure(manager_options.headroom, granule),
      policy(manager_options.policy),
      asks_policy(moves && !manager_options.policy_waits),
      backing(buffers, host, granule),
      numbers(manager_options.buffers_before),
      timeline(manager_options.record_timeline ? std::make_unique<Timeline>() : nullptr),
      worker("superpipe-mover", mutex, manager_options.worker_thread, manager_options.worker_clock),
      stocker("superpipe-pins", mutex, manager_options.worker_thread,
              manager_options.stocker_clock) {
  if (options.trace == nullptr) return;
  trace.emplace(*options.trace);
  stalls.listen([this](std::uint64_t launch, auto ready, auto stall)
                    REQUIRES(manager_lock) { trace->add(now(), launch, ready, stall); });
}

// Two ranges of one size, as large as can be had: a window for each page that the arena has.
Status ResidencyCore::reserve_addresses() {
  constexpr Bytes kLeast = 16_GiB;
  Status status = Status::kOk;
  for (Bytes size = options.arena_size;; size = Bytes{size.count() / 2}) {
    const auto range = device.reserve(size);
    const auto windows = range.ok() ? device.reserve(size) : range;
    if (windows.ok()) {
      arena_size = size;
      arena_base = *range;
      windows_base = *windows;
      return Status::kOk;
    }
    status = windows.status();
    if (range.ok()) (void)device.release_reservation(*range, size);
    if (status != Status::kOutOfDeviceMemory || size <= 2 * kLeast) return status;
  }
}

// Tells the ledger what is there before there is a page.
Status ResidencyCore::look_at_first() {
  const auto before = device.usage();
  if (!before.ok()) return before.status();
  const std::optional<Bytes> own = options.policy.budget ? device.own_usage() : std::nullopt;
  if (!own) {
    passthrough.start(before->used);
    return Status::kOk;
  }
  const auto usage = device.usage();
  if (!usage.ok()) return usage.status();
  // Another thread or process may have allocated meanwhile: then nothing is known of the parts.
  passthrough.start(usage->used, usage->used == before->used ? own : std::nullopt);
  return Status::kOk;
}

Status ResidencyCore::start() {
  if (const Status status = reserve_addresses(); status != Status::kOk) return status;
  if (compares_digests) (void)digester.prepare();
  if (const Status status = look_at_first(); status != Status::kOk) return status;
  arena = std::make_unique<Arena>(arena_base, arena_size, granule);
  if (!arena->ok()) return Status::kOutOfHostMemory;
  pool = std::make_unique<PagePool>(device, windows_base, arena_size, granule);
  {
    const ManagerLock lock(mutex);
    refresh_limit();
    trace_memory();
    if (const auto& recorded = options.policy.recorded) {
      host.expect(recorded->slabs);
      follows_recorded = true;
      wake_stocker();
    }
  }
  return transfers.start();
}

bool ResidencyCore::wait_change(Clock::time_point deadline) noexcept {
  if (worker.has_thread() && !stopped && !abandoned && !worker.wake_unless_pending()) {
    ++counters.errors;
  }
  return rest(deadline);
}

bool ResidencyCore::rest(Clock::time_point deadline) noexcept {
  const auto time = now();
  if (stopped || abandoned || time >= deadline) return false;
  if (!worker.has_thread()) {
    ++waiters;
    (void)worker.run_once();
    --waiters;
    return true;
  }
  // Some changes announce themselves (a notification), some do not (an event completes).
  const std::chrono::nanoseconds left = deadline - time;
  sleep(std::min<std::chrono::nanoseconds>(left, tuning::kChangeLongestSleep));
  return true;
}

void ResidencyCore::sleep(std::chrono::nanoseconds slice) noexcept {
  ++waiters;
  mutex.wait_for(change, slice);
  --waiters;
}

void ResidencyCore::refresh_limit() {
  if (const Bytes now_reserved = passthrough.reserved(); now_reserved != reserved) {
    reserved = now_reserved;
    policy.on_passthrough_bytes(reserved);
  }
  const Bytes before = ledger.limit();
  ledger.set_limit(std::min(policy.managed_limit(), kUnlimited), policy.limit_is_hard());
  // Pass-through memory has grown: what makes room for it needs host memory from now on.
  if (moves && ledger.limit() < before) (void)can_shrink_to(ledger.limit());
}

BudgetAnswer ResidencyCore::set_budget(Bytes budget) noexcept {
  if (stopped || abandoned) return BudgetAnswer::kEnded;
  if (options.policy.k) return BudgetAnswer::kCountsLayers;
  const std::optional<Bytes> before = passthrough.budget();
  if (!moves || !before) return BudgetAnswer::kNothingMoves;
  if (budget < passthrough.bytes() + passthrough.headroom() + granule) {
    return BudgetAnswer::kTooSmall;
  }
  passthrough.set_budget(budget);
  // What is foreseen may change it at any time.
  const Bytes allowed = passthrough.allowed();
  passthrough.set_yielded(pressure.yielded(allowed));
  if (budget < *before && !can_shrink_to(saturating_subtract(allowed, passthrough.yielded()))) {
    passthrough.set_budget(*before);
    passthrough.set_yielded(pressure.yielded(passthrough.allowed()));
    return BudgetAnswer::kHostMemoryShort;
  }
  policy.set_budget(budget);
  budget_was_set = true;
  if (budget != *before) ++counters.budget_changes;
  refresh_limit();
  limit_lowered = limit_lowered || !ledger.is_within_limit();
  return BudgetAnswer::kChanged;
}

bool ResidencyCore::can_shrink_to(Bytes limit) noexcept {
  if (!backing.has_begun() && ledger.live() <= limit) return true;
  return backing.shrink_to(limit);
}

bool ResidencyCore::claim(Bytes bytes) noexcept {
  const bool forgoes = passthrough.forgo_pool_growth();
  if (!pressure.claim(bytes) && !forgoes) return false;
  const Bytes before = ledger.limit();
  passthrough.set_yielded(pressure.yielded(passthrough.allowed()));
  refresh_limit();
  return ledger.limit() > before;
}

// Has the limit follow the room that other processes leave, which was `before`. Where host memory
// is short of what would have to leave, pages stay, and the driver will say when the device is
// full.
void ResidencyCore::yield(const DevicePressure& before, bool shifted) noexcept {
  const Bytes allowed = passthrough.allowed();
  const Bytes yielded = pressure.yielded(allowed);
  if (yielded > passthrough.yielded() && !can_shrink_to(allowed - yielded)) {
    pressure = before;
    warnings.once("unyielding", [] {
      return std::string(
          "other processes need device memory, but the host store is too small for what would have "
          "to leave the device (SUPERPIPE_HOST_MEM, memory available, cgroup limit)");
    });
    return;
  }
  passthrough.set_yielded(yielded);
  if (shifted) passthrough.sample_again_soon();
}

void ResidencyCore::trace_memory(bool at_once) noexcept {
  if (!trace) return;
  const Bytes besides = samples_passthrough() ? passthrough.seen() : passthrough.bytes();
  trace->note(now(), {passthrough.budget().value_or(Bytes{}), ledger.limit()},
              {ledger.pages(), ledger.live(), besides, host.pinned()}, at_once);
}

bool ResidencyCore::sample_passthrough(Settling settling) noexcept {
  // Pages may come and go while this process's part is asked for: then the answers do not fit
  // together.
  const Bytes limit_before = ledger.limit();
  bool moved = take_sample();
  for (int i = 0;
       i < tuning::kSampleAttempts && last_sample && passthrough.wants_own(now(), settling); ++i) {
    const bool is_last = settling == Settling::kBeforeRefusal && i + 1 == tuning::kSampleAttempts;
    moved = settle_passthrough(is_last ? Fit::kPagesAlone : Fit::kAll) || moved;
  }
  return moved || ledger.limit() != limit_before || !warnings.empty();
}

bool ResidencyCore::take_sample() noexcept {
  last_sample.reset();
  if (!hold_pages_still()) {
    passthrough.put_off_sample(now());
    return false;
  }
  const auto mark_before = passthrough.quiet_mark();
  const auto sample = passthrough.begin_sample();
  Result<DeviceMemory::Usage> usage = Status::kDeviceError;
  {
    const Unlocked unlocked(mutex);
    usage = device.usage();
  }
  sampling = false;
  announce_to_waiters();
  if (!usage.ok()) {
    passthrough.give_up_sample(sample, now());
    return false;
  }
  ++samples;
  last_sample = {usage->used, ledger.pages(), ledger.page_changes(), mark_before,
                 passthrough.quiet_mark()};
  const Bytes besides_pages = saturating_subtract(usage->used, ledger.pages());
  const Bytes passthrough_before = passthrough.sampled();
  const bool moved = passthrough.end_sample(sample, besides_pages, now());
  ledger.note_sample(passthrough_before, passthrough.sampled());
  // Before pages make room for what was found.
  if (passthrough.sampled() != passthrough_before) trace_memory(true);
  if (moves && passthrough.budget()) {
    const DevicePressure before = pressure;
    const bool shifted = pressure.note(usage->total, besides_pages, passthrough.allowed(), now());
    if (shifted || passthrough.yielded() > Bytes{}) yield(before, shifted);
  }
  follow_sample();
  return moved;
}

// Has the limit and the counts follow what the ledger knows now.
void ResidencyCore::follow_sample() noexcept {
  counters.peak_passthrough_bytes =
      std::max(counters.peak_passthrough_bytes, passthrough.sampled());
  const Bytes limit_before = ledger.limit();
  refresh_limit();
  // What others take can look like pass-through memory of this process, so both count.
  if (passthrough.budget() && ledger.limit() < limit_before) {
    limit_lowered = limit_lowered || !ledger.is_within_limit();
  }
}

// Finds out what of the device's memory is this process's. No page has to stand still for that,
// which takes long: the answer counts if none has come or gone between the samples before and
// behind it, and this process did nothing else either, or the device holds as much as before. With
// Fit::kPagesAlone it may have done something else: what hooks counted meanwhile is added, where a
// guess beside a neighbour that grows is off by up to 1 GiB.
// REQUIRES: last_sample.
bool ResidencyCore::settle_passthrough(Fit fit) noexcept {
  const SampledMemory before = *last_sample;
  passthrough.begin_own(now());
  std::optional<Bytes> own;
  {
    const Unlocked unlocked(mutex);
    own = device.own_usage();
  }
  const bool moved = take_sample();
  if (!own) {
    passthrough.miss_own();
    return moved;
  }
  if (!last_sample || last_sample->page_changes != before.page_changes) return moved;
  const bool was_quiet = before.mark_before && last_sample->mark_behind == before.mark_before;
  if (fit == Fit::kAll && !was_quiet && last_sample->used != before.used) return moved;
  // An answer of less than the pages alone was not counted as the device counts.
  if (*own < before.pages) {
    passthrough.miss_own();
    return moved;
  }
  const Bytes besides_pages = saturating_subtract(last_sample->used, last_sample->pages);
  // The answer may have that or not. Too much rather than too little: what is taken for others'
  // now, no sample gives back.
  const Bytes meanwhile =
      last_sample->used == before.used ? Bytes{} : passthrough.counted_since_own();
  const bool settled =
      passthrough.settle(*own - before.pages + meanwhile, besides_pages, was_quiet);
  if (meanwhile > Bytes{}) passthrough.ask_own_soon();
  if (!settled) return moved;
  passthrough.set_yielded(pressure.yielded(passthrough.allowed()));
  passthrough.sample_again_soon();
  follow_sample();
  return true;
}

// Gets the device's count for this thread alone, with no page coming or going. Threads that waited
// to change a page go first.
// @return false if that takes so long that a driver must be stuck, or the manager ends.
bool ResidencyCore::hold_pages_still() noexcept {
  // Of the real time: a clock of a test may stand still meanwhile.
  const auto deadline = Clock::now() + std::min(options.wait_limit, options.sample_limit);
  const auto can_go_on = [&]() REQUIRES(manager_lock) {
    return !stopped && !abandoned && Clock::now() < deadline;
  };
  while ((sampling || waiting_for_sample > 0) && can_go_on()) sleep(tuning::kChangeLongestSleep);
  if (sampling || !can_go_on()) return false;
  sampling = true;  // from here on no thread begins to change a page
  while (ledger.is_moving() && can_go_on()) sleep(tuning::kChangeLongestSleep);
  if (!ledger.is_moving() && can_go_on()) return true;
  sampling = false;
  announce_to_waiters();
  return false;
}

bool ResidencyCore::wait_for_sample() noexcept {
  const auto deadline = Clock::now() + options.wait_limit;
  ++waiting_for_sample;
  while (sampling && !stopped && !abandoned && Clock::now() < deadline)
    sleep(tuning::kChangeLongestSleep);
  --waiting_for_sample;
  return !sampling && !stopped && !abandoned;
}

void ResidencyCore::follow_recorded() noexcept {
  const AutoPolicy* const puller = policy.puller();
  const PlanFollowing following =
      puller != nullptr ? puller->replay().following() : PlanFollowing{};
  if (following.goes_on()) return;
  follows_recorded = false;
  host.stop_expecting();
  wake_stocker();
  if (!following.is_left) return;
  const bool is_other = following.is_other_program();
  is_other_program = is_other;
  warnings.once("plan", [&] {
    const std::string counts = std::to_string(following.followed) + " of its first " +
                               std::to_string(following.left_at + 1) + " launches are the plan's; ";
    if (!is_other) {
      return "the program does something else than its plan: " + counts + "it goes on without it";
    }
    return "the plan is of another program, for " + counts +
           (options.refuse_other_program ? "SUPERPIPE_STRICT=1, so it ends here"
                                         : "it goes on without it");
  });
}

bool ResidencyCore::restore_policy() noexcept {
  if (!moves) return false;
  try {
    PolicyConfig config = options.policy;
    config.recorded.reset();  // that was about the beginning
    PolicyEngine fresh(config);
    if (budget_was_set) fresh.set_budget(*passthrough.budget());
    for (std::uint32_t i = 0; i < buffers.end(); ++i) {
      const Buffer& buffer = buffers[BufferId{i}];
      if (buffer.live || buffer.is_beginning) {
        fresh.on_allocate(BufferId{i}, buffer.footprint,
                          static_cast<std::uint32_t>(buffer.pieces.size()));
      }
    }
    fresh.on_passthrough_bytes(reserved);
    policy = std::move(fresh);
    if (follows_recorded) follow_recorded();
  } catch (const std::bad_alloc&) {
    return false;
  }
  asks_policy = true;
  refresh_limit();
  for (std::uint32_t i = 0; i < buffers.end(); ++i) {
    for (Piece& piece : buffers[BufferId{i}].pieces) piece.told_in = false;
    tell_whereabouts(BufferId{i});
  }
  return asks_policy;
}

void ResidencyCore::tell_vacating(PieceId id, bool leaves) noexcept {
  Buffer& buffer = buffers[id.buffer];
  if (std::exchange(buffer.pieces[id.index].told_vacating, leaves) == leaves) return;
  const Bytes bytes = buffer.bytes_of(id.index);
  if (leaves) {
    pool->expect(bytes);
  } else {
    pool->cease_to_expect(bytes);
  }
}

void ResidencyCore::want(PieceId id, Want want) {
  Buffer& buffer = buffers[id.buffer];
  fetches.push(want, {id.buffer, id.index, buffer.generation});
  buffer.pieces[id.index].want = want;
  // If it awaits its digest, it keeps its page.
  tell_vacating(id, false);
  tell_whereabouts(id);
}

void ResidencyCore::drop_digest(PieceId id) noexcept {
  Buffer& buffer = buffers[id.buffer];
  Piece& piece = buffer.pieces[id.index];
  piece.digest_ticket = 0;
  piece.host_digest_ticket = 0;
  if (piece.state() == PieceState::kDigesting || piece.state() == PieceState::kCopying) {
    pieces.enter(id, PieceState::kUnmapped);
  }
}

void ResidencyCore::on_piece_state(PieceId id, PieceState from) noexcept {
  const Buffer& buffer = buffers[id.buffer];
  const PieceStateFacts& was = facts_of(from);
  const PieceStateFacts& is = facts_of(buffer.pieces[id.index].state());
  if (is.is_vacating && !was.is_vacating) {
    ledger.begin_vacating(buffer.bytes_of(id.index));
    tell_vacating(id, !buffer.lacks_slab_for(id.index));
  } else if (was.is_vacating && !is.is_vacating) {
    ledger.end_vacating(buffer.bytes_of(id.index));
    tell_vacating(id, false);
  }
  // To policy a piece whose digest has come is where it was, until that has come to something.
  const bool is_still_leaving = from == PieceState::kDigesting && is.state == PieceState::kLeaving;
  if (!is_still_leaving) tell_whereabouts(id);
  // Of a fetch that came to nothing the mover says whether that is a change.
  const bool is_as_before = from == PieceState::kFetching && is.state == PieceState::kOut;
  if (!is.is_moving && !is_as_before) announce_change();
}

void ResidencyCore::tell_whereabouts(BufferId id) noexcept {
  const auto count = static_cast<std::uint32_t>(buffers[id].pieces.size());
  for (std::uint32_t piece = 0; piece < count; ++piece) tell_whereabouts(PieceId{id, piece});
}

namespace {

// Whether policy counts the piece as on the device or on its way there.
bool is_or_comes(const Buffer& buffer, const Piece& piece) REQUIRES(manager_lock) {
  switch (piece.state()) {
    case PieceState::kIn:
      return piece.evict_ticket == 0;
    case PieceState::kFetching:
    case PieceState::kArriving:
    case PieceState::kCopyStarting:
    case PieceState::kCopying:
      return true;
    case PieceState::kLeaving:
      return false;
    case PieceState::kOut:
    case PieceState::kDigesting:
    case PieceState::kUnmapped:
      return piece.want != Want::kNobody || buffer.is_left_out();
  }
  return false;
}

}  // namespace

void ResidencyCore::tell_whereabouts(PieceId id) noexcept {
  AutoPolicy* const puller = asks_policy ? policy.puller() : nullptr;
  if (puller == nullptr) return;
  const Buffer& buffer = buffers[id.buffer];
  Piece& piece = buffers[id.buffer].pieces[id.index];
  const bool is_in = buffer.live && is_or_comes(buffer, piece);
  if (is_in == piece.told_in) return;
  piece.told_in = is_in;
  try {
    if (is_in) {
      puller->on_brought(id.buffer);
    } else {
      if (!buffer.fresh) puller->on_filled(id.buffer);
      puller->on_left(id.buffer);
    }
  } catch (const std::bad_alloc&) {
    asks_policy = false;  // may_ask_policy() replaces it, and tells the new one all again
  }
}

void ResidencyCore::forget_buffer(BufferId id) noexcept {
  const Buffer& buffer = buffers[id];
  arena->give_back(buffer.base.load(), buffer.footprint);
  cache.unexpect(buffer.footprint);
  buffers.destroy(id);
}

void ResidencyCore::put_away(BufferId id) noexcept {
  Buffer& buffer = buffers[id];
  for (std::uint32_t index = 0; index < buffer.pieces.size(); ++index) {
    // Its eviction had not come to its end, or failed half-way.
    if (buffer.pieces[index].state() == PieceState::kUnmapped) pool->put(pieces.leave({id, index}));
  }
  if (buffer.missing < buffer.pieces.size()) {
    note_freed(buffer);
    cache.insert(id, buffer.footprint, buffer.bytes_in_place());
  } else {
    forget_buffer(id);
  }
}

void ResidencyCore::warn_gave_up(const char* awaited) noexcept {
  if (stopped || abandoned) return;
  warnings.once(awaited, [&] {
    return "gave up waiting after " + std::to_string(options.wait_limit.count()) + " ms " +
           awaited + " (does a stream wait for the program?)";
  });
}

void ResidencyCore::flush_warnings() noexcept {
  if (warnings.empty()) return;
  const auto waiting = warnings.take();
  const bool refuses = std::exchange(is_other_program, false);
  const Unlocked unlocked(mutex);
  try {
    for (const std::string& warning : waiting) options.warn(warning);
    if (refuses && options.refuse_other_program) options.refuse_other_program();
  } catch (const std::bad_alloc&) {
    // The rest is left out.
  }
}

}  // namespace superpipe
