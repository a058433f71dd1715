// Several launching threads, the worker's own thread, and a small budget. For the thread sanitizer,
// and for what only real concurrency brings about.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <future>
#include <random>
#include <thread>

#include "tests/hang_limit.h"
#include "tests/residency/manager_fixture.h"

namespace superpipe::testing {
namespace {

/// One thread's program: its own stream and buffers, launches of two buffers, copies,
/// reallocations.
class ThreadProgram {
 public:
  ThreadProgram(FakeDevice& device, ResidencyManager& manager, std::uint64_t seed)
      : device_(device), manager_(manager), random_(seed), stream_(device.program_stream()) {}

  void run(int steps) {
    for (int i = 0; i < 5; ++i) buffers_.push_back(make());
    for (int i = 0; i < steps; ++i) {
      const std::size_t a = random_() % buffers_.size();
      const std::size_t b = random_() % buffers_.size();
      switch (random_() % 8) {
        case 0:
          device_.synchronize(stream_);
          check(buffers_[a]);
          expect(manager_.free(buffers_[a].address), "free");
          buffers_[a] = make();
          break;
        case 1:
          check(buffers_[a]);
          break;
        case 2:
          expect(manager_.free_async(buffers_[a].address, stream_), "free_async");
          buffers_[a] = make();
          break;
        default:
          launch(buffers_[a], buffers_[b]);
      }
    }
    for (Buffer& buffer : buffers_) check(buffer);
  }

  int mistakes = 0;
  std::string last;  // what the last mistake was

 private:
  struct Buffer {
    Address address = 0;
    std::size_t size = 0;
    int value = 0;  // of each byte
  };

  bool expect(Status status, const char* what) {
    if (status == Status::kOk) return true;
    ++mistakes;
    last = std::string(what) + " failed with " + std::to_string(static_cast<int>(status));
    return false;
  }

  Buffer make() {
    Buffer buffer;
    buffer.size = kPage * (1 + random_() % 2);
    const auto address = manager_.allocate(Bytes{buffer.size}, stream_);
    if (!expect(address.status(), "allocate")) {
      return buffer;
    }
    buffer.address = *address;
    buffer.value = static_cast<int>(random_() % 200);
    for (std::size_t done = 0; done < buffer.size;) {
      const std::size_t copied = fill(buffer, done);
      if (copied == 0) break;
      done += copied;
    }
    return buffer;
  }

  /// Copies the buffer's value to it from `from` on. @return how many bytes; 0: that failed.
  std::size_t fill(const Buffer& buffer, std::size_t from) {
    UseToken token;
    const Address address = buffer.address + from;
    const auto route = manager_.begin_copy_in(address, Bytes{buffer.size - from}, stream_, token);
    if (!expect(route.status(), "copy in")) return 0;
    const std::size_t size = route->size.count();
    if (route->host != nullptr) {
      device_.synchronize(stream_);
      std::memset(route->host, buffer.value, size);
    } else {
      device_.submit(stream_, [this, address, size, value = buffer.value] {
        const std::vector<std::byte> bytes(size, static_cast<std::byte>(value));
        device_.write(address, size, bytes.data());
      });
      device_.synchronize(stream_);
    }
    manager_.end_use(token, stream_, route->host == nullptr);
    return size;
  }

  /// Copies bytes of the buffer from `from` on to the end of `bytes`. @return whether it did.
  bool read(const Buffer& buffer, std::size_t from, std::vector<std::byte>& bytes) {
    UseToken token;
    const Address address = buffer.address + from;
    const auto route = manager_.begin_copy_out(address, Bytes{buffer.size - from}, stream_, token);
    if (!expect(route.status(), "copy out")) return false;
    const std::size_t size = route->size.count();
    bytes.resize(from + size);
    if (route->host != nullptr) {
      device_.synchronize(stream_);
      std::memcpy(bytes.data() + from, route->host, size);
    } else {
      device_.submit(stream_, [&] { device_.read(address, size, bytes.data() + from); });
      device_.synchronize(stream_);
    }
    manager_.end_use(token, stream_, route->host == nullptr);
    return true;
  }

  void check(const Buffer& buffer) {
    device_.synchronize(stream_);
    std::vector<std::byte> bytes;
    while (bytes.size() < buffer.size) {
      if (!read(buffer, bytes.size(), bytes)) return;
    }
    for (const std::byte byte : bytes) {
      if (byte != static_cast<std::byte>(buffer.value)) {
        ++mistakes;
        last = "wrong bytes";
        return;
      }
    }
  }

  void launch(Buffer& a, Buffer& b) {
    const std::uint64_t words[] = {a.address, b.address};
    UseToken token;
    const KernelId kernel{random_() % 3};
    if (!expect(manager_.begin_launch(kernel, words, stream_, token), "launch")) return;
    device_.submit(stream_, [this, a] {
      std::vector<std::byte> bytes(a.size);
      if (!device_.read(a.address, a.size, bytes.data())) return;
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(static_cast<int>(byte) + 1);
      device_.write(a.address, a.size, bytes.data());
    });
    manager_.end_use(token, stream_, true);
    a.value = (a.value + 1) % 256;
  }

  FakeDevice& device_;
  ResidencyManager& manager_;
  std::mt19937_64 random_;
  const StreamHandle stream_;
  std::vector<Buffer> buffers_;
};

/// `piece_pages`: 0 for whole buffers.
void run_threads(const PolicyConfig& policy, std::uint64_t seed, std::uint64_t piece_pages = 0) {
  FakeDevice device({.seed = seed});
  ResidencyOptions options;
  options.policy = policy;
  options.piece_size = Bytes{piece_pages * kPage};
  options.arena_size = Bytes{64 << 20};
  options.host_limit = Bytes{1 << 30};
  auto created = ResidencyManager::create(device, options);
  ASSERT_TRUE(created.ok());
  auto manager = std::move(*created);
  std::atomic<bool> done{false};
  std::vector<std::unique_ptr<ThreadProgram>> programs;
  for (std::uint64_t i = 0; i < 4; ++i) {
    programs.push_back(std::make_unique<ThreadProgram>(device, *manager, seed * 10 + i));
  }
  std::vector<std::thread> threads;
  for (auto& program : programs) threads.emplace_back([&program] { program->run(250); });
  std::thread observer([&] {
    while (!done) {
      (void)manager->stats();
      (void)manager->capacity();
      std::this_thread::yield();
    }
  });
  for (std::thread& thread : threads) thread.join();
  done = true;
  observer.join();
  for (const auto& program : programs) EXPECT_EQ(program->mistakes, 0) << program->last;
  if (policy.budget) {
    EXPECT_LE(device.peak_bytes(), *policy.budget);
  }
  EXPECT_EQ(manager->stats().errors, 0U);
  EXPECT_GT(manager->stats().write_backs, 0U);
  device.drain();
  manager.reset();
  EXPECT_EQ(device.violations(), std::vector<std::string>{});
  EXPECT_EQ(device.device_bytes(), Bytes{});
}

TEST(ResidencyThreads, KeepEachOthersContentUnderABudget) { run_threads(budget_of(14), 1); }

TEST(ResidencyThreads, KeepEachOthersContentUnderNaive) {
  run_threads(budget_of(18, PolicyKind::kNaive), 2);
}

TEST(ResidencyThreads, KeepEachOthersContentUnderAuto) {
  run_threads(budget_of(16, PolicyKind::kAuto), 4);
}

TEST(ResidencyThreads, KeepEachOthersContentInPieces) {
  run_threads(budget_of(16, PolicyKind::kAuto), 5, 1);
}

TEST(ResidencyThreads, KeepEachOthersContentWithK) {
  PolicyConfig config;
  config.kind = PolicyKind::kSuperpipeline;
  config.k = 4;
  run_threads(config, 3);
  run_threads(config, 6, 1);
}

/// A manager with a worker, and threads that meet at chosen points of it.
class ResidencyMeetings : public ManagerTest {
 protected:
  void make_threaded(std::uint64_t pages) {
    make(budget_of(pages));  // for the device and the stream
    manager_.reset();
    options_.worker_thread = true;
    options_.now = [this] {
      if (is_late_) late_asked_the_time_ = true;
      return device_->now();
    };
    auto created = ResidencyManager::create(*device_, options_);
    ASSERT_TRUE(created.ok());
    manager_ = std::move(*created);
  }

  /// Starts `what` on a thread of its own, and returns when it is done, or is about to wait: it has
  /// asked the time, which it does with the manager's lock held.
  void start_late(std::function<void()> what) {
    late_ = std::thread([this, what = std::move(what)] {
      is_late_ = true;
      what();
      late_is_done_ = true;
    });
    while (!late_asked_the_time_ && !late_is_done_) std::this_thread::yield();
  }

  bool readable(Address address) {
    std::byte byte{};
    return device_->read(address, 1, &byte);
  }

  std::thread late_;
  std::atomic<bool> late_asked_the_time_{false};
  std::atomic<bool> late_is_done_{false};
  static thread_local bool is_late_;
};

thread_local bool ResidencyMeetings::is_late_ = false;

// A launch marks the end of a stream that its victim was used on, while the program destroys that
// stream on another thread.
TEST_F(ResidencyMeetings, DestroyNoStreamThatAnotherThreadIsAboutToMark) {
  {
    late_asked_the_time_ = late_is_done_ = false;
    make_threaded(2);
    const Address victim = load(2, 1);
    const Address wanted = load(2, 5);
    const StreamHandle destroyed = device_->program_stream();
    ASSERT_EQ(launch({victim}, destroyed), Status::kOk);
    // The first such call is about the launch's own stream.
    int calls = 0;
    device_->on_call = [&, launcher = std::this_thread::get_id()](Call made) {
      if (made != Call::kRecord || std::this_thread::get_id() != launcher || ++calls != 2) return;
      start_late([&] {
        manager_->on_stream_destroy(destroyed);
        device_->synchronize(destroyed);
        EXPECT_EQ(device_->destroy_stream(destroyed), Status::kOk);
      });
    };
    EXPECT_EQ(launch({wanted}), Status::kOk);
    ASSERT_TRUE(late_.joinable());
    late_.join();
    EXPECT_EQ(copy_out(victim, kPage), 2);
    manager_.reset();
    EXPECT_EQ(device_->violations(), std::vector<std::string>{});
  }
}

TEST_F(ResidencyMeetings, TakeTurnsInTheOrderOfAsking) {
  make_threaded(4);
  for (int i = 0; i < 4; ++i) (void)load(1, i);
  const Address first = load(1, 10);
  const Address again = load(1, 20);
  const Address late = load(1, 30);
  const StreamHandle late_stream = device_->program_stream();
  std::promise<void> seen;
  std::atomic<bool> started{false};
  device_->on_call = [&](Call made) {
    // The first launch waits for this eviction: it has the turn.
    if (made != Call::kUnmap || started.exchange(true)) return;
    start_late([&] {
      UseToken token;
      EXPECT_EQ(announce({late}, late_stream, token), Status::kOk);
      seen.get_future().wait();
      manager_->end_use(token, late_stream, false);
    });
  };
  EXPECT_EQ(launch({first}), Status::kOk);
  EXPECT_EQ(launch({again}), Status::kOk);
  EXPECT_TRUE(readable(late)) << "whoever had the turn got it again before one who waited";
  seen.set_value();
  late_.join();
  manager_.reset();  // its worker uses what is on this stack
}

TEST_F(ResidencyMeetings, ReportAnErrorOnlyToThoseWhoWaitedForIt) {
  // The worker mostly begins the second fetch before the launch hears that the first one failed.
  bool met = false;
  const HangGuard guard;
  while (!met && !guard.is_over()) {
    make_threaded(4);
    const Address filler = load(4, 1);
    const Address first = load(1, 10);
    const Address second = load(1, 20);
    ASSERT_EQ(manager_->free(filler), Status::kOk);
    std::promise<void> given_up;
    std::atomic<bool> ended{false};
    int copies = 0;
    device_->on_call = [&](Call made) {
      if (made != Call::kCopyToDevice || ++copies > 2 || ended) return;
      if (copies == 2) {
        met = true;
        given_up.get_future().wait();
      }
      device_->fail(Call::kCopyToDevice, 1, Status::kDeviceError);
    };
    EXPECT_EQ(launch({first, second}), Status::kDeviceError);
    ended = true;
    given_up.set_value();
    EXPECT_EQ(launch({second}), Status::kOk) << "the failure of a fetch that nobody waited for";
    EXPECT_EQ(launch({first}), Status::kOk);
    EXPECT_EQ(copy_out(second, kPage), 21);
    manager_.reset();  // its worker uses what is on this stack
  }
  EXPECT_TRUE(met);
}

TEST(ResidencyThreads, AbandonsAManagerWhoseWorkerRuns) {
  FakeDevice device({});
  ResidencyOptions options;
  options.policy = budget_of(2);
  options.arena_size = Bytes{64 << 20};
  options.host_limit = Bytes{1 << 30};
  auto created = ResidencyManager::create(device, options);
  ASSERT_TRUE(created.ok());
  auto manager = std::move(*created);
  ThreadProgram(device, *manager, 5).run(20);
  manager->abandon();
  manager.reset();  // must neither hang nor touch the device
}

}  // namespace
}  // namespace superpipe::testing
