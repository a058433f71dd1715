#include "tools/superpipe/driver_link.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

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

TEST_F(DriverLink, IsNotMadeInAFolderOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "another user's folder needs root or a user namespace";
  ASSERT_EQ(::chown(shared_.c_str(), 12345, 12345), 0);
  EXPECT_EQ(folder_for(library()), "");
}

TEST_F(DriverLink, IsNotMadeWhereTheLoaderCannotNameIt) {
  std::filesystem::create_directory(folder_ / "a:b");
  EXPECT_EQ(folder_with_driver_link(library(), folder_ / "a:b"), "");
}

TEST_F(DriverLink, IsNotMadeToALibraryThatIsMissing) {
  EXPECT_EQ(folder_for(folder_ / "missing.so"), "");
}

/// An installation in a folder of that name: its parts need not exist.
Installation installation_called(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  return installation_in(folder.string());
}

TEST_F(DriverLink, IsNotMadeToAnInstallationThatCanBeNamed) {
  const Installation parts = installation_called(folder_ / "named");
  EXPECT_EQ(parts_to_be_named(parts, shared_)->preload_library, parts.preload_library);
  EXPECT_TRUE(std::filesystem::is_empty(shared_));
}

TEST_F(DriverLink, LeadsToAnInstallationThatCannotBeNamed) {
  for (const char* const name : {"a b", "a:b", "a;b"}) {
    const std::filesystem::path prefix = folder_ / name;
    const Installation found = *parts_to_be_named(installation_called(prefix), shared_);
    EXPECT_TRUE(loader_can_name(found.preload_library)) << found.preload_library;
    EXPECT_TRUE(std::filesystem::equivalent(found.prefix, prefix));
    EXPECT_EQ(found.simgpu_loader, found.prefix + "/lib/superpipe/simgpu/libsimgpu_loader.so");
    EXPECT_EQ(mode_of(own_folder()), 0700U);
  }
}

TEST_F(DriverLink, LeadsToAnInstallationAgainWhereItHasMoved) {
  const std::filesystem::path before = folder_ / "a b";
  const std::filesystem::path after = folder_ / "c d";
  const Installation found = *parts_to_be_named(installation_called(before), shared_);
  std::filesystem::rename(before, after);
  EXPECT_EQ(parts_to_be_named(installation_in(after), shared_)->prefix, found.prefix);
  EXPECT_TRUE(std::filesystem::equivalent(found.prefix, after));
}

TEST_F(DriverLink, IsNotMadeToAnInstallationWhereItCannotBeNamedEither) {
  std::filesystem::create_directory(folder_ / "e f");
  const Installation parts = installation_called(folder_ / "a b");
  EXPECT_FALSE(parts_to_be_named(parts, folder_ / "e f"));
  EXPECT_FALSE(parts_to_be_named(parts, folder_ / "missing"));
  EXPECT_FALSE(parts_to_be_named(installation_in(folder_ / "g h"), shared_));
}

}  // namespace
}  // namespace superpipe::cli
