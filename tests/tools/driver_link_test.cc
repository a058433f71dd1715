#include "tools/superpipe/driver_link.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/temporary_folder.h"

namespace superpipe::cli {
namespace {

class DriverLink : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(library()) << "a library";
    std::filesystem::create_directory(shared_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// The folder with the link to `library`.
  [[nodiscard]] std::string folder_for(const std::string& library) const {
    return folder_with_driver_link(library, shared_);
  }
  [[nodiscard]] std::string library() const { return folder_ / "libsuperpipe.so"; }
  /// The folder of this user, once one was made.
  [[nodiscard]] std::filesystem::path own_folder() const {
    return *std::filesystem::directory_iterator(shared_);
  }
  static mode_t mode_of(const std::filesystem::path& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777U : 0U;
  }

  const std::filesystem::path folder_ = make_temporary_folder("driver_link");
  const std::filesystem::path shared_ = folder_ / "shared";
};

TEST_F(DriverLink, IsTheLibraryUnderTheNameWithoutAVersion) {
  const std::filesystem::path folder = folder_for(library());
  EXPECT_TRUE(std::filesystem::equivalent(folder / "libcuda.so", library()));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  EXPECT_EQ(mode_of(folder), 0700U);
  EXPECT_EQ(mode_of(own_folder()), 0700U);
}

TEST_F(DriverLink, IsFoundAgain) {
  const std::string folder = folder_for(library());
  EXPECT_EQ(folder_for(library()), folder);
}

TEST_F(DriverLink, LeadsToTheLibraryAgainWhereItLedElsewhere) {
  const std::filesystem::path link = folder_for(library()) + "/libcuda.so";
  std::filesystem::remove(link);
  std::filesystem::create_symlink("/etc/passwd", link);
  (void)folder_for(library());
  EXPECT_TRUE(std::filesystem::equivalent(link, library()));
}

TEST_F(DriverLink, HasAFolderForEachLibrary) {
  const std::string other = folder_ / "other.so";
  std::ofstream(other) << "another library";
  EXPECT_NE(folder_for(library()), folder_for(other));
}

TEST_F(DriverLink, IsNotMadeWhereOthersMayLookInto) {
  (void)folder_for(library());
  std::filesystem::permissions(own_folder(), std::filesystem::perms::group_write,
                               std::filesystem::perm_options::add);
  EXPECT_EQ(folder_for(library()), "");
}

TEST_F(DriverLink, IsNotMadeBehindALink) {
  (void)folder_for(library());
  const std::filesystem::path own = own_folder();
  std::filesystem::rename(own, folder_ / "elsewhere");
  std::filesystem::create_directory_symlink(folder_ / "elsewhere", own);
  EXPECT_EQ(folder_for(library()), "");
}

TEST_F(DriverLink, IsNotMadeWhereOthersMayReplaceIt) {
  std::filesystem::permissions(shared_, std::filesystem::perms::others_write,
                               std::filesystem::perm_options::add);
  EXPECT_EQ(folder_for(library()), "");
  std::filesystem::permissions(shared_, std::filesystem::perms::sticky_bit,
                               std::filesystem::perm_options::add);
  EXPECT_NE(folder_for(library()), "");
}

TEST_F(DriverLink, IsNotMadeWhereTheLoaderCannotNameIt) {
  std::filesystem::create_directory(folder_ / "a:b");
  EXPECT_EQ(folder_with_driver_link(library(), folder_ / "a:b"), "");
}

TEST_F(DriverLink, IsNotMadeToALibraryThatIsMissing) {
  EXPECT_EQ(folder_for(folder_ / "missing.so"), "");
}

}  // namespace
}  // namespace superpipe::cli
