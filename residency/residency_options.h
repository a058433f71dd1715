// What a residency manager is told once, at its creation.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "policy/budget.h"
#include "policy/pin_list.h"
#include "policy/policy_engine.h"
#include "policy/units.h"
#include "residency/tuning.h"

namespace superpipe {

class HostLedger;
class HostMemoryWatch;
class TraceRecorder;
class WorkerClock;

/// What the manager is told once, at creation.
struct ResidencyOptions {
  PolicyConfig policy;
  /// Policy, one that residency pulls from, is asked only once live buffers take more than three
  /// quarters of the limit, or something has to go: before, a launch costs no more than without a
  /// policy, and no pass is known.
  bool policy_waits = false;
  /// The size of the pieces that a policy moves of which moves_pieces() holds: a multiple of the
  /// granule. 0: buffers move whole.
  Bytes piece_size;
  /// Address space to reserve; a half, a quarter, ... where the device has not that much.
  Bytes arena_size = 1024_GiB;
  Bytes host_limit;  ///< cap of the host store at first
  /// SUPERPIPE_HOST_MEM, beyond which the cap does not rise; nullopt: not set.
  std::optional<SizeSpec> host_allowed;
  /// What host memory there is later, where the cap is too low; null: it stays. Must outlive the
  /// manager.
  HostMemoryWatch* host_memory = nullptr;
  /// What it shares with other processes of the user; null: nothing. Must outlive the manager.
  HostLedger* host_ledger = nullptr;
  std::chrono::milliseconds wait_limit{30000};  ///< SUPERPIPE_WAIT_MS
  /// How long a look at what the device holds waits for pages that come or go: less than most
  /// waits, since it may have a turn later as well.
  std::chrono::milliseconds sample_limit{1000};
  /// How long an operation of the program counts on work of the program to come to its end, where
  /// there is something else that it can do. That work may be waiting for the program itself (I7).
  [[nodiscard]] std::chrono::nanoseconds patience() const {
    return std::min<std::chrono::nanoseconds>(wait_limit / tuning::kOperationPatiencePart,
                                              tuning::kOperationPatience);
  }
  bool zero_fill = false;  ///< SUPERPIPE_FILL=zero
  PinList pins;            ///< SUPERPIPE_PIN
  /// How many buffers the process had before, in managers that have ended: it counts them on.
  std::uint64_t buffers_before = 0;
  bool overflow_allowed = false;  ///< SUPERPIPE_OVERFLOW=allow
  bool record_timeline = false;   ///< SUPERPIPE_TIMELINE
  /// Told of transfers, stalls, passes and what memory is in use; null: nothing is. Must outlive
  /// the manager.
  TraceRecorder* trace = nullptr;
  /// SUPERPIPE_HEADROOM: bytes of the budget that are kept free for what the driver takes unasked.
  /// Without a budget it only says how much may be allocated between two samples.
  Bytes headroom;
  /// SUPERPIPE_WRITEBACK=digest: whether what a launch may have written is compared, by a digest,
  /// with what the host has, and written back only if it differs.
  bool compares_digests = false;
  /// SUPERPIPE_MAP=early: whether a piece is mapped when the copy of its content has been enqueued,
  /// and not when it has ended. Kernels that use it through pointers which nothing of ours has seen
  /// may then use the page before its content is there.
  bool maps_early = false;
  /// The clock of waits and statistics; tests give their own.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  /// Whether a thread of its own moves content. Without, nothing moves but inside calls that wait
  /// and in run_worker_once(), and only one thread may use the manager: for deterministic tests.
  bool worker_thread = true;
  /// Without a worker's thread: told of the rounds that run in its place (residency/worker.h), or
  /// null. Must outlive the manager.
  WorkerClock* worker_clock = nullptr;
  /// The same for the thread that pins host memory ahead of need.
  WorkerClock* stocker_clock = nullptr;
  /// Whether what is launched as this is a graph. Called as kernel_name is.
  std::function<bool(KernelId)> is_graph = [](KernelId /*kernel*/) { return false; };
  /// A kernel's name for messages. Called under the manager's lock: it may neither come back nor
  /// call the driver.
  std::function<std::string(KernelId)> kernel_name = [](KernelId kernel) {
    return std::to_string(static_cast<std::uint64_t>(kernel));
  };
  /// SUPERPIPE_STRICT with a plan: called once if the program turns out to be another one than
  /// that of PolicyConfig::recorded, behind `warn`, which says so. As `warn`. Null: it goes on.
  std::function<void()> refuse_other_program;
  /// Called for what the user should know once (never under a lock of ours, never on the hot path).
  std::function<void(const std::string&)> warn = [](const std::string&) {};
};

}  // namespace superpipe
