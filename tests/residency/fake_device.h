// A device in memory: streams, events, pages and mappings, asynchronous and strict.
//
// Nothing that is enqueued runs until somebody lets it: a waiter, a query, or the test. Which
// stream advances is drawn at random from a seed, so that whatever is not ordered by an event or a
// stream happens in some seed in the wrong order. What a real device would punish (an access to an
// unmapped address, memory that is not pinned, an event on a capturing stream) is noted as a
// violation.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "residency/device_memory.h"
#include "tests/residency/allocation_faults.h"
#include "tests/residency/fake_memory.h"
#include "tests/residency/fake_streams.h"

namespace superpipe::testing {

/// The port's calls, to count them and to fail them.
enum class Call {
  kReserve,
  kReleaseReservation,
  kCreatePages,
  kDestroyPages,
  kMap,
  kRenewAccess,
  kUnmap,
  kCreateStream,
  kDestroyStream,
  kCreateEvent,
  kDestroyEvent,
  kRecord,
  kStreamWait,
  kIsComplete,
  kWait,
  kIsCapturing,
  kCopyToDevice,
  kCopyToHost,
  kZero,
  kPin,
  kUnpin,
  kUsage,
  kPrepareDigests,
  kDigest,
  kOwnUsage,
  kCount,
};

const char* name_of(Call call);
inline void PrintTo(Call call, std::ostream* out) { *out << name_of(call); }

/// Which waits the fake leaves out: a manager that relied on one of them must then be caught.
struct Sabotage {
  bool events_always_complete = false;      ///< queries and host waits say "complete" at once
  bool program_streams_never_wait = false;  ///< stream_wait on the program's streams does nothing
  bool own_streams_never_wait = false;      ///< stream_wait on the manager's streams does nothing
};

class FakeDevice : public DeviceMemory {
 public:
  struct Options {
    std::uint64_t seed = 1;
    Bytes granularity = Bytes{4096};
    Bytes capacity{std::uint64_t{1} << 40};
    Bytes total{std::uint64_t{1} << 40};  ///< what it says that it has, true or not
    bool eager = false;                   ///< everything runs when it is enqueued
    bool tells_processes = false;         ///< what this process has of what is used
    Sabotage sabotage = {};
  };

  explicit FakeDevice(const Options& options);
  ~FakeDevice() override;

  // -- the test's side: the program and its streams
  StreamHandle program_stream();
  /// Enqueues work of the program.
  void submit(StreamHandle stream, std::function<void()> work);
  /// Enqueues a host function that does not return before release_host_functions().
  void submit_blocking_host_function(StreamHandle stream);
  void release_host_functions();
  /// Makes later work of `stream` wait for all that `other` has now (the program's own event).
  void order_after(StreamHandle stream, StreamHandle other);
  /// Runs until `stream` is empty. @return false if it cannot come to that.
  bool synchronize(StreamHandle stream);
  /// Runs until nothing is left that can run.
  void drain();
  /// Digests that are enqueued while it is true do not run before it is false again.
  void hold_digests(bool held);
  /// The results of digests that run while it is true are not written.
  void lose_digests(bool lost) { digests_lost_ = lost; }
  void set_capturing(StreamHandle stream, bool capturing);
  /// One more device may access what is mapped from now on.
  void add_peer();
  /// How many such devices there are that may not access all of [address, address + size).
  int peers_without_access(Address address, std::size_t size);
  /// What the device holds besides the manager's pages: it counts against the capacity.
  void set_passthrough(Bytes bytes);
  /// What other processes hold: it counts as the manager's pages do, but not in peak_bytes().
  void set_others(Bytes bytes);

  /// Device bytes for work that runs now; unmapped parts are a violation, and are not touched.
  bool read(Address address, std::size_t size, std::byte* out);
  bool write(Address address, std::size_t size, const std::byte* in);

  // -- faults
  /// Fails the `nth` (1 is the next) call of that kind with `status`; with `repeat`, all from then.
  void fail(Call call, int nth, Status status, bool repeat = false);
  /// The same for a kZero that is enqueued all the same.
  void fail_late(int nth, Status status);
  void clear_faults();
  [[nodiscard]] int calls(Call call) const;

  // -- what was seen
  [[nodiscard]] std::vector<std::string> violations() const;
  [[nodiscard]] Bytes device_bytes() const;
  /// The most that pages and pass-through bytes together took when a page was created.
  [[nodiscard]] Bytes peak_bytes() const;
  /// Forgets the peak: pages that are created from now on make another.
  void forget_peak();
  /// Called at each port call of any thread, without a lock of the fake.
  std::function<void(Call)> on_call;
  /// Called where a thread is about to read host memory for a digest, without a lock.
  std::function<void()> on_host_digest;
  /// Called after each record() that did what it should, likewise.
  std::function<void()> after_record;
  /// A clock that goes on only with calls.
  [[nodiscard]] std::chrono::steady_clock::time_point now();
  /// The clock is later by `time`. Nothing has happened meanwhile.
  void let_time_pass(std::chrono::microseconds time) { clock_us_ += time.count(); }
  [[nodiscard]] std::size_t live_events() const;
  [[nodiscard]] std::size_t mapped_ranges() const;
  [[nodiscard]] std::size_t pinned_ranges() const;

  // -- the port
  [[nodiscard]] Bytes granularity() const override { return options_.granularity; }
  Result<Usage> usage() override;
  std::optional<Bytes> own_usage() noexcept override;
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
  ContentDigest digest_part_of_host(const DigestKey& key, std::span<const std::byte> content,
                                    std::size_t offset, std::size_t size) override {
    if (on_host_digest) on_host_digest();
    return DeviceMemory::digest_part_of_host(key, content, offset, size);
  }
  Result<std::size_t> digest(Address address, Bytes size, DigestParts* parts,
                             StreamHandle stream) override;
  Status pin(void* host, Bytes size) override;
  Status unpin(void* host) override;

 private:
  using Stream = FakeStreams::Stream;
  using Recording = FakeStreams::Recording;
  using Kind = FakeStreams::Operation::Kind;

  struct Fault {
    int nth = 0;
    Status status = Status::kOk;
    bool repeat = false;
    bool late = false;
  };
  /// Locks; what the fake itself allocates is not what a test makes fail.
  class Guard {
   public:
    explicit Guard(std::recursive_mutex& mutex) : lock_(mutex) {}

   private:
    Arming unarmed_{-1000};
    std::lock_guard<std::recursive_mutex> lock_;
  };

  Status enter(Call call);
  Status record_now(EventHandle event, StreamHandle stream);
  void violate(const std::string& what);
  Stream* stream_of(StreamHandle handle, const char* who);
  FakeStreams::RecordingRef* event_of(EventHandle handle, const char* who);
  void enqueue(StreamHandle handle, const char* who, FakeStreams::Operation operation);

  const Options options_;
  mutable std::recursive_mutex mutex_;
  FakeStreams streams_;
  FakeMemory memory_;
  std::map<EventHandle, FakeStreams::RecordingRef> events_;
  std::map<Call, Fault> faults_;
  std::map<Call, int> calls_;
  std::vector<std::string> violations_;
  std::uint64_t next_handle_ = 0x1000;
  FakeStreams::RecordingRef digests_held_;  ///< null: they are not
  bool digests_lost_ = false;
  std::optional<DigestKey> digest_key_;
  std::atomic<std::int64_t> clock_us_{0};
};

}  // namespace superpipe::testing
