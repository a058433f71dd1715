#include "interposer/kernels/watched_sources.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <set>
#include <vector>

#include "interposer/driver/table.h"
#include "tests/interposer/null_driver.h"

namespace superpipe {
namespace {

/// Events that have been created and not been destroyed.
std::set<CUevent> source_events;
/// Those behind which the streams have gone on.
std::set<CUevent> complete_events;

class WatchedSourcesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::install_null_driver(2);
    source_events.clear();
    complete_events.clear();
    driver().cuEventCreate = [](CUevent* event, unsigned) {
      static std::uintptr_t last = 0;
      *event = reinterpret_cast<CUevent>(++last);
      source_events.insert(*event);
      return CUDA_SUCCESS;
    };
    driver().cuEventRecord = [](CUevent, CUstream) { return CUDA_SUCCESS; };
    driver().cuEventQuery = [](CUevent event) {
      return complete_events.contains(event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    };
    driver().cuEventDestroy_v2 = [](CUevent event) {
      source_events.erase(event);
      return CUDA_SUCCESS;
    };
  }
  void TearDown() override { watched_.stop(); }

  bool add(const void* data, std::size_t size) {
    return watched_.add(data, size, kTarget, WatchedSources::mark(kStream));
  }
  /// The first words of all that is seen now.
  std::vector<std::uint64_t> seen() {
    std::vector<std::uint64_t> words;
    watched_.look_at_all([&words](const void* data, std::size_t /*size*/, std::uint64_t /*to*/) {
      std::uint64_t word = 0;
      std::memcpy(&word, data, sizeof word);
      words.push_back(word);
    });
    return words;
  }
  static void let_all_go_on() { complete_events = source_events; }

  static constexpr StreamHandle kStream{16};
  static constexpr std::uint64_t kTarget = 0x10000;

  WatchedSources watched_;
  std::array<std::uint64_t, 1024> content_{1};
};

TEST_F(WatchedSourcesTest, SeesWhatTheProgramWritesUntilTheCopyMayBegin) {
  ASSERT_TRUE(add(content_.data(), sizeof content_));
  EXPECT_EQ(seen(), std::vector<std::uint64_t>{1});
  content_[0] = 2;
  EXPECT_EQ(seen(), std::vector<std::uint64_t>{2});
  content_[0] = 3;
  let_all_go_on();
  EXPECT_EQ(seen(), std::vector<std::uint64_t>{3}) << "for the last time";
  EXPECT_TRUE(watched_.empty());
  EXPECT_TRUE(source_events.empty());
}

TEST_F(WatchedSourcesTest, EndsWithMemoryThatTheProgramHasFreed) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const memory =
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_TRUE(add(memory, 2 * page));
  EXPECT_EQ(seen().size(), 1U);
  ASSERT_EQ(munmap(static_cast<char*>(memory) + page, page), 0);
  EXPECT_EQ(seen().size(), 0U);
  EXPECT_TRUE(watched_.empty());
  EXPECT_TRUE(source_events.empty());
  munmap(memory, page);
}

TEST_F(WatchedSourcesTest, LooksNoMoreThanSoOftenAndAtNoMoreThanSoMany) {
  for (std::size_t i = 0; i < WatchedSources::kMost; ++i) {
    ASSERT_TRUE(add(content_.data(), 8));
  }
  EXPECT_FALSE(add(content_.data(), 8));
  const auto look = [](const void*, std::size_t, std::uint64_t) {};
  for (int looks = 1; looks < WatchedSources::kMostLooks; ++looks) {
    ASSERT_TRUE(watched_.look_at_all(look));
  }
  EXPECT_FALSE(watched_.look_at_all(look)) << "copies may not have begun";
  EXPECT_TRUE(watched_.empty());
  EXPECT_TRUE(source_events.empty());
}

TEST_F(WatchedSourcesTest, GoesOnWhereALookEndedThatReadEnough) {
  std::vector<std::uint64_t> large(WatchedSources::kBytesOfALook / 8);
  for (std::uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(add(large.data() + i, 8 * (large.size() - 3)));
    large[i] = i;
  }
  EXPECT_EQ(seen(), (std::vector<std::uint64_t>{0, 1}));
  EXPECT_EQ(seen(), (std::vector<std::uint64_t>{2, 0}));
}

TEST_F(WatchedSourcesTest, WatchesNothingWithoutAnEventNorOnceStopped) {
  driver().cuEventRecord = [](CUevent, CUstream) { return CUDA_ERROR_INVALID_HANDLE; };
  EXPECT_EQ(WatchedSources::mark(kStream), nullptr);
  EXPECT_TRUE(source_events.empty());
  driver().cuEventRecord = [](CUevent, CUstream) { return CUDA_SUCCESS; };
  ASSERT_TRUE(add(content_.data(), 8));
  watched_.stop();
  EXPECT_TRUE(source_events.empty());
  EXPECT_FALSE(add(content_.data(), 8));
  EXPECT_TRUE(watched_.empty());
}

}  // namespace
}  // namespace superpipe
