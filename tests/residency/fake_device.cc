#include "tests/residency/fake_device.h"

#include <iterator>
#include <utility>

namespace superpipe::testing {

const char* name_of(Call call) {
  static constexpr const char* kNames[] = {"reserve",
                                           "release_reservation",
                                           "create_pages",
                                           "destroy_pages",
                                           "map",
                                           "renew_access",
                                           "unmap",
                                           "create_stream",
                                           "destroy_stream",
                                           "create_event",
                                           "destroy_event",
                                           "record",
                                           "stream_wait",
                                           "is_complete",
                                           "wait",
                                           "is_capturing",
                                           "copy_to_device",
                                           "copy_to_host",
                                           "zero",
                                           "pin",
                                           "unpin",
                                           "usage",
                                           "prepare_digests",
                                           "digest",
                                           "own_usage"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(Call::kCount));
  return kNames[static_cast<std::size_t>(call)];
}

FakeDevice::FakeDevice(const Options& options)
    : options_(options),
      streams_(options.seed, options.eager),
      memory_(options.granularity, options.capacity,
              [this](const std::string& what) { violate(what); }) {
  streams_.add(kLegacyStream, false);
  streams_.add(kPerThreadStream, false);
}

FakeDevice::~FakeDevice() = default;

// -- the test's side

StreamHandle FakeDevice::program_stream() {
  const Guard guard(mutex_);
  const StreamHandle handle{++next_handle_};
  streams_.add(handle, false);
  return handle;
}

void FakeDevice::submit(StreamHandle stream, std::function<void()> work) {
  const Guard guard(mutex_);
  enqueue(stream, "submit", {Kind::kWork, std::move(work), nullptr});
}

void FakeDevice::submit_blocking_host_function(StreamHandle stream) {
  const Guard guard(mutex_);
  streams_.release_host_functions(false);
  enqueue(stream, "host function", {Kind::kHostFunction, {}, nullptr});
}

void FakeDevice::release_host_functions() {
  const Guard guard(mutex_);
  streams_.release_host_functions(true);
}

void FakeDevice::order_after(StreamHandle stream, StreamHandle other) {
  const Guard guard(mutex_);
  auto recording = std::make_shared<Recording>();
  enqueue(other, "order_after", {Kind::kRecord, {}, recording});
  enqueue(stream, "order_after", {Kind::kWait, {}, recording});
}

bool FakeDevice::synchronize(StreamHandle stream) {
  for (;;) {
    const Guard guard(mutex_);
    const Stream* const found = stream_of(stream, "synchronize");
    if (found == nullptr || found->queue.empty()) return true;
    if (!streams_.advance_one()) return false;
  }
}

void FakeDevice::drain() {
  const Guard guard(mutex_);
  while (streams_.advance_one()) {
  }
}

void FakeDevice::hold_digests(bool held) {
  const Guard guard(mutex_);
  if (digests_held_ != nullptr) digests_held_->complete = true;
  digests_held_ = held ? std::make_shared<Recording>() : nullptr;
}

void FakeDevice::set_capturing(StreamHandle stream, bool capturing) {
  const Guard guard(mutex_);
  Stream* const found = stream_of(stream, "set_capturing");
  if (found != nullptr) found->capturing = capturing;
}

void FakeDevice::set_passthrough(Bytes bytes) {
  const Guard guard(mutex_);
  memory_.set_passthrough(bytes);
}

void FakeDevice::set_others(Bytes bytes) {
  const Guard guard(mutex_);
  memory_.set_others(bytes);
}

void FakeDevice::forget_peak() {
  const Guard guard(mutex_);
  memory_.forget_peak();
}

bool FakeDevice::read(Address address, std::size_t size, std::byte* out) {
  const Guard guard(mutex_);
  return memory_.transfer(address, size, out, nullptr);
}

bool FakeDevice::write(Address address, std::size_t size, const std::byte* in) {
  const Guard guard(mutex_);
  return memory_.transfer(address, size, nullptr, in);
}

void FakeDevice::add_peer() {
  const Guard guard(mutex_);
  memory_.add_peer();
}

int FakeDevice::peers_without_access(Address address, std::size_t size) {
  const Guard guard(mutex_);
  return memory_.peers_without_access(address, size);
}

void FakeDevice::fail(Call call, int nth, Status status, bool repeat) {
  const Guard guard(mutex_);
  faults_[call] = {calls_[call] + nth, status, repeat, false};
}

void FakeDevice::fail_late(int nth, Status status) {
  const Guard guard(mutex_);
  faults_[Call::kZero] = {calls_[Call::kZero] + nth, status, false, true};
}

void FakeDevice::clear_faults() {
  const Guard guard(mutex_);
  faults_.clear();
}

int FakeDevice::calls(Call call) const {
  const Guard guard(mutex_);
  const auto found = calls_.find(call);
  return found == calls_.end() ? 0 : found->second;
}

std::vector<std::string> FakeDevice::violations() const {
  const Guard guard(mutex_);
  return violations_;
}

Bytes FakeDevice::device_bytes() const {
  const Guard guard(mutex_);
  return memory_.pages_bytes();
}

Bytes FakeDevice::peak_bytes() const {
  const Guard guard(mutex_);
  return memory_.peak();
}

std::chrono::steady_clock::time_point FakeDevice::now() {
  return std::chrono::steady_clock::time_point{std::chrono::microseconds{clock_us_ += 20}};
}

std::size_t FakeDevice::live_events() const {
  const Guard guard(mutex_);
  return events_.size();
}

std::size_t FakeDevice::mapped_ranges() const {
  const Guard guard(mutex_);
  return memory_.mapped_ranges();
}

std::size_t FakeDevice::pinned_ranges() const {
  const Guard guard(mutex_);
  return memory_.pinned_ranges();
}

// -- what the parts have in common

Status FakeDevice::enter(Call call) {
  if (on_call) on_call(call);
  const Guard guard(mutex_);
  const int number = ++calls_[call];
  const auto fault = faults_.find(call);
  if (fault == faults_.end()) return Status::kOk;
  const bool fails =
      number == fault->second.nth || (fault->second.repeat && number > fault->second.nth);
  return fails ? fault->second.status : Status::kOk;
}

void FakeDevice::violate(const std::string& what) {
  if (violations_.size() < 100) violations_.push_back(what);
}

FakeStreams::Stream* FakeDevice::stream_of(StreamHandle handle, const char* who) {
  Stream* const found = streams_.find(handle);
  if (found != nullptr) return found;
  violate(std::string(who) + ": no such stream");
  return nullptr;
}

FakeStreams::RecordingRef* FakeDevice::event_of(EventHandle handle, const char* who) {
  const auto found = events_.find(handle);
  if (found != events_.end()) return &found->second;
  violate(std::string(who) + ": no such event");
  return nullptr;
}

void FakeDevice::enqueue(StreamHandle handle, const char* who, FakeStreams::Operation operation) {
  Stream* const stream = stream_of(handle, who);
  if (stream != nullptr) streams_.enqueue(*stream, std::move(operation));
}

// -- the port

Result<Address> FakeDevice::reserve(Bytes size) {
  if (const Status status = enter(Call::kReserve); status != Status::kOk) return status;
  const Guard guard(mutex_);
  return memory_.reserve(size);
}

Status FakeDevice::release_reservation(Address address, Bytes size) {
  if (const Status status = enter(Call::kReleaseReservation); status != Status::kOk) return status;
  const Guard guard(mutex_);
  memory_.release_reservation(address, size);
  return Status::kOk;
}

Result<PageHandle> FakeDevice::create_pages(Bytes size) {
  if (const Status status = enter(Call::kCreatePages); status != Status::kOk) return status;
  const Guard guard(mutex_);
  const PageHandle handle{++next_handle_};
  const Status status = memory_.create_pages(handle, size);
  return status == Status::kOk ? Result<PageHandle>(handle) : Result<PageHandle>(status);
}

Status FakeDevice::destroy_pages(PageHandle pages, Bytes size) {
  if (const Status status = enter(Call::kDestroyPages); status != Status::kOk) return status;
  const Guard guard(mutex_);
  return memory_.destroy_pages(pages, size);
}

Status FakeDevice::map(Address address, Bytes size, PageHandle pages) {
  int peers = 0;  // a driver is told of them when the call begins
  {
    const Guard guard(mutex_);
    peers = memory_.peers();
  }
  if (const Status status = enter(Call::kMap); status != Status::kOk) return status;
  const Guard guard(mutex_);
  streams_.advance_some();
  return memory_.map(address, size, pages, peers);
}

Status FakeDevice::renew_access(Address address, Bytes size) {
  if (const Status status = enter(Call::kRenewAccess); status != Status::kOk) return status;
  const Guard guard(mutex_);
  streams_.advance_some();
  return memory_.renew_access(address, size);
}

Status FakeDevice::unmap(Address address, Bytes size) {
  if (const Status status = enter(Call::kUnmap); status != Status::kOk) return status;
  const Guard guard(mutex_);
  const Status status = memory_.unmap(address, size);
  if (status == Status::kOk) streams_.advance_some();
  return status;
}

Result<StreamHandle> FakeDevice::create_stream() {
  if (const Status status = enter(Call::kCreateStream); status != Status::kOk) return status;
  const Guard guard(mutex_);
  const StreamHandle handle{++next_handle_};
  streams_.add(handle, true);
  return handle;
}

Status FakeDevice::destroy_stream(StreamHandle stream) {
  if (const Status status = enter(Call::kDestroyStream); status != Status::kOk) return status;
  const Guard guard(mutex_);
  Stream* const found = stream_of(stream, "destroy_stream");
  if (found == nullptr) return Status::kDeviceError;
  if (found->own && !found->queue.empty()) violate("own stream destroyed with work on it");
  streams_.remove(stream);
  return Status::kOk;
}

Result<EventHandle> FakeDevice::create_event() {
  if (const Status status = enter(Call::kCreateEvent); status != Status::kOk) return status;
  const Guard guard(mutex_);
  const EventHandle handle{++next_handle_};
  events_[handle] = std::make_shared<Recording>();
  events_[handle]->complete = true;  // as an event that was never recorded
  return handle;
}

Status FakeDevice::destroy_event(EventHandle event) {
  if (const Status status = enter(Call::kDestroyEvent); status != Status::kOk) return status;
  const Guard guard(mutex_);
  if (events_.erase(event) == 0) violate("destroy of an event that is not there");
  return Status::kOk;
}

Status FakeDevice::record(EventHandle event, StreamHandle stream) {
  const Status status = record_now(event, stream);
  if (status == Status::kOk && after_record) after_record();
  return status;
}

Status FakeDevice::record_now(EventHandle event, StreamHandle stream) {
  if (const Status status = enter(Call::kRecord); status != Status::kOk) return status;
  const Guard guard(mutex_);
  auto* const found = event_of(event, "record");
  if (found == nullptr) return Status::kDeviceError;
  Stream* const target = stream_of(stream, "record");
  if (target == nullptr) return Status::kDeviceError;
  if (target->capturing) return Status::kCapturing;
  *found = std::make_shared<Recording>();
  enqueue(stream, "record", {Kind::kRecord, {}, *found});
  return Status::kOk;
}

Status FakeDevice::stream_wait(StreamHandle stream, EventHandle event) {
  if (const Status status = enter(Call::kStreamWait); status != Status::kOk) return status;
  const Guard guard(mutex_);
  auto* const found = event_of(event, "stream_wait");
  Stream* const target = stream_of(stream, "stream_wait");
  if (found == nullptr || target == nullptr) return Status::kDeviceError;
  if (target->capturing) {
    violate("capturing stream made to wait");
    return Status::kDeviceError;
  }
  const bool left_out = target->own ? options_.sabotage.own_streams_never_wait
                                    : options_.sabotage.program_streams_never_wait;
  if (!left_out) {
    enqueue(stream, "stream_wait", {Kind::kWait, {}, *found});
  }
  return Status::kOk;
}

Result<bool> FakeDevice::is_complete(EventHandle event) {
  if (const Status status = enter(Call::kIsComplete); status != Status::kOk) return status;
  const Guard guard(mutex_);
  clock_us_ += 100;
  auto* const found = event_of(event, "is_complete");
  if (found == nullptr) return Status::kDeviceError;
  if (options_.sabotage.events_always_complete) return true;
  streams_.advance_one();
  return (*found)->complete;
}

Status FakeDevice::wait(EventHandle event, std::chrono::milliseconds limit) {
  if (const Status status = enter(Call::kWait); status != Status::kOk) return status;
  const Guard guard(mutex_);
  auto* const found = event_of(event, "wait");
  if (found == nullptr) return Status::kDeviceError;
  if (options_.sabotage.events_always_complete) return Status::kOk;
  while (!(*found)->complete) {
    if (!streams_.advance_one()) {
      clock_us_ += std::chrono::microseconds{limit}.count();
      return Status::kTimedOut;
    }
  }
  return Status::kOk;
}

Result<DeviceMemory::Usage> FakeDevice::usage() {
  if (const Status status = enter(Call::kUsage); status != Status::kOk) return status;
  const Guard guard(mutex_);
  return Usage{memory_.used(), options_.total};
}

std::optional<Bytes> FakeDevice::own_usage() noexcept {
  if (!options_.tells_processes || enter(Call::kOwnUsage) != Status::kOk) return std::nullopt;
  const Guard guard(mutex_);
  return memory_.own();
}

Result<bool> FakeDevice::is_capturing(StreamHandle stream) {
  if (const Status status = enter(Call::kIsCapturing); status != Status::kOk) return status;
  const Guard guard(mutex_);
  const Stream* const found = stream_of(stream, "is_capturing");
  if (found == nullptr) return Status::kDeviceError;
  return found->capturing;
}

Status FakeDevice::copy_to_device(std::span<const Transfer> transfers, StreamHandle stream) {
  if (const Status status = enter(Call::kCopyToDevice); status != Status::kOk) return status;
  const Guard guard(mutex_);
  for (const Transfer& transfer : transfers) {
    submit(stream, [this, transfer] {
      if (!memory_.is_pinned(transfer.host, transfer.size.count())) {
        violate("copy from memory that is not pinned");
        return;
      }
      write(transfer.device, transfer.size.count(), static_cast<const std::byte*>(transfer.host));
    });
  }
  return Status::kOk;
}

Status FakeDevice::copy_to_host(std::span<const Transfer> transfers, StreamHandle stream) {
  if (const Status status = enter(Call::kCopyToHost); status != Status::kOk) return status;
  const Guard guard(mutex_);
  for (const Transfer& transfer : transfers) {
    // I2: what still wrote through the buffer's own address would be lost.
    if (memory_.is_mapped_twice(transfer.device)) {
      violate("content copied out of a buffer that is mapped");
    }
    submit(stream, [this, transfer] {
      if (!memory_.is_pinned(transfer.host, transfer.size.count())) {
        violate("copy to memory that is not pinned");
        return;
      }
      read(transfer.device, transfer.size.count(), static_cast<std::byte*>(transfer.host));
    });
  }
  return Status::kOk;
}

Status FakeDevice::zero(Address address, Bytes size, StreamHandle stream) {
  const Status status = enter(Call::kZero);
  const Guard guard(mutex_);
  if (status != Status::kOk && !faults_[Call::kZero].late) return status;
  submit(stream, [this, address, size] {
    const std::vector<std::byte> zeroes(size.count());
    write(address, size.count(), zeroes.data());
  });
  return status;
}

Status FakeDevice::prepare_digests(const DigestKey& key) {
  if (const Status status = enter(Call::kPrepareDigests); status != Status::kOk) return status;
  const Guard guard(mutex_);
  if (digest_key_) violate("digests prepared twice");
  digest_key_ = key;
  return Status::kOk;
}

Result<std::size_t> FakeDevice::digest(Address address, Bytes size, DigestParts* parts,
                                       StreamHandle stream) {
  if (const Status status = enter(Call::kDigest); status != Status::kOk) return status;
  const Guard guard(mutex_);
  if (!digest_key_) violate("digest asked for before digests were prepared");
  // I2: what was still written through the buffer's own address would not be seen.
  if (memory_.is_mapped_twice(address)) {
    violate("content digested of a buffer that is mapped");
  }
  if (digests_held_ != nullptr) {
    enqueue(stream, "digest", {Kind::kWait, {}, digests_held_});
  }
  submit(stream, [this, address, size, parts] {
    if (!memory_.is_pinned(parts, sizeof(*parts))) violate("digest to memory that is not pinned");
    std::vector<std::byte> content(size.count());
    read(address, size.count(), content.data());
    if (digests_lost_) return;
    const ContentDigest digest = digest_of(*digest_key_, content);
    (*parts)[0] = {kDigestPrime - 5, 0};  // two parts that add up to it
    (*parts)[1] = {digest_add(digest.first, 5), digest.second};
  });
  return std::size_t{2};
}

Status FakeDevice::pin(void* host, Bytes size) {
  if (const Status status = enter(Call::kPin); status != Status::kOk) return status;
  const Guard guard(mutex_);
  memory_.pin(host, size);
  return Status::kOk;
}

Status FakeDevice::unpin(void* host) {
  if (const Status status = enter(Call::kUnpin); status != Status::kOk) return status;
  const Guard guard(mutex_);
  memory_.unpin(host);
  return Status::kOk;
}

}  // namespace superpipe::testing
