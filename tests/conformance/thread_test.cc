// Several threads at the driver at once: default streams of their own, a full queue, host
// functions, captures.

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "tests/conformance/fixture.h"
#include "tests/hang_limit.h"

namespace conformance {
namespace {

using PerThreadStream = ConformanceTest;
using FullQueue = ConformanceTest;
using HostFunction = ConformanceTest;
using CaptureBesideWork = ConformanceTest;

constexpr uint32_t kThreadWords = 1024;
constexpr size_t kThreadBytes = kThreadWords * sizeof(uint32_t);

/// Runs `body` in a thread with the caller's context, and waits for it.
template <typename Body>
void in_another_thread(Body body) {
  CUcontext context = nullptr;
  CU_EXPECT(CUDA_SUCCESS, cu().cuCtxGetCurrent(&context));
  std::thread([&] {
    CU_EXPECT(CUDA_SUCCESS, cu().cuCtxSetCurrent(context));
    body();
  }).join();
}

TEST_F(PerThreadStream, RunsWorkInOrderAndTiesItToTheLegacyStream) {
  const Buffer data(kThreadWords);
  const Buffer copy(kThreadWords);
  CU_ASSERT(cu().cuMemsetD32(data.address(), 1, kThreadWords));
  CU_ASSERT(cu().cuCtxSynchronize());
  CU_ASSERT(fill(CU_STREAM_PER_THREAD, data.address(), 2, kThreadWords, long_time()));
  CU_EXPECT(CUDA_ERROR_NOT_READY, cu().cuStreamQuery(CU_STREAM_PER_THREAD));
  CU_ASSERT(copy_words(CU_STREAM_LEGACY, copy.address(), data.address(), kThreadWords));
  CU_ASSERT(cu().cuStreamSynchronize(CU_STREAM_LEGACY));
  EXPECT_EQ(word_at(copy.address()), 2U) << "the legacy stream overtook a per-thread stream";
}

TEST_F(PerThreadStream, IsWhatTheEntryPointsForPerThreadStreamsTakeForTheNullStream) {
  const Buffer data(kThreadWords);
  auto launch = reinterpret_cast<decltype(&cuLaunchKernel)>(exported("cuLaunchKernel_ptsz"));
  auto query = reinterpret_cast<decltype(&cuStreamQuery)>(exported("cuStreamQuery_ptsz"));
  auto read = reinterpret_cast<decltype(&cuMemcpyDtoH)>(exported("cuMemcpyDtoH_v2_ptds"));
  if (launch == nullptr || query == nullptr || read == nullptr) GTEST_SKIP() << "no _ptsz names";
  CUdeviceptr out = data.address();
  uint32_t value = 7;
  uint32_t count = kThreadWords;
  auto delay = static_cast<unsigned long long>(std::chrono::nanoseconds(long_time()).count());
  void* arguments[] = {&out, &value, &count, &delay};
  CU_ASSERT(launch(function("fill_after"), 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
  CU_EXPECT(CUDA_ERROR_NOT_READY, query(nullptr));
  CU_EXPECT(CUDA_ERROR_NOT_READY, cu().cuStreamQuery(CU_STREAM_PER_THREAD));
  uint32_t word = 0;
  CU_ASSERT(read(&word, out, sizeof(word)));
  EXPECT_EQ(word, 7U) << "the copy did not wait for the thread's own stream";
}

TEST_F(PerThreadStream, IsNotTheOneOfAnotherThread) {
  // So an event that another thread records for CU_STREAM_PER_THREAD says nothing about this
  // thread's work: it has to be recorded where the work was submitted.
  const Buffer data(kThreadWords);
  const Event own;
  const Event other;
  CU_ASSERT(fill(CU_STREAM_PER_THREAD, data.address(), 2, kThreadWords, long_time()));
  CU_ASSERT(cu().cuEventRecord(own.get(), CU_STREAM_PER_THREAD));
  in_another_thread([&] {
    CU_EXPECT(CUDA_SUCCESS, cu().cuEventRecord(other.get(), CU_STREAM_PER_THREAD));
    CU_EXPECT(CUDA_SUCCESS, cu().cuEventSynchronize(other.get()));
  });
  CU_EXPECT(CUDA_ERROR_NOT_READY, cu().cuEventQuery(own.get()));
  CU_ASSERT(cu().cuEventSynchronize(own.get()));
}

TEST_F(PerThreadStream, IsWaitedForByAnotherThreadThroughAnEventOfItsOwn) {
  const Buffer data(kThreadWords);
  const Buffer copy(kThreadWords);
  const Event written;
  CU_ASSERT(cu().cuMemsetD32(data.address(), 1, kThreadWords));
  CU_ASSERT(cu().cuCtxSynchronize());
  in_another_thread([&] {
    CU_EXPECT(CUDA_SUCCESS,
              fill(CU_STREAM_PER_THREAD, data.address(), 2, kThreadWords, long_time()));
    CU_EXPECT(CUDA_SUCCESS, cu().cuEventRecord(written.get(), CU_STREAM_PER_THREAD));
  });
  // The thread is gone; its work, and what the event stands for, are not.
  CU_ASSERT(cu().cuStreamWaitEvent(CU_STREAM_PER_THREAD, written.get(), 0));
  CU_ASSERT(copy_words(CU_STREAM_PER_THREAD, copy.address(), data.address(), kThreadWords));
  CU_ASSERT(cu().cuStreamSynchronize(CU_STREAM_PER_THREAD));
  EXPECT_EQ(word_at(copy.address()), 2U);
}

TEST_F(FullQueue, LetsAnotherThreadRecordCopyAndMap) {
  // More launches than any queue holds. The thread that submits them is blocked in one of them for
  // a part of the time; what superpipe's worker calls meanwhile has to come back, and to be right.
  constexpr uint32_t kLaunches = 3000;
  const Buffer data(kThreadWords);
  const Buffer target(kThreadWords);
  const Pinned source(kThreadWords, 9);
  const Stream full;
  const Stream side;
  const Event event;
  const Reservation range(kGranule);
  CU_ASSERT(range.status());
  const Pages pages(kGranule);
  CU_ASSERT(pages.status());
  CUcontext context = nullptr;
  CU_ASSERT(cu().cuCtxGetCurrent(&context));
  CU_ASSERT(fill(full.get(), data.address(), 0, 16, long_time()));
  std::atomic<bool> submitted{false};
  std::thread submitter([&] {
    CU_EXPECT(CUDA_SUCCESS, cu().cuCtxSetCurrent(context));
    for (uint32_t i = 1; i <= kLaunches; ++i) {
      CU_EXPECT(CUDA_SUCCESS, fill(full.get(), data.address(), i, 16));
    }
    submitted = true;
  });
  int rounds = 0;
  std::chrono::steady_clock::duration longest{0};
  do {
    const auto start = std::chrono::steady_clock::now();
    CU_EXPECT(CUDA_SUCCESS,
              cu().cuMemcpyHtoDAsync(target.address(), source.data(), kThreadBytes, side.get()));
    CU_EXPECT(CUDA_SUCCESS, cu().cuEventRecord(event.get(), side.get()));
    CU_EXPECT(CUDA_SUCCESS, map(range.address(), kGranule, pages.handle()));
    CU_EXPECT(CUDA_SUCCESS, cu().cuEventSynchronize(event.get()));
    CU_EXPECT(CUDA_SUCCESS, cu().cuMemUnmap(range.address(), kGranule));
    longest = std::max(longest, std::chrono::steady_clock::now() - start);
    ++rounds;
  } while (!submitted);
  submitter.join();
  // Whether a blocked launch holds up the calls of others is the driver's affair; it is written
  // down.
  RecordProperty("rounds_beside_the_submissions", rounds);
  RecordProperty(
      "longest_round_us",
      std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(longest).count()));
  CU_ASSERT(cu().cuStreamSynchronize(full.get()));
  EXPECT_EQ(word_at(data.address()), kLaunches);
  EXPECT_EQ(word_at(target.address()), 9U);
}

/// A flag that a host function waits for, and one that it sets.
struct Handshake {
  std::atomic<bool> begun{false};
  std::atomic<bool> may_end{false};
  std::atomic<bool> ended{false};
};

void wait_for_handshake(void* given) {
  auto* const handshake = static_cast<Handshake*>(given);
  handshake->begun = true;
  while (!handshake->may_end) std::this_thread::yield();
  handshake->ended = true;
}

TEST_F(HostFunction, OfOneStreamDoesNotHoldUpAnothersCopiesAndKernels) {
  const Buffer data(kThreadWords);
  const Buffer copy(kThreadWords);
  const Pinned source(kThreadWords, 12);
  const Stream held;
  const Stream side;
  const Event done;
  // The kernel's first launch has it loaded, which may wait for all that the context has to do.
  CU_ASSERT(copy_words(side.get(), copy.address(), data.address(), kThreadWords));
  CU_ASSERT(cu().cuStreamSynchronize(side.get()));
  Handshake handshake;
  CU_ASSERT(cu().cuLaunchHostFunc(held.get(), wait_for_handshake, &handshake));
  CU_EXPECT(CUDA_SUCCESS,
            cu().cuMemcpyHtoDAsync(data.address(), source.data(), kThreadBytes, side.get()));
  EXPECT_EQ(copy_words(side.get(), copy.address(), data.address(), kThreadWords), CUDA_SUCCESS);
  CU_EXPECT(CUDA_SUCCESS, cu().cuEventRecord(done.get(), side.get()));
  // Without a limit, a driver that does hold it up would wait here for ever.
  const superpipe::testing::HangGuard guard;
  CUresult asked = CUDA_ERROR_NOT_READY;
  while (asked == CUDA_ERROR_NOT_READY && !guard.is_over()) {
    asked = cu().cuEventQuery(done.get());
    std::this_thread::yield();
  }
  CU_EXPECT(CUDA_SUCCESS, asked);
  CU_EXPECT(CUDA_ERROR_NOT_READY, cu().cuStreamQuery(held.get()));
  handshake.may_end = true;
  CU_ASSERT(cu().cuStreamSynchronize(held.get()));
  EXPECT_TRUE(handshake.ended);
  EXPECT_EQ(word_at(copy.address()), 12U);
}

TEST_F(HostFunction, OfOneStreamIsWaitedForByAnotherThroughAnEvent) {
  const Stream first;
  const Stream second;
  const Event event;
  Handshake handshake;
  struct Seen {
    Handshake& handshake;
    std::atomic<bool> ended{false};
    std::atomic<bool> ran{false};
  } seen{handshake};
  CU_ASSERT(cu().cuLaunchHostFunc(first.get(), wait_for_handshake, &handshake));
  CU_ASSERT(cu().cuEventRecord(event.get(), first.get()));
  CU_ASSERT(cu().cuStreamWaitEvent(second.get(), event.get(), 0));
  CU_ASSERT(cu().cuLaunchHostFunc(
      second.get(),
      [](void* given) {
        auto* const place = static_cast<Seen*>(given);
        place->ended = place->handshake.ended.load();
        place->ran = true;
      },
      &seen));
  while (!handshake.begun) std::this_thread::yield();
  EXPECT_FALSE(seen.ran);
  handshake.may_end = true;
  CU_ASSERT(cu().cuStreamSynchronize(second.get()));
  EXPECT_TRUE(seen.ended) << "the second function ran before the first had ended";
}

TEST_F(HostFunction, OfTwoStreamsBothRun) {
  // At once or one after the other: the driver may do either, and superpipe relies on neither.
  const Stream first;
  const Stream second;
  std::atomic<int> ran{0};
  const auto count = [](void* given) { ++*static_cast<std::atomic<int>*>(given); };
  for (int i = 0; i < 50; ++i) {
    CU_ASSERT(cu().cuLaunchHostFunc(first.get(), count, &ran));
    CU_ASSERT(cu().cuLaunchHostFunc(second.get(), count, &ran));
  }
  CU_ASSERT(cu().cuCtxSynchronize());
  EXPECT_EQ(ran, 100);
}

TEST_F(CaptureBesideWork, LetsARelaxedThreadMapCopyAndPin) {
  // What superpipe's worker calls while a thread of the program captures in the strictest mode.
  const Stream captured;
  const Buffer data(kThreadWords);
  CU_ASSERT(cu().cuStreamBeginCapture(captured.get(), CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_EQ(fill(captured.get(), data.address(), 6, kThreadWords), CUDA_SUCCESS);
  in_another_thread([] {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CU_EXPECT(CUDA_SUCCESS, cu().cuThreadExchangeStreamCaptureMode(&mode));
    const Reservation range(kGranule);
    const Pages pages(kGranule);
    CU_EXPECT(CUDA_SUCCESS, range.status());
    CU_EXPECT(CUDA_SUCCESS, pages.status());
    CU_EXPECT(CUDA_SUCCESS, map(range.address(), kGranule, pages.handle()));
    const Stream own;
    const Event event;
    const auto host = std::make_unique<std::vector<uint32_t>>(4 * kThreadWords, 5);
    CU_EXPECT(CUDA_SUCCESS,
              cu().cuMemHostRegister(host->data(), host->size() * 4, CU_MEMHOSTREGISTER_PORTABLE));
    CU_EXPECT(CUDA_SUCCESS,
              cu().cuMemcpyHtoDAsync(range.address(), host->data(), kThreadBytes, own.get()));
    CU_EXPECT(CUDA_SUCCESS, cu().cuEventRecord(event.get(), own.get()));
    CUresult asked = CUDA_ERROR_NOT_READY;
    while (asked == CUDA_ERROR_NOT_READY) asked = cu().cuEventQuery(event.get());
    CU_EXPECT(CUDA_SUCCESS, asked);
    size_t free = 0;
    size_t total = 0;
    CU_EXPECT(CUDA_SUCCESS, cu().cuMemGetInfo(&free, &total));
    CU_EXPECT(CUDA_SUCCESS, cu().cuMemHostUnregister(host->data()));
    CU_EXPECT(CUDA_SUCCESS, cu().cuMemUnmap(range.address(), kGranule));
  });
  CUgraph graph = nullptr;
  CU_ASSERT(cu().cuStreamEndCapture(captured.get(), &graph));
  EXPECT_NE(graph, nullptr) << "the other thread's calls broke the capture";
  CU_EXPECT(CUDA_SUCCESS, cu().cuGraphDestroy(graph));
}

TEST_F(CaptureBesideWork, GoesOnInAGraphThatWasMadeBefore) {
  const Stream captured;
  const Buffer data(kThreadWords);
  CUgraph graph = nullptr;
  CU_ASSERT(cu().cuGraphCreate(&graph, 0));
  const CUresult begun = cu().cuStreamBeginCaptureToGraph(captured.get(), graph, nullptr, nullptr,
                                                          0, CU_STREAM_CAPTURE_MODE_RELAXED);
  if (begun == CUDA_SUCCESS) {
    EXPECT_EQ(fill(captured.get(), data.address(), 6, kThreadWords), CUDA_SUCCESS);
    CUgraph ended = nullptr;
    CU_EXPECT(CUDA_SUCCESS, cu().cuStreamEndCapture(captured.get(), &ended));
    EXPECT_EQ(ended, graph);
  }
  CU_EXPECT(CUDA_SUCCESS, cu().cuGraphDestroy(graph));
  CU_ASSERT(begun);
}

TEST_F(CaptureBesideWork, RefusesTheQueryOfACapturedStreamsEvent) {
  // superpipe asks whether a stream captures before it records or asks anything there.
  const Stream captured;
  const Event event;
  CU_ASSERT(cu().cuStreamBeginCapture(captured.get(), CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_EQ(cu().cuEventRecord(event.get(), captured.get()), CUDA_SUCCESS);
  CU_EXPECT(CUDA_ERROR_CAPTURED_EVENT, cu().cuEventQuery(event.get()));
  CUgraph graph = nullptr;
  const CUresult ended = cu().cuStreamEndCapture(captured.get(), &graph);
  if (ended == CUDA_SUCCESS) CU_EXPECT(CUDA_SUCCESS, cu().cuGraphDestroy(graph));
}

}  // namespace
}  // namespace conformance
