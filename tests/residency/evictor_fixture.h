// A core with an evictor, for tests of single evictions.
#pragma once

#include <gtest/gtest.h>

#include <utility>

#include "tests/residency/core_fixture.h"

namespace superpipe::testing {

class EvictorTest : public MovingCoreTest {
 protected:
  using MovingCoreTest::MovingCoreTest;

  /// Fetches a buffer for a launch that waits for it.
  bool demand(BufferId id) REQUIRES(manager_lock) {
    core_.buffers[id].pieces[0].want = Want::kDemand;
    return mover_.fetch({id, 0}, true) == ContentMover::Fetched::kSettled;
  }
  /// The program reads the host copy of a buffer, until `done`.
  void note_read(BufferId id, EventRef done) REQUIRES(manager_lock) {
    core_.buffers[id].host.operations.push_back(
        {kNoSlot, StreamHandle{}, false, std::move(done), ++core_.seq});
  }
  /// The idle page of one granule that the next fetch would get.
  Page take_idle_page() REQUIRES(manager_lock) {
    auto page = core_.pool->take(kGranule);
    EXPECT_TRUE(page.has_value());
    return page ? std::move(*page) : Page{};
  }
};

}  // namespace superpipe::testing
