#include "policy/stream_replays.h"

namespace superpipe {
namespace {

// Of how many recent launches it counts which replay foresaw them.
constexpr double kShareStep = 1.0 / 256;
// The share of launches that the streams' replays have to foresee above what the one log does, for
// the streams to be taken apart; and which the one log may lack when they are put together.
constexpr double kClearlyMore = 1.0 / 16;
constexpr double kAsMany = 1.0 / 64;

void note(bool foreseen, double& share) { share += kShareStep * ((foreseen ? 1.0 : 0.0) - share); }

}  // namespace

void StreamReplays::on_free(BufferId id) {
  all_.on_free(id);
  if (streams_ != nullptr) streams_->on_free(id);
}

/// What a launch of a program with several streams costs besides.
void StreamReplays::follow_streams(KernelId kernel, std::span<const BufferId> buffers,
                                   std::uint8_t stream) {
  const bool is_first = streams_ == nullptr;
  if (is_first) {
    streams_ = std::make_unique<MergedReplays>(capacity_ / MergedReplays::kMostStreams);
    foreseen_by_all_ = all_.confidence();
    jumps_ = jumps_of_all_ = all_.jumps();
    passes_ = all_.passes();
    pass_began_ = passes_ > 0;
  }
  streams_->on_launch(stream, all_.present(), kernel, buffers, all_);
  const bool all_jumped = all_.jumps() != jumps_of_all_;
  jumps_of_all_ = all_.jumps();
  if (is_apart_ ? streams_->jumped() : all_jumped) ++jumps_;
  note(all_.foresaw_present(), foreseen_by_all_);
  note(streams_->latest().foresaw_present(), foreseen_by_streams_);
  choose();
  if (!at_pass_start()) return;
  if (pass_began_ && !is_first) ++passes_;  // the first one is among those of the one log
  pass_began_ = true;
}

void StreamReplays::choose() {
  const double more = foreseen_by_streams_ - foreseen_by_all_;
  if (is_apart_ ? more > kAsMany : more < kClearlyMore) return;
  is_apart_ = !is_apart_;
  ++jumps_;
  streams_->look_again();
}

}  // namespace superpipe
