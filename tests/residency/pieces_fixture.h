// The fixture of the tests of buffers that are cut into pieces: each piece comes and goes by
// itself, with bytes, a page and events of its own, while launches, copies, frees and allocations
// are of the whole buffer.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "tests/residency/core_fixture.h"

namespace superpipe::testing {

/// Pieces of two pages. Most buffers have three: the last has one page, of which the program sees a
/// hundred bytes. "Content of `value`": each byte of piece n is `value` + n.
class PiecesTest : public UsingCoreTest {
 protected:
  static constexpr Bytes kPiece{2 * kGranule.count()};
  static constexpr Bytes kSize{2 * kPiece.count() + 100};
  static constexpr Bytes kPages{5 * kGranule.count()};  ///< of a buffer of kSize
  static constexpr int kGone = -2;                      ///< the value of a piece that is out

  static ResidencyOptions options_in_pieces(std::uint64_t budget_pages, Bytes piece_size = kPiece) {
    ResidencyOptions options = options_of(budget_pages);
    options.policy.kind = PolicyKind::kAuto;
    options.piece_size = piece_size;
    return options;
  }
  explicit PiecesTest(const ResidencyOptions& options = options_in_pieces(1024))
      : UsingCoreTest(options) {}

  /// A live buffer that was never written and is out.
  BufferId make_new(Bytes size) REQUIRES(manager_lock) {
    const Bytes pages = round_up(size, kGranule);
    const BufferId id = make_fresh(pages.count() / kGranule.count());
    core_.buffers[id].size = size.count();
    core_.ledger.end_life(Bytes{}, pages - size);  // whole pages were counted as the program's
    return id;
  }
  /// A live buffer that is out, with content of `value`.
  BufferId make_pieces_out(Bytes size, int value) REQUIRES(manager_lock) {
    const BufferId id = make_new(size);
    Buffer& buffer = core_.buffers[id];
    const auto slab = core_.host.acquire(buffer.host.backing, true);
    EXPECT_TRUE(slab.ok());
    buffer.host.slab = *slab;
    buffer.fresh = false;
    for (std::uint32_t n = 0; n < buffer.pieces.size(); ++n) {
      const Slab part = buffer.slab_of(n);
      std::memset(part.data, value + static_cast<int>(n), part.size.count());
    }
    return id;
  }
  /// A live buffer that is in and has never been out, with content of `value`.
  BufferId make_pieces_in(Bytes size, int value) REQUIRES(manager_lock) {
    const BufferId id = make_new(size);
    put_pieces_in(id, value);
    core_.buffers[id].note_write();
    return id;
  }
  /// A live buffer that is in, with the same content in its host copy.
  BufferId make_pieces_clean(Bytes size, int value) REQUIRES(manager_lock) {
    const BufferId id = make_pieces_out(size, value);
    put_pieces_in(id, value);
    return id;
  }
  BufferId pieces_in(Bytes size, int value) EXCLUDES(manager_lock) {
    const ManagerLock lock(core_.mutex);
    return make_pieces_in(size, value);
  }
  BufferId pieces_clean(Bytes size, int value) EXCLUDES(manager_lock) {
    const ManagerLock lock(core_.mutex);
    return make_pieces_clean(size, value);
  }

  /// A kernel writes content of `value` to a buffer that is in.
  void write(BufferId id, int value) REQUIRES(manager_lock) {
    write_on_device(id, value);
    core_.buffers[id].note_write();
  }
  /// Fetches a piece for a launch that waits for it.
  bool fetch(PieceId id) REQUIRES(manager_lock) {
    core_.buffers[id.buffer].pieces[id.index].want = Want::kDemand;
    return mover_.fetch(id, true) == ContentMover::Fetched::kSettled;
  }
  /// Takes pieces out, and lets their write-backs end if they can.
  void take_out(BufferId id, const std::vector<std::uint32_t>& pieces) EXCLUDES(manager_lock) {
    const ManagerLock lock(core_.mutex);
    for (const std::uint32_t piece : pieces) evictor_.evict({id, piece});
    device_.drain();
  }

  /// Of each piece the value of its bytes on the device; -1 if they differ, kGone if it is out.
  std::vector<int> device_values(BufferId id) {
    const Buffer& buffer = core_.buffers[id];
    std::vector<int> values;
    for (std::uint32_t n = 0; n < buffer.pieces.size(); ++n) {
      std::vector<std::byte> bytes(buffer.content_of(n).count());
      const bool is_in = buffer.pieces[n].state() == PieceState::kIn &&
                         device_.read(buffer.address_of(n), bytes.size(), bytes.data());
      values.push_back(is_in ? value_in(bytes) : kGone);
    }
    return values;
  }
  /// The same of its host copy, which has all of them.
  std::vector<int> host_values(BufferId id) {
    const Buffer& buffer = core_.buffers[id];
    std::vector<int> values;
    for (std::uint32_t n = 0; buffer.host.slab && n < buffer.pieces.size(); ++n) {
      const Slab part = buffer.slab_of(n);
      values.push_back(value_in({part.data, part.size.count()}));
    }
    return values;
  }
  [[nodiscard]] std::vector<PieceState> places(BufferId id) const {
    std::vector<PieceState> places;
    for (const Piece& piece : core_.buffers[id].pieces) places.push_back(piece.state());
    return places;
  }
  /// The pieces of which an eviction was requested.
  [[nodiscard]] std::vector<std::uint32_t> leaving(BufferId id) const {
    const Buffer& buffer = core_.buffers[id];
    std::vector<std::uint32_t> numbers;
    for (std::uint32_t n = 0; n < buffer.pieces.size(); ++n) {
      if (buffer.pieces[n].evict_ticket != 0) numbers.push_back(n);
    }
    return numbers;
  }
  /// How many pieces are missing, moving, arriving, leaving.
  using Counts = std::array<std::uint32_t, 4>;
  [[nodiscard]] Counts counts(BufferId id) const {
    const Buffer& buffer = core_.buffers[id];
    return {buffer.missing, buffer.moving, buffer.filling, buffer.evictions_requested};
  }

  /// Whether policy knows that pieces of the buffer are on the device, and of no other buffer's.
  bool is_victim(BufferId id) REQUIRES(manager_lock) {
    return core_.puller()->next_victim(0, [](BufferId) { return true; }) == id;
  }

  Status begin_launch(BufferId id, UseToken& token) EXCLUDES(manager_lock) {
    const std::array<std::uint64_t, 1> words{core_.buffers[id].base + 8};
    return uses_.begin_launch(KernelId{7}, words, stream_, token);
  }
  /// A launch that does nothing. @return whether it could be submitted.
  Status launch(BufferId id) EXCLUDES(manager_lock) {
    UseToken token;
    const Status status = begin_launch(id, token);
    if (status == Status::kOk) uses_.end_use(token, stream_, true);
    return status;
  }
  /// The same; it sets `has_run` when the device gets to it.
  void launch(BufferId id, bool& has_run) EXCLUDES(manager_lock) {
    UseToken token;
    ASSERT_EQ(begin_launch(id, token), Status::kOk);
    device_.submit(stream_, [&has_run] { has_run = true; });
    uses_.end_use(token, stream_, true);
    device_.drain();
  }
  /// Two events: the first completes at the next unblock(), the second at the one after.
  std::pair<EventRef, EventRef> two_blocked_events() {
    const StreamHandle first = blocked_stream();
    const StreamHandle second = device_.program_stream();
    const StreamHandle other = device_.program_stream();
    device_.order_after(second, first);
    device_.submit(second, [this, other] { device_.submit_blocking_host_function(other); });
    device_.submit_blocking_host_function(second);
    return {end_of(first), end_of(second)};
  }

  const StreamHandle stream_ = device_.program_stream();

 private:
  void put_pieces_in(BufferId id, int value) REQUIRES(manager_lock) {
    Buffer& buffer = core_.buffers[id];
    for (std::uint32_t n = 0; n < buffer.pieces.size(); ++n) {
      Page page = make_page(buffer.bytes_of(n));
      EXPECT_EQ(device_.map(buffer.address_of(n), page.size, page.handle), Status::kOk);
      core_.pieces.enter({id, n}, PieceState::kFetching);
      core_.pieces.enter({id, n}, PieceState::kIn, std::move(page));
    }
    buffer.fresh = false;
    write_on_device(id, value);
    core_.tell_whereabouts(id);
  }
  void write_on_device(BufferId id, int value) {
    const Buffer& buffer = core_.buffers[id];
    for (std::uint32_t n = 0; n < buffer.pieces.size(); ++n) {
      const std::vector<std::byte> bytes(buffer.content_of(n).count(),
                                         static_cast<std::byte>(value + static_cast<int>(n)));
      EXPECT_TRUE(device_.write(buffer.address_of(n), bytes.size(), bytes.data()));
    }
  }
  static int value_in(std::span<const std::byte> bytes) {
    const bool is_one = std::all_of(bytes.begin(), bytes.end(),
                                    [&](std::byte byte) { return byte == bytes.front(); });
    return is_one ? static_cast<int>(bytes.front()) : -1;
  }
};

}  // namespace superpipe::testing
