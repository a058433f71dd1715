// A manager over a fake device, and the few things that a small program does with it.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "residency/residency_manager.h"
#include "tests/residency/fake_device.h"

namespace superpipe::testing {

inline constexpr std::uint64_t kPage = 4096;

inline PolicyConfig budget_of(std::uint64_t pages, PolicyKind kind = PolicyKind::kNaive) {
  PolicyConfig config;
  config.kind = kind;
  config.budget = Bytes{pages * kPage};
  return config;
}

/// Everything runs on the test's thread: the manager's worker works inside waits and work().
class ManagerTest : public ::testing::Test {
 protected:
  ManagerTest() { options_.wait_limit = std::chrono::milliseconds{400}; }

  void make(const PolicyConfig& policy, const FakeDevice::Options& device_options = {}) {
    device_ = std::make_unique<FakeDevice>(device_options);
    options_.policy = policy;
    options_.arena_size = Bytes{64 << 20};
    options_.worker_thread = false;
    options_.now = [this] { return device_->now(); };
    options_.warn = [this](const std::string& text) { warnings_.push_back(text); };
    if (options_.host_limit == Bytes{}) options_.host_limit = Bytes{1 << 30};
    auto created = ResidencyManager::create(*device_, options_);
    ASSERT_TRUE(created.ok());
    manager_ = std::move(*created);
    stream_ = device_->program_stream();
  }

  void TearDown() override {
    if (device_ == nullptr) return;
    device_->release_host_functions();
    device_->drain();
    manager_.reset();
    EXPECT_EQ(device_->violations(), std::vector<std::string>{});
  }

  Address allocate(std::uint64_t pages) {
    const auto address = manager_->allocate(Bytes{pages * kPage}, std::nullopt);
    EXPECT_TRUE(address.ok());
    return address.ok() ? *address : 0;
  }

  /// A buffer whose bytes are all `value`, loaded as programs load weights.
  Address load(std::uint64_t pages, int value) {
    const Address address = allocate(pages);
    EXPECT_EQ(copy_in(address, pages * kPage, value), Status::kOk);
    return address;
  }

  Status copy_in(Address address, std::size_t size, int value) {
    UseToken token;
    const auto route = manager_->begin_copy_in(address, Bytes{size}, stream_, token);
    if (!route.ok()) return route.status();
    const std::vector<std::byte> bytes(size, static_cast<std::byte>(value));
    if (route->host != nullptr) {
      device_->synchronize(stream_);
      std::memcpy(route->host, bytes.data(), size);
    } else {
      device_->submit(
          stream_, [this, address, bytes] { device_->write(address, bytes.size(), bytes.data()); });
      device_->synchronize(stream_);
    }
    manager_->end_use(token, stream_, route->host == nullptr);
    return Status::kOk;
  }

  /// The value of every byte of the buffer, or -1 if they differ, -2 if the copy failed.
  int copy_out(Address address, std::size_t size) {
    UseToken token;
    const auto route = manager_->begin_copy_out(address, Bytes{size}, stream_, token);
    if (!route.ok()) return -2;
    std::vector<std::byte> bytes(size);
    if (route->host != nullptr) {
      device_->synchronize(stream_);
      std::memcpy(bytes.data(), route->host, size);
    } else {
      device_->submit(stream_, [&] { device_->read(address, size, bytes.data()); });
      device_->synchronize(stream_);
    }
    manager_->end_use(token, stream_, route->host == nullptr);
    for (const std::byte byte : bytes) {
      if (byte != bytes.front()) return -1;
    }
    return static_cast<int>(bytes.front());
  }

  Status announce(const std::vector<std::uint64_t>& words, StreamHandle stream, UseToken& token,
                  std::uint64_t kernel = 7) {
    return manager_->begin_launch(KernelId{kernel}, words, stream, token);
  }

  /// Launches a kernel that adds one to the first byte of each page-sized buffer.
  Status launch(const std::vector<std::uint64_t>& words, StreamHandle stream,
                std::uint64_t kernel = 7) {
    UseToken token;
    const Status status = announce(words, stream, token, kernel);
    if (status != Status::kOk) return status;
    device_->submit(stream, [this, words] {
      for (const std::uint64_t address : words) {
        std::vector<std::byte> bytes(kPage);
        if (!device_->read(address, kPage, bytes.data())) return;
        for (std::byte& byte : bytes) byte = static_cast<std::byte>(static_cast<int>(byte) + 1);
        device_->write(address, kPage, bytes.data());
      }
    });
    manager_->end_use(token, stream, true);
    return Status::kOk;
  }
  Status launch(const std::vector<std::uint64_t>& words) { return launch(words, stream_); }

  void work() {
    while (manager_->run_worker_once()) {
    }
  }

  ResidencyOptions options_;
  std::unique_ptr<FakeDevice> device_;
  std::unique_ptr<ResidencyManager> manager_;
  StreamHandle stream_{};
  std::vector<std::string> warnings_;
};

}  // namespace superpipe::testing
