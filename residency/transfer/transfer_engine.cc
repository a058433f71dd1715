#include "residency/transfer/transfer_engine.h"

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

namespace superpipe {

Status TransferEngine::start() {
  for (StreamHandle* const stream : {&to_device_, &to_host_, &fill_}) {
    const auto created = device_.create_stream();
    if (!created.ok()) return created.status();
    *stream = *created;
  }
  return Status::kOk;
}

Status TransferEngine::stop(std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  Status result = Status::kOk;
  const auto stop_one = [&](StreamHandle& stream) {
    if (const Status status = stop(stream, deadline); status != Status::kOk) result = status;
  };
  for (StreamHandle* const stream : {&to_device_, &to_host_, &fill_}) stop_one(*stream);
  const std::lock_guard lock(fetching_);
  for (Apart& one : apart_) {
    stop_one(one.stream);
    one.last = nullptr;
  }
  const std::lock_guard ending(ending_);
  ends_ = {};
  return result;
}

// Waits for one stream until `deadline`, and destroys it.
Status TransferEngine::stop(StreamHandle& stream, std::chrono::steady_clock::time_point deadline) {
  if (stream == StreamHandle{}) return Status::kOk;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  const auto end = events_.record(stream, 0);
  Status status =
      end.ok() ? events_.wait(*end, std::max(left, std::chrono::milliseconds{0})) : end.status();
  if (status == Status::kOk) status = device_.destroy_stream(stream);
  stream = StreamHandle{};
  return status;
}

Transferred TransferEngine::fetch(Address window, const Slab& slab, Bytes size, Bytes zero_to,
                                  std::span<const EventRef> after) {
  // So that fetches are numbered as they are enqueued.
  const std::lock_guard lock(fetching_);
  Transferred fetched = copy_in(to_device_, window, slab, size, zero_to, after);
  if (fetched.done != nullptr) fetched.done->fetch = ++fetches_;
  return fetched;
}

Transferred TransferEngine::fetch_apart(Address window, const Slab& slab, Bytes size, Bytes zero_to,
                                        std::span<const EventRef> after) {
  {
    const std::lock_guard lock(fetching_);
    if (Apart* const apart = idle_apart()) {
      Transferred fetched = copy_in(apart->stream, window, slab, size, zero_to, after);
      apart->last = fetched.done;
      apart->is_lost = fetched.untracked;
      return fetched;
    }
  }
  return fetch(window, slab, size, zero_to, after);
}

bool TransferEngine::may_fetch_apart() {
  const std::lock_guard lock(fetching_);
  return idle_apart() != nullptr;
}

bool TransferEngine::is_idle() noexcept try {
  std::vector<EventRef> ends;
  {
    const std::lock_guard lock(ending_);
    if (is_lost_) return false;
    ends.assign(ends_.begin(), ends_.end());
  }
  {
    const std::lock_guard lock(fetching_);
    for (const Apart& one : apart_) {
      if (one.is_lost) return false;
      ends.push_back(one.last);
    }
  }
  std::erase(ends, nullptr);
  const auto complete = events_.all_complete(ends);
  return complete.ok() && *complete;
} catch (const std::bad_alloc&) {
  return false;
}

// A stream on which no fetch is under way; null: there is none.
TransferEngine::Apart* TransferEngine::idle_apart() {
  for (Apart& one : apart_) {
    if (one.is_lost) continue;
    if (one.last != nullptr) {
      const auto complete = events_.is_complete(one.last);
      if (!complete.ok() || !*complete) continue;
      one.last = nullptr;
    }
    if (one.stream == StreamHandle{}) {
      const auto created = device_.create_stream();
      if (!created.ok()) return nullptr;
      one.stream = *created;
    }
    return &one;
  }
  return nullptr;
}

Transferred TransferEngine::copy_in(StreamHandle stream, Address window, const Slab& slab,
                                    Bytes size, Bytes zero_to, std::span<const EventRef> after) {
  auto done = prepare(stream, after);
  if (!done.ok()) return {done.status(), nullptr, false};
  const Transfer transfer{window, slab.data, size};
  Status status = device_.copy_to_device({&transfer, 1}, stream);
  if (status == Status::kOk && zero_to > size) {
    status = device_.zero(window + size.count(), zero_to - size, stream);
  }
  return finish(stream, std::move(*done), status);
}

Transferred TransferEngine::write_back(Address window, const Slab& slab, Bytes size,
                                       std::span<const EventRef> after) {
  const auto done = prepare(to_host_, after);
  if (!done.ok()) return {done.status(), nullptr, false};
  const Transfer transfer{window, slab.data, size};
  return finish(to_host_, *done, device_.copy_to_host({&transfer, 1}, to_host_));
}

Transferred TransferEngine::fill(Address window, Bytes size, std::span<const EventRef> after) {
  // So that none is enqueued behind another one that its event does not know of.
  const std::lock_guard lock(filling_);
  const auto done = prepare(fill_, after);
  if (!done.ok()) return {done.status(), nullptr, false};
  return finish(fill_, *done, size == Bytes{} ? Status::kOk : device_.zero(window, size, fill_));
}

Result<EventRef> TransferEngine::prepare(StreamHandle stream, std::span<const EventRef> after) {
  auto done = events_.prepare();
  if (!done.ok()) return done;
  if (const Status status = events_.stream_wait(stream, after); status != Status::kOk) {
    return status;
  }
  const std::lock_guard lock(ending_);
  const EventRef* const before = end_of(stream);
  (*done)->follows_program = is_lost_ || any_follows_program(after) ||
                             (before != nullptr && any_follows_program({before, 1}));
  return done;
}

// A copy that the driver refused may still have been enqueued in part, so its end is marked too.
Transferred TransferEngine::finish(StreamHandle stream, EventRef done, Status enqueued) {
  const Status recorded = events_.record(done, stream);
  note_end(stream, recorded == Status::kOk ? done : nullptr);
  if (recorded != Status::kOk) return {recorded, nullptr, true};
  return {enqueued, std::move(done), false};
}

// Of what was enqueued last on `stream`; null: it is one of apart_. Under ending_.
EventRef* TransferEngine::end_of(StreamHandle stream) noexcept {
  const std::array<StreamHandle, 3> streams{to_device_, to_host_, fill_};
  const auto found = std::ranges::find(streams, stream);
  if (found == streams.end()) return nullptr;
  return &ends_[static_cast<std::size_t>(found - streams.begin())];
}

// `end` completes with what was enqueued last on `stream`; null: nothing tells when that ends.
void TransferEngine::note_end(StreamHandle stream, const EventRef& end) noexcept {
  const std::lock_guard lock(ending_);
  EventRef* const last = end_of(stream);
  if (last == nullptr) return;
  if (end == nullptr) is_lost_ = true;
  *last = end;
}

}  // namespace superpipe
