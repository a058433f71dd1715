#include "interposer/driver/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace superpipe {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class FindDriverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("find_driver_" +
               std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    search_.cache_file = folder_ / "cache";
    search_.processor = Processor::kX8664;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string make_file(const std::string& path) const {
    std::filesystem::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << "x";
    return folder_ / path;
  }

  /// A loader cache with one 64-bit entry for each (name, path).
  void make_cache(const std::vector<std::pair<std::string, std::string>>& entries,
                  std::int32_t flags = 0x0303) const {
    std::string strings;
    std::string table;
    const auto put = [](std::string& to, const auto& value) {
      to.append(reinterpret_cast<const char*>(&value), sizeof value);
    };
    const auto strings_at = static_cast<std::uint32_t>(48 + 24 * entries.size());
    for (const auto& [name, path] : entries) {
      put(table, flags);
      put(table, static_cast<std::uint32_t>(strings_at + strings.size()));
      strings += name + '\0';
      put(table, static_cast<std::uint32_t>(strings_at + strings.size()));
      strings += path + '\0';
      put(table, std::uint32_t{0});
      put(table, std::uint64_t{0});
    }
    std::string header = "glibc-ld.so.cache1.1";
    put(header, static_cast<std::uint32_t>(entries.size()));
    put(header, static_cast<std::uint32_t>(strings.size()));
    header.append(20, '\0');
    std::ofstream(search_.cache_file, std::ios::binary) << header << table << strings;
  }

  std::filesystem::path folder_;
  DriverSearch search_;
};

TEST_F(FindDriverTest, TakesTheChosenFileAndNoOther) {
  search_.chosen = make_file("mine/driver.so");
  search_.library_path = std::filesystem::path(make_file("path/libcuda.so.1")).parent_path();
  EXPECT_EQ(find_driver(search_).path, search_.chosen);
}

TEST_F(FindDriverTest, SaysWhatToDoWhenTheChosenFileIsMissing) {
  search_.chosen = folder_ / "absent.so";
  search_.library_path = std::filesystem::path(make_file("path/libcuda.so.1")).parent_path();
  const FoundDriver found = find_driver(search_);
  EXPECT_EQ(found.path, "");
  EXPECT_THAT(found.problem, HasSubstr("SUPERPIPE_DRIVER=" + search_.chosen));
  EXPECT_THAT(found.problem, HasSubstr("--simulate"));
}

TEST_F(FindDriverTest, RefusesItselfAsTheChosenDriver) {
  search_.own_file = make_file("libsuperpipe.so");
  search_.chosen = search_.own_file;
  EXPECT_THAT(find_driver(search_).problem, HasSubstr("superpipe itself"));
}

TEST_F(FindDriverTest, SearchesLibraryPathBeforeCacheBeforeFolders) {
  const std::string in_path = make_file("path/libcuda.so.1");
  const std::string in_cache = make_file("cached/libcuda.so.1");
  const std::string in_folder = make_file("folder/libcuda.so.1");
  make_cache({{"libc.so.6", "/lib/libc.so.6"}, {"libcuda.so.1", in_cache}});
  search_.folders = {folder_ / "folder"};
  search_.library_path = (folder_ / "none").string() + ":" + (folder_ / "path").string();
  EXPECT_EQ(find_driver(search_).path, in_path);
  search_.library_path = "";
  EXPECT_EQ(find_driver(search_).path, in_cache);
  std::filesystem::remove(search_.cache_file);
  EXPECT_EQ(find_driver(search_).path, in_folder);
}

TEST_F(FindDriverTest, TakesOnlyLibrariesOfItsProcessorFromTheCache) {
  constexpr std::int32_t kAarch64Flags = 0x0a03;
  const std::string cached = make_file("cached/libcuda.so.1");
  make_cache({{"libcuda.so.1", cached}}, kAarch64Flags);
  EXPECT_EQ(find_driver(search_).path, "");
  search_.processor = Processor::kAarch64;
  EXPECT_EQ(find_driver(search_).path, cached);
}

TEST(DriverFolders, AreThoseOfTheProcessor) {
  const auto x86 = driver_folders(Processor::kX8664);
  const auto arm = driver_folders(Processor::kAarch64);
  EXPECT_THAT(x86, Contains("/usr/lib/x86_64-linux-gnu"));
  EXPECT_THAT(x86, Not(Contains(HasSubstr("aarch64"))));
  EXPECT_THAT(arm, Contains("/usr/lib/aarch64-linux-gnu"));
  EXPECT_THAT(arm, Contains("/usr/lib/aarch64-linux-gnu/tegra"));
  EXPECT_THAT(arm, Not(Contains(HasSubstr("x86_64"))));
  for (const auto& folders : {x86, arm}) {
    EXPECT_THAT(folders, Contains("/usr/lib64"));
    EXPECT_THAT(folders, Contains("/usr/lib/wsl/lib"));
    EXPECT_EQ(folders.back(), "/usr/local/cuda/compat");
  }
}

TEST_F(FindDriverTest, SkipsItselfUnderTheDriversName) {
  const std::string ours = make_file("ours/libsuperpipe.so");
  std::filesystem::create_directories(folder_ / "first");
  std::filesystem::create_symlink(ours, folder_ / "first/libcuda.so.1");
  const std::string real = make_file("second/libcuda.so.1");
  search_.own_file = ours;
  search_.folders = {folder_ / "first", folder_ / "second"};
  EXPECT_EQ(find_driver(search_).path, real);
}

TEST_F(FindDriverTest, SkipsTheToolkitsLinkTimeStub) {
  make_file("stubs/libcuda.so.1");
  search_.library_path = folder_ / "stubs";
  EXPECT_THAT(find_driver(search_).problem, HasSubstr("no CUDA driver"));
}

TEST_F(FindDriverTest, TakesAMalformedCacheForAnEmptyOne) {
  std::ofstream(search_.cache_file, std::ios::binary)
      << "glibc-ld.so.cache1.1" << std::string(28, '\xff');
  EXPECT_THAT(paths_in_loader_cache(search_.cache_file, "libcuda.so.1", Processor::kX8664),
              IsEmpty());
  std::ofstream(search_.cache_file) << "not a cache";
  EXPECT_THAT(paths_in_loader_cache(search_.cache_file, "libcuda.so.1", Processor::kX8664),
              IsEmpty());
}

TEST(PathsInLoaderCache, ReadsTheCacheOfThisMachine) {
  if (!std::filesystem::exists("/etc/ld.so.cache")) GTEST_SKIP() << "no loader cache here";
  EXPECT_THAT(paths_in_loader_cache("/etc/ld.so.cache", "libc.so.6", kOwnProcessor),
              ::testing::Contains(HasSubstr("/libc.so.6")));
}

TEST(IsLinkedSymbolically, TellsTheTwoFakeDriversApart) {
  EXPECT_TRUE(is_linked_symbolically(FAKE_DRIVER_SYMBOLIC));
  EXPECT_FALSE(is_linked_symbolically(FAKE_DRIVER));
  EXPECT_FALSE(is_linked_symbolically("/etc/passwd"));
  EXPECT_FALSE(is_linked_symbolically("/nonexistent"));
}

}  // namespace
}  // namespace superpipe
