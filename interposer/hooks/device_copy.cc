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
  return note(
      managed_.residency().begin_copy_where_it_is(address_, size, stream_, is_written_, token_));
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
  Status status = begin_both(nullptr);
  const bool is_on_host = status == Status::kOk && from_.host() != nullptr && to_.host() != nullptr;
  if (status != Status::kNotYet && !is_on_host) return status;
  permit_ = HostFunctionPermit::ask();
  if (is_on_host && permit_.is_given()) return Status::kOk;
  // The device makes it, where it has room for one of the two.
  if (is_on_host) end(/*submitted=*/false);
  for (CopyEnd* const first : {&to_, &from_}) {
    if (begin_both(first) == Status::kOk) return Status::kOk;
  }
  permit_ = HostFunctionPermit::insist();
  return begin_both(nullptr);
}

// `first` comes to the device, for which it may have to wait: nothing is held meanwhile. What does
// not lie in its buffer is refused before any of it is copied.
Status DeviceCopyPart::begin_both(CopyEnd* first) noexcept {
  const Bytes all{copy_.size};
  CopyEnd& second = first == &to_ ? from_ : to_;
  CopyEnd& other = first == &to_ ? to_ : from_;
  Status status = first != nullptr ? other.begin_on_device(all) : other.begin_where_it_is(all);
  if (status != Status::kOk) return status;
  status = second.begin_where_it_is(all);
  if (status != Status::kOk) other.end(/*submitted=*/false);
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
