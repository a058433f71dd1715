// Operations of the program on the buffers of a core.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "tests/residency/core_fixture.h"

namespace superpipe::testing {

inline constexpr bool kReads = false;
inline constexpr bool kWrites = true;

class UseTrackerTest : public UsingCoreTest {
 protected:
  using UsingCoreTest::UsingCoreTest;

  /// Kernel arguments that name the buffers: addresses inside them.
  std::vector<std::uint64_t> words_of(const std::vector<BufferId>& ids) const {
    std::vector<std::uint64_t> words;
    words.reserve(ids.size());
    for (const BufferId id : ids) words.push_back(core_.buffers[id].base + 8);
    return words;
  }
  Status begin_launch(const std::vector<BufferId>& ids, StreamHandle stream, UseToken& token) {
    return uses_.begin_launch(KernelId{7}, words_of(ids), stream, token);
  }
  Status begin_use(BufferId id, bool writes, UseToken& token) {
    return uses_.begin_use(words_of({id}), writes, stream_, token);
  }
  /// A whole operation that is submitted to `stream`.
  void run_on(StreamHandle stream, BufferId id) {
    UseToken token;
    ASSERT_EQ(uses_.begin_use(words_of({id}), kWrites, stream, token), Status::kOk);
    uses_.end_use(token, stream, true);
  }
  /// The buffer leaves nothing behind of an operation that failed.
  void expect_untouched(BufferId id) {
    const Buffer& buffer = core_.buffers[id];
    EXPECT_EQ(buffer.pins, 0U);
    EXPECT_EQ(buffer.uses, 0U);
    EXPECT_EQ(buffer.last_use, 0U);
    EXPECT_EQ(buffer.pieces[0].want, Want::kNobody);
    EXPECT_EQ(buffer.pieces[0].fetch_status, Status::kOk);
    EXPECT_FALSE(buffer.pinned_forever);
  }
  /// Whether the buffer can be taken out without waiting for the program. Takes it.
  bool can_go_at_once(BufferId id) EXCLUDES(manager_lock) {
    const ManagerLock lock(core_.mutex);
    const std::array<BufferId, 1> victims{id};
    EXPECT_EQ(evictions_.request(victims), core_.buffers[id].footprint);
    device_.drain();
    return evictions_.take_next() == PieceId{id, 0};
  }
  /// A buffer that is out, and whose content arrives only when unblock() was called.
  BufferId out_behind_blocked_work(int value) {
    const BufferId id = out(1, value);
    core_.buffers[id].pieces[0].write_back = blocked_event();
    return id;
  }

  const StreamHandle stream_ = device_.program_stream();
};

}  // namespace superpipe::testing
