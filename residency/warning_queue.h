// What the user should know once, kept until no thread holds the manager's mutex.
#pragma once

#include <new>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace superpipe {

/// Collects warnings, each under a key that it is given once. A warning for which there is no host
/// memory is left out. Not thread-safe: under the manager's mutex.
class WarningQueue {
 public:
  /// Queues `text()` unless something was queued under `key` before.
  template <typename Text>
  void once(const char* key, const Text& text) noexcept {
    try {
      once(std::string(key), text);
    } catch (const std::bad_alloc&) {
    }
  }
  template <typename Text>
  void once(std::string key, const Text& text) noexcept {
    try {
      if (said_.contains(key)) return;
      std::string warning = text();
      waiting_.reserve(waiting_.size() + 1);
      said_.insert(std::move(key));
      waiting_.push_back(std::move(warning));
    } catch (const std::bad_alloc&) {
    }
  }

  [[nodiscard]] bool empty() const { return waiting_.empty(); }
  /// The warnings since the last call, in order.
  [[nodiscard]] std::vector<std::string> take() noexcept { return std::exchange(waiting_, {}); }

 private:
  std::set<std::string> said_;
  std::vector<std::string> waiting_;
};

}  // namespace superpipe
