#include "residency/residency_core.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "policy/budget.h"
#include "residency/tuning.h"

namespace superpipe {

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
      policy(manager_options.policy),
      asks_policy(moves && !manager_options.policy_waits),
      backing(buffers, host, granule),
      page_limit(options, moves, granule, {passthrough, ledger, policy, backing, warnings}),
      sampler(options, {device, passthrough, ledger, page_limit, waits},
              [this]() REQUIRES(manager_lock) { trace_memory(true); }),
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
    page_limit.refresh();
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
  if (worker.has_thread() && !waits.are_over() && !worker.wake_unless_pending()) {
    ++counters.errors;
  }
  return rest(deadline);
}

bool ResidencyCore::rest(Clock::time_point deadline) noexcept {
  const auto time = now();
  if (waits.are_over() || time >= deadline) return false;
  if (!worker.has_thread()) {
    ++waits.waiters;
    (void)worker.run_once();
    --waits.waiters;
    return true;
  }
  // Some changes announce themselves (a notification), some do not (an event completes).
  const std::chrono::nanoseconds left = deadline - time;
  waits.sleep(std::min<std::chrono::nanoseconds>(left, tuning::kChangeLongestSleep));
  return true;
}

void ResidencyCore::trace_memory(bool at_once) noexcept {
  if (!trace) return;
  const Bytes besides = samples_passthrough() ? passthrough.seen() : passthrough.bytes();
  trace->note(now(), {passthrough.budget().value_or(Bytes{}), ledger.limit()},
              {ledger.pages(), ledger.live(), besides, host.pinned()}, at_once);
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
    page_limit.tell_new_policy(fresh);
    for (std::uint32_t i = 0; i < buffers.end(); ++i) {
      const Buffer& buffer = buffers[BufferId{i}];
      if (buffer.live || buffer.is_beginning) {
        fresh.on_allocate(BufferId{i}, buffer.footprint,
                          static_cast<std::uint32_t>(buffer.pieces.size()));
      }
    }
    policy = std::move(fresh);
    if (follows_recorded) follow_recorded();
  } catch (const std::bad_alloc&) {
    return false;
  }
  asks_policy = true;
  page_limit.refresh();
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
  if (!is.is_moving && !is_as_before) waits.announce();
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
  if (waits.are_over()) return;
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
