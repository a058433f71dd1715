// The segment in shared memory by which a process shows what it does and is asked for a budget:
// what stands in its file, and how both sides find, read and write it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "policy/units.h"
#include "profiler/live_figures.h"

namespace superpipe {

/// The file of the segment of `user`'s process `pid`, one of this namespace's.
///
/// `folder`, here and below: where the segments of all processes lie (profiler/shared_folder.h).
/// Each is a file of its own, named "superpipe-" with the user's id, "-", own_processes(), "-", and
/// the process's id: containers and machines that share the folder have processes of the same id.
[[nodiscard]] std::string live_segment_path(uid_t user, int pid, const std::string& folder);

/// @name What a segment begins with
/// @{
inline constexpr std::uint64_t kLiveMagic = 0x6576696C65706970;  // "pipelive"
inline constexpr std::uint32_t kLiveVersion = 2;
inline constexpr std::size_t kLiveSize = 4096;
/// @}

/// Version 2. The first six fields are the same in every version, so that any version can tell
/// whether a segment is stale. A change of another field counts the version up.
struct LiveLayout {
  std::uint64_t magic;  ///< written last
  std::uint32_t version;
  std::uint32_t size;
  std::uint64_t pid;
  std::uint64_t start_time;     ///< in clock ticks since the machine's start
  std::uint64_t pid_namespace;  ///< within which the id means something

  std::uint32_t policy;
  std::uint32_t refusal;
  std::uint64_t device_total;

  std::uint64_t budget;
  std::uint64_t limit;
  std::uint64_t pages;
  std::uint64_t live;

  /// A request. A command that asks for a budget holds the file's lock, and before all else writes
  /// this and counts `budget_asked` up. A command that asks for anything adds one to `asked`, and
  /// waits on `answered`; the process waits on `asked`.
  std::uint64_t requested_budget;
  std::uint32_t budget_asked;
  std::uint32_t budget_answered;  ///< the last `budget_asked` that is settled
  std::uint32_t answer;           ///< to that
  std::uint32_t asked;            ///< a futex
  std::uint32_t answered;         ///< a futex: the last `asked` that is settled

  std::uint32_t figures_version;  ///< odd while the figures are being written
  std::uint64_t taken_ns;
  std::uint64_t context, passthrough, pinned_host, host_limit;
  std::uint64_t launches, passes, h2d, d2h, demand_fetches, prefetches, clean_evictions,
      write_backs, stall_ns, budget_changes, errors;
  std::uint64_t pass_ns, pass_stall_ns, bound_ns, link_bytes_per_second, pass_bytes;
  std::uint32_t layers, k, k_prime;
  std::uint8_t layer_percent[kShownLayers];
};

static_assert(std::is_standard_layout_v<LiveLayout> && std::is_trivially_copyable_v<LiveLayout>);
static_assert(offsetof(LiveLayout, version) == 8 && offsetof(LiveLayout, pid) == 16 &&
              offsetof(LiveLayout, pid_namespace) == 32 && offsetof(LiveLayout, policy) == 40);
static_assert(offsetof(LiveLayout, live) == 80 && offsetof(LiveLayout, requested_budget) == 88 &&
              offsetof(LiveLayout, asked) == 108 && offsetof(LiveLayout, taken_ns) == 120 &&
              offsetof(LiveLayout, layer_percent) == 300);
static_assert(sizeof(LiveLayout) <= kLiveSize, "what is left of the page is for figures to come");

/// A mapping of a segment, by which its futexes are named. Only the kernel touches its bytes: where
/// the file has been cut short, that is an error of a system call, and an access would be a signal.
class LiveMapping {
 public:
  /// Takes `layout` over. `descriptor`: the open file, also taken over; -1: none.
  LiveMapping(LiveLayout* layout, int descriptor) : layout_(layout), descriptor_(descriptor) {}
  ~LiveMapping();
  LiveMapping(LiveMapping&& other) noexcept;
  LiveMapping& operator=(LiveMapping&&) = delete;

  LiveLayout* operator->() const { return layout_; }
  [[nodiscard]] int descriptor() const { return descriptor_; }
  /// Closes the open file; the mapping stays.
  void close_descriptor() noexcept;

 private:
  LiveLayout* layout_;
  int descriptor_;
};

/// Why a process cannot be looked at.
enum class LiveProblem {
  kNoSuchProcess,
  kOtherUser,       ///< only that user and root may
  kNotManaged,      ///< it has no segment: it manages no context, or not yet, or not any more
  kOtherVersion,    ///< another version of superpipe runs there
  kOtherNamespace,  ///< its id means another process, in a container that shares the folder
  kDamaged,         ///< what lies there is no segment, or says what cannot be
  kUnreadable,      ///< the system does not allow it: errno says why
};

/// The segment at `path` that belongs to `user`, whatever its version. @return why there is none.
std::variant<LiveMapping, LiveProblem> open_segment(const std::string& path, uid_t user);
/// Maps the file behind `descriptor`, which it takes over. nullopt: errno says why.
std::optional<LiveMapping> map_segment(int descriptor);

/// What stands in the file behind `descriptor` now; nullopt if it is too short.
std::optional<LiveLayout> image_of(int descriptor);
/// The same for the one field; 1, as while figures are being written, if it is too short.
std::uint32_t figures_version_of(int descriptor);
/// Whether a process can have such figures.
bool has_possible_figures(const LiveLayout& image);
/// What keeps a segment of this user's living process from being looked at; nullopt: nothing.
std::optional<LiveProblem> problem_in(const LiveLayout& image, int pid);

/// Writes `size` bytes at `offset` of the file behind `descriptor`. @return 0, or why it cannot.
int write_live_bytes(int descriptor, const void* bytes, std::size_t size,
                     std::size_t offset) noexcept;
/// Writes the whole page, the magic number last. @return 0, or why it cannot.
int write_live_page(int descriptor, const LiveLayout& layout) noexcept;

/// The ids in the names of `user`'s segments, in order.
std::vector<int> pids_in(const std::string& folder, uid_t user);
/// Removes the segment of `pid` if that process is gone. @return whether it was removed.
bool sweep_segment(const std::string& folder, uid_t user, int pid);

/// @name Words that threads of several processes wait on
/// @{
/// Sleeps while `word` is `seen`, across processes. May return early. @return whether it can be
/// waited on: not if its page is gone.
bool wait_on(std::uint32_t* word, std::uint32_t seen, std::chrono::milliseconds limit) noexcept;
void wake_all(std::uint32_t* word) noexcept;
/// Adds one to `word` and wakes all threads that wait on it. The kernel does both, so that a word
/// whose page is gone is an error and not a signal. @return whether it could.
bool count_up_and_wake(std::uint32_t* word) noexcept;
/// Whether what has the number `sequence` is among the first `settled`; numbers wrap around.
[[nodiscard]] inline bool is_settled(std::uint32_t settled, std::uint32_t sequence) {
  return static_cast<std::int32_t>(settled - sequence) >= 0;
}
/// @}

/// Applies `move` to each figure, as it stands in `fields` and in `figures`.
template <typename Fields, typename Figures, typename Move>
void for_each_figure(Fields& fields, Figures& figures, Move move) {
  move(fields.budget, figures.budget);
  move(fields.limit, figures.limit);
  move(fields.pages, figures.pages);
  move(fields.live, figures.live);
  move(fields.taken_ns, figures.taken_ns);
  move(fields.context, figures.context);
  move(fields.passthrough, figures.passthrough);
  move(fields.pinned_host, figures.pinned_host);
  move(fields.host_limit, figures.host_limit);
  move(fields.launches, figures.launches);
  move(fields.passes, figures.passes);
  move(fields.h2d, figures.h2d);
  move(fields.d2h, figures.d2h);
  move(fields.demand_fetches, figures.demand_fetches);
  move(fields.prefetches, figures.prefetches);
  move(fields.clean_evictions, figures.clean_evictions);
  move(fields.write_backs, figures.write_backs);
  move(fields.stall_ns, figures.stall_ns);
  move(fields.budget_changes, figures.budget_changes);
  move(fields.errors, figures.errors);
  move(fields.pass_ns, figures.pass_ns);
  move(fields.pass_stall_ns, figures.pass_stall_ns);
  move(fields.bound_ns, figures.bound_ns);
  move(fields.link_bytes_per_second, figures.link_bytes_per_second);
  move(fields.pass_bytes, figures.pass_bytes);
  move(fields.layers, figures.layers);
  move(fields.k, figures.k);
  move(fields.k_prime, figures.k_prime);
  for (std::size_t i = 0; i < kShownLayers; ++i) {
    move(fields.layer_percent[i], figures.layer_percent[i]);
  }
}

}  // namespace superpipe
