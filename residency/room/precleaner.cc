#include "residency/room/precleaner.h"

#include <algorithm>
#include <new>

#include "residency/tuning.h"

namespace superpipe {

Precleaner::Precleaner(ResidencyCore& core, Evictor& evictor, const EvictionQueue& evictions,
                       const UseCompletion& completion)
    : core_(core), evictor_(evictor), evictions_(evictions), completion_(completion) {
  const auto& recorded = core.options.policy.recorded;
  if (recorded == nullptr || recorded->write_backs.empty()) return;
  std::map<Bytes, std::uint64_t> counts;
  std::vector<Recorded> buffers;
  for (const Bytes footprint : recorded->footprints) {
    buffers.emplace_back(footprint, ++counts[footprint]);
  }
  for (std::size_t place = 0; place < recorded->write_backs.size(); ++place) {
    const RecordedRun::PieceOf& one = recorded->write_backs[place];
    if (one.buffer >= buffers.size()) continue;
    auto& pieces = expected_[buffers[one.buffer]];
    pieces.emplace(one.piece, place);  // does nothing where that has been written back before
  }
}

void Precleaner::on_begin_life(BufferId id) noexcept try {
  if (!core_.follows_recorded || expected_.empty()) return;
  const Buffer& buffer = core_.buffers[id];
  const auto found = expected_.find({buffer.footprint, ++begun_[buffer.footprint]});
  if (found == expected_.end()) return;
  for (const auto& [piece, place] : found->second) {
    if (piece < buffer.pieces.size()) candidates_[place] = {{id, piece}, buffer.generation};
  }
  expected_.erase(found);
  rest_ = kShortestRest;
  core_.wake_worker();
} catch (const std::bad_alloc&) {
  // It is written back when it leaves.
}

Precleaner::Fit Precleaner::fit_of(const Candidate& candidate) const {
  const Buffer& buffer = core_.buffers[candidate.piece.buffer];
  if (buffer.generation != candidate.generation || !buffer.live) return Fit::kGone;
  const Piece& piece = buffer.pieces[candidate.piece.index];
  if (buffer.stays || buffer.pinned_forever || piece.page_is_untracked) return Fit::kGone;
  if (candidate.copies > 0) {
    // Launches may write to all that they name, so that what they changed is not known.
    if (core_.policy.puller()->launches() > 0) return Fit::kGone;
    if (buffer.known_write == candidate.known_write) return Fit::kLater;
  }
  const bool may_go = EvictionQueue::may_go(buffer) && evictions_.may_go(piece);
  const bool is_settled = core_.seq - buffer.last_use >= tuning::kPrecleanUsesSince &&
                          !buffer.is_left_out() && !piece.is_filling() &&
                          piece.want == Want::kNobody;
  if (!may_go || !is_settled || !buffer.is_dirty(candidate.piece.index)) return Fit::kLater;
  if (buffer.is_fresh(candidate.piece.index) || !completion_.is_over(buffer)) return Fit::kLater;
  const bool is_slab_in_use =
      buffer.host.is_busy() || piece.is_read_on_host || !buffer.host.operations.empty();
  if (is_slab_in_use) return Fit::kLater;
  const bool has_home = buffer.host.has_home() ||
                        core_.host.has_stock(HostStore::backing_of(Bytes{buffer.size.load()}));
  return has_home ? Fit::kNow : Fit::kLater;
}

// Whether perhaps nothing will have to go: the plan was for less than there is now.
bool Precleaner::may_fit() const {
  const std::optional<Bytes> budget = core_.passthrough.budget();
  const bool was_raised = budget && *budget > core_.options.policy.budget.value_or(*budget);
  return was_raised && !core_.ledger.is_under_pressure();
}

// Whether copies ahead of need hold up nothing.
bool Precleaner::is_time() {
  const auto is_idle = [&]() REQUIRES(manager_lock) {
    return evictions_.empty() && !evictor_.is_pending() && core_.fetches.empty();
  };
  if (!is_idle()) return false;
  // The device is asked, and others may come meanwhile.
  return !evictor_.is_writing_back() && is_idle();
}

bool Precleaner::run() noexcept {
  if (!has_more() || core_.is_precleaning) return false;
  if (may_fit()) {
    rest_ = kLongestRest;
    return false;
  }
  if (!is_time()) return false;
  auto it = candidates_.lower_bound(next_);
  for (int looks = 0; looks < tuning::kPrecleanMostLooks && !candidates_.empty(); ++looks) {
    if (it == candidates_.end()) it = candidates_.begin();
    Candidate& candidate = it->second;
    const PieceId piece = candidate.piece;
    const Fit fit = fit_of(candidate);
    if (fit == Fit::kNow) {
      ++candidate.copies;
      candidate.known_write = core_.buffers[piece.buffer].known_write;
    }
    const bool stays = fit != Fit::kGone && candidate.copies < tuning::kPrecleanMostCopies;
    it = stays ? std::next(it) : candidates_.erase(it);
    if (fit != Fit::kNow) continue;
    rest_ = kShortestRest;
    next_ = 0;  // what leaves first is copied first
    evictor_.preclean(piece);
    return true;
  }
  next_ = it == candidates_.end() ? 0 : it->first;
  rest_ = std::min<std::chrono::nanoseconds>(2 * rest_, kLongestRest);
  return false;
}

}  // namespace superpipe
