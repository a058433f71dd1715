#include "tests/examples/kernel_emulation.h"

#include <dlfcn.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tools/simgpu/kernel_plugin.h"

namespace emulation {

Position position;

namespace {

constexpr std::size_t kStackBytes = 64 << 10;

struct Fibre {
  ucontext_t context = {};
  std::vector<char> stack = std::vector<char>(kStackBytes);
  uint3 index = {};
  bool ended = false;
};

ucontext_t scheduler;
Fibre* running = nullptr;
const std::function<void()>* kernel_thread = nullptr;

void fibre_main() {
  (*kernel_thread)();
  running->ended = true;
}

/// Makes `fibre` start the kernel when it is next switched to.
void prepare(Fibre* fibre) {
  fibre->ended = false;
  getcontext(&fibre->context);
  fibre->context.uc_stack.ss_sp = fibre->stack.data();
  fibre->context.uc_stack.ss_size = fibre->stack.size();
  fibre->context.uc_link = &scheduler;
  makecontext(&fibre->context, fibre_main, 0);
}

void run_block(std::vector<Fibre>& fibres) {
  unsigned i = 0;
  for (Fibre& fibre : fibres) {
    fibre.index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
    prepare(&fibre);
    ++i;
  }
  for (bool alive = true; alive;) {
    alive = false;
    for (Fibre& fibre : fibres) {
      if (fibre.ended) continue;
      running = &fibre;
      position.thread_index = fibre.index;
      swapcontext(&scheduler, &fibre.context);
      alive = alive || !fibre.ended;
    }
  }
}

[[noreturn]] void give_up(const char* what, const char* which) {
  std::fprintf(stderr, "kernel emulation: %s %s\n", what, which);
  std::_Exit(3);
}

/// The host kernel that the plugin has for the mangled `name`.
SimgpuKernelFunction plugin_function(const char* plugin, const char* name) {
  void* const library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) give_up("cannot load plugin:", dlerror());
  using Entry = const SimgpuKernel* (*)(std::size_t*);
  const auto entry = reinterpret_cast<Entry>(dlsym(library, "simgpu_kernels"));
  if (entry == nullptr) give_up("plugin without simgpu_kernels:", plugin);
  std::size_t count = 0;
  const SimgpuKernel* const kernels = entry(&count);
  for (std::size_t i = 0; i < count; ++i) {
    if (std::strcmp(kernels[i].name, name) == 0) return kernels[i].function;
  }
  give_up("the plugin lacks the kernel", name);
}

}  // namespace

void synchronize_threads() { swapcontext(&running->context, &scheduler); }

void run_on_host(dim3 grid, dim3 block, const std::function<void()>& thread) {
  static std::vector<Fibre> fibres;
  fibres.resize(static_cast<std::size_t>(block.x) * block.y * block.z);
  kernel_thread = &thread;
  blockDim = block;
  gridDim = grid;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        run_block(fibres);
      }
    }
  }
}

void launch_untyped(void* kernel, dim3 grid, dim3 block, void* const* arguments,
                    const std::size_t* sizes, std::size_t count,
                    const std::function<void()>& thread) {
  const char* const plugin = std::getenv("EMULATION_PLUGIN");
  if (plugin == nullptr) return run_on_host(grid, block, thread);
  Dl_info info = {};
  if (dladdr(kernel, &info) == 0 || info.dli_sname == nullptr) give_up("a kernel", "has no name");
  const SimgpuLaunch launch = {
      info.dli_sname, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, 0, arguments, sizes,
      count};
  plugin_function(plugin, info.dli_sname)(&launch);
}

}  // namespace emulation
