// A CUDA program on the driver API that knows nothing of superpipe, and whose results depend on the
// order in which its streams do what they were given. Each scenario prints what it saw.
//
//     order_program SCENARIO KERNELS.cubin [NUMBER]
//
// order_program_ptds is the same, built with a default stream for each thread.
#include <cuda.h>

#include <barrier>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/hang_limit.h"
#include "tests/interposer/programs/program.h"

using programs::accumulate;
using programs::accumulate_listed;
using programs::allocate;
using programs::content;
using programs::function;
using programs::hash_of;
using programs::kBytes;
using programs::kFloats;
using programs::load_layers;
using programs::print_buffer;

namespace {

void print_hash(const std::string& name, const void* data) {
  std::printf("%s %016llx\n", name.c_str(), static_cast<unsigned long long>(hash_of(data, kBytes)));
}

CUstream make_stream(unsigned flags) {
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, flags));
  return stream;
}

/// Work on a stream that waits until the host opens it, and then does something.
class Gate {
 public:
  Gate(CUstream stream, std::function<void()> action) : action_(std::move(action)) {
    CHECK(cuLaunchHostFunc(stream, run, this));
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }

 private:
  static void run(void* self) { static_cast<Gate*>(self)->wait(); }
  void wait() {
    std::unique_lock lock(mutex_);
    // A call that wrongly waits for the gate cannot open it: that shall fail, and not hang. The
    // test waits for this program twice as long.
    if (!opened_.wait_for(lock, superpipe::testing::kHangLimit / 2, [this] { return open_; })) {
      std::printf("a call waited for the gate\n");
    }
    lock.unlock();
    action_();
  }

  std::function<void()> action_;
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

/// A kernel that takes long against a call.
void hold(CUstream stream) {
  CHECK(cuLaunchKernel(function("hold"), 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
}

/// Has `stream` run `action` behind what it holds; `action` must live until then.
void run_on(CUstream stream, std::function<void()>& action) {
  const auto run = [](void* user_data) { (*static_cast<std::function<void()>*>(user_data))(); };
  CHECK(cuLaunchHostFunc(stream, run, &action));
}

/// A buffer that was on the device and, under the budget that `room` fills, no longer is.
class EvictedBuffer {
 public:
  explicit EvictedBuffer(std::size_t room)
      : room_(allocate(room)), buffer_(load_layers(1).front()) {
    accumulate(buffer_, buffer_, 1);
  }
  /// Its address, after the room was needed for something else.
  CUdeviceptr get() {
    accumulate(room_, room_, 1);
    CHECK(cuCtxSynchronize());
    return buffer_;
  }

 private:
  CUdeviceptr room_;
  CUdeviceptr buffer_;
};

/// Copies to and from an evicted buffer, on all kinds of streams, behind work that changes the
/// source or looks at the destination.
class Copies {
 public:
  Copies() {
    void* memory = nullptr;
    CHECK(cuMemHostAlloc(&memory, kBytes, 0));
    pinned_ = static_cast<float*>(memory);
  }

  void run() {
    const CUstream free = make_stream(CU_STREAM_NON_BLOCKING);
    const CUstream blocking = make_stream(CU_STREAM_DEFAULT);
    const CUstream legacy = CU_STREAM_LEGACY;
    const CUstream per_thread = CU_STREAM_PER_THREAD;
    const struct {
      const char* name;
      CUstream work;
      CUstream copy;
    } orders[] = {{"one non-blocking stream", free, free},
                  {"one blocking stream", blocking, blocking},
                  {"the legacy stream", legacy, legacy},
                  {"the per-thread stream", per_thread, per_thread},
                  {"legacy before blocking", legacy, blocking},
                  {"legacy before per-thread", legacy, per_thread},
                  {"blocking before legacy", blocking, legacy}};
    for (const auto& [name, work, copy] : orders) {
      const std::string where = std::string(" (") + name + ")";
      copy_in(where, work, copy);
      copy_out(where, work, copy);
      copy_in_pageable(where, work, copy);
      copy_out_pageable(where, work, copy);
    }
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
    const std::pair<const char*, CUstream> before_default[] = {{"legacy", legacy},
                                                               {"per-thread", per_thread}};
#else
    const std::pair<const char*, CUstream> before_default[] = {{"legacy", legacy},
                                                               {"blocking", blocking}};
#endif
    for (const auto& [name, work] : before_default) {
      const std::string where = std::string(" (synchronous, behind ") + name + ")";
      copy_in_at_once(where, work);
      copy_out_at_once(where, work);
    }
  }

 private:
  void set_pinned(int seed) { std::memcpy(pinned_, content(seed).data(), kBytes); }

  /// The copy reads what the work before it wrote.
  void copy_in(const std::string& where, CUstream work, CUstream copy) {
    const CUdeviceptr buffer = evicted_.get();
    set_pinned(1);
    Gate gate(work, [this] { set_pinned(2); });
    CHECK(cuMemcpyHtoDAsync(buffer, pinned_, kBytes, copy));
    gate.open();
    CHECK(cuCtxSynchronize());
    print_buffer(("in" + where).c_str(), buffer);
  }

  /// The work before the copy still sees the old destination.
  void copy_out(const std::string& where, CUstream work, CUstream copy) {
    const CUdeviceptr buffer = evicted_.get();
    set_pinned(3);
    Gate gate(work, [&] { print_hash("before out" + where, pinned_); });
    CHECK(cuMemcpyDtoHAsync(pinned_, buffer, kBytes, copy));
    gate.open();
    CHECK(cuCtxSynchronize());
    print_hash("out" + where, pinned_);
  }

  /// A pageable source is the program's again when the call returns, and that is before the work.
  void copy_in_pageable(const std::string& where, CUstream work, CUstream copy) {
    const CUdeviceptr buffer = evicted_.get();
    std::vector<float> pageable = content(4);
    Gate gate(work, [] {});
    CHECK(cuMemcpyHtoDAsync(buffer, pageable.data(), kBytes, copy));
    pageable = content(5);
    gate.open();
    CHECK(cuCtxSynchronize());
    print_buffer(("pageable in" + where).c_str(), buffer);
  }

  /// A pageable destination is there when the call returns, and that is behind the work.
  void copy_out_pageable(const std::string& where, CUstream work, CUstream copy) {
    const CUdeviceptr buffer = evicted_.get();
    std::vector<float> pageable = content(6);
    std::function<void()> look = [&] {
      print_hash("before pageable out" + where, pageable.data());
    };
    hold(work);
    run_on(work, look);
    CHECK(cuMemcpyDtoHAsync(pageable.data(), buffer, kBytes, copy));
    print_hash("pageable out" + where, pageable.data());
    CHECK(cuCtxSynchronize());
  }

  void copy_in_at_once(const std::string& where, CUstream work) {
    const CUdeviceptr buffer = evicted_.get();
    set_pinned(7);
    std::function<void()> change = [this] { set_pinned(8); };
    hold(work);
    run_on(work, change);
    CHECK(cuMemcpyHtoD(buffer, pinned_, kBytes));
    CHECK(cuCtxSynchronize());
    print_buffer(("in" + where).c_str(), buffer);
  }

  void copy_out_at_once(const std::string& where, CUstream work) {
    const CUdeviceptr buffer = evicted_.get();
    set_pinned(9);
    std::function<void()> look = [&] { print_hash("before out" + where, pinned_); };
    hold(work);
    run_on(work, look);
    CHECK(cuMemcpyDtoH(pinned_, buffer, kBytes));
    print_hash("out" + where, pinned_);
    CHECK(cuCtxSynchronize());
  }

  static constexpr std::size_t kRoom = 8 << 20;
  EvictedBuffer evicted_{kRoom};
  float* pinned_ = nullptr;
};

/// A copy to an evicted buffer, and a launch that uses it, come behind a gate, which is opened only
/// when launches on another stream have ended. Those need other buffers.
void behind_a_gate() {
  EvictedBuffer evicted(8 << 20);
  const auto weights = load_layers(3);
  const CUdeviceptr state = allocate();
  CHECK(cuMemsetD8(state, 0, kBytes));
  for (const CUdeviceptr weight : weights) accumulate(state, weight, 1);
  void* pinned = nullptr;
  CHECK(cuMemHostAlloc(&pinned, kBytes, 0));
  std::memcpy(pinned, content(10).data(), kBytes);
  const CUstream gated = make_stream(CU_STREAM_NON_BLOCKING);
  const CUstream other = make_stream(CU_STREAM_NON_BLOCKING);
  const CUdeviceptr buffer = evicted.get();
  Gate gate(gated, [] {});
  CHECK(cuMemcpyHtoDAsync(buffer, pinned, kBytes, gated));
  accumulate(buffer, buffer, 1, gated);
  for (const CUdeviceptr weight : weights) accumulate(state, weight, 0.5f, other);
  CHECK(cuStreamSynchronize(other));
  gate.open();
  CHECK(cuCtxSynchronize());
  print_buffer("behind the gate", buffer);
  print_buffer("beside it", state);
}

/// Copies on one stream that end while a host function on another one waits for the program: of an
/// evicted buffer, and of a few bytes to memory that superpipe leaves alone. A driver may run host
/// functions one after the other.
void beside_a_host_function() {
  EvictedBuffer evicted(8 << 20);
  const CUdeviceptr small = allocate(4096);
  void* memory = nullptr;
  CHECK(cuMemHostAlloc(&memory, kBytes, 0));
  const CUstream gated = make_stream(CU_STREAM_NON_BLOCKING);
  const CUstream other = make_stream(CU_STREAM_NON_BLOCKING);
  {
    const CUdeviceptr buffer = evicted.get();
    hold(other);
    CHECK(cuMemcpyDtoHAsync(memory, buffer, kBytes, other));
    Gate gate(gated, [] {});  // the first of the program
    CHECK(cuStreamSynchronize(other));
    gate.open();
    print_hash("before the first gate", memory);
    CHECK(cuCtxSynchronize());
  }
  {
    const CUdeviceptr buffer = evicted.get();
    Gate gate(gated, [] {});
    hold(other);
    CHECK(cuMemcpyDtoHAsync(memory, buffer, kBytes, other));
    CHECK(cuStreamSynchronize(other));
    gate.open();
    print_hash("out beside a gate", memory);
    CHECK(cuCtxSynchronize());
  }
  for (const bool pinned : {true, false}) {
    const CUdeviceptr buffer = evicted.get();
    std::vector<float> source = content(11);
    if (pinned) std::memcpy(memory, source.data(), kBytes);
    Gate gate(gated, [] {});
    hold(other);
    CHECK(cuMemcpyHtoDAsync(buffer, pinned ? memory : source.data(), kBytes, other));
    CHECK(cuMemcpyHtoDAsync(small, memory, 4096, other));
    CHECK(cuStreamSynchronize(other));
    gate.open();
    CHECK(cuCtxSynchronize());
    print_buffer("in beside a gate", buffer);
  }
}

/// One blocking stream waits for what the host does when another one has ended, each time behind a
/// launch on the legacy stream, which both of them join. The other one needs room, and what has to
/// leave for it was used on the legacy stream.
void blocking_streams() {
  const auto weights = load_layers(8);
  const CUdeviceptr first = allocate();
  const CUdeviceptr second = allocate();
  CHECK(cuMemsetD8(first, 0, kBytes));
  CHECK(cuMemsetD8(second, 0, kBytes));
  const CUstream waiting = make_stream(CU_STREAM_DEFAULT);
  const CUstream other = make_stream(CU_STREAM_DEFAULT);
  for (std::size_t round = 0; round < 10 * weights.size(); ++round) {
    accumulate(first, weights[round % weights.size()], 0.5f, CU_STREAM_LEGACY);
    Gate gate(waiting, [] {});
    accumulate(second, weights[(round + 3) % weights.size()], 0.5f, other);
    CHECK(cuStreamSynchronize(other));
    gate.open();
    CHECK(cuStreamSynchronize(waiting));
  }
  print_buffer("of the legacy stream", first);
  print_buffer("of the other one", second);
}

/// Many streams take turns with layers that do not all fit, and the last of them has work on one of
/// them that does not end before all others have.
void many_streams(std::size_t count) {
  const auto weights = load_layers(8);
  std::vector<CUstream> streams;
  std::vector<CUdeviceptr> states;
  while (streams.size() < count) streams.push_back(make_stream(CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < 2; ++i) {
    states.push_back(allocate());
    CHECK(cuMemsetD8(states.back(), 0, kBytes));
  }
  CHECK(cuCtxSynchronize());
  for (const CUstream stream : streams) {
    accumulate(states[0], weights[0], 0.5f, stream);
    CHECK(cuStreamSynchronize(stream));
  }
  Gate gate(streams.back(), [] {});
  accumulate(states[1], weights[1], 0.5f, streams.back());
  for (std::size_t round = 0; round < 2 * count; ++round) {
    const CUstream stream = streams[round % (count - 1)];
    // Of the others, each is used by all streams but the last one.
    accumulate(states[0], weights[2 + round % 6], 0.5f, stream);
    CHECK(cuStreamSynchronize(stream));
  }
  gate.open();
  CHECK(cuCtxSynchronize());
  print_buffer("of the others", states[0]);
  print_buffer("of the last stream", states[1]);
}

/// Three threads that copy between buffers, of which two fit: forwards, backwards, and elsewhere.
///
/// When they start, both destinations are there and in use, and no source is: who took what is
/// there and then waited for the rest would wait for another that did the same.
void device_copies() {
  constexpr std::size_t kPart = kBytes / 4;
  const auto buffers = load_layers(4);
  const struct {
    CUdeviceptr to, from;
    std::size_t offset;
  } copies[] = {{buffers[1], buffers[0], 0},
                {buffers[0], buffers[1], kPart},
                {buffers[3], buffers[2], 2 * kPart}};
  constexpr std::size_t kThreads = std::size(copies);
  CUcontext context = nullptr;
  CHECK(cuCtxGetCurrent(&context));
  CUstream streams[kThreads];
  for (CUstream& stream : streams) stream = make_stream(CU_STREAM_NON_BLOCKING);
  const auto set = [](CUdeviceptr at, unsigned value, CUstream stream) {
    CHECK(cuMemsetD32Async(at + value * 4096, value, 16, stream));
  };
  std::barrier meeting(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      CHECK(cuCtxSetCurrent(context));
      for (unsigned round = 1; round <= 4; ++round) {
        if (i == 0) {
          for (const auto& [to, from, offset] : copies) set(from + offset, round, streams[0]);
          for (const std::size_t copy : {0, 2}) set(copies[copy].to + 3 * kPart, round, streams[0]);
          CHECK(cuStreamSynchronize(streams[0]));
          for (const std::size_t copy : {0, 2}) {
            hold(streams[copy]);
            set(copies[copy].to + 3 * kPart, round + 8, streams[copy]);
          }
        }
        meeting.arrive_and_wait();
        const auto& [to, from, offset] = copies[i];
        CHECK(cuMemcpyDtoDAsync(to + offset, from + offset, kPart, streams[i]));
        CHECK(cuStreamSynchronize(streams[i]));
        meeting.arrive_and_wait();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const CUdeviceptr buffer : buffers) print_buffer("buffer", buffer);
}

/// A list of pointers that the program writes after it has asked for the copy of it.
void late_pointers() {
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  const auto weights = load_layers(8);
  const CUdeviceptr state = allocate();
  CHECK(cuMemsetD8(state, 0, kBytes));
  const CUdeviceptr lists = allocate(4 * sizeof(CUdeviceptr));
  const CUdeviceptr pointers[4] = {weights[0], weights[1], weights[2], weights[5]};
  void* pinned = nullptr;
  CHECK(cuMemHostAlloc(&pinned, sizeof pointers, 0));
  std::memset(pinned, 0, sizeof pointers);
  Gate gate(stream, [] {});
  CHECK(cuMemcpyHtoDAsync(lists, pinned, sizeof pointers, stream));
  std::memcpy(pinned, pointers, sizeof pointers);
  gate.open();
  CHECK(cuStreamSynchronize(stream));

  for (int pass = 0; pass < 3; ++pass) {
    for (const CUdeviceptr weight : weights) accumulate(state, weight, 0.125f);
  }
  accumulate_listed(lists);
  print_buffer("state", state);
  for (const CUdeviceptr weight : weights) print_buffer("weight", weight);
}

/// Ends the current context by `end` while it still holds work, and prints what that work computed.
void end_under_load(const std::function<void()>& end) {
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  const auto weights = load_layers(4);
  const CUdeviceptr state = allocate();
  CHECK(cuMemsetD8(state, 0, kBytes));
  for (const CUdeviceptr weight : weights) accumulate(state, weight, 1);
  const CUdeviceptr untouched = allocate();  // never on the device
  CHECK(cuCtxSynchronize());
  // Memory of the program's own: it outlives the context.
  std::vector<float> result(kFloats);
  std::vector<float> through = content(3);
  for (std::vector<float>* const memory : {&result, &through}) {
    CHECK(cuMemHostRegister(memory->data(), kBytes, CU_MEMHOSTREGISTER_PORTABLE));
  }
  hold(stream);
  for (const CUdeviceptr weight : weights) accumulate(state, weight, 0.5f, stream);
  CHECK(cuMemcpyDtoHAsync(result.data(), state, kBytes, stream));
  CHECK(cuMemcpyHtoDAsync(untouched, through.data(), kBytes, stream));
  CHECK(cuMemcpyDtoHAsync(through.data(), untouched, kBytes, stream));
  end();
  print_hash("result", result.data());
  print_hash("through", through.data());
}

void reset_under_load() {
  end_under_load([] { CHECK(cuDevicePrimaryCtxReset(0)); });
}

void destroy_under_load(const char* kernels) {
  CUcontext context = nullptr;
  CHECK(cuCtxCreate(&context, nullptr, 0, 0));
  CHECK(cuModuleLoad(&programs::module, kernels));
  end_under_load([context] { CHECK(cuCtxDestroy(context)); });
}

/// A primary context is not cuCtxDestroy's to end.
void destroy_primary() {
  const auto weights = load_layers(8);
  const CUdeviceptr state = allocate();
  CHECK(cuMemsetD8(state, 0, kBytes));
  for (const CUdeviceptr weight : weights) accumulate(state, weight, 1);
  CUcontext context = nullptr;
  CHECK(cuCtxGetCurrent(&context));
  std::printf("destroy %s\n", cuCtxDestroy(context) == CUDA_SUCCESS ? "done" : "refused");
  CHECK(cuCtxSetCurrent(context));
  for (const CUdeviceptr weight : weights) accumulate(state, weight, 0.5f);
  print_buffer("state", state);
  for (const CUdeviceptr weight : weights) print_buffer("weight", weight);
}

/// The primary context lives until its last reference is released, and then starts afresh.
void release(const char* kernels) {
  const auto pass = [](int times) {
    auto weights = load_layers(8);
    const CUdeviceptr state = allocate();
    CHECK(cuMemsetD8(state, 0, kBytes));
    for (int i = 0; i < times; ++i) {
      for (const CUdeviceptr weight : weights) accumulate(state, weight, 1);
    }
    print_buffer("state", state);
    return weights;
  };
  CUcontext context = nullptr;
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  const auto weights = pass(2);
  CHECK(cuDevicePrimaryCtxRelease(0));
  for (const CUdeviceptr weight : weights) print_buffer("weight", weight);
  CHECK(cuDevicePrimaryCtxRelease(0));
  unsigned flags = 0;
  int active = -1;
  CHECK(cuDevicePrimaryCtxGetState(0, &flags, &active));
  std::printf("active %d\n", active);
  programs::use_primary_context(kernels);
  std::size_t free = 0;
  std::size_t total = 0;
  CHECK(cuMemGetInfo(&free, &total));
  pass(3);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) return 2;
  const std::string scenario = arguments[1];
  CHECK(cuInit(0));
  if (scenario == "destroy_under_load") {
    destroy_under_load(arguments[2]);
    return 0;
  }
  programs::use_primary_context(arguments[2]);
  if (scenario == "copies") {
    Copies().run();
  } else if (scenario == "behind_a_gate") {
    behind_a_gate();
  } else if (scenario == "beside_a_host_function") {
    beside_a_host_function();
  } else if (scenario == "blocking_streams") {
    blocking_streams();
  } else if (scenario == "many_streams" && count > 3) {
    many_streams(std::stoul(arguments[3]));
  } else if (scenario == "device_copies") {
    device_copies();
  } else if (scenario == "late_pointers") {
    late_pointers();
  } else if (scenario == "reset_under_load") {
    reset_under_load();
  } else if (scenario == "destroy_primary") {
    destroy_primary();
  } else if (scenario == "release") {
    release(arguments[2]);
  } else {
    return 2;
  }
  return 0;
}
