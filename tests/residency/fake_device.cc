#include "tests/residency/fake_device.h"

#include <algorithm>
#include <cstring>
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
                                           "digest"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(Call::kCount));
  return kNames[static_cast<std::size_t>(call)];
}

FakeDevice::FakeDevice(const Options& options) : options_(options), random_(options.seed) {
  streams_[kLegacyStream];
  streams_[kPerThreadStream];
}

FakeDevice::~FakeDevice() = default;

// -- the test's side

StreamHandle FakeDevice::program_stream() {
  const Guard guard(mutex_);
  const StreamHandle handle{++next_handle_};
  streams_[handle];
  return handle;
}

void FakeDevice::submit(StreamHandle stream, std::function<void()> work) {
  const Guard guard(mutex_);
  enqueue(stream, "submit", {Operation::Kind::kWork, std::move(work), nullptr});
}

void FakeDevice::submit_blocking_host_function(StreamHandle stream) {
  const Guard guard(mutex_);
  host_functions_released_ = false;
  enqueue(stream, "host function", {Operation::Kind::kHostFunction, {}, nullptr});
}

void FakeDevice::release_host_functions() {
  const Guard guard(mutex_);
  host_functions_released_ = true;
}

void FakeDevice::order_after(StreamHandle stream, StreamHandle other) {
  const Guard guard(mutex_);
  auto recording = std::make_shared<Recording>();
  enqueue(other, "order_after", {Operation::Kind::kRecord, {}, recording});
  enqueue(stream, "order_after", {Operation::Kind::kWait, {}, recording});
}

bool FakeDevice::synchronize(StreamHandle stream) {
  for (;;) {
    const Guard guard(mutex_);
    if (streams_[stream].queue.empty()) return true;
    if (!advance_one()) return false;
  }
}

void FakeDevice::drain() {
  const Guard guard(mutex_);
  while (advance_one()) {
  }
}

void FakeDevice::hold_digests(bool held) {
  const Guard guard(mutex_);
  if (digests_held_ != nullptr) digests_held_->complete = true;
  digests_held_ = held ? std::make_shared<Recording>() : nullptr;
}

void FakeDevice::set_capturing(StreamHandle stream, bool capturing) {
  const Guard guard(mutex_);
  streams_[stream].capturing = capturing;
}

void FakeDevice::set_passthrough(Bytes bytes) {
  const Guard guard(mutex_);
  passthrough_ = bytes;
}

void FakeDevice::set_others(Bytes bytes) {
  const Guard guard(mutex_);
  others_ = bytes;
}

void FakeDevice::forget_peak() {
  const Guard guard(mutex_);
  peak_bytes_ = Bytes{};
}

bool FakeDevice::read(Address address, std::size_t size, std::byte* out) {
  return transfer_bytes(address, size, out, nullptr);
}

bool FakeDevice::write(Address address, std::size_t size, const std::byte* in) {
  return transfer_bytes(address, size, nullptr, in);
}

bool FakeDevice::transfer_bytes(Address address, std::size_t size, std::byte* out,
                                const std::byte* in) {
  const Guard guard(mutex_);
  auto it = mappings_.upper_bound(address);
  if (it != mappings_.begin()) --it;
  // A buffer in pieces lies in several mappings, one behind the other.
  while (size > 0) {
    const bool is_mapped =
        it != mappings_.end() && address >= it->first && address - it->first < it->second.size;
    if (!is_mapped) {
      violate("access to unmapped device memory");
      return false;
    }
    const std::uint64_t offset = address - it->first;
    const std::size_t part = std::min<std::size_t>(size, it->second.size - offset);
    std::byte* const bytes = it->second.pages->bytes.data() + offset;
    if (out != nullptr) std::memcpy(std::exchange(out, out + part), bytes, part);
    if (in != nullptr) std::memcpy(bytes, std::exchange(in, in + part), part);
    address += part;
    size -= part;
    ++it;
  }
  return true;
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
  return device_bytes_;
}

Bytes FakeDevice::peak_bytes() const {
  const Guard guard(mutex_);
  return peak_bytes_;
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
  return mappings_.size();
}

std::size_t FakeDevice::pinned_ranges() const {
  const Guard guard(mutex_);
  return pinned_.size();
}

// -- the engine

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

FakeDevice::Stream* FakeDevice::stream_of(StreamHandle handle, const char* who) {
  const auto found = streams_.find(handle);
  if (found != streams_.end()) return &found->second;
  violate(std::string(who) + ": no such stream");
  return nullptr;
}

std::shared_ptr<FakeDevice::Recording>* FakeDevice::event_of(EventHandle handle, const char* who) {
  const auto found = events_.find(handle);
  if (found != events_.end()) return &found->second;
  violate(std::string(who) + ": no such event");
  return nullptr;
}

void FakeDevice::enqueue(StreamHandle handle, const char* who, Operation operation) {
  Stream* const stream = stream_of(handle, who);
  if (stream == nullptr) return;
  stream->queue.push_back(std::move(operation));
  if (options_.eager) {
    while (advance_one()) {
    }
  } else {
    advance_some();
  }
}

// Runs the head of one random stream that can go on. @return false if none can.
bool FakeDevice::advance_one() {
  std::vector<Stream*> busy;
  for (auto& [handle, stream] : streams_) {
    if (!stream.queue.empty()) busy.push_back(&stream);
  }
  std::shuffle(busy.begin(), busy.end(), random_);
  return std::any_of(busy.begin(), busy.end(),
                     [this](Stream* stream) { return run_head(*stream); });
}

bool FakeDevice::run_head(Stream& stream) {
  Operation& head = stream.queue.front();
  switch (head.kind) {
    case Operation::Kind::kWork: {
      const std::function<void()> work = std::move(head.work);
      stream.queue.pop_front();
      work();
      return true;
    }
    case Operation::Kind::kRecord:
      head.recording->complete = true;
      break;
    case Operation::Kind::kWait:
      if (!head.recording->complete) return false;
      break;
    case Operation::Kind::kHostFunction:
      if (!host_functions_released_) return false;
      break;
  }
  stream.queue.pop_front();
  return true;
}

// Mostly nothing, sometimes a lot: streams drift apart.
void FakeDevice::advance_some() {
  if (random_() % 4 != 0) return;
  for (std::uint64_t n = random_() % 6; n > 0 && advance_one(); --n) {
  }
}

bool FakeDevice::pinned(const void* host, std::size_t size) const {
  const auto* const start = static_cast<const std::byte*>(host);
  auto it = pinned_.upper_bound(start);
  if (it == pinned_.begin()) return false;
  --it;
  return start + size <= it->first + it->second;
}

// -- the port

Result<Address> FakeDevice::reserve(Bytes size) {
  if (const Status status = enter(Call::kReserve); status != Status::kOk) return status;
  const Guard guard(mutex_);
  const Address address = next_address_;
  next_address_ += size.count() + (std::uint64_t{1} << 32);
  reservations_[address] = size.count();
  return address;
}

Status FakeDevice::release_reservation(Address address, Bytes size) {
  if (const Status status = enter(Call::kReleaseReservation); status != Status::kOk) return status;
  const Guard guard(mutex_);
  const auto inside = mappings_.lower_bound(address);
  if (inside != mappings_.end() && inside->first < address + size.count()) {
    violate("reservation released with something mapped in it");
  }
  if (reservations_.erase(address) == 0) violate("release of what was not reserved");
  return Status::kOk;
}

Result<PageHandle> FakeDevice::create_pages(Bytes size) {
  if (const Status status = enter(Call::kCreatePages); status != Status::kOk) return status;
  const Guard guard(mutex_);
  if (size.count() % options_.granularity.count() != 0) violate("pages of an odd size");
  if (device_bytes_ + passthrough_ + others_ + size > options_.capacity)
    return Status::kOutOfDeviceMemory;
  device_bytes_ += size;
  peak_bytes_ = std::max(peak_bytes_, device_bytes_ + passthrough_);
  auto pages = std::make_shared<Physical>();
  pages->bytes.resize(size.count());
  for (auto& byte : pages->bytes) byte = std::byte{0xEE};  // new memory is not zero by itself
  const PageHandle handle{++next_handle_};
  pages_[handle] = std::move(pages);
  return handle;
}

Status FakeDevice::destroy_pages(PageHandle pages, Bytes size) {
  if (const Status status = enter(Call::kDestroyPages); status != Status::kOk) return status;
  const Guard guard(mutex_);
  const auto found = pages_.find(pages);
  if (found == pages_.end()) {
    violate("destroy of pages that are not there");
    return Status::kDeviceError;
  }
  if (found->second->mappings != 0) violate("pages destroyed while mapped");
  if (found->second->bytes.size() != size.count()) violate("pages destroyed with another size");
  device_bytes_ -= Bytes{found->second->bytes.size()};
  pages_.erase(found);
  return Status::kOk;
}

Status FakeDevice::map(Address address, Bytes size, PageHandle pages) {
  int peers = 0;  // a driver is told of them when the call begins
  {
    const Guard guard(mutex_);
    peers = peers_;
  }
  if (const Status status = enter(Call::kMap); status != Status::kOk) return status;
  const Guard guard(mutex_);
  advance_some();
  const auto found = pages_.find(pages);
  if (found == pages_.end() || found->second->bytes.size() != size.count()) {
    violate("map of what is not there, or not whole");
    return Status::kDeviceError;
  }
  const auto next = mappings_.lower_bound(address);
  const bool overlaps_next = next != mappings_.end() && next->first < address + size.count();
  const bool overlaps_before =
      next != mappings_.begin() && std::prev(next)->first + std::prev(next)->second.size > address;
  if (overlaps_next || overlaps_before) {
    violate("map over a mapping");
    return Status::kDeviceError;
  }
  ++found->second->mappings;
  mappings_[address] = {size.count(), found->second, peers};
  return Status::kOk;
}

Status FakeDevice::renew_access(Address address, Bytes size) {
  if (const Status status = enter(Call::kRenewAccess); status != Status::kOk) return status;
  const Guard guard(mutex_);
  advance_some();
  const auto found = mappings_.find(address);
  if (found == mappings_.end() || found->second.size != size.count()) return Status::kDeviceError;
  found->second.peers = peers_;
  return Status::kOk;
}

void FakeDevice::add_peer() {
  const Guard guard(mutex_);
  ++peers_;
}

int FakeDevice::peers_without_access(Address address, std::size_t size) {
  const Guard guard(mutex_);
  int least = peers_;
  std::size_t done = 0;
  while (done < size) {
    const auto found = mappings_.find(address + done);
    if (found == mappings_.end()) return peers_;
    least = std::min(least, found->second.peers);
    done += found->second.size;
  }
  return peers_ - least;
}

Status FakeDevice::unmap(Address address, Bytes size) {
  if (const Status status = enter(Call::kUnmap); status != Status::kOk) return status;
  const Guard guard(mutex_);
  const auto found = mappings_.find(address);
  if (found == mappings_.end() || found->second.size != size.count()) {
    violate("unmap of what is not mapped");
    return Status::kDeviceError;
  }
  --found->second.pages->mappings;
  mappings_.erase(found);
  advance_some();
  return Status::kOk;
}

Result<StreamHandle> FakeDevice::create_stream() {
  if (const Status status = enter(Call::kCreateStream); status != Status::kOk) return status;
  const Guard guard(mutex_);
  const StreamHandle handle{++next_handle_};
  streams_[handle].own = true;
  return handle;
}

Status FakeDevice::destroy_stream(StreamHandle stream) {
  if (const Status status = enter(Call::kDestroyStream); status != Status::kOk) return status;
  const Guard guard(mutex_);
  Stream* const found = stream_of(stream, "destroy_stream");
  if (found == nullptr) return Status::kDeviceError;
  if (found->own && !found->queue.empty()) violate("own stream destroyed with work on it");
  streams_.erase(stream);
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
  enqueue(stream, "record", {Operation::Kind::kRecord, {}, *found});
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
    enqueue(stream, "stream_wait", {Operation::Kind::kWait, {}, *found});
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
  advance_one();
  return (*found)->complete;
}

Status FakeDevice::wait(EventHandle event, std::chrono::milliseconds limit) {
  if (const Status status = enter(Call::kWait); status != Status::kOk) return status;
  const Guard guard(mutex_);
  auto* const found = event_of(event, "wait");
  if (found == nullptr) return Status::kDeviceError;
  if (options_.sabotage.events_always_complete) return Status::kOk;
  while (!(*found)->complete) {
    if (!advance_one()) {
      clock_us_ += std::chrono::microseconds{limit}.count();
      return Status::kTimedOut;
    }
  }
  return Status::kOk;
}

Result<DeviceMemory::Usage> FakeDevice::usage() {
  if (const Status status = enter(Call::kUsage); status != Status::kOk) return status;
  const Guard guard(mutex_);
  return Usage{device_bytes_ + passthrough_ + others_, options_.total};
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
      if (!pinned(transfer.host, transfer.size.count())) {
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
    const auto window = mappings_.find(transfer.device);
    if (window != mappings_.end() && window->second.pages->mappings > 1) {
      violate("content copied out of a buffer that is mapped");
    }
    submit(stream, [this, transfer] {
      if (!pinned(transfer.host, transfer.size.count())) {
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
  const auto window = mappings_.find(address);
  if (window != mappings_.end() && window->second.pages->mappings > 1) {
    violate("content digested of a buffer that is mapped");
  }
  if (digests_held_ != nullptr) {
    enqueue(stream, "digest", {Operation::Kind::kWait, {}, digests_held_});
  }
  submit(stream, [this, address, size, parts] {
    if (!pinned(parts, sizeof(*parts))) violate("digest to memory that is not pinned");
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
  pinned_[static_cast<const std::byte*>(host)] = size.count();
  return Status::kOk;
}

Status FakeDevice::unpin(void* host) {
  if (const Status status = enter(Call::kUnpin); status != Status::kOk) return status;
  const Guard guard(mutex_);
  if (pinned_.erase(static_cast<const std::byte*>(host)) == 0)
    violate("unpin of what is not pinned");
  return Status::kOk;
}

}  // namespace superpipe::testing
