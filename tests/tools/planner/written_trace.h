// Traces of programs that tests make up.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "policy/units.h"
#include "profiler/trace_reader.h"
#include "profiler/trace_writer.h"
#include "tools/superpipe/planner/traced_program.h"

namespace superpipe::cli::testing {

/// A sink in memory.
class MemorySink : public TraceSink {
 public:
  std::optional<std::string> write(std::span<const std::byte> bytes) override {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return std::nullopt;
  }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// Writes the trace of a program, call by call; a call takes `kCall` of the host's time.
class WrittenTrace {
 public:
  static constexpr std::int64_t kCall = 5'000;

  explicit WrittenTrace(const std::vector<std::pair<std::string, std::string>>& properties = {}) {
    // Of properties that are there twice the first counts.
    for (const auto& [key, value] : properties) writer_.add_property(key, value);
    writer_.add_property("policy.name", "resident");
    writer_.add_property("device.total_bytes", std::to_string((24_GiB).count()));
    writer_.add_property("device.context_bytes", std::to_string((512_MiB).count()));
    writer_.add_property("process.argument", "./program");
    writer_.begin();
    writer_.define(TraceThread{1, 4711});
    writer_.define(TraceThread{2, 4712});
    writer_.define(TraceStream{1, 0x5550});
  }

  BufferId allocate(Bytes size) {
    const BufferId buffer{buffers_++};
    writer_.add(next(), TraceAllocation{buffer, 0x1000, size, round_up(size, 2_MiB), 1, 0});
    return buffer;
  }
  void free(BufferId buffer) { writer_.add(next(), TraceFree{buffer, 0x1000, 1}); }
  void copy(BufferId buffer, Bytes size, bool to_device) {
    writer_.add(next(), TraceCopy{buffer, Bytes{}, size, to_device, false, 1});
  }
  /// What `kernel` is called; else the first launch of each gives it a name. In their order.
  void name_kernel(std::uint32_t kernel, const std::string& name) {
    writer_.define(TraceKernel{kernel, 1000 + kernel, name});
    kernels_ = kernel;
  }
  /// A launch that computes for `compute` ns; 0: nobody took its time.
  void launch(std::uint32_t kernel, const std::vector<BufferId>& buffers, std::uint64_t compute) {
    if (kernel > kernels_) name_kernel(kernel, "kernel" + std::to_string(kernel));
    const TraceMoment when = next();
    writer_.add(when, TraceLaunch{{++launches_}, kernel, 1, buffers});
    device_ = std::max(device_, when.time) + static_cast<std::int64_t>(compute);
    if (room_) hold_up();
    if (compute > 0) under_way_.push_back({launches_, device_, compute});
    while (!under_way_.empty() && (!room_ || under_way_.front().end <= host_)) tell_first_end();
  }
  /// From now on a launch is held up while as many others are under way as `room`, and the trace
  /// tells how long a launch took when it has ended.
  void driver_has_room_for(std::size_t room) { room_ = room; }
  /// A launch without managed buffers, which has the number of the last one that has some.
  void launch_of_nothing(std::uint32_t kernel) {
    writer_.add(next(), TraceLaunch{{launches_}, kernel, 1, {}});
  }
  /// The program waits for the device.
  void wait() {
    if (device_ > host_) wait(TraceWait::kDevice, device_ - host_);
  }
  /// A call of it waits for `what` (TraceWait) for so many nanoseconds.
  void wait(std::uint64_t what, std::int64_t duration) {
    host_ += duration;
    writer_.add({host_, thread_}, TraceWait{what, static_cast<std::uint64_t>(duration)});
  }
  /// What follows is called by this thread of two, 1 or 2.
  void on_thread(std::uint32_t thread) { thread_ = thread; }
  /// The program does something else for so many nanoseconds.
  void sleep(std::int64_t duration) { host_ += duration; }
  template <typename Event>
  void add(const Event& event) {
    writer_.add(next(), event);
  }
  template <typename Definition>
  void define(const Definition& definition) {
    writer_.define(definition);
  }

  /// The trace as it was written.
  std::span<const std::byte> finish() {
    while (!under_way_.empty()) tell_first_end();
    writer_.finish(host_, 0);
    return sink_.bytes();
  }
  /// The program that it tells of.
  std::variant<TracedProgram, std::string> program() {
    auto reader =
        TraceReader::from(std::make_unique<TraceBytesSource>(finish()), "program.sptrace");
    if (!reader.ok()) return reader.error().message;
    return TracedProgram::read(*reader);
  }

 private:
  TraceMoment next() {
    host_ += kCall;
    return {host_, thread_};
  }
  void hold_up() {
    if (under_way_.size() < *room_) return;
    const std::int64_t end = under_way_[under_way_.size() - *room_].end;
    if (end > host_) wait(TraceWait::kLaunch, end - host_);
  }
  void tell_first_end() {
    const Computed& first = under_way_.front();
    const std::int64_t begin = first.end - static_cast<std::int64_t>(first.compute);
    writer_.add({host_, thread_}, TraceKernelTime{{first.launch}, begin - host_, first.compute, 1});
    under_way_.pop_front();
  }

  struct Computed {
    std::uint64_t launch = 0;
    std::int64_t end = 0;
    std::uint64_t compute = 0;
  };

  MemorySink sink_;
  TraceWriter writer_{sink_};
  std::uint32_t thread_ = 1;
  std::int64_t host_ = 0;
  std::int64_t device_ = 0;
  std::uint32_t buffers_ = 0;
  std::uint32_t kernels_ = 0;
  std::uint64_t launches_ = 0;
  std::optional<std::size_t> room_;
  std::deque<Computed> under_way_;  ///< launches of which the trace does not tell the end yet
};

/// The program that the trace is of, which can be planned for.
inline TracedProgram program_of(WrittenTrace& trace) {
  auto program = trace.program();
  EXPECT_TRUE(std::holds_alternative<TracedProgram>(program)) << std::get<std::string>(program);
  return std::get<TracedProgram>(std::move(program));
}

/// A program that copies `layers` weights of `size` to the device and then uses one after the
/// other, `passes` times, each for a millisecond; a small result is copied out after each pass. In
/// the first pass it does something else for `idle` nanoseconds.
inline void write_cycle(WrittenTrace& trace, int layers, Bytes size, int passes,
                        std::int64_t idle = 0) {
  std::vector<BufferId> weights;
  for (int i = 0; i < layers; ++i) {
    weights.push_back(trace.allocate(size));
    trace.copy(weights.back(), size, true);
  }
  const BufferId state = trace.allocate(2_MiB);
  for (int pass = 0; pass < passes; ++pass) {
    for (int i = 0; i < layers; ++i) {
      trace.launch(static_cast<std::uint32_t>(1 + i % 3),
                   {weights[static_cast<std::size_t>(i)], state}, 1'000'000);
    }
    trace.wait();
    if (pass == 0) trace.sleep(idle);
    trace.copy(state, 4_KiB, false);
  }
}

}  // namespace superpipe::cli::testing
