#include "residency/transfer_engine.h"

#include <utility>

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
  Status result = Status::kOk;
  for (StreamHandle* const stream : {&to_device_, &to_host_, &fill_}) {
    if (*stream == StreamHandle{}) continue;
    auto end = events_.record(*stream, 0);
    Status status = end.ok() ? events_.wait(*end, limit) : end.status();
    if (status == Status::kOk) status = device_.destroy_stream(*stream);
    if (status != Status::kOk) result = status;
    *stream = StreamHandle{};
  }
  return result;
}

Transferred TransferEngine::fetch(Address window, const Slab& slab, Bytes size, Bytes zero_to,
                                  std::span<const EventRef> after) {
  // So that fetches are numbered as they are enqueued.
  const std::lock_guard lock(fetching_);
  const auto done = prepare(to_device_, after);
  if (!done.ok()) return {done.status(), nullptr, false};
  const Transfer transfer{window, slab.data, size};
  Status status = device_.copy_to_device({&transfer, 1}, to_device_);
  if (status == Status::kOk && zero_to > size) {
    status = device_.zero(window + size.count(), zero_to - size, to_device_);
  }
  Transferred fetched = finish(to_device_, *done, status);
  if (fetched.done != nullptr) fetched.done->fetch = ++fetches_;
  return fetched;
}

Transferred TransferEngine::write_back(Address window, const Slab& slab, Bytes size,
                                       std::span<const EventRef> after) {
  const auto done = prepare(to_host_, after);
  if (!done.ok()) return {done.status(), nullptr, false};
  const Transfer transfer{window, slab.data, size};
  return finish(to_host_, *done, device_.copy_to_host({&transfer, 1}, to_host_));
}

Transferred TransferEngine::fill(Address window, Bytes size, std::span<const EventRef> after) {
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
  return done;
}

// A copy that the driver refused may still have been enqueued in part, so its end is marked too.
Transferred TransferEngine::finish(StreamHandle stream, EventRef done, Status enqueued) {
  const Status recorded = events_.record(done, stream);
  if (recorded != Status::kOk) return {recorded, nullptr, true};
  return {enqueued, std::move(done), false};
}

}  // namespace superpipe
