#include "policy/merged_replays.h"

#include <algorithm>
#include <cmath>

namespace superpipe {
namespace {

// How many of a stream's launches tell how far apart they are: about a pass, so that a run of
// launches which a thread has by chance hardly moves what is predicted.
constexpr double kMostGaps = 256;

}  // namespace

void MergedReplays::on_free(BufferId id) {
  for (Stream& stream : streams_) stream.replay.on_free(id);
}

MergedReplays::Stream& MergedReplays::at(std::uint8_t stream) {
  std::uint8_t& number = replay_of_[stream];
  if (number == kNone) {
    if (streams_.size() < kMostStreams) streams_.emplace_back(capacity_);
    number = static_cast<std::uint8_t>(streams_.size() - 1);
  }
  latest_ = number;
  return streams_[number];
}

void MergedReplays::on_launch(std::uint8_t stream, std::uint64_t number, KernelId kernel,
                              std::span<const BufferId> buffers, const LaunchReplay& all) {
  Stream& own = at(stream);
  for (const BufferId id : buffers) {
    if (!own.replay.knows(id)) own.replay.on_allocate(id, all.bytes_of(id));
  }
  const std::uint64_t jumps = own.replay.jumps();
  own.replay.on_launch(kernel, buffers);
  jumped_ = own.replay.jumps() != jumps;
  if (own.launches > 0) {
    const auto gap = static_cast<double>(number - own.last);
    own.gap += (gap - own.gap) / std::min(static_cast<double>(own.launches), kMostGaps);
  }
  ++own.launches;
  own.last = present_ = number;
  own.looked_to = jumped_ ? own.replay.present() : std::max(own.looked_to, own.replay.present());
}

bool MergedReplays::at_pass_start() const {
  if (!latest().at_pass_start()) return false;
  return std::ranges::none_of(streams_, [this](const Stream& stream) {
    return stream.replay.pass_bytes() > latest().pass_bytes();
  });
}

Bytes MergedReplays::pass_bytes() const {
  Bytes bytes;
  for (const Stream& stream : streams_) bytes += stream.replay.pass_bytes();
  return bytes;
}

/// The number that the stream's launch `ahead` launches after its last one is predicted to have.
std::uint64_t MergedReplays::predicted(const Stream& stream, std::uint64_t ahead) const {
  const auto since = static_cast<double>(present_ - stream.last);
  const double until_first = std::abs(stream.gap - since);  // late as long again as it is late now
  const double until = std::ceil(until_first + static_cast<double>(ahead - 1) * stream.gap);
  return present_ + std::max<std::uint64_t>(1, static_cast<std::uint64_t>(until));
}

std::uint64_t MergedReplays::next_use(BufferId id) const {
  std::uint64_t next = LaunchReplay::kNever;
  for (const Stream& stream : streams_) {
    if (!stream.replay.knows(id)) continue;
    const std::uint64_t own = stream.replay.next_use(id);
    if (own == LaunchReplay::kNever) continue;
    next = std::min(next, predicted(stream, own - stream.replay.present()));
  }
  return next;
}

/// The stream whose next launch to look at is predicted to be the first.
std::optional<std::size_t> MergedReplays::next_stream() const {
  std::optional<std::size_t> first;
  std::uint64_t first_number = LaunchReplay::kNever;
  for (std::size_t at = 0; at < streams_.size(); ++at) {
    const Stream& stream = streams_[at];
    const std::uint64_t ahead = stream.looked_to + 1 - stream.replay.present();
    if (ahead > stream.replay.horizon()) continue;
    const std::uint64_t number = predicted(stream, ahead);
    if (number < first_number) {
      first = at;
      first_number = number;
    }
  }
  return first;
}

std::uint64_t MergedReplays::look(LaunchReplay::Expected& expected) const {
  const Stream& stream = streams_[*next_stream()];
  const std::uint64_t ahead = stream.looked_to + 1 - stream.replay.present();
  stream.replay.expect(static_cast<std::size_t>(ahead), expected);
  return predicted(stream, ahead);
}

void MergedReplays::look_on() { ++streams_[*next_stream()].looked_to; }

void MergedReplays::look_again_for(BufferId id) {
  for (Stream& stream : streams_) {
    if (!stream.replay.knows(id)) continue;
    const std::uint64_t own = stream.replay.next_use(id);
    if (own != LaunchReplay::kNever) stream.looked_to = std::min(stream.looked_to, own - 1);
  }
}

void MergedReplays::look_again() {
  for (Stream& stream : streams_) stream.looked_to = stream.replay.present();
}

}  // namespace superpipe
