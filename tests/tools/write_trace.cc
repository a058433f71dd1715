// Writes a trace as a run of a small model would leave it, with figures that tests know.
//
//   write_trace FILE [PASSES [died]]
//
// Four layers of two weights, 16 MiB each, on a device with room for half of them; two passes
// unless PASSES says otherwise. Stream 1 computes, stream 2 gathers results. Each pass fetches
// every weight and evicts it after its use, without write-back; the gathered result, 4 MiB, is
// written back once a pass, and the program waits for the device for 250 us. `died`: the process
// died before the trace's end, with a fetch under way.

#include <array>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <span>
#include <string>

#include "policy/units.h"
#include "profiler/trace_event.h"
#include "profiler/trace_file.h"
#include "profiler/trace_writer.h"

namespace superpipe {
namespace {

constexpr std::uint32_t kWeights = 8;
constexpr BufferId kResult{kWeights};
constexpr std::int64_t kMicrosecond = 1000;
constexpr std::uint64_t kArena = 0x7F00'0000'0000;
constexpr std::uint64_t kDriversOwn = 0x7E00'0000'0000;

class ModelTrace {
 public:
  explicit ModelTrace(TraceSink& sink) : writer_(sink) {}

  void write(std::uint64_t passes, bool dies) {
    describe();
    allocate();
    for (pass_ = 1; pass_ <= passes; ++pass_) run_pass();
    if (dies) {
      fetch(BufferId{0}, true);
      writer_.flush();
      return;
    }
    for (std::uint32_t buffer = 0; buffer <= kWeights; ++buffer) {
      writer_.add(program(), TraceFree{BufferId{buffer}, address_of(buffer), 1});
    }
    writer_.finish(time_, 0);
  }

 private:
  static std::uint64_t address_of(std::uint32_t buffer) {
    return kArena + buffer * (18_MiB).count();
  }

  TraceMoment program() { return {time_ += kMicrosecond, 1}; }
  TraceMoment worker() { return {time_ += kMicrosecond, 2}; }

  void describe() {
    writer_.add_property("superpipe.version", "0.1.0");
    writer_.add_property("trace.run", "write_trace");
    writer_.add_property("trace.start_ns", "5000000000");
    writer_.add_property("trace.start_unix_ns", "1700000000000000000");
    writer_.add_property("process.id", "4711");
    writer_.add_property("process.argument", "python");
    writer_.add_property("process.argument", "generate \"it\".py");
    writer_.add_property("device.index", "1");
    writer_.begin();
    writer_.define(TraceThread{1, 4711});
    writer_.define(TraceThread{2, 4712});
    writer_.define(TraceKernel{1, 0xA, "_Z4gemmPKfS0_Pf"});
    writer_.define(TraceKernel{2, 0xB, "gather<int, \"x\">;f"});
    writer_.define(TraceStream{1, 0x5555'0000'1000});
    writer_.define(TraceStream{2, 0x5555'0000'2000});
    writer_.define(TraceCallSite{1,
                                 "_ZN5model4loadEi+0x12 model.so+0x1012\n"
                                 "main+0x40 program+0x2040"});
    writer_.define(TraceCallSite{2, "cache(int;char)+0x8 model.so+0x1408\nprogram+0x2060"});
    writer_.define(TraceText{1, "forward \xC3\xA4 \xFF"});
    writer_.define(TraceText{2, "step"});
  }

  void allocate() {
    writer_.add(program(), TraceBudget{80_MiB, 72_MiB});
    writer_.add(program(), TraceAllocation{kNoBuffer, kDriversOwn, 64_KiB, Bytes{}, 0, 2});
    writer_.add(program(), TraceFree{kNoBuffer, kDriversOwn, 0});
    for (std::uint32_t buffer = 0; buffer < kWeights; ++buffer) {
      writer_.add(program(), TraceAllocation{BufferId{buffer}, address_of(buffer),
                                             Bytes{15'000'000}, 16_MiB, 0, 1});
    }
    writer_.add(program(), TraceAllocation{kResult, address_of(kWeights), 4_MiB, 4_MiB, 1, 2});
    writer_.add(program(), TraceCopy{BufferId{0}, Bytes{}, 15_MiB, true, true, 1});
    // The result's page is new: nothing crosses the link.
    writer_.add(worker(), TraceFetch{{++transfer_}, kResult, Bytes{}, Bytes{}, 4_MiB, false});
    writer_.add(worker(), TraceTransferEnd{{transfer_}});
  }

  std::uint64_t fetch(BufferId buffer, bool demand) {
    const TraceFetch fetch{{++transfer_}, buffer, Bytes{}, Bytes{15'000'000}, 16_MiB, demand};
    writer_.add(worker(), fetch);
    return transfer_;
  }

  void run_pass() {
    writer_.add(program(), TraceMark{TraceMark::kBegin, 1, 0});
    writer_.add(program(), TraceMark{TraceMark::kBegin, 2, pass_});
    for (std::uint32_t layer = 0; layer < kWeights / 2; ++layer) {
      const std::array<BufferId, 3> buffers = {BufferId{2 * layer}, BufferId{2 * layer + 1},
                                               kResult};
      const std::uint64_t first = fetch(buffers[0], true);
      const std::uint64_t second = fetch(buffers[1], false);
      // The second layer's launch waits on the device for its buffers; the others are told late.
      const bool waits = layer == 1;
      const auto end_fetches = [&] {
        time_ += 600 * kMicrosecond;
        writer_.add(worker(), TraceTransferEnd{{first}});
        time_ += 600 * kMicrosecond;
        writer_.add(worker(), TraceTransferEnd{{second}});
      };
      if (!waits) end_fetches();
      if (layer == 0) writer_.add(program(), TracePass{{launch_ + 1}});
      writer_.add(program(), TraceLaunch{{++launch_}, 1, 1, buffers});
      const std::uint64_t gemm = launch_;
      if (waits) {
        end_fetches();
        writer_.add(worker(), TraceStall{{gemm}, 0, 1'000'000});
      }
      writer_.add(program(), TraceUse{1, true, std::span(&kResult, 1)});
      writer_.add(worker(), TraceKernelTime{{gemm}, 0, 400'000, 1});
      time_ += 400 * kMicrosecond;
      writer_.add(program(), TraceLaunch{{++launch_}, 2, 2, std::span(&kResult, 1)});
      writer_.add(worker(), TraceKernelTime{{launch_}, 0, 50'000, 2});
      for (const BufferId weight : std::span(buffers).first(2)) {
        writer_.add(worker(), TraceEviction{{transfer_}, weight, Bytes{}, Bytes{}, 16_MiB});
      }
      writer_.add(worker(), TraceMemory{36_MiB, 132_MiB, 3_MiB, 120_MiB});
    }
    writer_.add(worker(), TraceEviction{{++transfer_}, kResult, Bytes{}, 4_MiB, 4_MiB});
    time_ += 300 * kMicrosecond;
    writer_.add(worker(), TraceTransferEnd{{transfer_}});
    writer_.add(worker(), TraceFetch{{++transfer_}, kResult, Bytes{}, Bytes{}, 4_MiB, false});
    writer_.add(worker(), TraceTransferEnd{{transfer_}});
    writer_.add(program(), TraceMark{TraceMark::kEnd, 0, 0});
    writer_.add(worker(), TraceMark{TraceMark::kEnd, 0, pass_});
    writer_.add(program(), TraceMark{TraceMark::kPoint, 2, 0});
    writer_.add(program(), TraceWait{TraceWait::kDevice, 250'000});
  }

  TraceWriter writer_;
  std::int64_t time_ = 0;
  std::uint64_t pass_ = 0;
  std::uint64_t launch_ = 0;
  std::uint64_t transfer_ = 0;
};

int write_trace_main(std::span<char*> words) {
  if (words.size() < 2) {
    std::cerr << "write_trace FILE [PASSES [died]]\n";
    return 2;
  }
  const auto file = TraceFile::create(words[1], "write_trace");
  if (!file.ok()) {
    std::cerr << "write_trace: " << file.error().message << '\n';
    return 1;
  }
  const std::uint64_t passes = words.size() > 2 ? std::strtoull(words[2], nullptr, 10) : 2;
  const bool dies = words.size() > 3 && std::string(words[3]) == "died";
  ModelTrace(**file).write(passes, dies);
  return 0;
}

}  // namespace
}  // namespace superpipe

int main(int argc, char** argv) {
  return superpipe::write_trace_main({argv, static_cast<std::size_t>(argc)});
}
