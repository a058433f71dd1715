// The port through which residency reaches a device. One implementation calls the CUDA driver
// (interposer/driver/driver_device_memory), another is a fake for tests.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "policy/units.h"
#include "residency/content_digest.h"
#include "residency/result.h"

namespace superpipe {

/// A device virtual address.
using Address = std::uint64_t;

/// A stream, by the driver's handle. Values 0..2 are the driver's special streams; the caller
/// (interposer) has mapped the null stream to legacy (1) or per-thread (2).
enum class StreamHandle : std::uint64_t {};
/// An event, by the driver's handle; 0 is none.
enum class EventHandle : std::uint64_t {};
/// Physical device pages, by the driver's handle.
enum class PageHandle : std::uint64_t {};

inline constexpr StreamHandle kLegacyStream{1};
inline constexpr StreamHandle kPerThreadStream{2};

/// One contiguous transfer between the device and pinned host memory of ours.
struct Transfer {
  Address device;
  void* host;
  Bytes size;
};

/// Device memory, streams and events of one device, as residency needs them.
///
/// Thread-safe. No call waits on the device unless it says so. Every implementation runs calls
/// that a capture would forbid in relaxed capture mode, all with the managed context current, and
/// leaves the calling thread's context as it was.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  /// What the device has given to this process and all others together, and what it has in all.
  struct Usage {
    Bytes used, total;
  };
  /// Source: cuMemGetInfo.
  virtual Result<Usage> usage() = 0;
  /// What this process has of the used bytes: its contexts, pages and all else; nullopt: it cannot
  /// be told. For what is rare: it may take milliseconds. Source:
  /// nvmlDeviceGetComputeRunningProcesses.
  virtual std::optional<Bytes> own_usage() noexcept { return std::nullopt; }

  /// The allocation granule of physical pages, a power of two (2 MiB on every device known).
  [[nodiscard]] virtual Bytes granularity() const = 0;

  /// Reserves `size` bytes of address space. Source: cuMemAddressReserve.
  virtual Result<Address> reserve(Bytes size) = 0;
  virtual Status release_reservation(Address address, Bytes size) = 0;

  /// Creates physical pages. Source: cuMemCreate. @return kOutOfDeviceMemory when the device is
  /// full.
  virtual Result<PageHandle> create_pages(Bytes size) = 0;
  /// `size`: as created. Source: cuMemRelease.
  virtual Status destroy_pages(PageHandle pages, Bytes size) = 0;

  /// Maps `pages` whole at `address`, readable and writable for this device and for those whose
  /// access to its memory the program has enabled. Source: cuMemMap, cuMemSetAccess.
  virtual Status map(Address address, Bytes size, PageHandle pages) = 0;
  /// Makes what map() has mapped at `address` accessible also to devices that the program has
  /// enabled since. Source: cuMemSetAccess. @return kDeviceError also if nothing is mapped there.
  virtual Status renew_access(Address address, Bytes size) = 0;
  /// Does not wait for kernels: the caller has (I2). Source: cuMemUnmap.
  virtual Status unmap(Address address, Bytes size) = 0;

  /// A non-blocking stream of ours, of the highest priority: what little it computes (fills and
  /// digests) is soon over, and launches may be waiting for it. Source:
  /// cuStreamCreateWithPriority(CU_STREAM_NON_BLOCKING).
  virtual Result<StreamHandle> create_stream() = 0;
  virtual Status destroy_stream(StreamHandle stream) = 0;

  /// An event without timing. Source: cuEventCreate.
  virtual Result<EventHandle> create_event() = 0;
  virtual Status destroy_event(EventHandle event) = 0;
  /// Marks the present end of `stream`. kPerThreadStream is the calling thread's. May be called for
  /// a stream that other threads use, and begin to capture meanwhile.
  /// @return kCapturing if the program captures the stream, or one that the mark would break: then
  /// nothing was recorded.
  virtual Status record(EventHandle event, StreamHandle stream) = 0;
  /// Makes later work of `stream` wait for `event`.
  virtual Status stream_wait(StreamHandle stream, EventHandle event) = 0;
  /// Whether all work before the last record() has completed; true if never recorded.
  virtual Result<bool> is_complete(EventHandle event) = 0;
  /// Waits on the device, at most `limit`. @return kTimedOut.
  virtual Status wait(EventHandle event, std::chrono::milliseconds limit) = 0;
  /// Whether the program is capturing `stream` into a graph.
  virtual Result<bool> is_capturing(StreamHandle stream) = 0;

  /// Enqueues transfers as one batch on a stream of ours; host memory must be pinned.
  virtual Status copy_to_device(std::span<const Transfer> transfers, StreamHandle stream) = 0;
  virtual Status copy_to_host(std::span<const Transfer> transfers, StreamHandle stream) = 0;
  /// Enqueues setting `size` bytes to zero.
  virtual Status zero(Address address, Bytes size, StreamHandle stream) = 0;

  /// Gets the device ready for digests under `key`: to be called once, when the program has no work
  /// on the device yet, for the driver may wait for that. May take milliseconds: it digests
  /// contents of its own, which it waits for, bounded, and compares with what the host computes.
  /// Throws std::bad_alloc. @return kDeviceError if this device cannot compute digests, or computes
  /// others than the host.
  virtual Status prepare_digests(const DigestKey& key) = 0;
  /// Enqueues the digest of `size` bytes, at least one, at `address`, which is a multiple of 16, on
  /// a stream of ours. When that is complete, the first of `*parts`, which lie in memory that pin()
  /// has pinned, add up to the digest. REQUIRES: prepare_digests() has succeeded. @return how many
  /// they are.
  virtual Result<std::size_t> digest(Address address, Bytes size, DigestParts* parts,
                                     StreamHandle stream) = 0;

  /// A part of the digest of host memory, which the calling thread computes: digest_part_of(). Any
  /// thread.
  [[nodiscard]] virtual ContentDigest digest_part_of_host(const DigestKey& key,
                                                          std::span<const std::byte> content,
                                                          std::size_t offset, std::size_t size) {
    return digest_part_of(key, content, offset, size);
  }

  /// Bytes per second that transfers to the device reach, as far as that was measured; nullopt: not
  /// yet. Asks nothing of the device.
  [[nodiscard]] virtual std::optional<double> measured_link() const noexcept {
    return std::nullopt;
  }

  /// Pins host memory of ours. Source: cuMemHostRegister. @return kOutOfHostMemory.
  virtual Status pin(void* host, Bytes size) = 0;
  virtual Status unpin(void* host) = 0;
};

}  // namespace superpipe
