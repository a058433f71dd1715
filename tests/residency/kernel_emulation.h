// Runs the source of a CUDA kernel on the host, thread by thread, so that a test sees what it
// computes and whether its threads wait for each other where they have to.
//
// Each thread of a block is a fiber that runs until it comes to a barrier; which of them goes on is
// drawn at random. So that a missing barrier shows as a wrong result for some of the draws. Blocks
// run one after the other, in a random order.
//
// A kernel's source is included after this header, in a file of its own: the macros below are what
// the compiler of device code has built in.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

namespace superpipe::testing {

struct Extent {
  unsigned x = 1;
};

/// Runs the threads of a kernel's blocks. One instance at a time; one thread.
class KernelEmulation {
 public:
  static constexpr unsigned kLanes = 32;

  explicit KernelEmulation(unsigned seed) : random_(seed) {}

  /// Calls `kernel` once for each thread of `blocks` blocks of `threads` threads.
  /// @throws std::logic_error if threads wait for others that never come, or if the lanes of a warp
  /// come to different shuffles.
  void launch(unsigned blocks, unsigned threads, const std::function<void()>& kernel);

  /// @name For the kernel's thread that runs
  /// @{
  static KernelEmulation& current() { return *current_; }
  [[nodiscard]] Extent thread() const { return {running_}; }
  [[nodiscard]] Extent block() const { return {block_}; }
  [[nodiscard]] Extent grid() const { return {grid_}; }
  /// Waits for all threads of the block.
  void wait_for_block() { wait(State::kAtBlockBarrier); }
  /// What lane (own ^ distance) of the warp passes at the same time.
  std::uint64_t exchange(std::uint64_t value, unsigned distance);
  /// @}

 private:
  static constexpr std::size_t kStackBytes = 65536;
  enum class State { kReady, kAtWarpBarrier, kAtBlockBarrier, kDone };
  struct Fiber {
    ucontext_t context{};
    std::unique_ptr<char[]> stack;
    State state = State::kReady;
    std::uint64_t passed = 0;
    unsigned distance = 0;
  };

  static void enter();
  void run_block();
  void wait(State state);
  /// Lets those go on that all others have joined. @return whether any thread is ready.
  bool open_barriers();
  void open(std::size_t begin, std::size_t end, State barrier);

  static inline KernelEmulation* current_ = nullptr;
  std::mt19937 random_;
  std::function<void()> kernel_;
  std::vector<Fiber> fibers_;
  ucontext_t scheduler_{};
  unsigned running_ = 0;
  unsigned block_ = 0;
  unsigned grid_ = 1;
};

inline void KernelEmulation::enter() {
  current_->kernel_();
  current_->wait(State::kDone);
}

inline void KernelEmulation::launch(unsigned blocks, unsigned threads,
                                    const std::function<void()>& kernel) {
  current_ = this;
  kernel_ = kernel;
  grid_ = blocks;
  std::vector<unsigned> order(blocks);
  std::iota(order.begin(), order.end(), 0U);
  std::shuffle(order.begin(), order.end(), random_);
  for (const unsigned block : order) {
    block_ = block;
    fibers_.clear();
    fibers_.resize(threads);
    for (Fiber& fiber : fibers_) {
      fiber.stack = std::make_unique<char[]>(kStackBytes);
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.get();
      fiber.context.uc_stack.ss_size = kStackBytes;
      fiber.context.uc_link = nullptr;
      makecontext(&fiber.context, &KernelEmulation::enter, 0);
    }
    run_block();
  }
}

inline void KernelEmulation::run_block() {
  std::vector<unsigned> ready;
  for (;;) {
    ready.clear();
    for (unsigned i = 0; i < fibers_.size(); ++i) {
      if (fibers_[i].state == State::kReady) ready.push_back(i);
    }
    std::shuffle(ready.begin(), ready.end(), random_);
    for (const unsigned thread : ready) {
      running_ = thread;
      swapcontext(&scheduler_, &fibers_[thread].context);
    }
    if (open_barriers()) continue;
    const bool all_done = std::all_of(fibers_.begin(), fibers_.end(), [](const Fiber& fiber) {
      return fiber.state == State::kDone;
    });
    if (all_done) return;
    throw std::logic_error("threads wait at a barrier that others never come to");
  }
}

inline void KernelEmulation::wait(State state) {
  Fiber& fiber = fibers_[running_];
  fiber.state = state;
  swapcontext(&fiber.context, &scheduler_);
}

inline void KernelEmulation::open(std::size_t begin, std::size_t end, State barrier) {
  const auto first = fibers_.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto last = fibers_.begin() + static_cast<std::ptrdiff_t>(end);
  const bool all_there =
      std::all_of(first, last, [&](const Fiber& fiber) { return fiber.state == barrier; });
  if (!all_there) return;
  if (barrier == State::kAtWarpBarrier && !std::all_of(first, last, [&](const Fiber& fiber) {
        return fiber.distance == first->distance;
      })) {
    throw std::logic_error("lanes of a warp are at different shuffles");
  }
  std::for_each(first, last, [](Fiber& fiber) { fiber.state = State::kReady; });
}

inline bool KernelEmulation::open_barriers() {
  open(0, fibers_.size(), State::kAtBlockBarrier);
  for (std::size_t begin = 0; begin < fibers_.size(); begin += kLanes) {
    open(begin, std::min(begin + kLanes, fibers_.size()), State::kAtWarpBarrier);
  }
  return std::any_of(fibers_.begin(), fibers_.end(),
                     [](const Fiber& fiber) { return fiber.state == State::kReady; });
}

inline std::uint64_t KernelEmulation::exchange(std::uint64_t value, unsigned distance) {
  const unsigned thread = running_;
  fibers_[thread].passed = value;
  fibers_[thread].distance = distance;
  wait(State::kAtWarpBarrier);
  const std::uint64_t passed = fibers_[thread ^ distance].passed;
  wait(State::kAtWarpBarrier);  // before anybody passes the next value
  return passed;
}

}  // namespace superpipe::testing

// NOLINTBEGIN(bugprone-reserved-identifier,cppcoreguidelines-macro-usage): device code's own names

#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(threads)
#define __grid_constant__
#define threadIdx (::superpipe::testing::KernelEmulation::current().thread())
#define blockIdx (::superpipe::testing::KernelEmulation::current().block())
#define gridDim (::superpipe::testing::KernelEmulation::current().grid())

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

inline void __syncthreads() { ::superpipe::testing::KernelEmulation::current().wait_for_block(); }
inline void __threadfence() {}
inline void __threadfence_system() {}

inline std::uint64_t __shfl_xor_sync(unsigned lanes, std::uint64_t value, int distance) {
  if (lanes != 0xffffffffU) throw std::logic_error("only whole warps shuffle here");
  return ::superpipe::testing::KernelEmulation::current().exchange(value,
                                                                   static_cast<unsigned>(distance));
}

inline unsigned atomicInc(unsigned* counter, unsigned most) {
  const unsigned before = *counter;
  *counter = before >= most ? 0 : before + 1;
  return before;
}

template <typename Value>
Value __ldcs(const Value* address) {
  return *address;
}
template <typename Value>
Value __ldcg(const Value* address) {
  return *address;
}

// NOLINTEND(bugprone-reserved-identifier,cppcoreguidelines-macro-usage)
