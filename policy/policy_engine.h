// What residency asks policy: it tells the engine what happens, and the engine answers what to
// evict and what to fetch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "policy/auto_policy.h"
#include "policy/pass_launches.h"
#include "policy/recorded_run.h"
#include "policy/stream_replays.h"
#include "policy/units.h"

namespace superpipe {

/// The policies a user can name (docs/design.md, "Layers and policies").
enum class PolicyKind { kResident, kNaive, kSuperpipeline, kSuperpipelinePaper, kLru, kAuto };

/// Whether the policy counts in layers, so that a user may give it a k.
[[nodiscard]] constexpr bool counts_layers(PolicyKind kind) {
  return kind == PolicyKind::kNaive || kind == PolicyKind::kSuperpipeline ||
         kind == PolicyKind::kSuperpipelinePaper;
}

/// Whether the policy moves bytes, whatever layers they belong to.
[[nodiscard]] constexpr bool counts_bytes(PolicyKind kind) {
  return kind == PolicyKind::kLru || kind == PolicyKind::kAuto;
}

/// Whether the policy moves windows of k layers, k' at a time.
[[nodiscard]] constexpr bool moves_windows(PolicyKind kind) {
  return kind == PolicyKind::kNaive || kind == PolicyKind::kSuperpipelinePaper;
}

/// Whether residency asks the policy for each piece of a buffer that moves.
[[nodiscard]] constexpr bool moves_pieces(PolicyKind kind) {
  return counts_bytes(kind) || kind == PolicyKind::kSuperpipeline;
}

/// Whether the policy writes back all that it evicts, changed or not, as the published method does.
[[nodiscard]] constexpr bool writes_back_all(PolicyKind kind) {
  return kind == PolicyKind::kSuperpipelinePaper;
}

/// `kind` as the user writes it: "resident", "naive", "superpipeline", "superpipeline-paper",
/// "lru", "auto".
[[nodiscard]] std::string_view name_of(PolicyKind kind);

/// The policy that `name` names, or nullopt.
[[nodiscard]] std::optional<PolicyKind> policy_from_name(std::string_view name);

/// What the user asked for. Either `k` or `budget` is set, or neither (kResident). kLru and kAuto
/// have a budget.
struct PolicyConfig {
  PolicyKind kind = PolicyKind::kResident;
  std::optional<int> k;  ///< layers kept on the device; >= 1
  /// Layers moved at a time, if moves_windows(); 1 <= k_prime < k. kNaive moves k, whatever it is.
  std::optional<int> k_prime;
  std::optional<Bytes> budget;  ///< device bytes of managed, cached, pooled, pass-through together
  /// The budget is a promise to the user; else it is what there seemed to be, and a launch that
  /// needs more may try to get it.
  bool budget_is_promise = true;
  /// kAuto: what the program did in an earlier run, which it is expected to do again. Null: that is
  /// not known. Fewer than LaunchReplay's capacity / 2 launches.
  std::shared_ptr<const RecordedRun> recorded{};
};

/// One kernel launch as policy sees it: its kernel and the managed buffers it names, each once.
struct Access {
  KernelId kernel;
  std::span<const BufferId> buffers;
  /// Which stream it is submitted to. Numbers are small, and may come again for another stream when
  /// one is gone.
  std::uint8_t stream = 0;
};

/// What residency shall do before the launch that was just announced is submitted.
///
/// May name buffers that are not on the device (evict) or already there (fetch): policy does not
/// see what demand fetches and refused evictions did. Residency evicts first, to make room for the
/// fetches. If that is not room enough, it evicts what choose_victims() names.
struct Decision {
  std::vector<BufferId> evict;       ///< whose last use lies before this launch, in eviction order
  std::vector<BufferId> fetch;       ///< in the order in which they will be needed
  bool fetch_before_launch = false;  ///< no overlap: the launch waits until all of `fetch` arrived

  [[nodiscard]] bool empty() const { return evict.empty() && fetch.empty(); }
};

class Policy;

/// Hands what happens to the policy that the user named (policy/policy.h), and its answers back.
///
/// Pure: no clock, no threads, no device; the same calls give the same answers. Not thread-safe:
/// the caller serialises. Advice only: residency may refuse an eviction (pinned buffer) or find
/// that a fetch is done already, and correctness never rests on a prediction.
class PolicyEngine {
 public:
  /// REQUIRES: `config` is valid (k >= 1, k' < k, ...): the configuration reader has checked it.
  explicit PolicyEngine(const PolicyConfig& config);
  ~PolicyEngine();
  PolicyEngine(PolicyEngine&&) noexcept;
  PolicyEngine& operator=(PolicyEngine&&) noexcept;

  /// A buffer of `footprint` device bytes (rounded up to pages) exists from now on, which comes and
  /// goes in `pieces` pieces.
  void on_allocate(BufferId id, Bytes footprint, std::uint32_t pieces = 1);

  /// The program copied content from the host into the buffer, which is not empty any more.
  void on_host_write(BufferId id);

  /// The buffer is gone; its id may come again for another one.
  void on_free(BufferId id);

  /// Pass-through memory and the headroom for its growth take `bytes` of the budget by now.
  void on_passthrough_bytes(Bytes bytes);

  /// The user allows `budget` device bytes from now on, as a promise, whatever the budget was. A
  /// policy of which moves_windows() holds takes the k that fits, at once if less does and as a
  /// pass begins if more does. REQUIRES: the configuration has a budget and no k.
  void set_budget(Bytes budget);

  /// A launch is about to be submitted. Amortised O(buffers of the launch + what is moved).
  [[nodiscard]] Decision on_launch(const Access& access);

  /// The policy that residency has to ask for each transfer, and to tell of each (AutoPolicy's
  /// functions from on_brought() on), if moves_pieces(). Null for the others: on_launch() decides.
  [[nodiscard]] AutoPolicy* puller();
  [[nodiscard]] const AutoPolicy* puller() const;

  /// What was launched, and which passes there were. Every policy has it, most for reports alone.
  [[nodiscard]] const StreamReplays& replay() const;

  /// Device bytes that managed buffers, cached and pooled pages may take now.
  ///
  /// With a budget: the budget less pass-through memory and its headroom. With k: the largest k
  /// consecutive layers plus what belongs to no layer; while fewer than k layers are known, k times
  /// the largest buffer or launch working set seen. kResident: the largest value there is. With k
  /// it may grow; residency re-reads it.
  [[nodiscard]] Bytes managed_limit() const;

  /// Whether managed_limit() is a promise to the user (a budget) or may be exceeded for one launch.
  [[nodiscard]] bool limit_is_hard() const;

  /// Victims among `candidates` (resident, unpinned) that free at least `needed` bytes, in eviction
  /// order: the furthest next use first where the order is known, else the least recently used
  /// first. All candidates if together they are too small.
  [[nodiscard]] std::vector<BufferId> choose_victims(std::span<const BufferId> candidates,
                                                     Bytes needed) const;

  /// What was learned, for the summary and the statistics alone: nothing is decided by it. Only
  /// policies of which counts_layers() holds learn layers.
  struct Learned {
    bool layers_known = false;
    int k = 0;                       ///< as scheduled now; 0 while unknown, or without layers
    int k_prime = 0;                 ///< the same, if moves_windows(), else 0
    std::vector<Bytes> layer_bytes;  ///< footprint per layer, in order of first access
    Bytes pass_bytes;                ///< W: persistent bytes of one pass; 0 without layers
    Bytes largest_piece;             ///< u: the largest layer
    std::size_t passes = 0;          ///< whole passes seen
    /// How often the place in the past was moved, lost or found.
    std::size_t mispredictions = 0;
    bool at_pass_start = false;  ///< the last announced launch opened a pass
    PlanFollowing following;     ///< of PolicyConfig::recorded
    /// A typical pass, for a report that has asked replay() for one; null before.
    std::shared_ptr<const PassLaunches> launches;
  };
  [[nodiscard]] Learned learned() const;

  /// The part of learned() that is always at hand.
  struct Outline {
    std::size_t layers = 0;  ///< 0 while unknown
    int k = 0, k_prime = 0;  ///< as Learned's
    Bytes pass_bytes;        ///< W: persistent bytes of one pass; 0 while unknown
  };
  /// O(1); allocates nothing.
  [[nodiscard]] Outline outline() const noexcept;
  /// The layer that a buffer belongs to, numbered as in Learned::layer_bytes; nullopt: none. O(1).
  [[nodiscard]] std::optional<std::size_t> layer_of(BufferId id) const noexcept;

  /// The number of the last announced launch: how many were announced before it; 0 before the
  /// first. O(1).
  [[nodiscard]] std::uint64_t present() const { return launches_ == 0 ? 0 : launches_ - 1; }

  /// Whether that launch opened a pass, wherever in the program's own pass (LaunchReplay). O(1), no
  /// allocation.
  [[nodiscard]] bool at_pass_start() const { return at_pass_start_; }

 private:
  void tell_available();

  std::unique_ptr<Policy> policy_;
  std::optional<Bytes> budget_;
  bool budget_is_promise_ = false;
  Bytes passthrough_;
  std::uint64_t launches_ = 0;  ///< announced so far
  bool at_pass_start_ = false;
};

}  // namespace superpipe
