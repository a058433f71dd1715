// What operations of the program use, from before they are submitted until after.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "policy/policy_engine.h"
#include "residency/manager_mutex.h"
#include "residency/residency_core.h"
#include "residency/result.h"
#include "residency/room/admission.h"
#include "residency/room/eviction_queue.h"
#include "residency/room/left_out_buffers.h"
#include "residency/room/partial_admission.h"
#include "residency/room/turn.h"
#include "residency/transfer/stream_marker.h"
#include "residency/transfer/use_completion.h"
#include "residency/uses/use_token.h"

namespace superpipe {

/// Finds the buffers that an operation names, pins them, gets them in place and orders its stream
/// behind their fetches; afterwards notes the use and unpins. begin_launch() to pin_forever() are
/// those of ResidencyManager, which documents them.
///
/// A part of the manager. begin_launch() and end_use() are the hot path: when all buffers are in
/// place, nothing there waits or grows with the number of buffers. Nothing there allocates or calls
/// the device either, except the mark that a launch leaves now and then while not everything fits.
class UseTracker {
 public:
  UseTracker(ResidencyCore& core, StreamMarker& streams, EvictionQueue& evictions,
             UseCompletion& completion, Admission& admission, LeftOutBuffers& left_out)
      : core_(core),
        streams_(streams),
        completion_(completion),
        evictions_(evictions),
        admission_(admission),
        partial_(core, evictions, admission, left_out) {}

  Status begin_launch(KernelId kernel, std::span<const std::uint64_t> words, StreamHandle stream,
                      UseToken& token) EXCLUDES(manager_lock);
  Status begin_use(std::span<const std::uint64_t> words, bool writes, StreamHandle stream,
                   UseToken& token, bool may_shrink = false) EXCLUDES(manager_lock);
  Status begin_hold(std::span<const std::uint64_t> words, UseToken& token) EXCLUDES(manager_lock);
  void end_use(UseToken& token, StreamHandle stream, bool submitted) noexcept
      EXCLUDES(manager_lock);
  Status pin_forever(std::span<const std::uint64_t> words, const char* reason)
      EXCLUDES(manager_lock);

  /// The launches that were announced. Any thread.
  [[nodiscard]] std::uint64_t launches() const { return launches_.load(std::memory_order_relaxed); }

  /// One operation that needs buffers on the device.
  struct Use {
    std::span<const std::uint64_t> words;
    StreamHandle stream{};
    bool writes = true;
    bool capturing = false;  ///< the stream is being captured: no event of ours may touch it
    KernelId kernel{};
    std::uint64_t launch = 0;  ///< UseToken::launch(); 0: it is none
    Slot slot = kNoSlot;       ///< by prepare()
    /// The first of the words, which are more than leftovers in structs.
    std::size_t certain_words = ~std::size_t{0};
    bool may_shrink = false;  ///< the caller asks for fewer buffers if these do not fit
  };

  /// Finds the slot of the stream of `use` (none while it is captured: the buffers are pinned
  /// forever instead of marked by events), and makes `token` its token, without buffers yet. May
  /// open the mutex. Throws std::bad_alloc.
  void prepare(Use& use, UseToken& token) REQUIRES(manager_lock);

  /// Pins what a prepared use names, gets it in place, and orders the stream behind its fetches.
  /// Not for launches: what it names is known to be written, if it is written. Throws
  /// std::bad_alloc. @return the errors of begin_use(); nothing is pinned then.
  Status begin(const Use& use, UseToken& token) REQUIRES(manager_lock);

  /// The same for an operation that uses only pieces of the buffer that are in place: the others
  /// may stay out. Allocates nothing that is left behind. @return kDeviceError, kOutOfHostMemory.
  Status begin_in_place(BufferId id, const Use& use, UseToken& token) REQUIRES(manager_lock);

 private:
  static std::span<const BufferId> ids(const UseToken& token) { return token.buffers(); }
  static std::span<BufferId> ids(UseToken& token) {
    if (token.count_ > UseToken::kInline) return token.more_;
    return {token.inline_.data(), token.count_};
  }
  [[nodiscard]] bool names_arena(std::span<const std::uint64_t> words) const;
  void collect(std::span<const std::uint64_t> words, UseToken& token) REQUIRES(manager_lock);
  [[nodiscard]] bool all_ready(const UseToken& token, const Use& use) const REQUIRES(manager_lock);
  void pin(const UseToken& token) REQUIRES(manager_lock);
  void pin(BufferId id) REQUIRES(manager_lock) {
    ++core_.buffers[id].pins;
    evictions_.revoke(id);
  }
  void mark_used(const UseToken& token, const Use& use) REQUIRES(manager_lock);
  static void mark_used(Buffer& buffer, const Use& use) REQUIRES(manager_lock);
  void count_pinned(const UseToken& token, const Use& use) REQUIRES(manager_lock);
  void note_known_writes(const UseToken& token, const Use& use) REQUIRES(manager_lock);
  void unpin(const UseToken& token) REQUIRES(manager_lock);
  bool pin_if_ready(const UseToken& token, const Use& use) REQUIRES(manager_lock);

  Status begin_advised(const Use& use, UseToken& token) REQUIRES(manager_lock);
  Decision ask_policy(const Use& use, const UseToken& token) REQUIRES(manager_lock);
  Status acquire(UseToken& token, const Use& use, const Decision& decision) REQUIRES(manager_lock);
  Status get_in_place(UseToken& token, const Use& use, const Decision& decision, Turn* turn,
                      StallMeter::Probe* probe) REQUIRES(manager_lock);
  std::size_t certain_buffers(const Use& use) REQUIRES(manager_lock);
  Status order_behind_fetches(std::span<const BufferId> buffers, const Use& use,
                              StallMeter::Probe* probe) REQUIRES(manager_lock);
  static void note_ordered(Buffer& buffer, Slot slot, std::span<const EventRef> arrivals)
      REQUIRES(manager_lock);
  StallMeter::ProbeRef open_probe(const UseToken& token, const Use& use) REQUIRES(manager_lock);
  void note_pass(const Use& use) noexcept REQUIRES(manager_lock);
  void note_launch(const UseToken& token) REQUIRES(manager_lock);
  void ask_about_shared(SharedUses& uses) noexcept REQUIRES(manager_lock);
  void note_marked(const UseToken& token, StreamHandle stream,
                   const StreamMarker::OperationEnd& end) noexcept REQUIRES(manager_lock);
  void mark_progress(Slot slot) noexcept REQUIRES(manager_lock);

  ResidencyCore& core_;
  StreamMarker& streams_;
  UseCompletion& completion_;
  EvictionQueue& evictions_;
  Admission& admission_;
  PartialAdmission partial_ GUARDED_BY(manager_lock);
  std::atomic<std::uint64_t> launches_{0};
  std::uint64_t mark_ GUARDED_BY(manager_lock) = 0;  ///< of the last collection
};

}  // namespace superpipe
