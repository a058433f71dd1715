// The device bytes of one manager: what its pages take, and what the limit leaves.
#pragma once

#include <algorithm>
#include <cstdint>

#include "policy/budget.h"
#include "policy/units.h"

namespace superpipe {

/// Adds up the pages of a manager and compares them with the limit that policy gave it.
///
/// A page is counted from before it is created until after it was destroyed, so that two threads
/// never take the same room (I4). *Vacating* pages belong to evictions that are under way, or
/// are being destroyed; *promised* ones belong to evictions that were requested and wait for their
/// buffers' last uses. Both soon leave room for another buffer.
///
/// Pure arithmetic; not thread-safe: under the manager's mutex.
class DeviceLedger {
 public:
  /// @name The limit
  /// @{
  /// Pages may take `limit` bytes. `hard`: this is a promise to the user, a budget.
  void set_limit(Bytes limit, bool hard) {
    limit_ = limit;
    hard_ = hard;
  }
  [[nodiscard]] Bytes limit() const { return limit_; }
  [[nodiscard]] bool is_hard() const { return hard_; }
  /// Whether another page of `size` bytes fits.
  [[nodiscard]] bool admits(Bytes size) const { return size <= limit_ && pages_ <= limit_ - size; }
  [[nodiscard]] bool is_within_limit() const { return pages_ <= limit_; }
  /// By how much the pages exceed the limit, which may have shrunk below them.
  [[nodiscard]] Bytes excess() const { return saturating_subtract(pages_, limit_); }
  /// @}

  /// @name Pages
  /// @{
  /// Bytes of all pages that exist, or are being created or destroyed.
  [[nodiscard]] Bytes pages() const { return pages_; }

  void begin_creation(Bytes size) {
    pages_ += size;
    ++moving_;
    ++page_changes_;
  }
  void end_creation(Bytes size, bool created) {
    if (!created) pages_ -= size;
    --moving_;
  }
  void begin_destruction(Bytes size) {
    vacating_ += size;
    ++moving_;
    ++page_changes_;
  }
  /// `destroyed`: false leaves the page counted, for it is not known what became of it.
  void end_destruction(Bytes size, bool destroyed) {
    vacating_ -= size;
    if (destroyed) pages_ -= size;
    --moving_;
  }

  /// Whether a page is being created or destroyed, so that the device's own count is uncertain.
  [[nodiscard]] bool is_moving() const { return moving_ > 0; }
  /// How many pages have begun to be created or destroyed so far.
  [[nodiscard]] std::uint64_t page_changes() const { return page_changes_; }
  /// @}

  /// @name Pages that live buffers are about to give up
  /// @{
  void begin_vacating(Bytes size) { vacating_ += size; }
  void end_vacating(Bytes size) { vacating_ -= size; }
  void promise(Bytes size) { promised_ += size; }
  void withdraw(Bytes size) { promised_ -= size; }
  /// Whether any page is about to be given up.
  [[nodiscard]] bool expects_pages() const { return vacating_ + promised_ > Bytes{}; }

  /// Bytes that are free of live buffers, or soon will be; `free`: of idle pages and cached
  /// buffers.
  [[nodiscard]] Bytes coming(Bytes free) const { return free + vacating_ + promised_; }
  /// Bytes that fetches can have: `ready` of pages that are there, and what the limit still leaves.
  [[nodiscard]] Bytes obtainable(Bytes ready) const {
    return saturating_subtract(ready + saturating_subtract(limit_, pages_), excess());
  }
  /// @}

  /// @name Live buffers
  /// @{
  /// A buffer of `size` bytes, whose pages take `footprint`, is the program's from now on.
  void begin_life(Bytes footprint, Bytes size) {
    live_ += footprint;
    managed_ += size;
    peak_managed_ = std::max(peak_managed_, managed_);
    peak_padding_ = std::max(peak_padding_, saturating_subtract(live_, managed_));
  }
  void end_life(Bytes footprint, Bytes size) {
    live_ -= footprint;
    managed_ -= size;
  }
  /// What the pages of all live buffers would take together.
  [[nodiscard]] Bytes live() const { return live_; }
  /// The bytes that the program asked for.
  [[nodiscard]] Bytes managed() const { return managed_; }
  /// Whether not all live buffers can be on the device at once. If not, nothing has to move (I6).
  [[nodiscard]] bool is_under_pressure() const { return live_ > limit_; }
  /// @}

  /// @name Peaks
  /// @{
  /// So many pages there are at this moment. What is there besides, the next sample tells.
  void note_peak() { peak_pages_ = std::max(peak_pages_, pages_); }
  /// At the last sample there were `before` bytes of pass-through memory, and now there are `now`:
  /// so much there was of it beside the pages that were noted since.
  void note_sample(Bytes before, Bytes now) {
    note_peak();
    peak_device_ = std::max(peak_device_, peak_pages_ + std::max(before, now));
    peak_pages_ = pages_;
  }
  /// The most that pages and pass-through memory took together, if since the last sample there were
  /// at most `passthrough` bytes of it.
  [[nodiscard]] Bytes peak_device(Bytes passthrough) const {
    return std::max(peak_device_, std::max(peak_pages_, pages_) + passthrough);
  }
  /// The most that the program asked for.
  [[nodiscard]] Bytes peak_managed() const { return peak_managed_; }
  /// The most that the pages of live buffers had past the ends of what the program asked for. It
  /// takes room, and never crosses the link.
  [[nodiscard]] Bytes peak_padding() const { return peak_padding_; }
  /// @}

 private:
  Bytes limit_;
  bool hard_ = false;
  Bytes pages_;
  Bytes vacating_;
  Bytes promised_;
  std::uint32_t moving_ = 0;
  std::uint64_t page_changes_ = 0;
  Bytes live_;
  Bytes managed_;
  Bytes peak_device_;  ///< up to the last sample
  Bytes peak_pages_;   ///< since then
  Bytes peak_managed_;
  Bytes peak_padding_;
};

}  // namespace superpipe
