#include "interposer/hooks/device_copy.h"

#include <utility>

#include "interposer/driver/streams.h"
#include "interposer/driver/table.h"
#include "interposer/hooks/queued_copy.h"

namespace superpipe {

Status CopyEnd::note(const Result<CopyRoute>& route) noexcept {
  if (!route.ok()) return route.status();
  route_ = *route;
  return Status::kOk;
}

Status CopyEnd::begin_where_it_is(Bytes size) noexcept {
  if (!managed_.in_arena(address_)) return note(CopyRoute{nullptr, size});
  ResidencyManager& residency = managed_.residency();
  return note(is_written_ ? residency.begin_copy_in(address_, size, stream_, token_)
                          : residency.begin_copy_out(address_, size, stream_, token_));
}

Status CopyEnd::begin_on_device(Bytes size) noexcept {
  if (!managed_.in_arena(address_)) return note(CopyRoute{nullptr, size});
  return note(
      managed_.residency().begin_copy_in_place(address_, size, stream_, is_written_, token_));
}

void CopyEnd::end(bool submitted) noexcept {
  if (managed_.in_arena(address_)) managed_.residency().end_use(token_, stream_, submitted);
}

void CopyEnd::trace(std::size_t count) const noexcept {
  trace_copy(managed_, address_, {route_.host, Bytes{count}}, is_written_, stream_);
}

Status DeviceCopyPart::begin() noexcept {
  const Status status = begin_where_they_are();
  if (status != Status::kOk || from_.host() == nullptr || to_.host() == nullptr) return status;
  permit_ = HostFunctionPermit::ask();
  if (permit_.is_given()) return Status::kOk;
  // The device makes it, where it has room for one of the two.
  end(/*submitted=*/false);
  if (begin_on_device() == Status::kOk) return Status::kOk;
  permit_ = HostFunctionPermit::insist();
  return begin_where_they_are();
}

Status DeviceCopyPart::begin_where_they_are() noexcept {
  // Whatever does not lie in its buffer is refused before any of it is copied.
  const Bytes all{copy_.size};
  if (const Status status = from_.begin_where_it_is(all); status != Status::kOk) return status;
  const Status status = to_.begin_where_it_is(all);
  if (status != Status::kOk) from_.end(/*submitted=*/false);
  return status;
}

// The target first, which may have to wait for room: nothing is held meanwhile.
Status DeviceCopyPart::begin_on_device() noexcept {
  const Bytes all{copy_.size};
  if (const Status status = to_.begin_on_device(all); status != Status::kOk) return status;
  const Status status = from_.begin_where_it_is(all);
  if (status != Status::kOk) to_.end(/*submitted=*/false);
  return status;
}

CUresult DeviceCopyPart::submit() noexcept {
  const CUstream stream = driver_stream(copy_.stream);
  if (to_.host() == nullptr) {
    return driver().cuMemcpyHtoDAsync_v2(to_.address(), from_.host(), size(), stream);
  }
  if (from_.host() == nullptr) {
    return driver().cuMemcpyDtoHAsync_v2(to_.host(), from_.address(), size(), stream);
  }
  return queue_copy(copy_.stream, to_.host(), from_.host(), size(), Snapshot{}, std::move(permit_));
}

void DeviceCopyPart::end(bool submitted) noexcept {
  from_.end(submitted);
  to_.end(submitted);
}

void DeviceCopyPart::trace() const noexcept {
  from_.trace(size());
  to_.trace(size());
}

}  // namespace superpipe
