// Making room: who has to go, what may be reclaimed, and when a launch may not have what it wants.
#include <algorithm>
#include <new>
#include <utility>

#include "policy/budget.h"
#include "residency/residency_impl.h"

namespace superpipe {

namespace {

/// Far above any device, far below an overflow.
constexpr Bytes kUnlimited{std::uint64_t{1} << 60};

std::string text_of(Bytes bytes) {
  const std::uint64_t tenths = (bytes.count() * 10 + (1 << 19)) >> 20;
  return std::to_string(bytes.count()) + " bytes (" + std::to_string(tenths / 10) + "." +
         std::to_string(tenths % 10) + " MiB)";
}

}  // namespace

void ResidencyManager::Impl::refresh_limit() {
  if (const Bytes reserved = passthrough_.reserved(); reserved != reserved_) {
    reserved_ = reserved;
    policy_.on_passthrough_bytes(reserved);
  }
  limit_ = std::min(policy_.managed_limit(), kUnlimited);
  hard_ = policy_.limit_is_hard();
}

Bytes ResidencyManager::Impl::excess() const {
  return device_bytes_ > limit_ ? device_bytes_ - limit_ : Bytes{};
}

// Bytes of pages that no live buffer holds, or will soon.
Bytes ResidencyManager::Impl::coming() const {
  Bytes bytes = pool_->idle_bytes() + cached_bytes_ + evicting_bytes_;
  for (const Eviction& eviction : evictions_) {
    const Buffer& buffer = buffers_[eviction.id];
    if (buffer.evict_ticket == eviction.ticket) bytes += buffer.footprint;
  }
  return bytes;
}

// Bytes that a fetch can have without a further eviction. `only_idle`: leaving out what may be
// stuck behind work of the program.
Bytes ResidencyManager::Impl::obtainable(bool only_idle) const {
  Bytes bytes = only_idle ? pool_->idle_bytes() : coming();
  if (limit_ > device_bytes_) bytes += limit_ - device_bytes_;
  return bytes > excess() ? bytes - excess() : Bytes{};
}

// Whether room may still come about by itself: another thread's operation holds buffers between its
// begin and its end, or is bringing one in, or has just used what was to be evicted.
bool ResidencyManager::Impl::others_move(const UseToken& token) const {
  const auto own = ids(token);
  for (std::uint32_t i = 0; i < buffers_.end(); ++i) {
    const Buffer& buffer = buffers_[BufferId{i}];
    const bool moves = buffer.place == Place::kFetching || buffer.place == Place::kEvicting ||
                       (buffer.pins > 0 && !buffer.pinned_forever) || evictable(buffer);
    if (moves && std::find(own.begin(), own.end(), BufferId{i}) == own.end()) return true;
  }
  return false;
}

bool ResidencyManager::Impl::take_turn(Lock& lock, Clock::time_point deadline) noexcept {
  TurnQueue::Place place;
  turn_.join(place);
  while (!turn_.take(place)) {
    if (wait_change(lock, deadline)) continue;
    turn_.leave(place);
    changed();  // somebody else is the first now
    return false;
  }
  ++turns_;
  return true;
}

void ResidencyManager::Impl::end_turn() noexcept {
  turn_.end();
  changed();
}

// Waits until something changed, or does a piece of work where there is no worker.
// @return false once `deadline` has passed, or the manager is being given up.
bool ResidencyManager::Impl::wait_change(Lock& lock, Clock::time_point deadline) noexcept {
  const auto time = now();
  if (stop_ || abandoned_ || time >= deadline) return false;
  if (!options_.worker_thread) {
    (void)step(lock);
    return true;
  }
  start_worker();
  work();
  // Some changes announce themselves (a notification), some do not (an event completes).
  constexpr std::chrono::nanoseconds kSlice = std::chrono::milliseconds{10};
  const std::chrono::nanoseconds left = deadline - time;
  ++waiters_;
  change_cv_.wait_for(lock, std::min(left, kSlice));
  --waiters_;
  return true;
}

void ResidencyManager::Impl::queue_prefetches(const std::vector<BufferId>& buffers) {
  for (const BufferId id : buffers) {
    if (index_of(id) >= buffers_.end()) continue;
    Buffer& buffer = buffers_[id];
    if (!buffer.live || buffer.place == Place::kIn || buffer.place == Place::kFetching ||
        buffer.want != Want::kNobody) {
      continue;
    }
    prefetches_.push_back({id, buffer.generation});
    buffer.want = Want::kPrefetch;
  }
  if (!prefetches_.empty()) {
    start_worker();
    work();
  }
}

bool ResidencyManager::Impl::evictable(const Buffer& buffer) const {
  return buffer.live && buffer.place == Place::kIn && buffer.pins == 0 && buffer.host_pins == 0 &&
         !buffer.pinned_forever && !buffer.quarantined && buffer.evict_ticket == 0 &&
         buffer.evict_failed != turns_;
}

// Marks the present end of the streams of `slots`, of which the calling thread uses none: they are
// not to be destroyed meanwhile.
void ResidencyManager::Impl::record_ends(Lock& lock, std::uint64_t slots) {
  struct Marked {
    Slot slot;
    StreamHandle stream;
    EventRef event;
  };
  std::vector<Marked> marked;
  for (Slot slot = 0; slot < StreamTable::kShared; ++slot) {
    if ((slots >> slot & 1) != 0 && streams_.recordable(slot)) {
      marked.push_back({slot, streams_.entry(slot).stream, nullptr});
    }
  }
  const std::uint64_t seq = seq_;
  std::uint64_t failed = 0;
  for (const Marked& one : marked) ++streams_.entry(one.slot).visitors;
  {
    const Unlocked unlocked(lock);
    for (Marked& one : marked) {
      // What a capturing stream did before cannot be marked now; its buffers stay.
      const auto capturing = is_capturing(one.stream);
      if (!capturing.ok() || *capturing) continue;
      auto event = events_.record(one.stream, seq);
      if (event.ok()) {
        one.event = std::move(*event);
      } else {
        ++failed;
      }
    }
  }
  stats_.errors += failed;
  for (Marked& one : marked) {
    --streams_.entry(one.slot).visitors;
    if (one.event != nullptr) streams_.note_event(one.slot, std::move(one.event));
  }
  if (waiters_ > 0) changed();
}

// Queues evictions of those victims that may go, after marking the present end of every stream that
// used them: the operation that is about to be submitted is not covered, so that the eviction waits
// for earlier work only. @return the bytes that will come free.
Bytes ResidencyManager::Impl::request_evictions(Lock& lock, std::span<const BufferId> victims) {
  std::vector<WantedFetch> chosen;
  std::uint64_t to_record = 0;
  std::vector<EventRef> events;
  for (const BufferId id : victims) {
    if (index_of(id) >= buffers_.end() || !evictable(buffers_[id])) continue;
    Buffer& buffer = buffers_[id];
    bool possible = true;
    bool ending = false;  // soon it will be
    for (Slot slot = 0; slot <= StreamTable::kShared; ++slot) {
      if ((buffer.uses >> slot & 1) == 0) continue;
      if (streams_.covered(slot, buffer.last_use, events)) continue;
      possible = possible && streams_.recordable(slot);
      ending = ending || streams_.ending(slot);
      to_record |= std::uint64_t{1} << slot;
    }
    if (possible) {
      chosen.push_back({id, buffer.generation});
    } else if (!ending) {
      buffer.evict_failed = turns_;
    }
  }
  if (chosen.empty()) return Bytes{};

  const std::uint64_t seq = seq_;
  if (to_record != 0) record_ends(lock, to_record);

  Bytes requested;
  for (const WantedFetch& victim : chosen) {
    Buffer& buffer = buffers_[victim.id];
    if (buffer.generation != victim.generation || !evictable(buffer)) continue;
    if (buffer.last_use > seq) continue;  // another thread used it meanwhile
    try {
      Eviction eviction{victim.id, victim.generation, ++tickets_, buffer.last_use, {}, now()};
      bool possible = true;
      bool ending = false;
      for (Slot slot = 0; slot <= StreamTable::kShared && possible; ++slot) {
        if ((buffer.uses >> slot & 1) == 0) continue;
        possible = streams_.covered(slot, buffer.last_use, eviction.events);
        ending = streams_.ending(slot);
      }
      if (!possible) {
        if (!ending) buffer.evict_failed = turns_;
        continue;
      }
      // A buffer that was fetched and never used has to arrive before it can go.
      if (buffer.ready != nullptr) eviction.events.push_back(buffer.ready);
      evictions_.push_back(std::move(eviction));
    } catch (const std::bad_alloc&) {
      if (requested == Bytes{}) throw;
      break;  // those will do for now
    }
    buffer.evict_ticket = tickets_;
    requested += buffer.footprint;
  }
  if (requested > Bytes{}) {
    start_worker();
    work();
  }
  return requested;
}

// Has policy choose victims that free `needed` bytes and requests their evictions.
Bytes ResidencyManager::Impl::evict_for(Lock& lock, Bytes needed) {
  std::vector<BufferId> candidates;
  for (std::uint32_t i = 0; i < buffers_.end(); ++i) {
    if (evictable(buffers_[BufferId{i}])) candidates.push_back(BufferId{i});
  }
  if (candidates.empty()) return Bytes{};
  if (!asks_policy_ && moves() && !restore_policy()) throw std::bad_alloc();
  return request_evictions(lock, policy_.choose_victims(candidates, needed));
}

// Gets every buffer of `token` mapped. REQUIRES: that they are pinned, and the turn, unless all are
// mapped and nothing is to be waited for. Whoever called it takes back the demands if it fails.
Status ResidencyManager::Impl::bring_in(Lock& lock, const UseToken& token, const Use& use,
                                        const Decision& decision) {
  if (pressure()) (void)request_evictions(lock, decision.evict);
  queue_prefetches(decision.fetch);

  Bytes working_set;
  for (const BufferId id : ids(token)) working_set += buffers_[id].footprint;
  const auto begun = now();
  const auto deadline = begun + options_.wait_limit;
  // Work that does not end may be waiting for the program itself (I7): other victims are taken long
  // before the wait is given up.
  const std::chrono::nanoseconds patience_step =
      std::min<std::chrono::nanoseconds>(options_.wait_limit / 4, std::chrono::milliseconds{500});
  auto patience = begun + patience_step;
  const std::uint64_t errors_before = stats_.errors;
  bool force = false;
  bool sampled = false;
  int full_device = 0;
  Status status = Status::kOk;
  while (status == Status::kOk) {
    Bytes needed;
    bool missing = false;
    for (const BufferId id : ids(token)) {
      Buffer& buffer = buffers_[id];
      if (buffer.place == Place::kIn) continue;
      missing = true;
      if (buffer.place != Place::kOut) continue;
      if (buffer.want != Want::kDemand) {
        if (const Status failed = std::exchange(buffer.fetch_status, Status::kOk);
            failed == Status::kOutOfDeviceMemory && full_device++ < 8) {
          // The device is fuller than the budget says: what is missing must come from others.
          if (evict_for(lock, buffer.footprint) == Bytes{} &&
              obtainable(false) < buffer.footprint) {
            status = failed;
            break;
          }
        } else if (failed != Status::kOk) {
          status = failed;
          break;
        }
        demands_.push_back({id, buffer.generation});
        buffer.want = Want::kDemand;
        work();
      }
      buffer.force = force;
      if (!buffer.page) needed += buffer.footprint;
    }
    if (!missing || status != Status::kOk) break;

    if (!force && needed > Bytes{}) {
      const bool allowed = !hard_ || options_.overflow_allowed;
      if (working_set > limit_ && !allowed) {
        // What was freed since the last sample may be all that is lacking.
        if (!std::exchange(sampled, true) && sample_passthrough(lock)) continue;
        warn_once([&] {
          const std::string number = std::to_string(static_cast<std::uint64_t>(use.kernel));
          const std::string what = use.kernel == KernelId{}
                                       ? "one operation"
                                       : "a launch of kernel " + options_.kernel_name(use.kernel);
          return std::pair{"too-large " + number,
                           what + " needs " + text_of(working_set) +
                               " of managed buffers at once, but the budget leaves " +
                               text_of(limit_) + " (" + text_of(passthrough_.bytes()) +
                               " are left to the driver, the headroom is " +
                               text_of(passthrough_.headroom()) + "): raise the budget by at least " +
                               text_of(working_set - limit_) +
                               " (--gpu-mem, SUPERPIPE_GPU_MEM)"
                               " or allow the overflow (SUPERPIPE_OVERFLOW=allow)"};
        });
        status = Status::kWorkingSetTooLarge;
        break;
      }
      const bool impatient = now() >= patience;
      if (impatient) patience += patience_step;
      const Bytes have = obtainable(impatient);
      const bool stuck = needed > have && evict_for(lock, needed - have) == Bytes{} &&
                         obtainable(false) < needed && evictions_.empty() &&
                         evicting_bytes_ == Bytes{} && cached_bytes_ == Bytes{};
      // Nothing is on its way and nobody can go. The pins of other operations end soon.
      if (stuck && (working_set > limit_ || !others_move(token))) {
        if (!std::exchange(sampled, true) && sample_passthrough(lock)) continue;
        if (stats_.errors > errors_before) {
          status = Status::kDeviceError;
        } else if (allowed) {
          force = true;
          if (hard_) {
            warn_once([&] {
              return std::pair{std::string("overflow"),
                               "one launch needs " + text_of(working_set) +
                                   " of managed buffers, more than the budget leaves (" +
                                   text_of(limit_) + "): running over the budget"};
            });
          }
        } else {
          warn_once([&] {
            return std::pair{std::string("pinned"),
                             "one launch needs " + text_of(working_set) +
                                 " beside buffers that cannot be moved (captured, exported or "
                                 "pinned), more than the budget of " +
                                 text_of(limit_)};
          });
          status = Status::kWorkingSetTooLarge;
        }
        continue;
      }
    }
    if (!wait_change(lock, force ? deadline + options_.wait_limit : deadline)) {
      if (stop_ || abandoned_) {
        status = Status::kDeviceError;
      } else if (force) {
        status = Status::kTimedOut;
      } else {
        force = true;
        warn_once([&] {
          return std::pair{
              std::string("expired"),
              "gave up waiting after " + std::to_string(options_.wait_limit.count()) +
                  " ms for the work that last used " + std::to_string(evictions_.size()) +
                  " buffers to complete (does a stream wait for the program?): running over the "
                  "budget by up to " +
                  text_of(needed)};
        });
      }
    }
  }
  if (status == Status::kOk && decision.fetch_before_launch) {
    const auto wanted = [&] {
      return std::any_of(decision.fetch.begin(), decision.fetch.end(), [&](BufferId id) {
        const Buffer& buffer = buffers_[id];
        return buffer.live && (buffer.want == Want::kPrefetch || buffer.place == Place::kFetching);
      });
    };
    while (wanted() && wait_change(lock, deadline)) {
    }
  }
  // The limit has shrunk, or was run over: back below it as soon as work allows.
  if (status == Status::kOk && excess() > coming()) (void)evict_for(lock, excess() - coming());
  return status;
}

bool ResidencyManager::Impl::admits_passthrough(Bytes size) {
  if (passthrough_.admits(size) || options_.overflow_allowed) return true;
  Lock lock(mutex_);
  if (stop_ || abandoned_ || !hard_) return true;
  // Frees are not counted: only the device knows what is left to the driver now.
  (void)sample_passthrough(lock);
  if (passthrough_.admits(size)) return true;
  warn_once([&] {
    return std::pair{std::string("passthrough"),
                     "an allocation of " + text_of(size) + " that is left to the driver fails: " +
                         text_of(passthrough_.bytes()) +
                         " are left to it already, and the budget has no room for more "
                         "(--gpu-mem, SUPERPIPE_GPU_MEM)"};
  });
  flush_warnings(lock);
  return false;
}

void ResidencyManager::Impl::on_passthrough_allocation(Bytes size) {
  if (passthrough_.note_allocation(size)) wake_for_sample();
}

void ResidencyManager::Impl::on_passthrough_change() {
  if (passthrough_.note_change() && options_.policy.budget) wake_for_sample();
}

// The limit follows at once what is known to have grown; the worker asks the device.
void ResidencyManager::Impl::wake_for_sample() {
  Lock lock(mutex_);
  if (stop_ || abandoned_) return;
  refresh_limit();
  note_peak();
  start_worker();
  work();
}

// Asks the device how much it holds that is not in our pages. @return whether the limit or the
// estimate is another one now; false also where other threads changed the pages meanwhile: the next
// sample will tell.
bool ResidencyManager::Impl::sample_passthrough(Lock& lock) noexcept {
  constexpr int kAttempts = 4;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (pages_moving_ > 0) break;
    const std::uint64_t changes = page_changes_;
    const auto sample = passthrough_.begin_sample();
    Result<Bytes> used = Status::kDeviceError;
    {
      const Unlocked unlocked(lock);
      used = device_.used_bytes();
    }
    const bool undisturbed = pages_moving_ == 0 && page_changes_ == changes;
    if (!used.ok() || !undisturbed) {
      passthrough_.give_up_sample(sample, now());
      if (!used.ok()) return false;
      continue;
    }
    const bool moved =
        passthrough_.end_sample(sample, saturating_subtract(*used, device_bytes_), now());
    const Bytes before = limit_;
    refresh_limit();
    note_peak();
    return moved || limit_ != before;
  }
  return false;
}

// Has the pages that are too many evicted, as far as they can be now: the budget has less room than
// when they came. Looks again only when something has changed. @return whether anything was asked.
bool ResidencyManager::Impl::enforce_limit(Lock& lock) {
  if (excess() <= coming() || changes_ == excess_in_vain_) return false;
  const bool chosen = evict_for(lock, excess() - coming()) > Bytes{};
  if (!chosen) excess_in_vain_ = changes_;
  return chosen;
}

void ResidencyManager::Impl::note_peak() {
  stats_.peak_device_bytes = std::max(stats_.peak_device_bytes, device_bytes_ + passthrough_.bytes());
  stats_.peak_passthrough_bytes =
      std::max(stats_.peak_passthrough_bytes, passthrough_.bytes());
  stats_.peak_managed_demand = std::max(stats_.peak_managed_demand, live_footprint_);
}

}  // namespace superpipe
