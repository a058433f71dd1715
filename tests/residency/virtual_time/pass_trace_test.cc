// What a workload needs in a pass, and what no schedule can beat.
#include "residency/virtual_time/pass_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "residency/virtual_time/experiment.h"

namespace superpipe::virtual_time {
namespace {

/// A link that takes half a second for a MiB each way, and launches that take no time.
constexpr Speeds kSlow{Bandwidth{2097152}, Bandwidth{2097152}};

/// A pass names two weights, and a buffer that it allocates and frees; a third weight is idle.
class Small : public Workload {
 public:
  void load(Program& program) override {
    for (Handle& weight : weights_) {
      weight = program.allocate(3_MiB);
      program.upload(weight);
    }
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
  EXPECT_EQ(record_passes(loader, 2, 2_MiB).without_content, (std::vector{Handle{1}, Handle{4}}))
      << "one is filled in part";
}

TEST(BoundsOf, IsWhatHasToCrossTheLinkWhereThatTakesLonger) {
  Small small;
  const PassTrace trace = record_passes(small, 2, 2_MiB);
  // Of the 6 MiB that the pass names, 2 cannot be there when it begins, and come at 2 MiB/s.
  const Bounds bounds = bounds_of(trace, 1, 4_MiB, kSlow);
  EXPECT_EQ(bounds.physical, Seconds{1});
  EXPECT_EQ(bounds.compute, Seconds{0.75});
  EXPECT_EQ(bounds_of(trace, 1, 8_MiB, kSlow).physical, Seconds{0.75});
}

/// A pass names four weights one after the other.
class FourWeights : public Workload {
 public:
  void load(Program& program) override {
    for (Handle& weight : weights_) {
      weight = program.allocate(2_MiB);
      program.upload(weight);
    }
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
  const Bounds bounds = bounds_of(trace, 2, 4_MiB, kSlow);
  EXPECT_EQ(bounds.lru_bytes, 8_MiB);
  EXPECT_NEAR(static_cast<double>(bounds.min_bytes.count()) / (1 << 20), 8.0 * 2 / 3, 0.2);
  EXPECT_NEAR(bounds.windowed.count(), 8.0 / 3, 0.2);
  const Bounds roomy = bounds_of(trace, 2, 8_MiB, kSlow);
  EXPECT_EQ(roomy.min_bytes, Bytes{});
  EXPECT_EQ(roomy.lru_bytes, Bytes{});
  EXPECT_NEAR(roomy.windowed.count(), 0.004, 1e-9);
}

/// A pass makes four buffers, and keeps them or frees each behind its launch.
class Maker : public Workload {
 public:
  explicit Maker(bool keeps) : keeps_(keeps) {}
  void load(Program& /*program*/) override {}
  void run_pass(Program& program, int /*number*/) override {
    for (int i = 0; i < 4; ++i) {
      const Handle made = program.allocate(2_MiB);
      const Named named = writes(made);
      program.launch(KernelId{1}, {&named, 1}, Seconds{0.001});
      if (!keeps_) program.free(made);
    }
  }

 private:
  const bool keeps_;
};

TEST(BoundsOf, CountsWhatHasToGoToTheHost) {
  Maker keeper(true);
  const PassTrace kept = record_passes(keeper, 1, 2_MiB);
  // Two of the four have room. The others can go when the first launch has ended, and have gone
  // before the last one begins, which has room for one besides its own.
  const Bounds bounds = bounds_of(kept, 0, 4_MiB, kSlow);
  EXPECT_EQ(bounds.fetches, Seconds{0.004});
  EXPECT_NEAR(bounds.write_backs.count(), 2 + 0.002, 1e-9);
  EXPECT_EQ(bounds.windowed, bounds.write_backs);
  EXPECT_EQ(bound_of_pass(kept, 0, 4_MiB, kSlow), bounds.write_backs);
  EXPECT_NEAR(bounds_of(kept, 0, 8_MiB, kSlow).windowed.count(), 0.004, 1e-9);

  Maker freer(false);
  const PassTrace freed = record_passes(freer, 1, 2_MiB);
  EXPECT_EQ(freed.passes[0].launches[0].ends, std::vector{Handle{0}});
  EXPECT_NEAR(bounds_of(freed, 0, 4_MiB, kSlow).windowed.count(), 0.004, 1e-9);
}

/// A pass launches, copies out what it wrote, and launches again.
class Reader : public Workload {
 public:
  void load(Program& program) override {
    for (Handle& buffer : buffers_) {
      buffer = program.allocate(2_MiB);
      program.upload(buffer);
    }
  }
  void run_pass(Program& program, int /*number*/) override {
    const std::array<Named, 2> named{reads(buffers_[0]), writes(buffers_[1])};
    program.launch(KernelId{1}, named, Seconds{0.25});
    program.copy_out(buffers_[1], Bytes{}, 1_MiB);
    program.copy_out(buffers_[1], Bytes{}, 1_MiB);  // which may be on the host by now
    program.copy_out(buffers_[0], Bytes{}, 2_MiB);  // and so may this
    program.launch(KernelId{2}, {named.data(), 1}, Seconds{0.5});
  }

 private:
  std::array<Handle, 2> buffers_{};
};

TEST(BoundsOf, CountsWhatTheProgramWaitsFor) {
  Reader reader;
  const PassTrace trace = record_passes(reader, 2, 2_MiB);
  const std::vector<TracedLaunch>& first = trace.passes[0].launches;
  EXPECT_TRUE(first[0].follows_wait) << "for loading";
  EXPECT_EQ(first[0].copied_out, 1_MiB);
  EXPECT_TRUE(first[1].follows_wait);
  EXPECT_EQ(first[1].copied_out, Bytes{});
  EXPECT_FALSE(trace.passes[1].launches[0].follows_wait);
  Speeds speeds = kSlow;
  speeds.launch = Seconds{0.125};
  const Bounds bounds = bounds_of(trace, 1, 8_MiB, speeds);
  EXPECT_EQ(bounds.compute, Seconds{0.75});
  EXPECT_NEAR(bounds.windowed.count(), 0.75 + 0.5 + 0.125, 1e-9);
}

/// Loading ends with a launch that needs what no pass does.
class Converter : public Workload {
 public:
  void load(Program& program) override {
    for (Handle& weight : weights_) {
      weight = program.allocate(2_MiB);
      program.upload(weight);
    }
    const Handle wide = program.allocate(4_MiB);
    program.upload(wide);
    const std::array<Named, 2> named{reads(wide), writes(weights_[0])};
    program.launch(KernelId{9}, named, Seconds{1});
    program.free(wide);
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

TEST(BoundOfFirstPass, KnowsWhatLoadingHadOnTheDevice) {
  Converter converter;
  const PassTrace trace = record_passes(converter, 1, 2_MiB);
  // Three of four weights have room; the last comes behind the first launch. But when loading ends
  // there is but the one that was made.
  EXPECT_NEAR(bound_of_pass(trace, 0, 6_MiB, kSlow).count(), 1 + 0.002, 1e-9);
  EXPECT_NEAR(bound_of_first_pass(trace, 6_MiB, kSlow, Seconds{}).count(), 3 + 0.001, 1e-9);
  EXPECT_NEAR(bound_of_first_pass(trace, 6_MiB, kSlow, Seconds{0.5}).count(), 2.5 + 0.001, 1e-9);
  EXPECT_NEAR(bound_of_first_pass(trace, 6_MiB, kSlow, Seconds{9}).count(), 1 + 0.002, 1e-9);
}

/// Fills buffers by halves, by memsets, or not at all, each before a launch reads it twice.
class Filler : public Workload {
 public:
  void load(Program& program) override {
    for (Handle& buffer : buffers_) buffer = program.allocate(2_MiB);
    program.copy_in(buffers_[0], Bytes{}, 1_MiB);
    program.copy_in(buffers_[0], 1_MiB, 1_MiB);
    program.copy_in(buffers_[1], Bytes{}, 1_MiB);
    launch(program, buffers_[0]);
    const Named set = writes(buffers_[2]);
    program.use({&set, 1}, Seconds{1});
  }
  void run_pass(Program& program, int /*number*/) override {
    const Named set = writes(buffers_[3]);
    program.use({&set, 1}, Seconds{1});
    for (int i = 0; i < 2; ++i) {
      for (const Handle buffer : buffers_) launch(program, buffer);
    }
  }

 private:
  static void launch(Program& program, Handle buffer) {
    const Named named = reads(buffer);
    program.launch(KernelId{1}, {&named, 1}, Seconds{1});
  }

  std::array<Handle, 5> buffers_{};
};

TEST(RecordPasses, TakesForFetchedWhatHadAllOfItsContentBefore) {
  Filler filler;
  const PassTrace trace = record_passes(filler, 1, 2_MiB);
  EXPECT_FALSE(trace.last_of_load) << "a memset is behind it";
  EXPECT_EQ(trace.passes[0].persistent, 4_MiB);
  for (std::size_t i = 0; i < 10; ++i) {
    const bool is_fetched = i % 5 == 0 || i % 5 == 2;
    EXPECT_EQ(trace.passes[0].launches[i].makes.empty(), is_fetched) << i;
  }
}

/// Does anything at all with few buffers, drawn from a seed.
class Anything : public Workload {
 public:
  explicit Anything(std::uint64_t seed)
      : seed_(seed),
        random_(seed),
        repeats_(seed % 8 < 4),
        has_streams_(seed % 5 == 0),
        rarely_(seed % 3 == 0 ? 4 : 40) {}

  void load(Program& program) override {
    for (Handle& buffer : buffers_) {
      buffer = program.allocate(kSize);
      if (draw(4) > 0) program.upload(buffer);
    }
    if (draw(2) == 0) launch(program);
    if (draw(4) == 0) use(program);
    if (draw(4) == 0) renew(program);
  }
  void run_pass(Program& program, int /*number*/) override {
    if (repeats_) random_.seed(seed_);
    for (int i = 0; i < 12; ++i) {
      if (has_streams_) program.on_stream(draw(2));
      if (draw(3) == 0) renew(program);
      if (draw(rarely_) == 0) use(program);
      launch(program);
      while (draw(rarely_) == 0) do_besides(program);
    }
  }

 private:
  static constexpr std::uint32_t kBuffers = 8;
  static constexpr Bytes kSize = 4_MiB;

  std::uint32_t draw(std::uint32_t below) { return static_cast<std::uint32_t>(random_() % below); }
  Handle any() { return buffers_[draw(kBuffers)]; }
  void renew(Program& program) {
    Handle& buffer = buffers_[draw(kBuffers)];
    program.free(buffer);
    buffer = program.allocate(kSize);
  }
  void use(Program& program) {
    const Named named{any(), draw(2) == 0};
    program.use({&named, 1}, Seconds{2e-5 * draw(5)});
  }
  void launch(Program& program) {
    last_ = any();
    std::vector<Named> named{{last_, draw(2) == 0}};
    if (draw(2) == 0) named.push_back({any(), draw(2) == 0});
    if (draw(rarely_) == 0) named.clear();
    // Compilers evaluate the arguments of a call in orders of their own.
    const Seconds time{2e-5 * draw(5)};
    program.launch(KernelId{1 + draw(3)}, named, time);
  }
  void do_besides(Program& program) {
    const Bytes offset = draw(2) * 2_MiB;
    const Bytes size = draw(3) * 1_MiB;
    switch (draw(5)) {
      case 0:
        program.copy_out(last_, offset, size);
        break;
      case 1:
        program.copy_out(any(), offset, size);
        break;
      case 2:
        program.copy_in(any(), offset, size);
        break;
      case 3:
        program.work(Seconds{1e-4 * draw(4)});
        break;
      default:
        program.synchronize();
    }
  }

  const std::uint64_t seed_;
  std::mt19937_64 random_;
  const bool repeats_;  ///< each pass does the same
  const bool has_streams_;
  const std::uint32_t rarely_;  ///< once in so many times it does what programs do less often
  std::array<Handle, kBuffers> buffers_{};
  Handle last_{};
};

TEST(Bounds, AreBeatenByNoRun) {
  double nearest = 100;  // times the bound that a run took
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Experiment experiment;
    experiment.policy = seed % 2 == 0 ? PolicyKind::kAuto : PolicyKind::kLru;
    experiment.budget = 4_MiB * (4 + seed % 3);
    experiment.piece_size = 2_MiB;
    experiment.passes = 8;
    Bandwidth& slow = seed % 4 < 2 ? experiment.device.to_host : experiment.device.to_device;
    slow = Bandwidth{2e9};
    DeviceCosts& costs = experiment.device.costs;  // which would hide how near a run comes
    costs.map = costs.set_access = costs.unmap = costs.create_pages = costs.destroy_pages = Time{0};
    experiment.maps_early = true;  // and so would waits on the host for what arrives
    Anything traced(seed);
    const PassTrace trace = record_passes(traced, experiment.passes, 2_MiB);
    Anything workload(seed);
    const Outcome outcome = run(workload, experiment);
    ASSERT_EQ(outcome.error, "") << seed;
    const Speeds speeds = speeds_of(experiment.device);
    Seconds time{};
    for (const PassFigures& pass : outcome.passes) time += pass.time;
    const double rounding = 1 + 1e-5;
    const Bounds bounds = bounds_of(trace, 0, experiment.budget, speeds);
    EXPECT_LE(bounds.windowed * experiment.passes, time * rounding) << seed;
    const Seconds first =
        bound_of_first_pass(trace, experiment.budget, speeds, outcome.since_launch);
    EXPECT_LE(first, outcome.passes[0].time * rounding) << seed;
    for (std::size_t pass = 1; pass < outcome.passes.size(); ++pass) {
      const Seconds bound = bound_of_pass(trace, pass, experiment.budget, speeds);
      EXPECT_LE(bound, outcome.passes[pass].time * rounding) << seed << ", pass " << pass;
      if (bound > Seconds{1e-3}) nearest = std::min(nearest, outcome.passes[pass].time / bound);
    }
  }
  EXPECT_LT(nearest, 1.6) << "then hardly any bound would be found to be too high";
}

}  // namespace
}  // namespace superpipe::virtual_time
