#include "interposer/driver/driver_device_memory.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <limits>
#include <string>
#include <thread>

#include "interposer/driver/capture_count.h"
#include "interposer/driver/codes.h"
#include "interposer/driver/event_time.h"
#include "interposer/driver/in_context.h"
#include "interposer/driver/joining_streams.h"
#include "interposer/driver/process_memory.h"
#include "interposer/driver/streams.h"
#include "interposer/driver/table.h"
#include "interposer/log.h"
#include "interposer/reports/fault_watch.h"
#include "residency/host/slab_memory.h"

namespace superpipe {
namespace {

using Clock = std::chrono::steady_clock;

/// `result` as a Status; a failure that is not an answer to be expected goes to the log.
Status checked(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return Status::kOk;
  const char* name = nullptr;
  driver().cuGetErrorName(result, &name);
  // Out of memory is an answer: residency evicts and asks again. And behind a fault of the program
  // all calls fail alike, of which one line tells.
  static std::atomic<bool> has_told_of_fault{false};
  const bool expected = result == CUDA_ERROR_OUT_OF_MEMORY ||
                        (may_be_access_fault(result) && has_told_of_fault.exchange(true));
  log_line(expected ? LogLevel::kDebug : LogLevel::kError,
           std::string(call) + " failed: " +
               (name == nullptr ? std::to_string(static_cast<int>(result)) : std::string(name)));
  return to_status(result);
}

CUevent driver_event(EventHandle event) {
  return reinterpret_cast<CUevent>(static_cast<std::uint64_t>(event));
}

constexpr Bytes kSeparatorBytes{4};
constexpr Bytes kLeastPages = 256_MiB;
/// Where the device is full, so many separators are left out before one is asked for again.
constexpr int kLeftOutWhileFull = 256;
constexpr int kForGood = std::numeric_limits<int>::max();

// The parts of a copy to the host. A mapping waits for one of them, and smaller ones slow the link
// down. There are not too many of them, because a stream takes some hundred entries before its
// calls wait. All begin at a granule.
Bytes part_size_for(Bytes size) {
  constexpr Bytes kLeast = 4_MiB;
  constexpr std::uint64_t kMost = 64;
  return std::max(kLeast, round_up(Bytes{(size.count() + kMost - 1) / kMost}, 2_MiB));
}

// Addresses from here on have upper halves that are larger than most numbers of programs.
constexpr CUdeviceptr kLeastHigh = CUdeviceptr{1} << 44;

CUmemAllocationProp pages_of(CUdevice device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

}  // namespace

/// Events around a few of our batches; what they say is read when they are complete, at later
/// batches, so that nothing ever waits for a measurement.
class DriverDeviceMemory::LinkMeter {
 public:
  static constexpr Bytes kLeastTimedBytes = 1_MiB;
  static constexpr std::uint64_t kOneInBatches = 8;

  /// Starts timing a batch of `size` bytes on `stream`, if it is its turn. @return whether it did.
  bool begin(Bytes size, CUstream stream) {
    const std::lock_guard lock(mutex_);
    harvest();
    if (size < kLeastTimedBytes || batches_++ % kOneInBatches != 0) return false;
    for (Pair& pair : pairs_) {
      if (pair.state != State::kFree) continue;
      if (pair.start == nullptr &&
          (driver().cuEventCreate(&pair.start, CU_EVENT_DEFAULT) != CUDA_SUCCESS ||
           driver().cuEventCreate(&pair.end, CU_EVENT_DEFAULT) != CUDA_SUCCESS)) {
        return false;
      }
      if (driver().cuEventRecord(pair.start, stream) != CUDA_SUCCESS) return false;
      pair.state = State::kStarted;
      pair.stream = stream;
      pair.size = size;
      return true;
    }
    return false;
  }

  /// Ends the timing that begin() started on `stream`.
  void end(CUstream stream) {
    const std::lock_guard lock(mutex_);
    for (Pair& pair : pairs_) {
      if (pair.state != State::kStarted || pair.stream != stream) continue;
      pair.state =
          driver().cuEventRecord(pair.end, stream) == CUDA_SUCCESS ? State::kRunning : State::kFree;
    }
  }

  [[nodiscard]] std::optional<double> bytes_per_second() const noexcept {
    const double best = best_.load();
    if (best <= 0) return std::nullopt;
    return best;
  }

  void destroy_events() {
    const std::lock_guard lock(mutex_);
    for (Pair& pair : pairs_) {
      if (pair.start != nullptr) driver().cuEventDestroy_v2(pair.start);
      if (pair.end != nullptr) driver().cuEventDestroy_v2(pair.end);
      pair = {};
    }
  }

 private:
  enum class State { kFree, kStarted, kRunning };
  struct Pair {
    CUevent start = nullptr;
    CUevent end = nullptr;
    CUstream stream = nullptr;
    Bytes size;
    State state = State::kFree;
  };

  void harvest() {
    for (Pair& pair : pairs_) {
      if (pair.state != State::kRunning || driver().cuEventQuery(pair.end) != CUDA_SUCCESS) {
        continue;
      }
      const double seconds = milliseconds_between(pair.start, pair.end).value_or(0) / 1000.0;
      // The best of them: between its two events a batch may also have waited for its own thread to
      // be scheduled, which only makes it look slower.
      if (seconds > 0) {
        best_ = std::max(best_.load(), static_cast<double>(pair.size.count()) / seconds);
      }
      pair.state = State::kFree;
    }
  }

  std::mutex mutex_;
  std::array<Pair, 4> pairs_{};
  std::uint64_t batches_ = 0;
  std::atomic<double> best_ = 0;  ///< bytes per second
};

DriverDeviceMemory::DriverDeviceMemory(CUcontext context, CUdevice device)
    : context_(context),
      device_(device),
      granularity_(2_MiB),
      meter_(std::make_unique<LinkMeter>()) {
  const InRelaxedContext in_context(context_);
  const CUmemAllocationProp properties = pages_of(device_);
  std::size_t granularity = 0;
  if (driver().cuMemGetAllocationGranularity(&granularity, &properties,
                                             CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS &&
      granularity > 0) {
    granularity_ = Bytes{granularity};
  }
  (void)driver().cuEventCreate(&never_recorded_, CU_EVENT_DISABLE_TIMING);
}

DriverDeviceMemory::~DriverDeviceMemory() {
  const InRelaxedContext in_context(context_);
  // The addresses of a context that has been destroyed may be another one's: they are not freed.
  const CUdeviceptr separator = separator_.load();
  const bool has_memory = digests_ != nullptr || separator != 0;
  const bool is_there = has_memory && in_context.is_current() && DriverDeviceMemory::usage().ok();
  if (digests_ != nullptr && !is_there) digests_->abandon();
  digests_.reset();
  if (separator != 0 && is_there) (void)driver().cuMemFree_v2(separator);
  meter_->destroy_events();
  legacy_follower_.destroy();
  if (never_recorded_ != nullptr) driver().cuEventDestroy_v2(never_recorded_);
}

CUresult DriverDeviceMemory::sticky_error() const noexcept {
  if (never_recorded_ == nullptr) return CUDA_SUCCESS;
  const InRelaxedContext in_context(context_);
  return driver().cuEventQuery(never_recorded_);
}

Result<Address> DriverDeviceMemory::reserve(Bytes size) {
  const InRelaxedContext in_context(context_);
  // Left to themselves drivers were seen to begin at 0x3_0200_0000, where each pair of small
  // integers is an address. The upper halves of these hints are rare in data: they are no common
  // integers, halves of floating point numbers or text. Nor has a process with 47 bits of
  // address space anything else there.
  for (const CUdeviceptr hint : {0x6B00'8100'0000, 0x5B00'8100'0000, 0x4B00'8100'0000}) {
    CUdeviceptr address = 0;
    if (driver().cuMemAddressReserve(&address, size.count(), 0, hint, 0) != CUDA_SUCCESS) continue;
    if (address >= kLeastHigh) return Address{address};
    (void)driver().cuMemAddressFree(address, size.count());
  }
  CUdeviceptr address = 0;
  const Status status =
      checked(driver().cuMemAddressReserve(&address, size.count(), 0, 0, 0), "cuMemAddressReserve");
  if (status != Status::kOk) return status;
  if (address < kLeastHigh) {
    char line[128];
    std::snprintf(
        line, sizeof line,
        "the driver reserves addresses at 0x%llx only: numbers in data may look like them",
        static_cast<unsigned long long>(address));
    log_line(LogLevel::kInfo, line);
  }
  return Address{address};
}

Status DriverDeviceMemory::release_reservation(Address address, Bytes size) {
  const InRelaxedContext in_context(context_);
  return checked(driver().cuMemAddressFree(address, size.count()), "cuMemAddressFree");
}

Result<PageHandle> DriverDeviceMemory::create_pages(Bytes size) {
  const InRelaxedContext in_context(context_);
  const CUmemAllocationProp properties = pages_of(device_);
  CUmemGenericAllocationHandle handle = 0;
  const Status status =
      checked(driver().cuMemCreate(&handle, size.count(), &properties, 0), "cuMemCreate");
  if (status != Status::kOk) return status;
  page_bytes_ += size.count();
  return PageHandle{handle};
}

Status DriverDeviceMemory::destroy_pages(PageHandle pages, Bytes size) {
  const InRelaxedContext in_context(context_);
  const Status status =
      checked(driver().cuMemRelease(static_cast<std::uint64_t>(pages)), "cuMemRelease");
  if (status == Status::kOk) page_bytes_ -= size.count();
  return status;
}

Result<DeviceMemory::Usage> DriverDeviceMemory::usage() {
  const InRelaxedContext in_context(context_);
  std::size_t free = 0;
  std::size_t total = 0;
  // Asked at any time: an error that the program's work has left behind is not ours to report.
  const Status asked = to_status(driver().cuMemGetInfo_v2(&free, &total));
  if (asked != Status::kOk) return asked;
  return Usage{Bytes{total - std::min(free, total)}, Bytes{total}};
}

std::optional<Bytes> DriverDeviceMemory::own_usage() noexcept {
  return memory_of_this_process(device_);
}

Status DriverDeviceMemory::map(Address address, Bytes size, PageHandle pages) {
  const InRelaxedContext in_context(context_);
  const Status mapped =
      checked(driver().cuMemMap(address, size.count(), 0, static_cast<std::uint64_t>(pages), 0),
              "cuMemMap");
  if (mapped != Status::kOk) return mapped;
  CUresult answer = set_access(address, size, peers());
  if (answer != CUDA_SUCCESS && peers() != 0 &&
      set_access(address, size, DeviceMask{0}) == CUDA_SUCCESS) {
    // The driver lets other devices reach what it allocates, but not what is mapped.
    if (!refuses_peers_.exchange(true)) {
      log_line(LogLevel::kWarning,
               "the driver gives no other device access to mapped memory: a kernel of another "
               "device that uses a buffer will fault (SUPERPIPE_OFF=1 runs without superpipe)");
    }
    answer = CUDA_SUCCESS;
  }
  const Status accessible = checked(answer, "cuMemSetAccess");
  // Half a mapping would fault at the next launch: take it back.
  if (accessible != Status::kOk) driver().cuMemUnmap(address, size.count());
  return accessible;
}

// For all devices in one call, which costs less than one for each.
CUresult DriverDeviceMemory::set_access(Address address, Bytes size, DeviceMask others) const {
  std::array<CUmemAccessDesc, kMostDevices + 1> access;
  std::size_t count = 0;
  const auto add = [&access, &count](int device) {
    access[count] = {};
    access[count].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access[count].location.id = device;
    access[count].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    ++count;
  };
  add(device_);
  for (DeviceMask left = others; left != 0; left &= left - 1) add(std::countr_zero(left));
  return driver().cuMemSetAccess(address, size.count(), access.data(), count);
}

Status DriverDeviceMemory::renew_access(Address address, Bytes size) {
  const InRelaxedContext in_context(context_);
  // The caller asks again where the pages may have gone under the call, so that it is no error yet.
  return to_status(set_access(address, size, peers()));
}

Status DriverDeviceMemory::unmap(Address address, Bytes size) {
  const InRelaxedContext in_context(context_);
  return checked(driver().cuMemUnmap(address, size.count()), "cuMemUnmap");
}

Result<StreamHandle> DriverDeviceMemory::create_stream() {
  const InRelaxedContext in_context(context_);
  // Where a device knows no priorities, both are 0.
  int lowest = 0;
  int highest = 0;
  if (driver().cuCtxGetStreamPriorityRange(&lowest, &highest) != CUDA_SUCCESS) highest = 0;
  CUstream stream = nullptr;
  const Status status =
      checked(driver().cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, highest),
              "cuStreamCreateWithPriority");
  if (status != Status::kOk) return status;
  return StreamHandle{reinterpret_cast<std::uint64_t>(stream)};
}

Status DriverDeviceMemory::destroy_stream(StreamHandle stream) {
  const InRelaxedContext in_context(context_);
  return checked(driver().cuStreamDestroy_v2(driver_stream(stream)), "cuStreamDestroy");
}

Result<EventHandle> DriverDeviceMemory::create_event() {
  const InRelaxedContext in_context(context_);
  CUevent event = nullptr;
  const Status status =
      checked(driver().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  if (status != Status::kOk) return status;
  return EventHandle{reinterpret_cast<std::uint64_t>(event)};
}

Status DriverDeviceMemory::destroy_event(EventHandle event) {
  const InRelaxedContext in_context(context_);
  return checked(driver().cuEventDestroy_v2(driver_event(event)), "cuEventDestroy");
}

Status DriverDeviceMemory::record(EventHandle event, StreamHandle stream) {
  // Recording and waiting in order are no unsafe calls: the capture mode need not be exchanged,
  // which matters here, at every launch.
  const CaptureCount::Barrier no_capture_begins;
  const auto captured = is_capturing(stream);
  if (!captured.ok()) return captured.status();
  if (*captured) return Status::kCapturing;
  if (stream == kPerThreadStream) JoiningStreams::note();
  const InContext in_context(context_);
  if (stream == kLegacyStream && JoiningStreams::any()) {
    const CUresult recorded = legacy_follower_.record(driver_event(event));
    if (recorded != CUDA_ERROR_NOT_SUPPORTED) return checked(recorded, "cuEventRecord");
  }
  return checked(driver().cuEventRecord(driver_event(event), driver_stream(stream)),
                 "cuEventRecord");
}

Status DriverDeviceMemory::stream_wait(StreamHandle stream, EventHandle event) {
  const InContext in_context(context_);
  return checked(driver().cuStreamWaitEvent(driver_stream(stream), driver_event(event), 0),
                 "cuStreamWaitEvent");
}

Result<bool> DriverDeviceMemory::is_complete(EventHandle event) {
  const InRelaxedContext in_context(context_);
  const CUresult result = driver().cuEventQuery(driver_event(event));
  if (result == CUDA_ERROR_NOT_READY) return false;
  const Status status = checked(result, "cuEventQuery");
  if (status != Status::kOk) return status;
  return true;
}

Status DriverDeviceMemory::wait(EventHandle event, std::chrono::milliseconds limit) {
  // cuEventSynchronize has no limit, so this polls: at first without sleeping, because most waits
  // are short, then at intervals that are short against a transfer.
  constexpr auto kSpin = std::chrono::microseconds(100);
  constexpr auto kInterval = std::chrono::microseconds(50);
  const InRelaxedContext in_context(context_);
  const auto start = Clock::now();
  for (;;) {
    const CUresult result = driver().cuEventQuery(driver_event(event));
    if (result != CUDA_ERROR_NOT_READY) return checked(result, "cuEventQuery");
    const auto waited = Clock::now() - start;
    if (waited >= limit) return Status::kTimedOut;
    if (waited < kSpin) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kInterval);
    }
  }
}

Result<bool> DriverDeviceMemory::is_capturing(StreamHandle stream) {
  if (!CaptureCount::any()) return false;
  const InContext in_context(context_);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = driver().cuStreamIsCapturing(driver_stream(stream), &status);
  // The legacy stream answers so while a capture that it would break is under way.
  if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) return true;
  const Status checked_status = checked(result, "cuStreamIsCapturing");
  if (checked_status != Status::kOk) return checked_status;
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

Status DriverDeviceMemory::copy(std::span<const Transfer> transfers, StreamHandle stream,
                                bool to_device) {
  const InRelaxedContext in_context(context_);
  const CUstream queue = driver_stream(stream);
  Bytes total;
  for (const Transfer& transfer : transfers) total += transfer.size;
  const bool timed = to_device && meter_->begin(total, queue);
  Status status = Status::kOk;
  for (const Transfer& transfer : transfers) {
    if (to_device) {
      status = checked(driver().cuMemcpyHtoDAsync_v2(transfer.device, transfer.host,
                                                     transfer.size.count(), queue),
                       "cuMemcpyHtoDAsync");
    } else {
      status = copy_in_parts(transfer, queue);
    }
    if (status != Status::kOk) break;
  }
  if (timed) meter_->end(queue);
  return status;
}

// In parts, behind each of which the device sets a word. cuMemSetAccess, and who waits for it,
// waits until no copy to the host is on its way: on an H200 for a millisecond if the next one
// follows at once, else for as long as the copy takes. Behind a word that is set there is a moment
// between two copies, and they are as fast as without it; events, waits and copies of a word do not
// make one. To set four bytes needs no multiprocessor, so that the program's kernels do not hold it
// up (docs/measurements/2026-11-26-nvidia-h200-2).
Status DriverDeviceMemory::copy_in_parts(const Transfer& transfer, CUstream stream) {
  const Bytes part = part_size_for(transfer.size);
  for (Bytes done; done < transfer.size; done += part) {
    const Bytes size = std::min(part, transfer.size - done);
    const Status copied =
        checked(driver().cuMemcpyDtoHAsync_v2(static_cast<std::byte*>(transfer.host) + done.count(),
                                              transfer.device + done.count(), size.count(), stream),
                "cuMemcpyDtoHAsync");
    if (copied != Status::kOk) return copied;
    separate(stream);
  }
  return Status::kOk;
}

// Copies are right without it, and mappings slow.
void DriverDeviceMemory::separate(CUstream stream) {
  const CUdeviceptr word = separator();
  if (word == 0) return;
  const CUresult result = driver().cuMemsetD8Async(word, 0, kSeparatorBytes.count(), stream);
  if (checked(result, "cuMemsetD8Async") != Status::kOk) separators_left_out_.store(kForGood);
}

// A word on the device that nothing reads; 0 where there is none now. Not before the first copy to
// the host, since a program that never evicts does not need it; then the device may be full. Nor
// where there are few pages: a driver may take a granule for it, which comes out of the headroom.
CUdeviceptr DriverDeviceMemory::separator() {
  if (page_bytes_.load() < kLeastPages.count()) return 0;
  if (separators_left_out_.load() > 0) {
    if (separators_left_out_.load() < kForGood) --separators_left_out_;
    return 0;
  }
  CUdeviceptr word = separator_.load();
  if (word != 0) return word;
  if (driver().cuMemAlloc_v2(&word, kSeparatorBytes.count()) != CUDA_SUCCESS) {
    separators_left_out_.store(kLeftOutWhileFull);
    return 0;
  }
  CUdeviceptr others = 0;
  if (separator_.compare_exchange_strong(others, word)) return word;
  (void)driver().cuMemFree_v2(word);
  return others;
}

Status DriverDeviceMemory::copy_to_device(std::span<const Transfer> transfers,
                                          StreamHandle stream) {
  return copy(transfers, stream, /*to_device=*/true);
}

Status DriverDeviceMemory::copy_to_host(std::span<const Transfer> transfers, StreamHandle stream) {
  return copy(transfers, stream, /*to_device=*/false);
}

Status DriverDeviceMemory::zero(Address address, Bytes size, StreamHandle stream) {
  const InRelaxedContext in_context(context_);
  return checked(driver().cuMemsetD8Async(address, 0, size.count(), driver_stream(stream)),
                 "cuMemsetD8Async");
}

Status DriverDeviceMemory::prepare_digests(const DigestKey& key) {
  constexpr std::chrono::seconds kLimit{10};
  const InRelaxedContext in_context(context_);
  digests_ = DigestProgram::create(key, device_, kLimit);
  return digests_ == nullptr ? Status::kDeviceError : Status::kOk;
}

Result<std::size_t> DriverDeviceMemory::digest(Address address, Bytes size, DigestParts* parts,
                                               StreamHandle stream) {
  const InRelaxedContext in_context(context_);
  const Status status = checked(digests_->enqueue(address, size, parts, driver_stream(stream)),
                                "cuLaunchKernel of a digest");
  if (status != Status::kOk) return status;
  return digests_->parts_of(size);
}

Status DriverDeviceMemory::pin(void* host, Bytes size) {
  populate_slab_memory(static_cast<std::byte*>(host), size);
  const InRelaxedContext in_context(context_);
  const Status status =
      checked(driver().cuMemHostRegister_v2(
                  host, size.count(), CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP),
              "cuMemHostRegister");
  return status == Status::kOutOfDeviceMemory ? Status::kOutOfHostMemory : status;
}

Status DriverDeviceMemory::unpin(void* host) {
  const InRelaxedContext in_context(context_);
  return checked(driver().cuMemHostUnregister(host), "cuMemHostUnregister");
}

std::optional<double> DriverDeviceMemory::measured_link() const noexcept {
  return meter_->bytes_per_second();
}

}  // namespace superpipe
