// superpipe-layers: a model of n equal layers for measurements, which notices any wrong byte.

#include <array>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <numeric>
#include <stdexcept>

#include "examples/layers/content.h"
#include "examples/layers/workload.h"
#include "examples/options.h"

namespace layers {
namespace {

constexpr char kHelp[] =
    R"(usage: superpipe-layers [OPTIONS]

Runs passes over a model of equal layers on the CUDA device. Kernels read (in training also write)
every byte of every layer, and every bit of them counts in the result.

  --layers N           default 8
  --layer-mib N        size of a layer's weights in MiB; default 16
  --passes N           default 4
  --until FILE         more passes, as long as there is no FILE
  --mode MODE          forward (default), or train: forward, backward, optimizer step; a layer then
                       has gradients and optimizer state of the weights' size too
  --activation-kib N   size of an activation in KiB, rounded up to a multiple of 4; default 64
  --streams N          forward: N independent passes at once over the same layers;
                       train: layer l on stream l modulo N, ordered by events; default 1
  --compute-us N       microseconds that a layer takes at least, backward twice that; default 0
  --async              load from pinned memory with asynchronous copies
  --alloc KIND         sync (cudaMalloc, default) or async (cudaMallocAsync)
  --verify             compute all on the host too, and fail where a buffer differs
  --output FILE        write a digest of every buffer's content
  --json               print the result as JSON
  --help

Times are device times of each pass, from events. Exit codes: 0 done, 1 failed, 2 wrong command line.
)";

constexpr examples::OptionSpec kKnown[] = {
    {"--layers", true},     {"--layer-mib", true}, {"--passes", true},         {"--until", true},
    {"--mode", true},       {"--streams", true},   {"--activation-kib", true}, {"--async", false},
    {"--compute-us", true}, {"--alloc", true},     {"--verify", false},        {"--output", true},
    {"--json", false},      {"--help", false}};

Settings settings_of(const examples::Options& options) {
  constexpr std::string_view kModes[] = {"forward", "train"};
  constexpr std::string_view kAllocations[] = {"sync", "async"};
  Settings settings;
  settings.mode = options.choice("--mode", kModes) == "train" ? Mode::kTrain : Mode::kForward;
  settings.layers = options.count("--layers", 8, 1, 10'000);
  settings.layer_words = options.count("--layer-mib", 16, 1, 1 << 20) * (1 << 20) / sizeof(Word);
  const Word kib = options.count("--activation-kib", 64, 1, 1 << 24);
  settings.activation_words = (kib + 3) / 4 * 4 * 1024 / sizeof(Word);
  settings.passes = options.count("--passes", 4, 1, 100'000);
  settings.until = options.text("--until", "");
  settings.streams = options.count("--streams", 1, 1, 64);
  settings.compute_us = static_cast<unsigned>(options.count("--compute-us", 0, 0, 10'000'000));
  settings.pinned_loading = options.has("--async");
  settings.allocation = options.choice("--alloc", kAllocations) == "async"
                            ? examples::AllocationKind::kStreamOrdered
                            : examples::AllocationKind::kDirect;
  return settings;
}

struct Outcome {
  std::vector<float> pass_ms;
  double wall_ms;
  std::vector<ContentDigest> digests;
};

/// All digests in one: what two runs can be compared by at a glance.
Word combined(const std::vector<ContentDigest>& digests) {
  std::vector<Word> words;
  words.reserve(digests.size());
  for (const ContentDigest& digest : digests) words.push_back(digest.digest);
  return content_digest(words);
}

void print_json(const Settings& settings, const Outcome& outcome) {
  std::printf("{\"mode\": \"%s\", \"layers\": %zu, \"layer_bytes\": %" PRIu64
              ", \"activation_bytes\": %" PRIu64
              ", \"passes\": %zu, \"streams\": %zu, \"compute_us\": %u, \"wall_ms\": %.3f, "
              "\"digest\": \"%016" PRIx64 "\", \"pass_ms\": [",
              settings.mode == Mode::kTrain ? "train" : "forward", settings.layers,
              settings.layer_words * sizeof(Word), settings.activation_words * sizeof(Word),
              outcome.pass_ms.size(), settings.streams, settings.compute_us, outcome.wall_ms,
              combined(outcome.digests));
  for (std::size_t i = 0; i < outcome.pass_ms.size(); ++i) {
    std::printf(i == 0 ? "%.3f" : ", %.3f", static_cast<double>(outcome.pass_ms[i]));
  }
  std::printf("]}\n");
}

void print_text(const Outcome& outcome) {
  for (std::size_t i = 0; i < outcome.pass_ms.size(); ++i) {
    std::printf("pass %zu: %.3f ms\n", i + 1, static_cast<double>(outcome.pass_ms[i]));
  }
  const double total = std::accumulate(outcome.pass_ms.begin(), outcome.pass_ms.end(), 0.0);
  std::printf("mean: %.3f ms; host: %.3f ms\ndigest: %016" PRIx64 "\n",
              total / static_cast<double>(outcome.pass_ms.size()), outcome.wall_ms,
              combined(outcome.digests));
}

void write_digests(const std::string& path, const std::vector<ContentDigest>& digests) {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  bool good = file != nullptr;
  for (const ContentDigest& digest : digests) {
    good =
        good && std::fprintf(file, "%s %016" PRIx64 "\n", digest.buffer.c_str(), digest.digest) > 0;
  }
  if (file != nullptr) good = std::fclose(file) == 0 && good;
  if (!good) throw std::runtime_error("cannot write '" + path + "'");
}

void verify(Settings settings, std::size_t passes, const std::vector<ContentDigest>& digests) {
  settings.passes = passes;
  const std::vector<ContentDigest> expected = expected_digests(settings);
  if (expected.size() != digests.size()) throw std::runtime_error("--verify: buffers are missing");
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] != digests[i]) {
      throw std::runtime_error("--verify: " + digests[i].buffer + " is wrong");
    }
  }
}

int run(int argc, char** argv) {
  const examples::Options options(argc, argv, kKnown);
  if (options.has("--help")) {
    std::fputs(kHelp, stdout);
    return 0;
  }
  if (!options.positional().empty()) {
    throw examples::UsageError("unexpected '" + options.positional().front() + "'; see --help");
  }
  const Settings settings = settings_of(options);
  const std::string path = options.text("--output", "");
  Workload workload(settings);
  Outcome outcome;
  const auto begin = std::chrono::steady_clock::now();
  outcome.pass_ms = workload.run();
  outcome.wall_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  outcome.digests = workload.digests(options.has("--verify") || !path.empty());
  if (options.has("--verify")) verify(settings, outcome.pass_ms.size(), outcome.digests);
  if (!path.empty()) write_digests(path, outcome.digests);
  options.has("--json") ? print_json(settings, outcome) : print_text(outcome);
  return 0;
}

}  // namespace
}  // namespace layers

int main(int argc, char** argv) {
  try {
    return layers::run(argc, argv);
  } catch (const examples::UsageError& error) {
    std::fprintf(stderr, "superpipe-layers: %s\n", error.what());
    return examples::kUsageExit;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "superpipe-layers: %s\n", error.what());
    return examples::kFailureExit;
  }
}
