// A program with many buffers, of which half fit the device.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "residency/virtual_time/experiment.h"

namespace superpipe::bench {

/// A cycle of buffers of 2 MiB. Each launch names eight neighbours; ten launches name the same
/// ones. The last pass does nothing but free.
class ManyBuffers : public virtual_time::Workload {
 public:
  static constexpr int kPasses = 5;
  static constexpr std::uint32_t kLaunchesEach = 10;

  /// `around`: called with the number of each pass and what it does, which it has to call.
  using Around = std::function<void(int pass, const std::function<void()>& body)>;
  explicit ManyBuffers(
      std::uint32_t buffers,
      Around around = [](int /*pass*/, const std::function<void()>& body) { body(); })
      : number_(buffers), around_(std::move(around)) {}

  void load(virtual_time::Program& program) override {
    for (std::uint32_t i = 0; i < number_; ++i) {
      buffers_.push_back(program.allocate(2_MiB));
      program.upload(buffers_.back());
    }
  }
  void run_pass(virtual_time::Program& program, int number) override {
    around_(number, [&] { number + 1 == kPasses ? free_all(program) : launch_all(program); });
  }

  /// Runs it under `auto`.
  [[nodiscard]] virtual_time::Outcome run_at_half() {
    virtual_time::Experiment experiment;
    experiment.policy = PolicyKind::kAuto;
    experiment.budget = Bytes{std::uint64_t{number_} << 20};
    experiment.passes = kPasses;
    experiment.device.costs.launch = std::chrono::microseconds{1};
    return virtual_time::run(*this, experiment);
  }

 private:
  void free_all(virtual_time::Program& program) {
    for (const virtual_time::Handle& buffer : buffers_) program.free(buffer);
  }
  void launch_all(virtual_time::Program& program) {
    for (std::uint32_t i = 0; i < number_ * kLaunchesEach; ++i) {
      std::array<virtual_time::Named, 8> named{};
      for (std::uint32_t j = 0; j < named.size(); ++j) {
        named[j] = virtual_time::reads(buffers_[(i / kLaunchesEach + j) % number_]);
      }
      program.launch(KernelId{1}, named, std::chrono::microseconds{1});
    }
    program.synchronize();
  }

  const std::uint32_t number_;
  const Around around_;
  std::vector<virtual_time::Handle> buffers_;
};

}  // namespace superpipe::bench
