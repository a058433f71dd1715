// Residency's port to the device, over the real driver.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "interposer/contexts/peer_contexts.h"
#include "interposer/driver/cuda_api.h"
#include "interposer/driver/digest_program.h"
#include "interposer/driver/legacy_follower.h"
#include "residency/device_memory.h"

namespace superpipe {

/// DeviceMemory over the driver table: one context of one device.
///
/// Calls that a capture in another thread would forbid run in relaxed capture mode. Failures
/// that residency does not expect are logged with the call they came from.
class DriverDeviceMemory final : public DeviceMemory {
 public:
  /// `context` must outlive this, and be a context of `device`.
  DriverDeviceMemory(CUcontext context, CUdevice device);
  ~DriverDeviceMemory() override;
  DriverDeviceMemory(const DriverDeviceMemory&) = delete;
  DriverDeviceMemory& operator=(const DriverDeviceMemory&) = delete;

  Result<Usage> usage() override;
  std::optional<Bytes> own_usage() noexcept override;
  [[nodiscard]] Bytes granularity() const override { return granularity_; }
  /// As high as the driver lets it, where numbers in data hardly look like addresses.
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
  /// An event of the legacy stream lies on another stream once the process has streams that join
  /// the legacy one (LegacyFollower).
  Status record(EventHandle event, StreamHandle stream) override;
  Status stream_wait(StreamHandle stream, EventHandle event) override;
  Result<bool> is_complete(EventHandle event) override;
  Status wait(EventHandle event, std::chrono::milliseconds limit) override;
  Result<bool> is_capturing(StreamHandle stream) override;
  Status copy_to_device(std::span<const Transfer> transfers, StreamHandle stream) override;
  /// In parts, so that map() need not wait for all of it.
  Status copy_to_host(std::span<const Transfer> transfers, StreamHandle stream) override;
  Status zero(Address address, Bytes size, StreamHandle stream) override;
  /// Waits for the kernel's first launches 10 s at most.
  Status prepare_digests(const DigestKey& key) override;
  Result<std::size_t> digest(Address address, Bytes size, DigestParts* parts,
                             StreamHandle stream) override;
  Status pin(void* host, Bytes size) override;
  Status unpin(void* host) override;

  /// The other devices for which map() and renew_access() open pages.
  [[nodiscard]] DeviceMask peers() const noexcept { return peers_.load(); }
  void set_peers(DeviceMask peers) noexcept { peers_.store(peers); }
  /// Whether the driver has refused them pages that map() has mapped.
  [[nodiscard]] bool refuses_peers() const noexcept { return refuses_peers_.load(); }

  /// The error that a kernel or copy of the program has left behind, which the driver answers every
  /// call with from then on; CUDA_SUCCESS if there is none. Waits for nothing.
  [[nodiscard]] CUresult sticky_error() const noexcept;

  /// Bytes per second of our own host-to-device transfers, measured by events around some of them;
  /// nullopt before the first measurement is complete. Calls no driver function: safe at exit.
  [[nodiscard]] std::optional<double> measured_link() const noexcept override;

 private:
  /// Times one batch in so many, of at least kLeastTimedBytes.
  class LinkMeter;

  Status copy(std::span<const Transfer> transfers, StreamHandle stream, bool to_device);
  Status copy_in_parts(const Transfer& transfer, CUstream stream);
  void separate(CUstream stream);
  CUdeviceptr separator();
  [[nodiscard]] CUresult set_access(Address address, Bytes size, DeviceMask others) const;

  CUcontext context_;
  CUdevice device_;
  Bytes granularity_;
  std::atomic<DeviceMask> peers_{0};
  std::atomic<bool> refuses_peers_{false};
  std::unique_ptr<LinkMeter> meter_;
  std::unique_ptr<DigestProgram> digests_;    ///< null before prepare_digests() has succeeded
  std::atomic<std::uint64_t> page_bytes_{0};  ///< of the pages that exist
  std::atomic<CUdeviceptr> separator_{0};     ///< set between copies to the host; 0: not allocated
  std::atomic<int> separators_left_out_{0};   ///< so many are left out before it is asked for again
  LegacyFollower legacy_follower_;
  CUevent never_recorded_ = nullptr;  ///< complete, so that a query fails for other reasons only
};

}  // namespace superpipe
