// Whether launches rest.
#include "residency/transfer/rest_trust.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

#include "policy/missing_bytes.h"
#include "residency/transfer/fetch_pace.h"

namespace superpipe {
namespace {

int launches_until_one_rests(RestTrust& trust) {
  int launches = 1;
  while (!trust.may_begin()) ++launches;
  return launches;
}

TEST(RestTrust, TwiceAsManyLaunchesDoNotRestEachTimeTheDeviceDidNothing) {
  RestTrust trust;
  EXPECT_EQ(launches_until_one_rests(trust), 1);
  for (const int left_out : {1, 2, 4, 8}) {
    trust.note_end(false);
    EXPECT_EQ(launches_until_one_rests(trust), left_out + 1);
  }
  trust.note_end(true);
  EXPECT_EQ(launches_until_one_rests(trust), 1) << "the device went on";
  trust.note_end(false);
  EXPECT_EQ(launches_until_one_rests(trust), 2);
}

TEST(RestTrust, SomeLaunchRestsAgainHoweverOftenItWasInVain) {
  RestTrust trust;
  for (int i = 0; i < 40; ++i) trust.note_end(false);
  EXPECT_LE(launches_until_one_rests(trust), 5000);
}

// The first kernel of a pass waits for a flag that the host sets once the last launch of the pass
// is submitted, which lacks something: while the host rests, the device does nothing, and in the
// next pass that looks like time which there is.
TEST(RestTrust, AHostThatItsDeviceWaitsForHardlyRests) {
  using std::chrono::milliseconds;
  constexpr std::uint64_t kPass = 64;
  constexpr double kLink = 16e9;
  constexpr Bytes kPiece{16'000'000};
  FetchPace pace;
  for (int i = 0; i < 20; ++i) pace.note_fetch(std::chrono::microseconds{100}, kPiece);
  MissingBytes missing;
  RestTrust trust;
  FetchPace::TimePoint now{};
  std::uint64_t completed = 0;
  milliseconds rested{0};
  constexpr int kPasses = 200;
  for (int pass = 0; pass < kPasses; ++pass) {
    const std::uint64_t last = completed + kPass - 1;
    missing.advance(last);
    const auto began = now;
    bool may_rest = false;
    for (bool is_first = true;; is_first = false) {
      const auto slack = pace.slack_of_demand(kPiece, last, missing, kLink, now);
      if (!slack || *slack <= milliseconds{0}) break;
      if (is_first && !trust.may_begin()) break;
      may_rest = true;
      now += milliseconds{1};
      pace.note_completed(now, completed, kPass);
    }
    if (may_rest) trust.note_end(false);
    rested += std::chrono::duration_cast<milliseconds>(now - began);
    for (std::uint64_t i = 0; i < kPass; ++i) {
      now += milliseconds{1};
      pace.note_completed(now, ++completed, kPass);
    }
  }
  EXPECT_LT(rested, kPasses * milliseconds{5}) << "of 64 each";
}

}  // namespace
}  // namespace superpipe
