// Order: streams, events, host functions.

#include <atomic>

#include "tests/conformance/fixture.h"

namespace conformance {
namespace {

using StreamOrder = ConformanceTest;
using EventOrder = ConformanceTest;

constexpr uint32_t kWords = 1024;
constexpr size_t kBytes = kWords * sizeof(uint32_t);

// Writes `value` late on `stream`; a reader that does not wait sees what was there before.
CUresult write_late(const Stream& stream, const Buffer& buffer, uint32_t value) {
  return fill(stream.get(), buffer.address(), value, kWords, long_time());
}

TEST_F(StreamOrder, HoldsOnAStreamOfTheHighestPriority) {
  int lowest = -100;
  int highest = 100;
  CU_ASSERT(cu().cuCtxGetStreamPriorityRange(&lowest, &highest));
  EXPECT_LE(highest, lowest);
  CUstream stream = nullptr;
  CU_ASSERT(cu().cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, highest));
  const Buffer data(kWords);
  CU_ASSERT(fill(stream, data.address(), 3, kWords, long_time()));
  CU_ASSERT(fill(stream, data.address(), 4, kWords));
  CU_ASSERT(cu().cuStreamSynchronize(stream));
  EXPECT_EQ(word_at(data.address() + kBytes - 4), 4U);
  CU_EXPECT(CUDA_SUCCESS, cu().cuStreamDestroy(stream));
}

TEST_F(EventOrder, MakesAKernelWaitForACopyAndACopyForAKernel) {
  const Buffer data(kWords);
  const Buffer result(kWords);
  const Stream compute;
  const Stream copies;
  const Event arrived;
  const Event computed;
  const Pinned host(kWords, 17);
  const Pinned back(kWords, 0);
  CU_ASSERT(cu().cuMemsetD32(data.address(), 1, kWords));
  CU_ASSERT(cu().cuMemsetD32(result.address(), 1, kWords));
  CU_ASSERT(cu().cuCtxSynchronize());
  CU_ASSERT(write_late(copies, result, 2));
  CU_ASSERT(cu().cuMemcpyHtoDAsync(data.address(), host.data(), kBytes, copies.get()));
  CU_ASSERT(cu().cuEventRecord(arrived.get(), copies.get()));
  CU_ASSERT(cu().cuStreamWaitEvent(compute.get(), arrived.get(), 0));
  CU_ASSERT(copy_words(compute.get(), result.address(), data.address(), kWords));
  CU_ASSERT(cu().cuEventRecord(computed.get(), compute.get()));
  CU_ASSERT(cu().cuStreamWaitEvent(copies.get(), computed.get(), 0));
  CU_ASSERT(cu().cuMemcpyDtoHAsync(back.data(), result.address(), kBytes, copies.get()));
  CU_ASSERT(cu().cuStreamSynchronize(copies.get()));
  EXPECT_EQ(back.data()[0], 17U);
  EXPECT_EQ(back.data()[kWords - 1], 17U);
}

TEST_F(EventOrder, IsNeededForAReaderOnAnotherStreamToSeeAWrite) {
  // The known-bad half of the test above: without the wait the reader must see the old bytes.
  const Buffer data(kWords);
  const Stream writer;
  const Stream reader;
  const Pinned back(kWords, 0);
  CU_ASSERT(cu().cuMemsetD32(data.address(), 1, kWords));
  CU_ASSERT(cu().cuCtxSynchronize());
  CU_ASSERT(write_late(writer, data, 2));
  CU_ASSERT(cu().cuMemcpyDtoHAsync(back.data(), data.address(), kBytes, reader.get()));
  CU_ASSERT(cu().cuStreamSynchronize(reader.get()));
  const CUresult asked = cu().cuStreamQuery(writer.get());
  CU_EXPECT(CUDA_ERROR_NOT_READY, asked);
  // A reader that came when the kernel was over says nothing.
  if (asked == CUDA_ERROR_NOT_READY) {
    EXPECT_EQ(back.data()[0], 1U) << "a missing wait went unnoticed";
  }
  CU_ASSERT(cu().cuStreamSynchronize(writer.get()));
  EXPECT_EQ(word_at(data.address()), 2U);
}

TEST_F(EventOrder, IsOfTheMomentOfTheRecordNotOfLaterWork) {
  const Buffer data(kWords);
  const Stream stream;
  const Event event;
  CU_ASSERT(fill(stream.get(), data.address(), 1, kWords));
  CU_ASSERT(cu().cuEventRecord(event.get(), stream.get()));
  CU_ASSERT(write_late(stream, data, 2));
  CU_ASSERT(cu().cuEventSynchronize(event.get()));
  CU_EXPECT(CUDA_ERROR_NOT_READY, cu().cuStreamQuery(stream.get()));
  CU_EXPECT(CUDA_SUCCESS, cu().cuEventQuery(event.get()));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
}

TEST_F(EventOrder, IsNotReadyBeforeAndSuccessAfterItsWork) {
  const Buffer data(kWords);
  const Stream stream;
  const Event event;
  CU_ASSERT(write_late(stream, data, 2));
  CU_ASSERT(cu().cuEventRecord(event.get(), stream.get()));
  CU_EXPECT(CUDA_ERROR_NOT_READY, cu().cuEventQuery(event.get()));
  CU_ASSERT(cu().cuEventSynchronize(event.get()));
  CU_EXPECT(CUDA_SUCCESS, cu().cuEventQuery(event.get()));
  EXPECT_EQ(word_at(data.address()), 2U);
}

TEST_F(EventOrder, IsCompleteForAnEventThatWasNeverRecorded) {
  const Event event;
  const Stream stream;
  CU_EXPECT(CUDA_SUCCESS, cu().cuEventQuery(event.get()));
  CU_EXPECT(CUDA_SUCCESS, cu().cuEventSynchronize(event.get()));
  CU_EXPECT(CUDA_SUCCESS, cu().cuStreamWaitEvent(stream.get(), event.get(), 0));
  CU_EXPECT(CUDA_SUCCESS, cu().cuStreamSynchronize(stream.get()));
}

TEST_F(EventOrder, OfAWaitIsThatOfTheRecordBeforeIt) {
  const Buffer data(kWords);
  const Buffer other(kWords);
  const Pinned host(kWords, 1);
  const Stream quick;
  const Stream slow;
  const Stream waiter;
  const Event event;
  // A copy, so that it does not compete with the slow kernel for the device.
  CU_ASSERT(cu().cuMemcpyHtoDAsync(other.address(), host.data(), kBytes, quick.get()));
  CU_ASSERT(cu().cuEventRecord(event.get(), quick.get()));
  CU_ASSERT(cu().cuStreamWaitEvent(waiter.get(), event.get(), 0));
  CU_ASSERT(write_late(slow, data, 2));
  CU_ASSERT(cu().cuEventRecord(event.get(), slow.get()));
  CU_ASSERT(cu().cuStreamSynchronize(waiter.get()));
  CU_EXPECT(CUDA_ERROR_NOT_READY, cu().cuEventQuery(event.get()));
  CU_ASSERT(cu().cuStreamSynchronize(slow.get()));
}

TEST_F(EventOrder, HoldsWhenTheEventIsDestroyedBeforeItCompletes) {
  const Buffer data(kWords);
  const Buffer copy(kWords);
  const Stream writer;
  const Stream reader;
  CU_ASSERT(cu().cuMemsetD32(data.address(), 1, kWords));
  CU_ASSERT(cu().cuCtxSynchronize());
  CU_ASSERT(write_late(writer, data, 2));
  {
    const Event event;
    CU_ASSERT(cu().cuEventRecord(event.get(), writer.get()));
    CU_ASSERT(cu().cuStreamWaitEvent(reader.get(), event.get(), 0));
  }
  CU_ASSERT(copy_words(reader.get(), copy.address(), data.address(), kWords));
  CU_ASSERT(cu().cuStreamSynchronize(reader.get()));
  EXPECT_EQ(word_at(copy.address()), 2U);
}

TEST_F(EventOrder, MeasuresTheTimeOfAKernel) {
  const Buffer data(kWords);
  const Stream stream;
  const Event begin(CU_EVENT_DEFAULT);
  const Event end(CU_EVENT_DEFAULT);
  CU_ASSERT(cu().cuEventRecord(begin.get(), stream.get()));
  CU_ASSERT(write_late(stream, data, 2));
  CU_ASSERT(cu().cuEventRecord(end.get(), stream.get()));
  CU_ASSERT(cu().cuEventSynchronize(end.get()));
  float milliseconds = 0;
  CU_ASSERT(cu().cuEventElapsedTime(&milliseconds, begin.get(), end.get()));
  EXPECT_GE(milliseconds, 0.9F * static_cast<float>(long_time().count()));
}

TEST_F(StreamOrder, HoldsWithinOneStream) {
  const Buffer data(kWords);
  const Buffer copy(kWords);
  const Stream stream;
  CU_ASSERT(cu().cuMemsetD32Async(data.address(), 1, kWords, stream.get()));
  CU_ASSERT(write_late(stream, data, 2));
  CU_ASSERT(cu().cuMemcpyDtoDAsync(copy.address(), data.address(), kBytes, stream.get()));
  CU_ASSERT(cu().cuMemsetD32Async(data.address(), 3, kWords, stream.get()));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  EXPECT_EQ(word_at(copy.address()), 2U);
  EXPECT_EQ(word_at(data.address()), 3U);
}

TEST_F(StreamOrder, DoesNotTieNonBlockingStreamsToTheLegacyStream) {
  const Buffer data(kWords);
  const Buffer other(kWords);
  const Stream free_running(CU_STREAM_NON_BLOCKING);
  const Pinned host(kWords, 3);
  CU_ASSERT(fill(CU_STREAM_LEGACY, data.address(), 2, kWords, long_time()));
  // A copy: whether two kernels run at once is the device's affair, not the streams'.
  CU_ASSERT(cu().cuMemcpyHtoDAsync(other.address(), host.data(), kBytes, free_running.get()));
  CU_ASSERT(cu().cuStreamSynchronize(free_running.get()));
  CU_EXPECT(CUDA_ERROR_NOT_READY, cu().cuStreamQuery(CU_STREAM_LEGACY));
  CU_ASSERT(cu().cuCtxSynchronize());
}

TEST_F(StreamOrder, TiesBlockingStreamsToTheLegacyStream) {
  const Buffer data(kWords);
  const Buffer copy(kWords);
  const Stream blocking(CU_STREAM_DEFAULT);
  CU_ASSERT(cu().cuMemsetD32(data.address(), 1, kWords));
  CU_ASSERT(cu().cuCtxSynchronize());
  CU_ASSERT(fill(CU_STREAM_LEGACY, data.address(), 2, kWords, long_time()));
  CU_ASSERT(copy_words(blocking.get(), copy.address(), data.address(), kWords));
  CU_ASSERT(cu().cuStreamSynchronize(blocking.get()));
  EXPECT_EQ(word_at(copy.address()), 2U) << "the blocking stream overtook the legacy stream";
}

TEST_F(StreamOrder, TiesTheLegacyStreamToBlockingStreams) {
  const Buffer data(kWords);
  const Buffer copy(kWords);
  const Stream blocking(CU_STREAM_DEFAULT);
  CU_ASSERT(cu().cuMemsetD32(data.address(), 1, kWords));
  CU_ASSERT(cu().cuCtxSynchronize());
  CU_ASSERT(write_late(blocking, data, 2));
  CU_ASSERT(copy_words(CU_STREAM_LEGACY, copy.address(), data.address(), kWords));
  CU_ASSERT(cu().cuStreamSynchronize(CU_STREAM_LEGACY));
  EXPECT_EQ(word_at(copy.address()), 2U) << "the legacy stream overtook a blocking stream";
}

TEST_F(StreamOrder, HoldsForHostFunctions) {
  const Buffer data(kWords);
  const Stream stream;
  const Pinned back(kWords, 0);
  struct Seen {
    const uint32_t* word;
    std::atomic<uint32_t> value{0};
  } seen{back.data()};
  CU_ASSERT(cu().cuMemsetD32(data.address(), 1, kWords));
  CU_ASSERT(cu().cuCtxSynchronize());
  CU_ASSERT(write_late(stream, data, 2));
  CU_ASSERT(cu().cuMemcpyDtoHAsync(back.data(), data.address(), kBytes, stream.get()));
  CU_ASSERT(cu().cuLaunchHostFunc(
      stream.get(),
      [](void* given) {
        auto* const place = static_cast<Seen*>(given);
        place->value = *place->word;
      },
      &seen));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  EXPECT_EQ(seen.value, 2U);
}

TEST_F(StreamOrder, OfAContextIsWaitedForByContextSynchronize) {
  const Buffer data(kWords);
  const Stream stream;
  CU_ASSERT(write_late(stream, data, 2));
  CU_EXPECT(CUDA_ERROR_NOT_READY, cu().cuStreamQuery(stream.get()));
  CU_ASSERT(cu().cuCtxSynchronize());
  CU_EXPECT(CUDA_SUCCESS, cu().cuStreamQuery(stream.get()));
}

}  // namespace
}  // namespace conformance
