// How much host memory a store may reserve and pin.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "policy/budget.h"
#include "policy/units.h"
#include "residency/host/host_ledger.h"
#include "residency/host/host_memory.h"

namespace superpipe {

/// What a host store may have.
struct HostLimit {
  Bytes bytes;                        ///< at first
  std::optional<SizeSpec> allowed{};  ///< by the user, SUPERPIPE_HOST_MEM; nullopt: nothing is said
  HostMemoryWatch* host = nullptr;    ///< what there is later; null: the limit stays
};

/// Counts what is reserved, pinned, and in use beyond what was asked for (*slack*), and keeps it
/// below a cap. The cap rises where it is too low and the host has more memory by then: a program
/// that holds its model in host memory frees it as it moves it to the device. It falls again when
/// memory was unpinned that nothing needs any more.
///
/// Thread-safe. Calls nothing with its lock held, so that callers may hold locks of their own.
class HostCap {
 public:
  /// `ledger`: in which what is reserved is entered, and which may refuse it; null: there is none.
  /// It must outlive the cap, and so must `limit.host`.
  HostCap(const HostLimit& limit, HostLedger* ledger)
      : allowed_(limit.allowed),
        host_(limit.host),
        ledger_(ledger),
        first_limit_(limit.bytes),
        limit_(limit.bytes) {}

  /// @name Reserved bytes
  /// @{
  /// Sets `size` aside. @return false: over the cap, or over the one that the user's processes
  /// share. Takes as long as HostLedger::take(), and twice that and HostMemoryWatch::look() where
  /// the cap as it is does not do.
  bool reserve(Bytes size);
  void unreserve(Bytes size);
  [[nodiscard]] Bytes reserved() const;
  /// The most that could be reserved in all just now under the cap as it is: that, or less where
  /// other processes have the rest. Takes as long as HostLedger::room().
  [[nodiscard]] Bytes reachable() const;
  /// What other processes had to do with the last refusal of reserve(), to stand behind a message's
  /// reasons; empty: nothing.
  [[nodiscard]] std::string words_of_others() const;
  /// @}

  /// @name Slack
  /// @{
  /// Counts slack that memory will have while it is in use. What is reserved, and may not be pinned
  /// yet, has to find room beside it. @return false: there is no room for it.
  bool claim_slack(Bytes slack);
  void return_slack(Bytes slack);
  /// @}

  /// @name Pinned bytes
  /// @{
  /// Counts `size` as pinned, before it is. @return false: over the cap.
  bool begin_pin(Bytes size);
  /// The same ahead of need, where `idle` bytes are pinned that nothing uses: what is reserved is
  /// pinned sooner or later, and must find room then.
  bool begin_pin_ahead(Bytes size, Bytes idle);
  void end_pin(Bytes size, bool pinned);
  void begin_unpin(Bytes size);
  /// `unpinned`: false leaves it counted, for it is not known what became of it.
  void end_unpin(Bytes size, bool unpinned);
  [[nodiscard]] Bytes pinned() const;
  /// Whether more would be pinned with `size` than is of use for what was ever reserved.
  [[nodiscard]] bool is_beyond_use(Bytes size) const;
  /// @}

  /// The cap as it is now.
  [[nodiscard]] Bytes limit() const;
  /// What is no longer needed is no longer promised either.
  void lower() noexcept;

 private:
  /// What there is for host stores, now that something would be refused.
  struct Supply {
    HostMemory host;
    Bytes pinned;  ///< by this store, while that was seen
  };

  std::optional<Supply> supply_for(Bytes size) noexcept;
  [[nodiscard]] Bytes surely_pinned() const;
  bool reserve_within(Bytes size, const std::optional<Supply>& supply);
  bool count_pin(Bytes size, Bytes taken);

  const std::optional<SizeSpec> allowed_;
  HostMemoryWatch* const host_;
  HostLedger* const ledger_;
  const Bytes first_limit_;
  mutable std::mutex mutex_;
  Bytes limit_;
  Bytes reserved_;
  Bytes most_reserved_;  ///< at one time
  Bytes slack_;          ///< that memory in use has beyond what was asked for
  Bytes pinned_;
  Bytes changing_;               ///< what of that is being pinned or unpinned
  bool ledger_refused_ = false;  ///< the last reserve()
};

}  // namespace superpipe
