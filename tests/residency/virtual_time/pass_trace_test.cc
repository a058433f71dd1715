// What a workload needs in a pass, and what no schedule can beat.
#include "residency/virtual_time/pass_trace.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace superpipe::virtual_time {
namespace {

/// A pass names two weights, and a buffer that it allocates and frees; a third weight is idle.
class Small : public Workload {
 public:
  void load(Program& program) override {
    for (Handle& weight : weights_) weight = program.allocate(3_MiB);
    const Named first = reads(weights_[0]);
    program.launch(KernelId{9}, {&first, 1}, Seconds{1});  // is not part of a pass
  }
  void run_pass(Program& program, int /*number*/) override {
    const Handle output = program.allocate(5_MiB);
    const std::array<Named, 3> named{reads(weights_[0]), reads(weights_[1]), writes(output)};
    program.launch(KernelId{1}, {named.data(), 1}, Seconds{0.5});
    program.launch(KernelId{2}, named, Seconds{0.25});
    program.free(output);
  }

 private:
  std::array<Handle, 3> weights_{};
};

TEST(RecordPasses, CountsWhatWasThereBeforeAndWhatThePassMakes) {
  Small small;
  const PassTrace trace = record_passes(small, 2, 2_MiB);
  ASSERT_EQ(trace.passes.size(), 2U);
  for (const TracedPass& pass : trace.passes) {
    ASSERT_EQ(pass.launches.size(), 2U);
    EXPECT_EQ(pass.launches[0].kernel, KernelId{1});
    EXPECT_EQ(pass.launches[1].buffers.size(), 3U);
    EXPECT_EQ(pass.compute, Seconds{0.75});
    EXPECT_EQ(pass.persistent, 6_MiB);  // two weights
    EXPECT_EQ(pass.transients, 6_MiB);
    EXPECT_EQ(pass.peak, 18_MiB);
  }
  EXPECT_EQ(trace.peak(), 18_MiB);
}

/// Loads in all ways that there are, and one buffer not at all.
class Loader : public Workload {
 public:
  void load(Program& program) override {
    std::array<Handle, 5> made{};
    for (Handle& buffer : made) buffer = program.allocate(2_MiB);
    program.upload(made[0]);
    program.copy_in(made[1], Bytes{}, 1_MiB);
    const std::array<Named, 2> launched{reads(made[4]), writes(made[2])};
    program.launch(KernelId{9}, launched, Seconds{1});
    const Named filled = writes(made[3]);
    program.use({&filled, 1}, Seconds{1});
    buffers_ = made;
  }
  void run_pass(Program& program, int /*number*/) override {
    const Named named = writes(buffers_[4]);
    program.launch(KernelId{1}, {&named, 1}, Seconds{1});
  }

 private:
  std::array<Handle, 5> buffers_{};
};

TEST(RecordPasses, TellsWhatHasNoContentWhenTheFirstPassBegins) {
  Loader loader;
  EXPECT_EQ(record_passes(loader, 2, 2_MiB).without_content, std::vector{Handle{4}});
}

TEST(BoundsOf, IsWhatHasToCrossTheLinkWhereThatTakesLonger) {
  Small small;
  const PassTrace trace = record_passes(small, 2, 2_MiB);
  // Of the 6 MiB that the pass names, 2 cannot be there when it begins, and come at 2 MiB/s.
  const Bounds bounds = bounds_of(trace, 1, 4_MiB, Bandwidth{2097152});
  EXPECT_EQ(bounds.physical, Seconds{1});
  EXPECT_EQ(bounds.compute, Seconds{0.75});
  EXPECT_EQ(bounds_of(trace, 1, 8_MiB, Bandwidth{2097152}).physical, Seconds{0.75});
}

/// A pass names four weights one after the other.
class FourWeights : public Workload {
 public:
  void load(Program& program) override {
    for (Handle& weight : weights_) weight = program.allocate(2_MiB);
  }
  void run_pass(Program& program, int /*number*/) override {
    for (const Handle weight : weights_) {
      const Named named = reads(weight);
      program.launch(KernelId{1}, {&named, 1}, Seconds{0.001});
    }
  }

 private:
  std::array<Handle, 4> weights_{};
};

TEST(BoundsOf, CountsWhatOthersFetchFromThatPassOn) {
  FourWeights cycle;
  const PassTrace trace = record_passes(cycle, 20, 2_MiB);
  // Room for two of four weights: plain last use fetches all, MIN two of the three others.
  const Bounds bounds = bounds_of(trace, 2, 4_MiB, Bandwidth{2097152});
  EXPECT_EQ(bounds.lru_bytes, 8_MiB);
  EXPECT_NEAR(static_cast<double>(bounds.min_bytes.count()) / (1 << 20), 8.0 * 2 / 3, 0.2);
  EXPECT_NEAR(bounds.windowed.count(), 8.0 / 3, 0.2);
  const Bounds roomy = bounds_of(trace, 2, 8_MiB, Bandwidth{2097152});
  EXPECT_EQ(roomy.min_bytes, Bytes{});
  EXPECT_EQ(roomy.lru_bytes, Bytes{});
  EXPECT_NEAR(roomy.windowed.count(), 0.004, 1e-9);
}

}  // namespace
}  // namespace superpipe::virtual_time
