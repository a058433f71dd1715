// Uses on streams beyond those that have slots.
#include "residency/streams/shared_uses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "residency/streams/stream_table.h"
#include "tests/residency/fake_device.h"

namespace superpipe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class SharedUsesTest : public ::testing::Test {
 protected:
  EventRef event(std::uint64_t seq) { return *events_.record(device_.program_stream(), seq); }
  void note(std::uint64_t stream, std::uint64_t seq, EventRef event) {
    uses_.note({StreamHandle{stream}, 0, seq, std::move(event)});
  }
  std::vector<EventRef> awaited() {
    std::vector<EventRef> found;
    EXPECT_TRUE(uses_.covered(found));
    return found;
  }
  bool covered() {
    std::vector<EventRef> found;
    return uses_.covered(found);
  }

  FakeDevice device_{{.eager = true}};
  EventPool events_{device_};
  SharedUses uses_;
};

TEST_F(SharedUsesTest, AreNotCoveredWhileOneHasNoEvent) {
  note(500, 1, event(1));
  EXPECT_TRUE(covered());
  note(501, 2, nullptr);
  EXPECT_FALSE(covered());
  EXPECT_TRUE(uses_.lacks_event(StreamHandle{501}));
  note(501, 3, event(3));
  EXPECT_TRUE(covered());
  EXPECT_FALSE(uses_.lacks_event(StreamHandle{501}));
}

TEST_F(SharedUsesTest, OfAStreamThatIsDestroyedGetItsLastEvent) {
  note(501, 2, nullptr);
  note(502, 3, nullptr);
  const EventRef end = event(2);
  uses_.retire(StreamHandle{501}, end);
  EXPECT_FALSE(covered());
  EXPECT_TRUE(uses_.lacks_event());
  uses_.retire(StreamHandle{502}, end);
  EXPECT_TRUE(covered());
  EXPECT_FALSE(uses_.lacks_event());
}

TEST_F(SharedUsesTest, OfAStreamThatIsDestroyedAreNotThoseOfALaterOneWithItsHandle) {
  const EventRef first = event(1);
  const EventRef second = event(5);
  note(500, 1, first);
  uses_.retire(StreamHandle{500}, nullptr);
  note(500, 2, second);
  EXPECT_THAT(awaited(), UnorderedElementsAre(first, second));
}

TEST_F(SharedUsesTest, KeepBothEventsOfTwoThreadsThatUsedOneStreamAtOnce) {
  // Both recorded when nothing had been noted yet: neither event covers the other's use.
  const EventRef one = event(0);
  const EventRef two = event(0);
  note(500, 1, two);
  note(500, 2, one);
  EXPECT_THAT(awaited(), UnorderedElementsAre(one, two));
  // Recorded after both had been noted: it covers them.
  const EventRef last = event(2);
  note(500, 3, last);
  EXPECT_THAT(awaited(), ElementsAre(last));
}

TEST_F(SharedUsesTest, AreOverOnceTheirEventsAreKnownToBeComplete) {
  EXPECT_TRUE(uses_.is_over());
  EXPECT_EQ(uses_.completed_to(7), 7U);
  const EventRef first = event(1);
  const EventRef second = event(2);
  note(500, 2, first);
  note(501, 3, second);
  EXPECT_FALSE(uses_.is_over());
  EXPECT_EQ(uses_.completed_to(7), 1U);
  ASSERT_TRUE(*events_.is_complete(first));
  EXPECT_EQ(uses_.completed_to(7), 2U);
  EXPECT_THAT(awaited(), ElementsAre(second));
  ASSERT_TRUE(*events_.is_complete(second));
  EXPECT_TRUE(uses_.is_over());
  EXPECT_THAT(awaited(), IsEmpty());
}

TEST_F(SharedUsesTest, AreAskedAboutInTurn) {
  const EventRef first = event(1);
  const EventRef second = event(2);
  const EventRef third = event(3);
  note(500, 1, first);
  note(501, 2, second);
  note(502, 3, third);
  EXPECT_THAT(uses_.next_to_ask(2), ElementsAre(first, second));
  EXPECT_THAT(uses_.next_to_ask(2), ElementsAre(third, first));
  ASSERT_TRUE(*events_.is_complete(second));
  EXPECT_THAT(uses_.next_to_ask(9), ElementsAre(third, first));
}

TEST_F(SharedUsesTest, AreLostWhereThereAreTooMany) {
  for (std::uint64_t i = 0; i < SharedUses::kMost; ++i) note(500 + i, i + 1, event(0));
  EXPECT_FALSE(uses_.is_lost());
  note(1, SharedUses::kMost + 1, event(0));
  EXPECT_TRUE(uses_.is_lost());
  EXPECT_FALSE(uses_.is_over());
  EXPECT_FALSE(covered());
  uses_.clear();
  EXPECT_TRUE(uses_.is_over());
}

}  // namespace
}  // namespace superpipe::testing
