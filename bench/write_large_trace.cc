// Writes a trace of as many events as are asked for, as a model that decodes token by token leaves
// it: what bench/trace_scale.py times superpipe's tools with.
//
//   write_large_trace FILE EVENTS [resident]
//
// 32 layers of nine weights, in half precision as many as LLaMA-2-7B has, on a device with room for
// half of them. Each layer makes twenty launches, which name its weights, its cache and activations
// that come and go; its weights come in pieces before it and leave behind it. `resident`: all of it
// fits, so that nothing moves.

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/units.h"
#include "profiler/trace_event.h"
#include "profiler/trace_file.h"
#include "profiler/trace_writer.h"

namespace superpipe::bench {
namespace {

constexpr std::uint32_t kLayers = 32;
constexpr std::array<Bytes, 9> kWeightSizes = {32_MiB, 32_MiB, 32_MiB, 32_MiB, 86_MiB,
                                               86_MiB, 86_MiB, 2_MiB,  2_MiB};
constexpr Bytes kCacheSize = 32_MiB;
constexpr Bytes kActivationSize = 2_MiB;
constexpr Bytes kPiece = 32_MiB;
constexpr std::uint32_t kLaunchesOfLayer = 20;
constexpr std::uint32_t kKernels = 12;
constexpr std::uint32_t kBuffersOfLayer = kWeightSizes.size() + 1;
constexpr std::uint32_t kFirstActivation = kLayers * kBuffersOfLayer;
constexpr std::uint32_t kActivations = 3;
constexpr std::uint64_t kArena = 0x7F00'0000'0000;
constexpr std::int64_t kLaunchTime = 5'000;
/// One launch in so many has its time on the device measured.
constexpr std::uint64_t kTimedLaunches = 64;

class DecodingTrace {
 public:
  DecodingTrace(TraceSink& sink, bool moves) : writer_(sink), moves_(moves) {}

  /// @return what went wrong with the sink; empty: nothing.
  std::string write(std::uint64_t events) {
    describe();
    load();
    while (writer_.events() < events && !writer_.problem()) run_pass(events);
    writer_.finish(time_, 0);
    return writer_.problem().value_or("");
  }

 private:
  TraceMoment program(std::int64_t later) { return {time_ += later, 1}; }
  TraceMoment worker() { return {time_ += 300, 2}; }

  void describe() {
    writer_.add_property("superpipe.version", "0.1.0");
    writer_.add_property("trace.run", "write_large_trace");
    writer_.add_property("trace.start_ns", "5000000000");
    writer_.add_property("trace.start_unix_ns", "1700000000000000000");
    writer_.add_property("process.id", "4711");
    writer_.add_property("process.argument", "decode");
    writer_.add_property("device.index", "0");
    writer_.add_property("device.total_bytes", std::to_string((16_GiB).count()));
    writer_.add_property("policy.name", moves_ ? "auto" : "resident");
    writer_.add_property("budget.bytes", std::to_string(moves_ ? (7_GiB).count() : 0));
    writer_.add_property("buffer.granule_bytes", std::to_string((2_MiB).count()));
    writer_.begin();
    writer_.define(TraceThread{1, 4711});
    writer_.define(TraceThread{2, 4712});
    for (std::uint32_t kernel = 1; kernel <= kKernels; ++kernel) {
      writer_.define(TraceKernel{kernel, 0xA000u + kernel, "_Z6kernel" + std::to_string(kernel)});
    }
    writer_.define(TraceStream{1, 0x5555'0000'1000});
    writer_.define(TraceCallSite{1, "load+0x12 model.so+0x1012\nmain+0x40 decode+0x2040"});
    writer_.define(TraceCallSite{2, "forward+0x8 model.so+0x1408\nmain+0x60 decode+0x2060"});
  }

  static std::uint64_t address_of(std::uint32_t buffer) {
    return kArena + std::uint64_t{buffer} * (128_MiB).count();
  }
  static Bytes size_of(std::uint32_t buffer) {
    if (buffer >= kFirstActivation) return kActivationSize;
    const std::uint32_t place = buffer % kBuffersOfLayer;
    return place < kWeightSizes.size() ? kWeightSizes[place] : kCacheSize;
  }

  void allocate(std::uint32_t buffer, TraceIndex site) {
    const Bytes size = size_of(buffer);
    writer_.add(program(900),
                TraceAllocation{BufferId{buffer}, address_of(buffer), size, size, 1, site});
  }

  void load() {
    if (moves_) writer_.add(program(900), TraceBudget{7_GiB, 7_GiB});
    for (std::uint32_t buffer = 0; buffer < kFirstActivation; ++buffer) {
      allocate(buffer, 1);
      writer_.add(program(50'000),
                  TraceCopy{BufferId{buffer}, Bytes{}, size_of(buffer), true, true, 1});
    }
  }

  // The parts of a layer's weights for which there is no room, or all of them.
  template <typename Move>
  void for_each_piece(std::uint32_t layer, const Move& move) {
    for (std::uint32_t place = 0; place < kWeightSizes.size(); place += 2) {
      const BufferId buffer{layer * kBuffersOfLayer + place};
      for (Bytes offset; offset < kWeightSizes[place]; offset += kPiece) {
        move(buffer, offset, std::min(kPiece, kWeightSizes[place] - offset));
      }
    }
  }

  void fetch(std::uint32_t layer) {
    const std::uint64_t first = transfer_ + 1;
    for_each_piece(layer, [&](BufferId buffer, Bytes offset, Bytes size) {
      writer_.add(worker(), TraceFetch{{++transfer_}, buffer, offset, size, size, false});
    });
    for (std::uint64_t transfer = first; transfer <= transfer_; ++transfer) {
      writer_.add(worker(), TraceTransferEnd{{transfer}});
    }
  }

  void evict(std::uint32_t layer) {
    for_each_piece(layer, [&](BufferId buffer, Bytes offset, Bytes size) {
      writer_.add(worker(), TraceEviction{{transfer_}, buffer, offset, Bytes{}, size});
    });
    writer_.add(worker(), TraceMemory{7_GiB, 14_GiB, 3_MiB, 12_GiB});
  }

  void run_layer(std::uint32_t layer) {
    if (moves_) fetch(layer);
    for (std::uint32_t i = 0; i < kActivations; ++i) allocate(kFirstActivation + i, 2);
    const std::uint32_t first = layer * kBuffersOfLayer;
    for (std::uint32_t i = 0; i < kLaunchesOfLayer; ++i) {
      const std::array<BufferId, 3> buffers = {BufferId{first + i % kBuffersOfLayer},
                                               BufferId{kFirstActivation + i % kActivations},
                                               BufferId{kFirstActivation + (i + 1) % kActivations}};
      // Hosts are not regular.
      random_ = random_ * 6364136223846793005u + 1442695040888963407u;
      const auto later = kLaunchTime + static_cast<std::int64_t>(random_ >> 53);
      writer_.add(program(later), TraceLaunch{{++launch_}, 1 + i % kKernels, 1, buffers});
      if (launch_ % kTimedLaunches == 0 || launch_ < kTimedLaunches) {
        writer_.add(worker(), TraceKernelTime{{launch_}, -20'000, 30'000 + (random_ >> 52), 1});
      }
    }
    for (std::uint32_t i = 0; i < kActivations; ++i) {
      const std::uint32_t buffer = kFirstActivation + i;
      writer_.add(program(700), TraceFree{BufferId{buffer}, address_of(buffer), 1});
    }
    if (moves_) evict(layer);
  }

  void run_pass(std::uint64_t events) {
    if (launch_ > 0) writer_.add(program(100), TracePass{{launch_ + 1}});
    for (std::uint32_t layer = 0; layer < kLayers && writer_.events() < events; ++layer) {
      run_layer(layer);
    }
    if (moves_) {
      // The first launches of a pass wait for what comes.
      writer_.add(worker(), TraceStall{{launch_}, -1'000, 250'000});
    }
  }

  TraceWriter writer_;
  const bool moves_;
  std::int64_t time_ = 0;
  std::uint64_t launch_ = 0;
  std::uint64_t transfer_ = 0;
  std::uint64_t random_ = 1;
};

int write_large_trace_main(std::span<char*> words) {
  std::uint64_t events = 0;
  const std::string_view count = words.size() > 2 ? words[2] : "";
  const auto read = std::from_chars(count.data(), count.data() + count.size(), events);
  const bool moves = words.size() < 4;
  const bool fits = words.size() < 5 && (moves || std::string_view(words[3]) == "resident");
  if (!fits || count.empty() || read.ec != std::errc() || read.ptr != count.data() + count.size()) {
    std::cerr << "write_large_trace FILE EVENTS [resident]\n";
    return 2;
  }
  const auto file = TraceFile::create(words[1], "write_large_trace");
  const std::string problem =
      file.ok() ? DecodingTrace(**file, moves).write(events) : file.error().message;
  if (problem.empty()) return 0;
  std::cerr << "write_large_trace: " << problem << '\n';
  return 1;
}

}  // namespace
}  // namespace superpipe::bench

int main(int argc, char** argv) {
  return superpipe::bench::write_large_trace_main({argv, static_cast<std::size_t>(argc)});
}
