// A device that moves no bytes and only counts time.
//
// The moment at which work begins and ends is known as soon as it is enqueued, because everything
// that it waits for was enqueued before. So there is no queue of events to be processed: a stream
// is the time at which it comes to its end, an event is a time, and a wait moves a clock.
//
// What the model leaves out is listed in bench/virtual_time/README.md.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "policy/timing_model.h"
#include "residency/device_memory.h"
#include "residency/virtual_time/engine.h"
#include "residency/virtual_time/virtual_clock.h"

namespace superpipe::virtual_time {

/// The calls of a device that are counted.
enum class DeviceCall : std::size_t {
  kCreatePages,
  kDestroyPages,
  kMap,
  kUnmap,
  kRecord,
  kStreamWait,
  kIsComplete,
  kIsCapturing,
  kWait,
  kCopyToDevice,
  kCopyToHost,
  kDigest,
  kPin,
  kOther,  ///< memory in use, streams, events, reservations, zeroing
  kCount,
};

inline constexpr std::size_t kDeviceCalls = static_cast<std::size_t>(DeviceCall::kCount);

[[nodiscard]] std::string_view name_of(DeviceCall call);

/// How often each call was made.
struct CallCounts {
  std::array<std::uint64_t, kDeviceCalls> counts{};

  [[nodiscard]] std::uint64_t operator[](DeviceCall call) const {
    return counts[static_cast<std::size_t>(call)];
  }
  [[nodiscard]] std::uint64_t total() const;
  /// What was called since `earlier`.
  [[nodiscard]] CallCounts since(const CallCounts& earlier) const;
};

/// How long the thread that makes a call is busy with it.
///
/// Defaults for create, map, set-access and unmap were published for an A100 with pages of 2 MiB;
/// a larger page is one handle as well, and is taken to cost the same. The others are what a driver
/// call without a transition to the kernel costs on a current processor, rounded.
struct DeviceCosts {
  Time create_pages{std::chrono::microseconds{193}};
  Time destroy_pages{std::chrono::microseconds{26}};
  Time map{Time{1'500}};
  Time set_access{std::chrono::microseconds{36}};
  Time unmap{std::chrono::microseconds{26}};
  Time query{Time{500}};         ///< cuEventQuery
  Time record{Time{800}};        ///< cuEventRecord
  Time stream_wait{Time{800}};   ///< cuStreamWaitEvent
  Time is_capturing{Time{100}};  ///< cuStreamIsCapturing
  Time enqueue_copy{std::chrono::microseconds{3}};
  Time pin{std::chrono::microseconds{20}};           ///< cuMemHostRegister, of any size
  Bandwidth host_digest_rate{4e9};                   ///< what a thread digests of host memory
  Bandwidth pin_rate{5e9};                           ///< and besides, for faulting the pages in
  Time usage{std::chrono::microseconds{10}};         ///< cuMemGetInfo
  Time load_code{std::chrono::milliseconds{1}};      ///< cuModuleLoadData, of one small kernel
  Time create_handle{std::chrono::microseconds{2}};  ///< an event or a stream
  Time launch{std::chrono::microseconds{10}};  ///< of the program, with what its framework does
};

/// What a VirtualDevice is.
struct VirtualDeviceOptions {
  Bandwidth to_device{25e9};  ///< PCIe 4.0 x16 with pinned memory
  Bandwidth to_host{25e9};
  Bandwidth device_memory{800e9};                   ///< for setting to zero, and digests
  Time least_kernel{std::chrono::microseconds{5}};  ///< a digest takes that besides
  Time copy_latency{std::chrono::microseconds{2}};  ///< an engine is busy with each copy, besides
  DeviceCosts costs;
  Bytes granularity = 2_MiB;
  Bytes capacity{std::uint64_t{1} << 50};
  std::size_t queue_depth = 1000;  ///< launches that were submitted and have not ended
};

/// The port in virtual time, and what a program does with its device.
///
/// Streams run in order; a copy engine for each direction is shared by all. Kernels of the program
/// run one after the other in the order of their submission, whatever streams they are on. A call
/// is charged to the thread whose turn it is by the clock. Checks what a real device would punish
/// or silently do wrong, see violations(). Touches no host memory except the results of digests,
/// which it writes at once: what it compares is which write was the last. Not thread-safe.
class VirtualDevice : public DeviceMemory {
 public:
  /// `clock` must outlive the device.
  VirtualDevice(const VirtualDeviceOptions& options, VirtualClock& clock);

  // -- the program
  /// The stream that a program begins with.
  [[nodiscard]] StreamHandle program_stream() const { return program_.front(); }
  /// Another stream of the program.
  [[nodiscard]] StreamHandle create_program_stream();
  /// Memory that a launch names.
  struct Operand {
    Address address = 0;
    Bytes size;
    bool is_written = false;
  };
  /// When a launch took place.
  struct Launched {
    Time enqueued{0};
    Time begin{0};  ///< later than `enqueued` by what was submitted before it, and by `stall`
    Time end{0};
    Time stall{0};  ///< there was nothing to do but wait for the events that its stream waits for
  };
  /// When the program's thread may submit another launch: at once, or when the oldest of those in
  /// flight has ended.
  [[nodiscard]] Time may_launch_at() const;
  /// Enqueues a kernel that computes for `compute`. The operands' mappings may lie in the future of
  /// the program's thread, because a round of the worker runs at its beginning: then the thread
  /// waits for them here, as it would have waited in begin_launch().
  Launched launch(StreamHandle stream, std::span<const Operand> operands, Time compute);
  /// A copy of the program from pageable memory to `address`; returns when it is done.
  void upload(StreamHandle stream, Address address, Bytes size);
  /// A copy of the program to pageable memory from `address`, behind the work of `stream`.
  /// @return when it is done, for which the program's thread has to wait.
  Time download(StreamHandle stream, Address address, Bytes size);
  /// The program copied into the host copy at `host` itself, until now.
  void note_host_write(const void* host);
  /// Other processes hold `bytes` of the device from now on.
  void set_others(Bytes bytes) { others_ = bytes; }
  /// The program holds `bytes` from now on that are no pages of this port.
  void set_besides(Bytes bytes);
  /// What it held when usage() was last called.
  [[nodiscard]] Bytes besides_when_asked() const { return besides_when_asked_; }
  /// When all that was submitted to `stream` will be over.
  [[nodiscard]] Time end_of(StreamHandle stream) const;
  /// When the last kernel of the program will be over.
  [[nodiscard]] Time computing_until() const { return computing_until_; }
  /// When all that was submitted to the program's streams will be over.
  [[nodiscard]] Time end_of_program() const;

  // -- what was seen
  [[nodiscard]] const CallCounts& calls() const { return calls_; }
  [[nodiscard]] Bytes to_device_bytes() const { return to_device_bytes_; }
  [[nodiscard]] Bytes to_host_bytes() const { return to_host_bytes_; }
  [[nodiscard]] Bytes page_bytes() const { return page_bytes_; }
  [[nodiscard]] Bytes peak_page_bytes() const { return peak_page_bytes_; }
  /// The most that pages and what the program held besides took together.
  [[nodiscard]] Bytes peak_bytes() const { return peak_bytes_; }
  /// Kernels on memory that is not mapped, content that is not there when it is used, pages that
  /// are unmapped or written under work; at most 16 of them are kept.
  [[nodiscard]] const std::vector<std::string>& violations() const { return violations_; }

  // -- the port
  Result<Usage> usage() override;
  [[nodiscard]] Bytes granularity() const override { return options_.granularity; }
  Result<Address> reserve(Bytes size) override;
  Status release_reservation(Address address, Bytes size) override;
  Result<PageHandle> create_pages(Bytes size) override;
  Status destroy_pages(PageHandle pages, Bytes size) override;
  Status map(Address address, Bytes size, PageHandle pages) override;
  Status renew_access(Address address, Bytes size) override;
  Status unmap(Address address, Bytes size) override;
  Result<StreamHandle> create_stream() override;
  Status destroy_stream(StreamHandle stream) override;
  Result<EventHandle> create_event() override;
  Status destroy_event(EventHandle event) override;
  Status record(EventHandle event, StreamHandle stream) override;
  Status stream_wait(StreamHandle stream, EventHandle event) override;
  Result<bool> is_complete(EventHandle event) override;
  Status wait(EventHandle event, std::chrono::milliseconds limit) override;
  Result<bool> is_capturing(StreamHandle stream) override;
  Status copy_to_device(std::span<const Transfer> transfers, StreamHandle stream) override;
  Status copy_to_host(std::span<const Transfer> transfers, StreamHandle stream) override;
  Status zero(Address address, Bytes size, StreamHandle stream) override;
  Status prepare_digests(const DigestKey& key) override;
  Result<std::size_t> digest(Address address, Bytes size, DigestParts* parts,
                             StreamHandle stream) override;
  [[nodiscard]] ContentDigest digest_part_of_host(const DigestKey& key,
                                                  std::span<const std::byte> content,
                                                  std::size_t offset, std::size_t size) override;
  std::optional<double> measured_link() const noexcept override {
    return options_.to_device.bytes_per_second;
  }
  Status pin(void* host, Bytes size) override;
  Status unpin(void* host) override;

 private:
  struct Stream {
    Time busy_until{0};  ///< the end of its last work
    Time not_before{0};  ///< the latest event that later work waits for
    [[nodiscard]] Time end() const { return std::max(busy_until, not_before); }
  };
  /// Memory, on the device or the host, by the times of the work on it.
  struct Content {
    Time written{0};   ///< the last write ends
    Time read{0};      ///< the last read ends
    Time digested{0};  ///< the last digest of it ends: no harm if others write meanwhile
    /// Which content it is: each write makes a new one, and a copy carries it on. 0: zeros.
    std::uint64_t version = 0;
  };
  struct Page {
    Bytes size;
    Content content;
    int mappings = 0;
  };
  struct Mapping {
    Bytes size;
    PageHandle page{};
    Time since{0};
    Time used_until{0};  ///< the last kernel that was given an address in it ends
  };
  using Mappings = std::map<Address, Mapping>;

  void enter(DeviceCall call, Time cost);
  [[nodiscard]] bool is_premature(Time end, Time begin) const;
  void violate(std::string what);
  static ContentDigest digest_of_version(const DigestKey& key, std::uint64_t version, Bytes size);
  Mappings::iterator mapping_at(Address address);
  template <typename Visit>
  bool for_each_mapping(Address address, Bytes size, Visit visit);
  Engine::Span copy(Engine& engine, Bandwidth link, const Transfer& transfer, Stream& stream);

  const VirtualDeviceOptions options_;
  VirtualClock& clock_;
  Engine to_device_;
  Engine to_host_;
  std::map<StreamHandle, Stream> streams_;
  std::vector<Time> events_;  ///< by handle less one: the moment that was marked
  std::vector<EventHandle> idle_events_;
  std::unordered_map<std::uint64_t, Page> pages_;
  Mappings mappings_;
  std::unordered_map<const void*, Content> host_;
  std::deque<Time> in_flight_;  ///< ends of launches, in order
  std::uint64_t next_handle_ =
      16;  ///< of streams and pages; small ones are the driver's own streams
  std::vector<StreamHandle> program_;  ///< its streams
  Time computing_until_{0};            ///< the end of the last kernel of the program
  Address next_address_ = Address{1} << 44;
  Bytes page_bytes_;
  Bytes besides_;
  Bytes besides_when_asked_;
  Bytes others_;
  Bytes peak_page_bytes_;
  Bytes peak_bytes_;
  Bytes to_device_bytes_;
  Bytes to_host_bytes_;
  std::map<const void*, Time> pinned_;  ///< when the call that pinned the memory returned
  CallCounts calls_;
  std::uint64_t versions_ = 0;
  DigestKey digest_key_{};
  std::vector<std::string> violations_;
};

}  // namespace superpipe::virtual_time
