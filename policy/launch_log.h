// Launches in order, the buffers that each named, and which launches are alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "policy/live_pass.h"
#include "policy/pass_launches.h"
#include "policy/units.h"

namespace superpipe {

/// Remembers launches, finds earlier ones that are like the latest, and keeps account of how often
/// launches of a kind were as expected. Launches are called by their place, from 0 for the first
/// that is remembered.
///
/// A launch is like another if it has the same kernel, names buffers of the same sizes and the same
/// buffers; one that was freed since is the same as the one that is named in its stead today.
///
/// Layers look alike. What tells them apart are the buffers that were there already, the rarest of
/// a launch above all: weights were, activations that are made anew or shared by all layers were
/// not.
///
/// Bounded memory, if its owner has it forget: is_full(). Pure, not thread-safe.
class LaunchLog {
 public:
  using Name = std::uint32_t;  ///< of a buffer in the log: unlike an id it is not used again
  static constexpr Name kNoName = ~Name{0};

  /// Launches of a kind that is less often as expected say nothing of what they will name.
  static constexpr double kLeastLikelihood = 0.5;

  struct Launch {
    KernelId kernel;
    std::uint64_t token;  ///< hash of the kernel and the sizes of its buffers
    std::uint32_t kind;   ///< launches of one token are of one kind
    std::uint32_t first;  ///< its names among those of all launches
    std::uint32_t count;
    int trust;  ///< its owner's
    /// The rarest of its buffers that an earlier launch named; else the first that a later one did.
    /// kNoName: none.
    Name anchor;
  };
  struct Buffer {
    BufferId id{};
    bool exists = false;
    Name successor = kNoName;    ///< what was named in its stead after it was gone
    Name predecessor = kNoName;  ///< of which it is the successor
    std::uint64_t bytes = 0;
    std::vector<std::uint32_t> uses;  ///< launches that name it, ascending
    /// Where in uses the first one behind the place was when it was sought last: mostly it is still
    /// there, or the next one.
    mutable std::size_t sought = 0;
  };

  /// Is full with `capacity` launches, or twice as many buffers.
  explicit LaunchLog(std::size_t capacity);

  // -- buffers

  /// Buffers of these sizes get the names from 0 on, in their order. Each that is allocated is
  /// taken for the first of its size that was not yet. REQUIRES: nothing was allocated.
  void await(std::span<const Bytes> footprints);
  /// What is allocated from now on is taken for none of them.
  void await_nothing() { awaited_.clear(); }

  /// A buffer exists from now on. Its id may be one of an earlier buffer that is gone.
  void on_allocate(BufferId id, Bytes bytes);
  /// The buffer is gone. Does nothing if there is none.
  void on_free(BufferId id);
  /// Whether a buffer of that id exists. O(1).
  [[nodiscard]] bool knows(BufferId id) const {
    return index_of(id) < name_of_id_.size() && name_of(id) != kNoName;
  }
  /// REQUIRES: a buffer had the id once.
  [[nodiscard]] Name name_of(BufferId id) const { return name_of_id_[index_of(id)]; }
  [[nodiscard]] const Buffer& buffer(Name name) const { return buffers_[name]; }
  /// What a name is called today: itself as long as it exists, else what is named in its stead;
  /// kNoName if nothing is.
  [[nodiscard]] Name today(Name name) const;
  /// The launches behind `place` that name a buffer. O(log launches that name it), mostly O(1).
  [[nodiscard]] std::span<const std::uint32_t> uses_behind(std::size_t place, Name name) const;

  // -- launches

  [[nodiscard]] std::size_t size() const { return launches_.size(); }
  /// How many launches there were before the first that is remembered.
  [[nodiscard]] std::uint64_t forgotten() const { return forgotten_; }
  [[nodiscard]] const Launch& operator[](std::size_t launch) const { return launches_[launch]; }
  [[nodiscard]] std::span<const Name> names_of(std::size_t launch) const {
    return std::span(names_).subspan(launches_[launch].first, launches_[launch].count);
  }

  /// Puts a launch behind the others. Its buffers are not used by it until note_use().
  void append(KernelId kernel, std::span<const Name> names);
  /// Notes what is named by the latest launch, for later ones.
  void note_use();
  void set_trust(std::size_t launch, int trust) { launches_[launch].trust = trust; }

  /// Whether launch `present`, the latest, is the one that was expected: it names all that this
  /// named, or has the same kernel and the same rarest buffer.
  [[nodiscard]] bool is_as_expected(std::size_t expected, std::size_t present) const;
  /// Whether the buffers say that launch `present`, the latest, is the one of `past`: the rarest of
  /// those that were named up to then, or else those that are named for the first time. nullopt if
  /// none can tell.
  [[nodiscard]] std::optional<bool> agrees(std::size_t past, std::size_t present) const;
  /// The launch before `present`, the latest, that is most like it, of equals the first one that
  /// named its anchor, else the first of `tried`, else the latest; nullopt if none is like it.
  /// Looked at are `tried`, the last ones with the same two anchors and the same two tokens, and
  /// the last ones that named the same buffers.
  [[nodiscard]] std::optional<std::size_t> most_like(std::size_t present,
                                                     std::span<const std::size_t> tried) const;
  /// Notes which of today's buffers, that the latest launch names, stand for buffers that are gone.
  void link(std::size_t past, std::size_t present);

  // -- kinds of launches

  /// The share of recent launches of that one's kind that were as expected, in [0, 1]: an
  /// exponential mean over 16.
  [[nodiscard]] double likelihood(std::size_t launch) const {
    return likelihoods_[launches_[launch].kind];
  }
  /// Whether launches of that one's kind are mostly as expected. O(1), and mostly without a look.
  [[nodiscard]] bool is_likely(std::size_t launch) const {
    return unlikely_kinds_ == 0 || likelihood(launch) >= kLeastLikelihood;
  }
  /// A launch was expected to be as `launch` was, and it was or not.
  void learn(std::size_t launch, bool was_as_expected);

  // -- passes

  /// `count` launches from `first` on, as a pass. Persistent are the buffers that were named before
  /// it, and for as many launches as it has at least. Throws std::bad_alloc. O(accesses + buffers).
  [[nodiscard]] std::shared_ptr<const PassLaunches> pass(std::size_t first,
                                                         std::size_t count) const;
  /// The same, with those of their buffers that are persistent and live. Throws std::bad_alloc.
  /// O(accesses), and so bounded by LivePass's limits. @return nullopt if the pass exceeds one.
  [[nodiscard]] std::optional<LivePass> live_pass(std::size_t first, std::size_t count) const;

  // -- forgetting

  /// Whether there are as many launches as it is to remember,
  [[nodiscard]] bool is_full() const { return launches_.size() == capacity_; }
  /// or as many buffers.
  [[nodiscard]] bool is_full_of_buffers() const { return buffers_.size() >= most_buffers_; }
  /// Forgets the older half of the launches, and the buffers that are gone and that no other one
  /// names. Nothing is awaited any more. O(launches + buffers). @return how many launches: the
  /// others' places are less by that.
  std::size_t forget_older_half();

 private:
  struct Likeness {
    bool kernel = false;
    bool token = false;      ///< kernel and sizes
    std::uint32_t same = 0;  ///< buffers that are the same
    bool hoped = false;      ///< the present launch names all that the past one named
    bool all = false;        ///< token, and all buffers
    [[nodiscard]] int score(int before) const;
  };

  [[nodiscard]] std::uint32_t kind_of(std::uint64_t token);
  [[nodiscard]] bool stands_for(Name one, std::size_t past, Name other) const;
  template <typename Visit>
  void for_each_pair(std::size_t past, std::size_t present, const Visit& visit) const;
  [[nodiscard]] Likeness likeness(std::size_t past, std::size_t present) const;
  [[nodiscard]] int likeness_before(std::size_t past, std::size_t present) const;
  [[nodiscard]] std::uint64_t context_at(std::size_t launch) const;
  [[nodiscard]] std::uint64_t anchors_at(std::size_t launch) const;
  [[nodiscard]] Name anchor_of(std::span<const Name> names) const;
  void anchor_first_use(Name name);
  [[nodiscard]] bool is_persistent(const Buffer& buffer, std::size_t first,
                                   std::size_t count) const;
  void forget_kinds();
  void forget_names();

  std::size_t capacity_;
  std::size_t most_buffers_;
  std::uint64_t forgotten_ = 0;
  std::vector<Launch> launches_;
  std::vector<Name> names_;
  std::vector<Buffer> buffers_;   // by name
  std::vector<Name> name_of_id_;  // by id; kNoName: no such buffer
  // Names of buffers that are awaited and were not allocated yet, by size, the first at the back.
  std::unordered_map<std::uint64_t, std::vector<Name>> awaited_;
  std::unordered_map<std::uint64_t, std::uint32_t> contexts_;  // last launch, by two tokens
  std::unordered_map<std::uint64_t, std::uint32_t> anchors_;   // last launch, by two anchors
  std::unordered_map<std::uint64_t, std::uint32_t> kinds_;     // by token
  std::vector<double> likelihoods_;                            // by kind
  std::size_t unlikely_kinds_ = 0;  // below kLeastLikelihood: mostly none, and none is looked up
};

}  // namespace superpipe
