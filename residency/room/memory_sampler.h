// Asks the device how much it holds that is in no page of ours.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "policy/units.h"
#include "residency/device_memory.h"
#include "residency/manager_mutex.h"
#include "residency/manager_waits.h"
#include "residency/residency_options.h"
#include "residency/room/device_ledger.h"
#include "residency/room/page_limit.h"
#include "residency/room/passthrough_ledger.h"

namespace superpipe {

/// Takes samples of what the device holds, for the ledger of pass-through memory and the limit of
/// pages. While the device is asked no page is created or destroyed, so that its answer can be
/// compared with our count of pages: a thread that asks waits for the changes of others, and a
/// thread that changes a page waits for one that asks.
///
/// Under the manager's mutex, which it opens for calls of the device and for waits. It waits for
/// calls of the device, never for work of the program.
class MemorySampler {
 public:
  using Clock = std::chrono::steady_clock;
  using Settling = PassthroughLedger::Settling;

  /// What it works on; all must outlive it.
  struct Parts {
    DeviceMemory& device;
    PassthroughLedger& passthrough;
    DeviceLedger& ledger;
    PageLimit& limit;
    ManagerWaits& waits;
  };

  /// `on_change`: called under the mutex when a sample found another amount of pass-through memory,
  /// before pages make room for it.
  MemorySampler(const ResidencyOptions& options, const Parts& parts,
                std::function<void()> on_change)
      : options_(options), parts_(parts), on_change_(std::move(on_change)) {}

  /// Takes a sample. What had to be guessed is settled as `settling` says, which may take
  /// milliseconds. @return whether the estimate or the limit is another one now.
  bool sample(Settling settling = Settling::kWhenDue) noexcept REQUIRES(manager_lock);
  /// The same without ever asking what this process has of it.
  bool sample_once() noexcept REQUIRES(manager_lock);

  /// Waits while the device is being asked. To be called before a decision to create or destroy a
  /// page. @return false if the manager has ended meanwhile, or the device does not answer within
  /// the wait limit.
  bool wait_until_answered() noexcept REQUIRES(manager_lock);

  /// Answers of the device so far.
  [[nodiscard]] std::uint64_t samples() const REQUIRES(manager_lock) { return samples_; }
  /// The most pass-through memory that a sample found.
  [[nodiscard]] Bytes peak() const REQUIRES(manager_lock) { return peak_; }

 private:
  /// What the device held at the last sample, and what of our pages there were.
  struct Held {
    Bytes used, pages;
    std::uint64_t page_changes;
    std::optional<std::uint64_t> mark_before, mark_behind;  ///< PassthroughLedger::quiet_mark()
  };
  /// What has to be as it was for what this process has to count.
  enum class Fit : std::uint8_t { kAll, kPagesAlone };

  bool hold_pages_still() noexcept REQUIRES(manager_lock);
  bool settle(Fit fit) noexcept REQUIRES(manager_lock);
  void note_peak() noexcept REQUIRES(manager_lock);

  const ResidencyOptions& options_;
  const Parts parts_;
  const std::function<void()> on_change_;
  bool is_asking_ GUARDED_BY(manager_lock) = false;               ///< a thread is asking the device
  std::uint32_t waiting_to_change_ GUARDED_BY(manager_lock) = 0;  ///< in wait_until_answered()
  std::uint64_t samples_ GUARDED_BY(manager_lock) = 0;
  std::optional<Held> last_ GUARDED_BY(manager_lock);
  Bytes peak_ GUARDED_BY(manager_lock);
};

}  // namespace superpipe
