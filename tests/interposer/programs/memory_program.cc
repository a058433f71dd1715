// A CUDA program that does the same again and again, and says how much memory of the host it has
// after each of some rounds; on the driver API, it knows nothing of superpipe.
//
//     memory_program SCENARIO KERNELS.fatbin ROUNDS EVERY
#include <cuda.h>
#include <malloc.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/interposer/programs/program.h"

using programs::accumulate;
using programs::allocate;
using programs::kBytes;

namespace {

constexpr std::size_t kMiB = 1 << 20;

/// What the C library has handed out and not got back, of all threads.
std::size_t allocated_bytes() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

/// What the process has in memory of its own, as the kernel says it. It varies by what the C
/// library keeps of blocks that were freed, below small ones that were not.
std::size_t resident_bytes() {
  std::size_t size = 0;
  std::size_t resident = 0;
  std::size_t shared = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr || std::fscanf(file, "%zu %zu %zu", &size, &resident, &shared) != 3) {
    std::exit(1);
  }
  std::fclose(file);
  return (resident - shared) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

/// Calls `round` with its number, from 1, and says after each EVERY of them what memory there is.
template <typename Round>
void repeat(const programs::Words& words, Round round) {
  const int rounds = std::atoi(words[1].c_str());
  const int every = std::atoi(words[2].c_str());
  for (int i = 1; i <= rounds; ++i) {
    round(i);
    CHECK(cuCtxSynchronize());
    if (i % every != 0) continue;
    std::printf("%d %zu %zu\n", i, allocated_bytes(), resident_bytes());
  }
}

/// A model, in host memory or on the device.
struct Model {
  std::vector<std::vector<float>> host;
  std::vector<CUdeviceptr> layers;

  void to_device() {
    for (std::vector<float>& content : host) {
      layers.push_back(allocate());
      CHECK(cuMemcpyHtoD(layers.back(), content.data(), kBytes));
      content = {};
    }
    host.clear();
  }
  void to_host() {
    for (const CUdeviceptr layer : layers) {
      host.emplace_back(programs::kFloats);
      CHECK(cuMemcpyDtoH(host.back().data(), layer, kBytes));
      CHECK(cuMemFree(layer));
    }
    layers.clear();
  }
};

/// Three models of which each leaves the device and comes back in each round.
void moves(const programs::Words& words) {
  constexpr int kLayers = 4;
  std::vector<Model> models(3);
  int seed = 0;
  for (Model& model : models) {
    for (int i = 0; i < kLayers; ++i) model.host.push_back(programs::content(++seed));
    model.to_device();
  }
  const CUdeviceptr state = allocate();
  CHECK(cuMemsetD8(state, 0, kBytes));
  repeat(words, [&](int) {
    for (Model& model : models) {
      programs::run_passes(2, state, model.layers);
      model.to_host();
      model.to_device();
    }
  });
}

/// Buffers of sizes that do not come again for 64 rounds, and each is smaller than the last one.
void loads(const programs::Words& words) {
  const std::vector<float> content = programs::content(1);
  repeat(words, [&](int round) {
    std::vector<CUdeviceptr> layers;
    for (int i = 0; i < 8; ++i) {
      const auto step = static_cast<std::size_t>(round * 8 + i);
      layers.push_back(allocate(4 * kMiB - step * 4096 % (2 * kMiB)));
      CHECK(cuMemcpyHtoD(layers.back(), content.data(), kBytes));
    }
    programs::run_passes(2, layers.back(), layers);
    for (const CUdeviceptr layer : layers) CHECK(cuMemFree(layer));
  });
}

/// Caches that are copied into longer ones, beside weights.
void caches(const programs::Words& words) {
  const auto weights = programs::load_layers(4);
  repeat(words, [&](int round) {
    constexpr int kCaches = 4;
    constexpr int kTokens = 8;
    std::vector<CUdeviceptr> lines(kCaches);
    std::vector<std::size_t> sizes(kCaches, kBytes + static_cast<std::size_t>(round) * 512);
    for (int i = 0; i < kCaches; ++i) {
      lines[i] = allocate(sizes[i]);
      CHECK(cuMemsetD8(lines[i], 0, sizes[i]));
    }
    for (int token = 0; token < kTokens; ++token) {
      for (int i = 0; i < kCaches; ++i) {
        const std::size_t size = sizes[i] + 64 * 1024;
        const CUdeviceptr longer = allocate(size);
        CHECK(cuMemcpyDtoD(longer, lines[i], sizes[i]));
        CHECK(cuMemFree(lines[i]));
        lines[i] = longer;
        sizes[i] = size;
        accumulate(lines[i], weights[i], 0.5f);
      }
    }
    for (const CUdeviceptr line : lines) CHECK(cuMemFree(line));
  });
}

/// What a thread or a stream has: a buffer of its own, used on `stream` beside `weights`.
void use_own(const std::vector<CUdeviceptr>& weights, CUstream stream) {
  const CUdeviceptr own = allocate();
  CHECK(cuMemsetD8Async(own, 0, kBytes, stream));
  for (const CUdeviceptr weight : weights) accumulate(own, weight, 0.5f, stream);
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuMemFree(own));
}

void threads(const programs::Words& words) {
  const auto weights = programs::load_layers(6);
  CUcontext context = nullptr;
  CHECK(cuCtxGetCurrent(&context));
  repeat(words, [&](int) {
    std::vector<std::thread> workers;
    for (int i = 0; i < 3; ++i) {
      workers.emplace_back([&] {
        CHECK(cuCtxSetCurrent(context));
        CUstream stream = nullptr;
        CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        use_own(weights, stream);
        CHECK(cuStreamDestroy(stream));
      });
    }
    for (std::thread& worker : workers) worker.join();
  });
}

void streams(const programs::Words& words) {
  const auto weights = programs::load_layers(6);
  repeat(words, [&](int) {
    std::vector<CUstream> all(4);
    for (CUstream& stream : all) {
      CHECK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
      use_own(weights, stream);
    }
    for (CUstream& stream : all) CHECK(cuStreamDestroy(stream));
  });
}

/// Code that is loaded, used and unloaded.
void modules(const programs::Words& words) {
  const auto weights = programs::load_layers(6);
  const CUdeviceptr state = allocate();
  CHECK(cuMemsetD8(state, 0, kBytes));
  const CUmodule first = programs::module;
  repeat(words, [&](int) {
    CHECK(cuModuleLoad(&programs::module, words[0].c_str()));
    programs::run_passes(1, state, weights);
    CHECK(cuCtxSynchronize());
    CHECK(cuModuleUnload(programs::module));
    programs::module = first;
  });
}

}  // namespace

int main(int count, char** arguments) {
  return programs::run_scenario(count, arguments,
                                {{"moves", moves},
                                 {"loads", loads},
                                 {"caches", caches},
                                 {"threads", threads},
                                 {"streams", streams},
                                 {"modules", modules}});
}
