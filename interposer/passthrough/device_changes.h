// Which calls just now change what the device holds, so that a measurement knows it was not alone.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>

namespace superpipe {

/// Calls of the driver that take or give back device memory, together with our own counting of it.
/// Thread-safe; the calls wait for nobody.
class DeviceChanges {
 public:
  /// One such call, from before its first count to after its last.
  class Section {
   public:
    Section() noexcept { under_way_.fetch_add(1); }
    ~Section() {
      finished_.fetch_add(1);
      under_way_.fetch_sub(1);
    }
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;
  };

  /// How long, at least, a gap between the sections of busy threads is looked for.
  static constexpr std::chrono::milliseconds kPatience{1};

  /// What `read` returns when no section was open from its beginning to its end; nullopt if that
  /// did not come about in a number of attempts, and in kPatience.
  template <typename Read>
  static auto undisturbed(const Read& read) noexcept -> std::optional<decltype(read())> {
    constexpr int kAttempts = 100;
    const auto begun = std::chrono::steady_clock::now();
    for (int attempt = 0;
         attempt < kAttempts || std::chrono::steady_clock::now() - begun < kPatience; ++attempt) {
      const std::uint64_t finished = finished_.load();
      if (under_way_.load() == 0) {
        const auto result = read();
        if (under_way_.load() == 0 && finished_.load() == finished) return result;
      }
      std::this_thread::yield();
    }
    return std::nullopt;
  }

 private:
  static inline constinit std::atomic<std::uint64_t> under_way_{0};
  static inline constinit std::atomic<std::uint64_t> finished_{0};
};

}  // namespace superpipe
