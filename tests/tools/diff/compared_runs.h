// Runs that tests compare, as traces that they make up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/tools/planner/written_trace.h"
#include "tools/superpipe/diff/compared_run.h"

namespace superpipe::cli::testing {

inline constexpr std::uint64_t kMs = 1'000'000;

/// A program that goes through its weights again and again, one launch of a millisecond for each,
/// and fetches each one before it and evicts it behind it.
struct OffloadedProgram {
  std::vector<Bytes> weights = {4_MiB, 4_MiB, 4_MiB, 4_MiB};
  int passes = 12;
  /// What the launch of a weight waits for it, in nanoseconds, in a pass.
  std::function<std::uint64_t(int pass, std::size_t weight)> stall = [](int, std::size_t) {
    return std::uint64_t{0};
  };
  std::uint32_t first_kernel = 1;  ///< others have other names
  std::string command = "./program";
  std::uint64_t compute_ns = kMs;
  std::int64_t launch_wait_ns = 0;  ///< that each launch waits before it
  std::int64_t host_ns = 0;         ///< that the program does something else after each launch
  bool fetches = true;
};

inline std::vector<std::byte> trace_of(const OffloadedProgram& program) {
  WrittenTrace trace({{"process.argument", program.command}});
  std::vector<BufferId> weights;
  trace.add(TraceBudget{8_MiB, 8_MiB});
  for (const Bytes size : program.weights) {
    weights.push_back(trace.allocate(size));
    trace.copy(weights.back(), size, true);
  }
  std::uint64_t launch = 0;
  std::uint64_t transfer = 0;
  for (int pass = 0; pass < program.passes; ++pass) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const Bytes size = program.weights[i];
      const std::uint64_t stall = program.stall(pass, i);
      if (program.fetches) {
        trace.add(TraceFetch{{++transfer}, weights[i], Bytes{}, size, size, true});
      }
      const auto kernel = program.first_kernel + static_cast<std::uint32_t>(i % 2);
      if (program.launch_wait_ns > 0) trace.wait(TraceWait::kLaunch, program.launch_wait_ns);
      trace.launch(kernel, {weights[i]}, program.compute_ns + stall);
      ++launch;
      trace.wait();
      trace.sleep(program.host_ns);
      if (program.fetches) trace.add(TraceTransferEnd{{transfer}});
      if (stall > 0) trace.add(TraceStall{{launch}, 0, stall});
      if (program.fetches) {
        trace.add(TraceEviction{{transfer}, weights[i], Bytes{}, Bytes{}, size});
      }
    }
    trace.add(TraceMemory{8_MiB, 16_MiB, 1_MiB, 20_MiB});
  }
  const auto bytes = trace.finish();
  return {bytes.begin(), bytes.end()};
}

inline std::variant<ComparedRun, FileProblem> read_run(std::span<const std::byte> bytes,
                                                       const std::string& name) {
  return run_of_trace(
      [&] { return TraceReader::from(std::make_unique<TraceBytesSource>(bytes), name); }, name);
}

inline ComparedRun run_of(const OffloadedProgram& program, const std::string& name = "run") {
  return std::get<ComparedRun>(read_run(trace_of(program), name));
}

}  // namespace superpipe::cli::testing
