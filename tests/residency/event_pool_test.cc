// Events and the handles that they share.
#include "residency/streams/event_pool.h"

#include <gtest/gtest.h>

#include "tests/residency/fake_device.h"

namespace superpipe::testing {
namespace {

TEST(EventPool, ReusesAHandleOnlyWhenNobodyHoldsItsEvent) {
  FakeDevice device({});
  EventPool events(device);
  const StreamHandle stream = device.program_stream();
  {
    const auto first = events.record(stream, 1);
    const auto second = events.record(stream, 2);
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_NE((*first)->handle, (*second)->handle);
  }
  (void)events.record(stream, 3);
  EXPECT_EQ(device.calls(Call::kCreateEvent), 2);
  events.clear();
  EXPECT_EQ(device.live_events(), 0U);
}

}  // namespace
}  // namespace superpipe::testing
