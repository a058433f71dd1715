// Jumps between stacks are what the library's own check of longjmp() exists to refuse.
#undef _FORTIFY_SOURCE

#include "tests/examples/kernel_emulation.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "tools/simgpu/kernel_plugin.h"

namespace emulation {

Position position;

namespace {

constexpr std::size_t kStackBytes = 64 << 10;

// A thread of a block. It is started once, and then runs its part of one block after the other.
// Switching is by _longjmp(): swapcontext() would make a system call each time.
struct Fibre {
  ucontext_t start = {};
  std::vector<char> stack = std::vector<char>(kStackBytes);
  jmp_buf resume = {};
  uint3 index = {};
  bool started = false;
  bool ended = false;  // with its part of the block
};

jmp_buf scheduler;
Fibre* running = nullptr;
const std::function<void()>* kernel_thread = nullptr;

/// Lets the scheduler go on; returns when it switches back.
void leave() {
  if (_setjmp(running->resume) == 0) _longjmp(scheduler, 1);
}

void fibre_main() {
  for (;;) {
    (*kernel_thread)();
    running->ended = true;
    leave();
  }
}

/// Runs the fibre until it leaves.
void switch_to(Fibre* fibre) {
  running = fibre;
  position.thread_index = fibre->index;
  if (_setjmp(scheduler) != 0) return;
  if (running->started) _longjmp(running->resume, 1);
  running->started = true;
  getcontext(&running->start);
  running->start.uc_stack.ss_sp = running->stack.data();
  running->start.uc_stack.ss_size = running->stack.size();
  makecontext(&running->start, fibre_main, 0);
  setcontext(&running->start);
}

/// Runs the block at blockIdx with as many of the fibres as it has threads.
void run_block(std::span<const std::unique_ptr<Fibre>> fibres) {
  unsigned i = 0;
  for (const auto& fibre : fibres) {
    fibre->index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
    fibre->ended = false;
    ++i;
  }
  for (bool alive = true; alive;) {
    alive = false;
    for (const auto& fibre : fibres) {
      if (fibre->ended) continue;
      switch_to(fibre.get());
      alive = alive || !fibre->ended;
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

void synchronize_threads() { leave(); }

void run_on_host(dim3 grid, dim3 block, const std::function<void()>& thread) {
  static std::vector<std::unique_ptr<Fibre>> fibres;  // kept for later launches
  const std::size_t threads = static_cast<std::size_t>(block.x) * block.y * block.z;
  while (fibres.size() < threads) fibres.push_back(std::make_unique<Fibre>());
  kernel_thread = &thread;
  blockDim = block;
  gridDim = grid;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        run_block({fibres.data(), threads});
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
  const SimgpuLaunch launch = {info.dli_sname,
                               {grid.x, grid.y, grid.z},
                               {block.x, block.y, block.z},
                               0,
                               arguments,
                               sizes,
                               count,
                               0,
                               0,
                               nullptr};
  plugin_function(plugin, info.dli_sname)(&launch);
}

}  // namespace emulation
