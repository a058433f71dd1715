// Device memory in which operands of a library's routines lie among other things.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

namespace simgpu_test {

/// Memory in which matrices lie among other things, as in a framework's arena.
class Arena {
 public:
  Arena() {
    EXPECT_EQ(cudaMalloc(&device_, kBytes), cudaSuccess);
    fill(0);
  }
  ~Arena() { EXPECT_EQ(cudaFree(device_), cudaSuccess); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  [[nodiscard]] float* at(size_t byte) const { return reinterpret_cast<float*>(device_ + byte); }
  void fill(int value) const { EXPECT_EQ(cudaMemset(device_, value, kBytes), cudaSuccess); }
  /// Puts `values` there.
  template <typename Value>
  void put(size_t byte, const std::vector<Value>& values) const {
    EXPECT_EQ(cudaMemcpy(device_ + byte, values.data(), sizeof(Value) * values.size(),
                         cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  /// `count` values from there.
  template <typename Value>
  [[nodiscard]] std::vector<Value> get(size_t byte, size_t count) const {
    std::vector<Value> values(count);
    EXPECT_EQ(
        cudaMemcpy(values.data(), device_ + byte, sizeof(Value) * count, cudaMemcpyDeviceToHost),
        cudaSuccess);
    return values;
  }
  void set(size_t byte, unsigned char value) const {
    EXPECT_EQ(cudaMemset(device_ + byte, value, 1), cudaSuccess);
  }
  [[nodiscard]] std::vector<unsigned char> read() const {
    std::vector<unsigned char> bytes(kBytes);
    EXPECT_EQ(cudaMemcpy(bytes.data(), device_, kBytes, cudaMemcpyDeviceToHost), cudaSuccess);
    return bytes;
  }

  static constexpr size_t kBytes = size_t{1} << 20;

 private:
  unsigned char* device_ = nullptr;
};

/// Where in an arena of ones `routine` writes: the first byte, and one past the last.
template <typename Routine>
std::pair<size_t, size_t> written_by(const Arena& arena, const Routine& routine) {
  arena.fill(0xff);
  EXPECT_EQ(routine(), 0);
  const std::vector<unsigned char> bytes = arena.read();
  const auto is_written = [](unsigned char byte) { return byte != 0xff; };
  const auto first = std::find_if(bytes.begin(), bytes.end(), is_written);
  const auto last = std::find_if(bytes.rbegin(), bytes.rend(), is_written);
  return {first - bytes.begin(), bytes.rend() - last};
}

/// Whether what `routine` writes to `result` depends on that byte of an arena that is zero
/// otherwise.
template <typename Routine>
bool depends_on(const Arena& arena, size_t byte, const float* result, const Routine& routine) {
  std::array<std::vector<unsigned char>, 2> results;
  for (const auto value : std::array<unsigned char, 2>{0, 1}) {
    arena.fill(0);
    arena.set(byte, value);
    EXPECT_EQ(routine(), 0);
    const std::vector<unsigned char> bytes = arena.read();
    const auto at = reinterpret_cast<const char*>(result) - reinterpret_cast<char*>(arena.at(0));
    results.at(value).assign(bytes.begin() + at, bytes.begin() + at + 64);
  }
  return results[0] != results[1];
}

}  // namespace simgpu_test
