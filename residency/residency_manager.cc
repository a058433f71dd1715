#include "residency/residency_manager.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "residency/residency_impl.h"

namespace superpipe {

ResidencyManager::Impl::Impl(DeviceMemory& device, const ResidencyOptions& options)
    : device_(device),
      options_(options),
      moves_(options.policy.kind != PolicyKind::kResident),
      granule_(device.granularity()),
      events_(device),
      host_(device, events_, options.host_limit, options.wait_limit),
      transfers_(device, events_),
      policy_(options.policy),
      asks_policy_(moves_),
      passthrough_(options.policy.budget, options.headroom),
      timeline_(options.record_timeline ? std::make_unique<Timeline>() : nullptr),
      owner_pid_(getpid()) {
  refresh_limit();
}

Status ResidencyManager::Impl::start() {
  const auto arena = device_.reserve(options_.arena_size);
  if (!arena.ok()) return arena.status();
  arena_base_ = *arena;
  const auto windows = device_.reserve(options_.arena_size);
  if (!windows.ok()) return windows.status();
  windows_base_ = *windows;
  const auto used = device_.used_bytes();
  if (!used.ok()) return used.status();
  passthrough_.start(*used);
  arena_ = std::make_unique<Arena>(arena_base_, options_.arena_size, granule_);
  if (!arena_->ok()) return Status::kOutOfHostMemory;
  pool_ = std::make_unique<PagePool>(device_, windows_base_, options_.arena_size, granule_);
  return transfers_.start();
}

ResidencyManager::Impl::~Impl() { shut_down(); }

// Waits, bounded, for transfers of ours; for work of the program its context's end has waited. What
// other threads may still look at stays as it is, so that they find no buffers.
void ResidencyManager::Impl::shut_down() noexcept {
  if (abandoned_) return;  // not even the mutex may be trusted, in the child of a fork
  {
    const Lock lock(mutex_);
    if (stop_) return;
    stop_ = true;
    work_cv_.notify_all();
    changed();
  }
  if (worker_.joinable()) worker_.join();
  // While a transfer still runs, nothing under it may go away: better lost than torn.
  const bool quiet = transfers_.stop(options_.wait_limit) == Status::kOk;
  // Held to the end, across calls of the device: nobody waits for it any more but who looks in
  // late.
  Lock lock(mutex_);
  // Operations of other threads that are in the midst of a call of the device come to their end.
  for (auto left = options_.wait_limit; mutex_.open_sections > 0 && left.count() > 0;) {
    constexpr std::chrono::milliseconds kSlice{1};
    change_cv_.wait_for(lock, kSlice);
    left -= kSlice;
  }
  for (std::uint32_t i = 0; arena_ != nullptr && i < buffers_.end(); ++i) {
    const Buffer& buffer = buffers_[BufferId{i}];
    if (buffer.live) arena_->set_owner(buffer.base.load(), buffer.footprint, Arena::kNobody);
  }
  if (mutex_.open_sections > 0) return;  // all stays as it is, for whoever is in there
  demands_.clear();
  prefetches_.clear();
  evictions_.clear();
  probes_.clear();
  pass_starts_.clear();
  timeline_.reset();
  for (auto& [size, same_size] : by_footprint_) same_size.cached.clear();
  cached_bytes_ = Bytes{};
  streams_ = StreamTable{};
  for (std::uint32_t i = 0; i < buffers_.end(); ++i) {
    Buffer& buffer = buffers_[BufferId{i}];
    if (quiet && buffer.page) {
      if (buffer.place == Place::kIn) (void)device_.unmap(buffer.base.load(), buffer.footprint);
      (void)pool_->demolish(*buffer.page);
    }
    if (quiet) host_.release(buffer.slab, {});
    buffer.ready = buffer.freed = buffer.write_back = nullptr;
    buffer.host_operations.clear();
    buffer.page.reset();
  }
  if (quiet) {
    host_.regain_lost();
    host_.trim();
    while (pool_ != nullptr) {
      auto page = pool_->take_any();
      if (!page) page = pool_->take_lost();
      if (!page) break;
      (void)pool_->demolish(*page);
    }
    if (windows_base_ != 0) {
      (void)device_.release_reservation(windows_base_, options_.arena_size);
    }
    if (arena_base_ != 0) (void)device_.release_reservation(arena_base_, options_.arena_size);
  }
  events_.clear();
}

std::optional<BufferRange> ResidencyManager::Impl::find(Address address) const noexcept {
  const std::uint32_t index = arena_->index_at(address);
  if (index == Arena::kNobody) return std::nullopt;
  const Buffer& buffer = buffers_[BufferId{index}];
  const Address base = buffer.base.load(std::memory_order_relaxed);
  const Bytes size{buffer.size.load(std::memory_order_relaxed)};
  if (address - base >= size.count()) return std::nullopt;
  return BufferRange{base, size};
}

// The stream can still be marked now, and never again. Other threads may be about to mark it for
// reasons of ours: from here on none begins to, and those that have begun are waited for.
void ResidencyManager::Impl::on_stream_destroy(StreamHandle stream) noexcept {
  Lock lock(mutex_);
  if (abandoned_) return;
  // The shared slot may have uses of it beside a slot of its own: it got that later.
  const auto own = streams_.find(stream);
  const auto unmarked = [stream](const HostOperation& operation) {
    return operation.slot == StreamTable::kShared && operation.stream == stream &&
           operation.done == nullptr;
  };
  bool needs_end = streams_.lacks_event(stream);
  for (std::uint32_t i = 0; i < buffers_.end() && streams_.has_shared() && !needs_end; ++i) {
    const auto& operations = buffers_[BufferId{i}].host_operations;
    needs_end = std::any_of(operations.begin(), operations.end(), unmarked);
  }
  if (own) {
    auto& entry = streams_.entry(*own);
    const bool marked = entry.latest != nullptr && entry.latest->seq >= entry.last_use;
    needs_end = needs_end || (entry.last_use > 0 && !marked);
    ++entry.visitors;  // this thread: the slot is not to be used again meanwhile
    streams_.retire(*own);
  }
  if (needs_end) {
    const std::uint64_t seq = seq_;
    EventRef end;
    bool failed = false;
    {
      const Unlocked unlocked(lock);
      const auto capturing = is_capturing(stream);
      if (capturing.ok() && !*capturing) {
        auto recorded = events_.record_now(stream, seq);
        if (recorded.ok()) end = std::move(*recorded);
      }
      failed = end == nullptr && !(capturing.ok() && *capturing);
    }
    if (failed) ++stats_.errors;  // its buffers stay where they are
    if (end != nullptr && own) streams_.note_event(*own, end);
    if (end != nullptr && streams_.lacks_event(stream)) streams_.note_end(stream, end);
    for (std::uint32_t i = 0; i < buffers_.end() && streams_.has_shared(); ++i) {
      for (HostOperation& operation : buffers_[BufferId{i}].host_operations) {
        if (!unmarked(operation)) continue;
        operation.done = end;
        if (end == nullptr) operation.stream = StreamHandle{};  // nobody can mark it any more
      }
    }
    changed();
  }
  const auto deadline = now() + options_.wait_limit;
  const Slot shared = StreamTable::kShared;
  const auto visited = [&] {
    return (own && streams_.entry(*own).visitors > 1) || streams_.entry(shared).visitors > 0;
  };
  while (visited() && wait_change(lock, deadline)) {
  }
  if (own) --streams_.entry(*own).visitors;
}

ResidencyManager::Capacity ResidencyManager::Impl::capacity(Bytes device_total) {
  Lock lock(mutex_);
  if (!stop_ && !abandoned_) (void)sample_passthrough(lock);
  const Bytes total = moves() ? device_total + host_.limit() : device_total;
  const Bytes used = live_footprint_ + passthrough_.bytes();
  Bytes free = total > used ? total - used : Bytes{};
  // Every buffer needs backing, so that is what a further allocation can really have.
  if (moves()) free = std::min(free, host_.limit() - host_.reserved());
  return {free, total};
}

ResidencyStats ResidencyManager::Impl::stats() const {
  const Lock lock(mutex_);
  ResidencyStats stats;
  static_cast<ResidencyCounters&>(stats) = stats_;
  stats.launches = launches_.load(std::memory_order_relaxed);
  stats.managed_bytes = managed_bytes_;
  stats.passthrough_bytes = passthrough_.bytes();
  stats.peak_passthrough_bytes = std::max(stats.peak_passthrough_bytes, passthrough_.bytes());
  stats.pinned_host_bytes = host_.pinned();
  stats.managed_limit = limit_;
  try {
    stats.pass_ms = stats_.pass_ms;
    stats.learned = policy_.learned();
    if (timeline_ != nullptr) stats.timeline = timeline_->events();
  } catch (const std::bad_alloc&) {  // the counters alone, then
  }
  return stats;
}

void ResidencyManager::Impl::flush_warnings(Lock& lock) noexcept {
  if (warnings_.empty()) return;
  const auto warnings = std::exchange(warnings_, {});
  const Unlocked unlocked(lock);
  try {
    for (const std::string& warning : warnings) options_.warn(warning);
  } catch (const std::bad_alloc&) {  // a warning less
  }
}

// Takes no lock: in the child of a fork the mutex may be held by a thread that no longer exists.
void ResidencyManager::Impl::abandon() noexcept {
  abandoned_ = true;
  if (!worker_.joinable()) {
    worker_exited_ = true;
    return;
  }
  if (getpid() != owner_pid_) {
    worker_.detach();  // there is no such thread in this process
    return;
  }
  work_cv_.notify_all();
  change_cv_.notify_all();
  // The worker may be inside the driver, which may be on its way out itself: not waited for long.
  for (int i = 0; i < 200 && !worker_exited_; ++i) usleep(1000);
  if (worker_exited_) {
    worker_.join();
  } else {
    worker_.detach();
  }
}

ResidencyManager::ResidencyManager() = default;

ResidencyManager::~ResidencyManager() {
  if (impl_ != nullptr && impl_->left_running()) {
    // A thread that cannot be stopped may still use it.
    (void)impl_.release();  // NOLINT(bugprone-unused-return-value)
  }
}

Result<std::unique_ptr<ResidencyManager>> ResidencyManager::create(
    DeviceMemory& device, const ResidencyOptions& options) {
  try {
    std::unique_ptr<ResidencyManager> manager(new ResidencyManager());
    manager->impl_ = std::make_unique<Impl>(device, options);
    if (const Status status = manager->impl_->start(); status != Status::kOk) return status;
    manager->arena_base_ = manager->impl_->arena_base();
    manager->arena_size_ = manager->impl_->arena_size().count();
    return manager;
  } catch (const std::bad_alloc&) {
    return Status::kOutOfHostMemory;
  }
}

std::optional<BufferRange> ResidencyManager::find(Address address) const noexcept {
  return impl_->find(address);
}

Result<Address> ResidencyManager::allocate(Bytes size, std::optional<StreamHandle> stream) {
  return impl_->allocate(size, stream);
}

Status ResidencyManager::free(Address base) { return impl_->free(base, std::nullopt); }

Status ResidencyManager::free_async(Address base, StreamHandle stream) {
  return impl_->free(base, stream);
}

Status ResidencyManager::begin_launch(KernelId kernel, std::span<const std::uint64_t> words,
                                      StreamHandle stream, UseToken& token) {
  return impl_->begin_launch(kernel, words, stream, token);
}

Status ResidencyManager::begin_use(std::span<const std::uint64_t> words, bool writes,
                                   StreamHandle stream, UseToken& token) {
  return impl_->begin_use(words, writes, stream, token);
}

Result<CopyRoute> ResidencyManager::begin_copy_in(Address address, Bytes size, StreamHandle stream,
                                                  bool synchronous, UseToken& token) {
  return impl_->begin_copy(address, size, stream, synchronous, true, token);
}

Result<CopyRoute> ResidencyManager::begin_copy_out(Address address, Bytes size, StreamHandle stream,
                                                   bool synchronous, UseToken& token) {
  return impl_->begin_copy(address, size, stream, synchronous, false, token);
}

void ResidencyManager::end_use(UseToken& token, StreamHandle stream, bool submitted) noexcept {
  impl_->end_use(token, stream, submitted);
}

Status ResidencyManager::pin_forever(std::span<const std::uint64_t> words, const char* reason) {
  return impl_->pin_forever(words, reason);
}

void ResidencyManager::on_stream_destroy(StreamHandle stream) noexcept {
  impl_->on_stream_destroy(stream);
}

bool ResidencyManager::admits_passthrough(Bytes size) noexcept {
  return impl_->admits_passthrough(size);
}

void ResidencyManager::on_passthrough_allocation(Bytes size) noexcept {
  impl_->on_passthrough_allocation(size);
}

void ResidencyManager::on_passthrough_change() noexcept { impl_->on_passthrough_change(); }

bool ResidencyManager::make_room(Bytes size) noexcept { return impl_->make_room(size); }

void ResidencyManager::trim() { impl_->trim(); }

bool ResidencyManager::run_worker_once() { return impl_->run_worker_once(); }

ResidencyManager::Capacity ResidencyManager::capacity(Bytes device_total) {
  return impl_->capacity(device_total);
}

ResidencyStats ResidencyManager::stats() const { return impl_->stats(); }

void ResidencyManager::shut_down() noexcept { impl_->shut_down(); }

void ResidencyManager::abandon() noexcept { impl_->abandon(); }

}  // namespace superpipe
