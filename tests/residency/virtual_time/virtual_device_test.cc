// Streams, events, copies and kernels of a device that only counts time.
#include "residency/virtual_time/virtual_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>

namespace superpipe::virtual_time {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Calls cost nothing, and a link moves 2 MiB in a millisecond.
VirtualDeviceOptions free_calls() {
  VirtualDeviceOptions options;
  options.to_device = options.to_host = Bandwidth{2097152e3};
  options.copy_latency = Time{0};
  options.costs = {};
  options.costs.create_pages = options.costs.destroy_pages = options.costs.map = Time{0};
  options.costs.set_access = options.costs.unmap = options.costs.query = Time{0};
  options.costs.record = options.costs.stream_wait = options.costs.enqueue_copy = Time{0};
  options.costs.is_capturing = options.costs.create_handle = options.costs.launch = Time{0};
  return options;
}

class VirtualDeviceTest : public ::testing::Test {
 protected:
  /// Pages of 2 MiB, mapped.
  Address mapped() {
    const Address address = *device_.reserve(2_MiB);
    page_ = *device_.create_pages(2_MiB);
    EXPECT_EQ(device_.map(address, 2_MiB, page_), Status::kOk);
    return address;
  }
  void fetch(Address address, void* host) {
    const Transfer transfer{address, host, 2_MiB};
    EXPECT_EQ(device_.copy_to_device({&transfer, 1}, in_), Status::kOk);
  }
  void write_back(Address address, void* host) {
    const Transfer transfer{address, host, 2_MiB};
    EXPECT_EQ(device_.copy_to_host({&transfer, 1}, out_), Status::kOk);
  }
  VirtualDevice::Launched launch(Address address, Time compute) {
    const VirtualDevice::Operand operand{address, 2_MiB};
    return device_.launch(device_.program_stream(), {&operand, 1}, compute);
  }
  EventHandle recorded(StreamHandle stream) {
    const EventHandle event = *device_.create_event();
    EXPECT_EQ(device_.record(event, stream), Status::kOk);
    return event;
  }

  VirtualClock clock_;
  VirtualDevice device_{free_calls(), clock_};
  StreamHandle in_ = *device_.create_stream();
  StreamHandle out_ = *device_.create_stream();
  PageHandle page_{};
  std::array<char, 4> host_{};
};

TEST_F(VirtualDeviceTest, CopiesOfOneDirectionRunOneAfterAnother) {
  const StreamHandle other = *device_.create_stream();
  const Transfer first{mapped(), &host_[0], 2_MiB};
  const Transfer second{mapped(), &host_[1], 2_MiB};
  EXPECT_EQ(device_.copy_to_device({&first, 1}, in_), Status::kOk);
  EXPECT_EQ(device_.copy_to_device({&second, 1}, other), Status::kOk);
  EXPECT_EQ(device_.end_of(in_), milliseconds{1});
  EXPECT_EQ(device_.end_of(other), milliseconds{2});
  EXPECT_EQ(device_.to_device_bytes(), 4_MiB);
}

TEST_F(VirtualDeviceTest, DirectionsRunSideBySide) {
  const Address first = mapped();
  fetch(first, &host_[0]);
  write_back(mapped(), &host_[1]);
  EXPECT_EQ(device_.end_of(in_), milliseconds{1});
  EXPECT_EQ(device_.end_of(out_), milliseconds{1});
}

TEST_F(VirtualDeviceTest, AnEventIsCompleteOnceItsStreamHasComeToIt) {
  fetch(mapped(), &host_[0]);
  const EventHandle event = recorded(in_);
  EXPECT_FALSE(*device_.is_complete(event));
  clock_.advance_to(milliseconds{1} - Time{1});
  EXPECT_FALSE(*device_.is_complete(event));
  clock_.advance_to(milliseconds{1});
  EXPECT_TRUE(*device_.is_complete(event));
}

TEST_F(VirtualDeviceTest, AnEventThatWasNeverRecordedIsComplete) {
  EXPECT_TRUE(*device_.is_complete(*device_.create_event()));
}

TEST_F(VirtualDeviceTest, AWaitAdvancesTheClockToTheEventAndNoFurther) {
  fetch(mapped(), &host_[0]);
  const EventHandle event = recorded(in_);
  EXPECT_EQ(device_.wait(event, milliseconds{100}), Status::kOk);
  EXPECT_EQ(clock_.now(), milliseconds{1});
  EXPECT_EQ(device_.wait(event, milliseconds{100}), Status::kOk);
  EXPECT_EQ(clock_.now(), milliseconds{1});
}

TEST_F(VirtualDeviceTest, AWaitGivesUpAtItsLimit) {
  for (int i = 0; i < 3; ++i) fetch(mapped(), &host_[static_cast<std::size_t>(i)]);
  EXPECT_EQ(device_.wait(recorded(in_), milliseconds{2}), Status::kTimedOut);
  EXPECT_EQ(clock_.now(), milliseconds{2});
}

TEST_F(VirtualDeviceTest, AKernelWaitsForTheEventsOfItsStream) {
  const Address address = mapped();
  fetch(address, &host_[0]);
  EXPECT_EQ(device_.stream_wait(device_.program_stream(), recorded(in_)), Status::kOk);
  const auto launched = launch(address, milliseconds{3});
  EXPECT_EQ(launched.begin, milliseconds{1});
  EXPECT_EQ(launched.stall, milliseconds{1});
  EXPECT_EQ(launched.end, milliseconds{4});
  EXPECT_EQ(clock_.now(), Time{0});  // the program's thread did not wait
  EXPECT_THAT(device_.violations(), IsEmpty());
}

TEST_F(VirtualDeviceTest, KernelsOfAStreamRunOneAfterAnother) {
  const Address address = mapped();
  EXPECT_EQ(launch(address, milliseconds{3}).end, milliseconds{3});
  const auto second = launch(address, milliseconds{2});
  EXPECT_EQ(second.end, milliseconds{5});
  EXPECT_EQ(second.stall, Time{0});
}

TEST_F(VirtualDeviceTest, KernelsOfSeveralStreamsRunInTheOrderOfTheirSubmission) {
  const StreamHandle other = device_.create_program_stream();
  const Address fetched = mapped();
  fetch(fetched, &host_[0]);
  EXPECT_EQ(device_.stream_wait(other, recorded(in_)), Status::kOk);
  const VirtualDevice::Operand operand{fetched, 2_MiB};
  const auto first = device_.launch(other, {&operand, 1}, milliseconds{2});
  EXPECT_EQ(first.stall, milliseconds{1});
  // It waits for nothing but the kernel before it.
  const auto second = launch(mapped(), milliseconds{4});
  EXPECT_EQ(second.begin, milliseconds{3});
  EXPECT_EQ(second.stall, Time{0});
  EXPECT_EQ(device_.end_of(other), milliseconds{3});
  EXPECT_EQ(device_.end_of(device_.program_stream()), milliseconds{7});
  EXPECT_EQ(device_.end_of_program(), milliseconds{7});
  EXPECT_THAT(device_.violations(), IsEmpty());
}

TEST_F(VirtualDeviceTest, ADigestTakesItsTimeFromKernelsOfAllStreams) {
  const StreamHandle other = device_.create_program_stream();
  const Address read = mapped();
  (void)device_.launch(other, {}, milliseconds{5});
  DigestParts parts{};
  ASSERT_TRUE(device_.digest(read, 2_MiB, &parts, out_).ok());
  EXPECT_GT(device_.end_of(other), milliseconds{5});
  EXPECT_EQ(launch(mapped(), milliseconds{1}).begin, device_.end_of(other));
}

// What residency does with two buffers and one page, by hand: a kernel of 3 ms, its page is copied
// out in 1 ms and another buffer's content in in 1 ms, and a kernel of 2 ms waits for that.
TEST_F(VirtualDeviceTest, APassOfTwoBuffersOnOnePageTakesWhatItTakesByHand) {
  const Address window = mapped();
  EXPECT_EQ(launch(window, milliseconds{3}).end, milliseconds{3});
  EXPECT_EQ(device_.stream_wait(out_, recorded(device_.program_stream())), Status::kOk);
  write_back(window, &host_[0]);
  EXPECT_EQ(device_.stream_wait(in_, recorded(out_)), Status::kOk);
  fetch(window, &host_[1]);
  EXPECT_EQ(device_.stream_wait(device_.program_stream(), recorded(in_)), Status::kOk);
  const auto second = launch(window, milliseconds{2});
  EXPECT_EQ(second.begin, milliseconds{5});
  EXPECT_EQ(second.end, milliseconds{7});
  EXPECT_THAT(device_.violations(), IsEmpty());
}

TEST_F(VirtualDeviceTest, CallsAreChargedToTheThreadWhoseTurnItIs) {
  VirtualDevice device(VirtualDeviceOptions{}, clock_);
  const DeviceCosts costs;
  const auto page = device.create_pages(2_MiB);
  EXPECT_EQ(clock_.time(Thread::kProgram), costs.create_pages);
  clock_.wake();
  clock_.begin_call();
  clock_.begin_round();
  const Time before = clock_.now();
  EXPECT_EQ(device.map(Address{1} << 44, 2_MiB, *page), Status::kOk);
  EXPECT_EQ(clock_.time(Thread::kWorker) - before, costs.map + costs.set_access);
  EXPECT_EQ(device.calls()[DeviceCall::kMap], 1U);
  EXPECT_EQ(device.calls().total(), 2U);
}

TEST_F(VirtualDeviceTest, ALaunchWaitsForAMappingThatTheWorkerMakesMeanwhile) {
  VirtualDeviceOptions options = free_calls();
  options.costs.map = milliseconds{2};
  VirtualDevice device(options, clock_);
  const auto page = device.create_pages(2_MiB);
  clock_.wake();
  clock_.advance_to(Time{std::chrono::microseconds{5}});
  clock_.run_rounds(clock_.now(), [&] {
    clock_.begin_round();
    EXPECT_EQ(device.map(Address{1} << 44, 2_MiB, *page), Status::kOk);
    clock_.end_round(Time{1'000'000'000});
  });
  EXPECT_LT(clock_.now(), milliseconds{1});
  const VirtualDevice::Operand operand{Address{1} << 44, 2_MiB};
  EXPECT_GE(device.launch(device.program_stream(), {&operand, 1}, Time{1}).enqueued,
            milliseconds{2});
}

TEST_F(VirtualDeviceTest, ACopyWaitsForMemoryThatTheStockerIsPinningYet) {
  VirtualDeviceOptions options = free_calls();
  options.costs.pin = milliseconds{2};
  VirtualDevice device(options, clock_);
  const auto page = device.create_pages(2_MiB);
  ASSERT_EQ(device.map(Address{1} << 44, 2_MiB, *page), Status::kOk);
  std::vector<std::byte> memory(4096);
  clock_.stocker().wake();
  clock_.advance_to(milliseconds{1});
  const auto pin = [&] {
    clock_.stocker().begin_round();
    EXPECT_EQ(device.pin(memory.data(), 2_MiB), Status::kOk);
    clock_.stocker().end_round(std::chrono::hours{1});
  };
  clock_.run_rounds(clock_.now(), {}, pin);
  EXPECT_EQ(clock_.now(), milliseconds{1});
  const Transfer transfer{Address{1} << 44, memory.data() + 100, 1_MiB};
  const auto stream = device.create_stream();
  ASSERT_EQ(device.copy_to_host({&transfer, 1}, *stream), Status::kOk);
  EXPECT_GE(device.end_of(*stream), milliseconds{2});
}

TEST_F(VirtualDeviceTest, TheQueueOfLaunchesHasAnEnd) {
  VirtualDeviceOptions options = free_calls();
  options.queue_depth = 2;
  VirtualDevice device(options, clock_);
  const auto launch_one = [&] {
    return device.launch(device.program_stream(), {}, milliseconds{1});
  };
  EXPECT_EQ(device.may_launch_at(), Time{0});
  (void)launch_one();
  EXPECT_EQ(device.may_launch_at(), Time{0});
  (void)launch_one();
  EXPECT_EQ(device.may_launch_at(), milliseconds{1});
}

TEST_F(VirtualDeviceTest, IsOutOfMemoryBeyondItsCapacity) {
  VirtualDeviceOptions options = free_calls();
  options.capacity = 4_MiB;
  VirtualDevice device(options, clock_);
  const auto page = device.create_pages(4_MiB);
  EXPECT_EQ(device.create_pages(2_MiB).status(), Status::kOutOfDeviceMemory);
  EXPECT_EQ(device.destroy_pages(*page, 4_MiB), Status::kOk);
  EXPECT_TRUE(device.create_pages(2_MiB).ok());
  EXPECT_EQ(device.peak_page_bytes(), 4_MiB);
}

TEST_F(VirtualDeviceTest, SaysWhenAKernelNamesWhatIsNotMapped) {
  (void)launch(Address{1} << 44, Time{1});
  EXPECT_THAT(device_.violations(), ElementsAre(HasSubstr("not mapped")));
}

TEST_F(VirtualDeviceTest, SaysWhenAKernelDoesNotWaitForItsContent) {
  const Address address = mapped();
  fetch(address, &host_[0]);
  (void)launch(address, Time{1});
  EXPECT_THAT(device_.violations(), ElementsAre(HasSubstr("before its content was there")));
}

TEST_F(VirtualDeviceTest, SaysWhenMemoryIsUnmappedUnderAKernel) {
  const Address address = mapped();
  (void)launch(address, milliseconds{1});
  EXPECT_EQ(device_.unmap(address, 2_MiB), Status::kOk);
  EXPECT_THAT(device_.violations(), ElementsAre(HasSubstr("unmapped under a kernel")));
}

TEST_F(VirtualDeviceTest, SaysWhenAWriteBackDoesNotWaitForTheLastUse) {
  const Address address = mapped();
  (void)launch(address, milliseconds{1});
  write_back(address, &host_[0]);
  EXPECT_THAT(device_.violations(), ElementsAre(HasSubstr("write-back began before")));
}

TEST_F(VirtualDeviceTest, SaysWhenAFetchDoesNotWaitForThePagesWriteBack) {
  const Address address = mapped();
  write_back(address, &host_[0]);
  fetch(address, &host_[1]);
  EXPECT_THAT(device_.violations(), ElementsAre(HasSubstr("former owner")));
}

TEST_F(VirtualDeviceTest, SaysWhenAFetchDoesNotWaitForTheHostCopy) {
  const Address from = mapped();
  const Address to = mapped();
  write_back(from, &host_[0]);
  fetch(to, &host_[0]);
  EXPECT_THAT(device_.violations(), ElementsAre(HasSubstr("host copy was written")));
}

TEST_F(VirtualDeviceTest, SaysWhenAPageIsDestroyedUnderACopy) {
  const Address address = mapped();
  fetch(address, &host_[0]);
  EXPECT_EQ(device_.unmap(address, 2_MiB), Status::kOk);
  EXPECT_EQ(device_.destroy_pages(page_, 2_MiB), Status::kOk);
  EXPECT_THAT(device_.violations(), ElementsAre(HasSubstr("destroyed under work")));
}

}  // namespace
}  // namespace superpipe::virtual_time
