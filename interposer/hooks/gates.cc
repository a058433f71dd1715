#include "interposer/hooks/gates.h"

#include <thread>

namespace superpipe {

void Gates::drain() noexcept {
  constexpr std::chrono::microseconds kInterval{100};
  if (ours_.load() == 0) return;
  is_draining_.store(true);
  const auto deadline = std::chrono::steady_clock::now() + kLongestWait;
  while (ours_.load() > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kInterval);
  }
  is_draining_.store(false);
}

}  // namespace superpipe
