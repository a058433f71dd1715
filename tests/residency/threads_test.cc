// Several launching threads, the worker's own thread, and a small budget. For the thread sanitizer,
// and for what only real concurrency brings about.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

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
    UseToken token;
    const auto route =
        manager_.begin_copy_in(buffer.address, Bytes{buffer.size}, stream_, true, token);
    if (!expect(route.status(), "copy in")) {
      return buffer;
    }
    if (route->host != nullptr) {
      std::memset(route->host, buffer.value, buffer.size);
    } else {
      device_.submit(stream_, [this, buffer] {
        const std::vector<std::byte> bytes(buffer.size, static_cast<std::byte>(buffer.value));
        device_.write(buffer.address, buffer.size, bytes.data());
      });
      device_.synchronize(stream_);
    }
    manager_.end_use(token, stream_, true);
    return buffer;
  }

  void check(const Buffer& buffer) {
    device_.synchronize(stream_);
    UseToken token;
    const auto route =
        manager_.begin_copy_out(buffer.address, Bytes{buffer.size}, stream_, true, token);
    if (!expect(route.status(), "copy out")) {
      return;
    }
    std::vector<std::byte> bytes(buffer.size);
    if (route->host != nullptr) {
      std::memcpy(bytes.data(), route->host, buffer.size);
    } else {
      device_.submit(stream_, [&] { device_.read(buffer.address, buffer.size, bytes.data()); });
      device_.synchronize(stream_);
    }
    manager_.end_use(token, stream_, true);
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

void run_threads(const PolicyConfig& policy, std::uint64_t seed) {
  FakeDevice device({.seed = seed});
  ResidencyOptions options;
  options.policy = policy;
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
      (void)manager->capacity(Bytes{1 << 20});
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

TEST(ResidencyThreads, KeepEachOthersContentWithK) {
  PolicyConfig config;
  config.kind = PolicyKind::kSuperpipeline;
  config.k = 4;
  config.k_prime = 2;
  run_threads(config, 3);
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
