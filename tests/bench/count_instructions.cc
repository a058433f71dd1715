// Runs a program with many buffers under callgrind, which counts the instructions of one pass:
//     valgrind --tool=callgrind --instr-atstart=no count_instructions BUFFERS launches|frees
#include <valgrind/callgrind.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string_view>

#include "tests/bench/many_buffers.h"

int main(int argc, char** argv) {
  using superpipe::bench::ManyBuffers;
  if (argc != 3) return 2;
  const auto buffers = static_cast<std::uint32_t>(std::atoi(argv[1]));
  const bool counts_frees = std::string_view(argv[2]) == "frees";
  const int counted = ManyBuffers::kPasses - (counts_frees ? 1 : 2);
  ManyBuffers program(buffers, [&](int pass, const std::function<void()>& body) {
    if (pass == counted) CALLGRIND_START_INSTRUMENTATION;
    body();
    if (pass == counted) CALLGRIND_STOP_INSTRUMENTATION;
  });
  const auto outcome = program.run_at_half();
  if (!outcome.error.empty() || !outcome.violations.empty()) return 1;
  std::printf("%u\n", counts_frees ? buffers : buffers * ManyBuffers::kLaunchesEach);
  return 0;
}
