#include "residency/virtual_time/virtual_device.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace superpipe::virtual_time {
namespace {

constexpr std::size_t kMostViolations = 16;

Time rounded(Seconds seconds) { return std::chrono::round<Time>(seconds); }

}  // namespace

std::string_view name_of(DeviceCall call) {
  constexpr std::array<std::string_view, kDeviceCalls> kNames{
      "create_pages", "destroy_pages", "map",          "unmap", "record",
      "stream_wait",  "is_complete",   "is_capturing", "wait",  "copy_to_device",
      "copy_to_host", "digest",        "pin",          "other"};
  return kNames[static_cast<std::size_t>(call)];
}

std::uint64_t CallCounts::total() const {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

CallCounts CallCounts::since(const CallCounts& earlier) const {
  CallCounts difference;
  for (std::size_t i = 0; i < kDeviceCalls; ++i) {
    difference.counts[i] = counts[i] - earlier.counts[i];
  }
  return difference;
}

VirtualDevice::VirtualDevice(const VirtualDeviceOptions& options, VirtualClock& clock)
    : options_(options), clock_(clock), program_{StreamHandle{next_handle_++}} {
  streams_[program_.front()] = {};
}

StreamHandle VirtualDevice::create_program_stream() {
  const StreamHandle stream = *create_stream();
  program_.push_back(stream);
  return stream;
}

void VirtualDevice::enter(DeviceCall call, Time cost) {
  ++calls_.counts[static_cast<std::size_t>(call)];
  clock_.charge(cost);
}

// Whether work that begins at `begin` should have waited for work that ends at `end`. A round of
// the worker may have seen that end already, on its own clock, and have passed the page on: the
// program gets the page before the round is over by its clock, which no real program can.
bool VirtualDevice::is_premature(Time end, Time begin) const {
  return end > begin && end > clock_.time(Thread::kWorker) && end > clock_.time(Thread::kProgram);
}

void VirtualDevice::violate(std::string what) {
  if (violations_.size() < kMostViolations) violations_.push_back(std::move(what));
}

// The mapping that `address` lies in, or end().
VirtualDevice::Mappings::iterator VirtualDevice::mapping_at(Address address) {
  auto at = mappings_.upper_bound(address);
  if (at == mappings_.begin()) return mappings_.end();
  --at;
  return address - at->first < at->second.size.count() ? at : mappings_.end();
}

// Calls `visit` with each mapping that [address, address + size) touches.
// @return false if a part of it is not mapped.
template <typename Visit>
bool VirtualDevice::for_each_mapping(Address address, Bytes size, Visit visit) {
  const Address end = address + size.count();
  auto at = mapping_at(address);
  while (address < end) {
    if (at == mappings_.end() || at->first > address) return false;
    visit(at->second);
    address = at->first + at->second.size.count();
    ++at;
  }
  return true;
}

Time VirtualDevice::may_launch_at() const {
  return in_flight_.size() < options_.queue_depth
             ? Time{0}
             : in_flight_[in_flight_.size() - options_.queue_depth];
}

VirtualDevice::Launched VirtualDevice::launch(StreamHandle stream,
                                              std::span<const Operand> operands, Time compute) {
  bool mapped = true;
  Time since{0};
  for (const Operand& operand : operands) {
    const auto note = [&](const Mapping& mapping) { since = std::max(since, mapping.since); };
    mapped = for_each_mapping(operand.address, operand.size, note) && mapped;
  }
  if (!mapped) violate("a kernel was launched on memory that is not mapped");
  clock_.advance_to(since);
  clock_.charge(options_.costs.launch);
  Stream& queue = streams_[stream];
  Launched launched;
  launched.enqueued = clock_.now();
  const Time ready = std::max({launched.enqueued, queue.busy_until, computing_until_});
  launched.begin = std::max(ready, queue.not_before);
  launched.stall = launched.begin - ready;
  launched.end = launched.begin + compute;
  queue.busy_until = computing_until_ = launched.end;
  for (const Operand& operand : operands) {
    (void)for_each_mapping(operand.address, operand.size, [&](Mapping& mapping) {
      Content& content = pages_[static_cast<std::uint64_t>(mapping.page)].content;
      if (content.written > launched.begin) violate("a kernel began before its content was there");
      if (content.read > launched.begin) violate("a kernel began while its page was copied out");
      content.written = content.read = launched.end;
      if (operand.is_written) content.version = ++versions_;
      mapping.used_until = launched.end;
    });
  }
  while (!in_flight_.empty() && in_flight_.front() <= clock_.now()) in_flight_.pop_front();
  in_flight_.push_back(launched.end);
  return launched;
}

void VirtualDevice::upload(StreamHandle stream, Address address, Bytes size) {
  Time since{0};
  const bool mapped = for_each_mapping(
      address, size, [&](const Mapping& mapping) { since = std::max(since, mapping.since); });
  if (!mapped) violate("the program copied to memory that is not mapped");
  clock_.advance_to(since);
  clock_.charge(options_.costs.enqueue_copy);
  Stream& queue = streams_[stream];
  const Engine::Span span = copy(to_device_, options_.to_device, {address, nullptr, size}, queue);
  (void)for_each_mapping(address, size, [&](Mapping& mapping) {
    Content& content = pages_[static_cast<std::uint64_t>(mapping.page)].content;
    content.written = span.end;
    content.version = ++versions_;
    mapping.used_until = span.end;
  });
  clock_.advance_to(span.end);
}

Time VirtualDevice::download(StreamHandle stream, Address address, Bytes size) {
  Time since{0};
  const bool mapped = for_each_mapping(
      address, size, [&](const Mapping& mapping) { since = std::max(since, mapping.since); });
  if (!mapped) violate("the program copied from memory that is not mapped");
  clock_.advance_to(since);
  clock_.charge(options_.costs.enqueue_copy);
  const Engine::Span span =
      copy(to_host_, options_.to_host, {address, nullptr, size}, streams_[stream]);
  (void)for_each_mapping(address, size, [&](Mapping& mapping) {
    Content& content = pages_[static_cast<std::uint64_t>(mapping.page)].content;
    if (content.written > span.begin) violate("the program copied out what was not there");
    content.read = std::max(content.read, span.end);
    mapping.used_until = std::max(mapping.used_until, span.end);
  });
  return span.end;
}

void VirtualDevice::note_host_write(const void* host) {
  Content& content = host_[host];
  if (content.read > clock_.now()) violate("the program wrote to a host copy that was being read");
  content.written = clock_.now();
  content.version = ++versions_;
}

void VirtualDevice::set_besides(Bytes bytes) {
  besides_ = bytes;
  peak_bytes_ = std::max(peak_bytes_, page_bytes_ + besides_);
}

Time VirtualDevice::end_of(StreamHandle stream) const { return streams_.at(stream).end(); }

Time VirtualDevice::end_of_program() const {
  Time end{0};
  for (const StreamHandle stream : program_) end = std::max(end, end_of(stream));
  return end;
}

Result<DeviceMemory::Usage> VirtualDevice::usage() {
  enter(DeviceCall::kOther, options_.costs.usage);
  besides_when_asked_ = besides_;
  return Usage{page_bytes_ + besides_ + others_, options_.capacity};
}

Result<Address> VirtualDevice::reserve(Bytes size) {
  enter(DeviceCall::kOther, options_.costs.create_handle);
  const Address address = next_address_;
  next_address_ += round_up(size, options_.granularity).count() + options_.granularity.count();
  return address;
}

Status VirtualDevice::release_reservation(Address /*address*/, Bytes /*size*/) {
  enter(DeviceCall::kOther, options_.costs.create_handle);
  return Status::kOk;
}

Result<PageHandle> VirtualDevice::create_pages(Bytes size) {
  enter(DeviceCall::kCreatePages, options_.costs.create_pages);
  if (page_bytes_ + size > options_.capacity) return Status::kOutOfDeviceMemory;
  page_bytes_ += size;
  peak_page_bytes_ = std::max(peak_page_bytes_, page_bytes_);
  peak_bytes_ = std::max(peak_bytes_, page_bytes_ + besides_);
  const std::uint64_t handle = next_handle_++;
  pages_[handle].size = size;
  return PageHandle{handle};
}

Status VirtualDevice::destroy_pages(PageHandle pages, Bytes size) {
  enter(DeviceCall::kDestroyPages, options_.costs.destroy_pages);
  const auto at = pages_.find(static_cast<std::uint64_t>(pages));
  if (at == pages_.end() || at->second.mappings > 0) return Status::kInvalidValue;
  const Content& content = at->second.content;
  if (is_premature(std::max({content.read, content.written, content.digested}), clock_.now())) {
    violate("a page was destroyed under work");
  }
  page_bytes_ -= size;
  pages_.erase(at);
  return Status::kOk;
}

Status VirtualDevice::map(Address address, Bytes size, PageHandle pages) {
  enter(DeviceCall::kMap, options_.costs.map + options_.costs.set_access);
  const auto page = pages_.find(static_cast<std::uint64_t>(pages));
  if (page == pages_.end() || page->second.size != size) return Status::kInvalidValue;
  const auto next = mappings_.lower_bound(address);
  const bool overlaps = mapping_at(address) != mappings_.end() ||
                        (next != mappings_.end() && next->first - address < size.count());
  if (overlaps) return Status::kInvalidValue;
  mappings_[address] = {size, pages, clock_.now(), Time{0}};
  ++page->second.mappings;
  return Status::kOk;
}

// There is no other device.
Status VirtualDevice::renew_access(Address /*address*/, Bytes /*size*/) { return Status::kOk; }

Status VirtualDevice::unmap(Address address, Bytes size) {
  enter(DeviceCall::kUnmap, options_.costs.unmap);
  const auto at = mappings_.find(address);
  if (at == mappings_.end() || at->second.size != size) return Status::kInvalidValue;
  if (at->second.used_until > clock_.now()) violate("memory was unmapped under a kernel");
  --pages_[static_cast<std::uint64_t>(at->second.page)].mappings;
  mappings_.erase(at);
  return Status::kOk;
}

Result<StreamHandle> VirtualDevice::create_stream() {
  enter(DeviceCall::kOther, options_.costs.create_handle);
  const StreamHandle stream{next_handle_++};
  streams_[stream] = {};
  return stream;
}

Status VirtualDevice::destroy_stream(StreamHandle stream) {
  enter(DeviceCall::kOther, options_.costs.create_handle);
  return streams_.erase(stream) == 1 ? Status::kOk : Status::kInvalidValue;
}

Result<EventHandle> VirtualDevice::create_event() {
  enter(DeviceCall::kOther, options_.costs.create_handle);
  if (!idle_events_.empty()) {
    const EventHandle event = idle_events_.back();
    idle_events_.pop_back();
    return event;
  }
  events_.emplace_back(0);
  return EventHandle{events_.size()};
}

Status VirtualDevice::destroy_event(EventHandle event) {
  enter(DeviceCall::kOther, options_.costs.create_handle);
  events_[static_cast<std::size_t>(event) - 1] = Time{0};
  idle_events_.push_back(event);
  return Status::kOk;
}

Status VirtualDevice::record(EventHandle event, StreamHandle stream) {
  enter(DeviceCall::kRecord, options_.costs.record);
  const Time end = streams_[stream].end();
  events_[static_cast<std::size_t>(event) - 1] = std::max(end, clock_.now());
  return Status::kOk;
}

Status VirtualDevice::stream_wait(StreamHandle stream, EventHandle event) {
  enter(DeviceCall::kStreamWait, options_.costs.stream_wait);
  Time& not_before = streams_[stream].not_before;
  not_before = std::max(not_before, events_[static_cast<std::size_t>(event) - 1]);
  return Status::kOk;
}

Result<bool> VirtualDevice::is_complete(EventHandle event) {
  enter(DeviceCall::kIsComplete, options_.costs.query);
  return events_[static_cast<std::size_t>(event) - 1] <= clock_.now();
}

Status VirtualDevice::wait(EventHandle event, std::chrono::milliseconds limit) {
  enter(DeviceCall::kWait, options_.costs.query);
  const Time complete = events_[static_cast<std::size_t>(event) - 1];
  const Time deadline = clock_.now() + limit;
  clock_.advance_to(std::min(complete, deadline));
  return complete <= deadline ? Status::kOk : Status::kTimedOut;
}

Result<bool> VirtualDevice::is_capturing(StreamHandle /*stream*/) {
  enter(DeviceCall::kIsCapturing, options_.costs.is_capturing);
  return false;
}

// Enqueues a copy behind what is on the stream.
Engine::Span VirtualDevice::copy(Engine& engine, Bandwidth link, const Transfer& transfer,
                                 Stream& stream) {
  engine.forget_before(std::min(clock_.time(Thread::kProgram), clock_.time(Thread::kWorker)));
  Time ready = std::max(clock_.now(), stream.end());
  // Another thread's call that pins the memory may not have returned yet.
  if (const auto at = pinned_.upper_bound(transfer.host); at != pinned_.begin()) {
    ready = std::max(ready, std::prev(at)->second);
  }
  const Engine::Span span =
      engine.reserve(ready, options_.copy_latency + rounded(link.time_for(transfer.size)));
  stream.busy_until = span.end;
  return span;
}

Status VirtualDevice::copy_to_device(std::span<const Transfer> transfers, StreamHandle stream) {
  enter(DeviceCall::kCopyToDevice, options_.costs.enqueue_copy);
  for (const Transfer& transfer : transfers) {
    const Engine::Span span = copy(to_device_, options_.to_device, transfer, streams_[stream]);
    to_device_bytes_ += transfer.size;
    Content& host = host_[transfer.host];
    if (host.written > span.begin) violate("a fetch began before its host copy was written");
    host.read = std::max(host.read, span.end);
    const bool mapped = for_each_mapping(transfer.device, transfer.size, [&](Mapping& mapping) {
      Content& content = pages_[static_cast<std::uint64_t>(mapping.page)].content;
      if (is_premature(std::max(content.written, content.read), span.begin)) {
        violate("a fetch began before the work of the page's former owner had ended");
      }
      content.written = span.end;
      content.version = host.version;
    });
    if (!mapped) violate("a fetch was enqueued to memory that is not mapped");
  }
  return Status::kOk;
}

Status VirtualDevice::copy_to_host(std::span<const Transfer> transfers, StreamHandle stream) {
  enter(DeviceCall::kCopyToHost, options_.costs.enqueue_copy);
  for (const Transfer& transfer : transfers) {
    const Engine::Span span = copy(to_host_, options_.to_host, transfer, streams_[stream]);
    to_host_bytes_ += transfer.size;
    Content& host = host_[transfer.host];
    if (std::max(host.written, host.read) > span.begin) {
      violate("a write-back began while its host copy was in use");
    }
    host.written = span.end;
    const bool mapped = for_each_mapping(transfer.device, transfer.size, [&](Mapping& mapping) {
      Content& content = pages_[static_cast<std::uint64_t>(mapping.page)].content;
      if (content.written > span.begin) violate("a write-back began before its content was there");
      content.read = std::max(content.read, span.end);
      host.version = content.version;
    });
    if (!mapped) violate("a write-back was enqueued from memory that is not mapped");
  }
  return Status::kOk;
}

Status VirtualDevice::zero(Address address, Bytes size, StreamHandle stream) {
  enter(DeviceCall::kOther, options_.costs.enqueue_copy);
  Stream& queue = streams_[stream];
  const Time begin = std::max(clock_.now(), queue.end());
  queue.busy_until = begin + rounded(options_.device_memory.time_for(size));
  (void)for_each_mapping(address, size, [&](Mapping& mapping) {
    Content& content = pages_[static_cast<std::uint64_t>(mapping.page)].content;
    content.written = queue.busy_until;
    const bool is_whole = mapping.size == size;
    if (!is_whole && content.version != 0) content.version = ++versions_;
    if (is_whole) content.version = 0;
  });
  return Status::kOk;
}

Status VirtualDevice::prepare_digests(const DigestKey& key) {
  enter(DeviceCall::kOther, options_.costs.load_code);
  digest_key_ = key;
  return Status::kOk;
}

ContentDigest VirtualDevice::digest_of_version(const DigestKey& key, std::uint64_t version,
                                               Bytes size) {
  return version == 0 ? digest_of_zeros(key, size.count()) : ContentDigest{version, 0};
}

// A kernel of the program that runs meanwhile takes longer, by what the digest reads of the memory.
Result<std::size_t> VirtualDevice::digest(Address address, Bytes size, DigestParts* parts,
                                          StreamHandle stream) {
  enter(DeviceCall::kDigest, options_.costs.enqueue_copy);
  Stream& queue = streams_[stream];
  const Time begin = std::max(clock_.now(), queue.end());
  const Time reading = rounded(options_.device_memory.time_for(size));
  queue.busy_until = begin + options_.least_kernel + reading;
  for (const StreamHandle program : program_) {
    Time& busy_until = streams_[program].busy_until;
    if (busy_until > begin) busy_until += reading;
  }
  if (computing_until_ > begin) computing_until_ += reading;
  const bool mapped = for_each_mapping(address, size, [&](Mapping& mapping) {
    Content& content = pages_[static_cast<std::uint64_t>(mapping.page)].content;
    if (is_premature(content.written, begin))
      violate("a digest began before its content was there");
    content.digested = queue.busy_until;
    parts->front() = digest_of_version(digest_key_, content.version, size);
  });
  if (!mapped) violate("a digest was enqueued of memory that is not mapped");
  return std::size_t{1};
}

// The first part stands for all.
ContentDigest VirtualDevice::digest_part_of_host(const DigestKey& key,
                                                 std::span<const std::byte> content,
                                                 std::size_t offset, std::size_t size) {
  clock_.charge(rounded(options_.costs.host_digest_rate.time_for(Bytes{size})));
  const Content& host = host_[content.data()];
  if (host.written > clock_.now()) violate("a host copy was digested before it was written");
  if (offset > 0) return {};
  return digest_of_version(key, host.version, Bytes{content.size()});
}

Status VirtualDevice::pin(void* host, Bytes size) {
  const DeviceCosts& costs = options_.costs;
  enter(DeviceCall::kPin, costs.pin + rounded(costs.pin_rate.time_for(size)));
  pinned_[host] = clock_.now();
  return Status::kOk;
}

Status VirtualDevice::unpin(void* host) {
  enter(DeviceCall::kOther, options_.costs.pin);
  host_.erase(host);
  pinned_.erase(host);
  return Status::kOk;
}

}  // namespace superpipe::virtual_time
