#include "profiler/shared_folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "tests/temporary_folder.h"

namespace superpipe {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr unsigned kFaccessat2 = 439;  // older headers have no name for it

/// Runs `body` in a child, which may give up what it is allowed, and waits for its end. @return its
/// exit code; -1: it was killed.
int code_of_child(const std::function<void()>& body) {
  const int pid = ::fork();
  if (pid == 0) {
    body();
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class SharedFolderTest : public ::testing::Test {
 protected:
  ~SharedFolderTest() override { std::filesystem::remove_all(folder_); }

  const std::string folder_ = make_temporary_folder("shared_folder_test");
};

TEST(SharedFolder, IsTheOneInTheEnvironmentOrTheDefault) {
  EXPECT_EQ(shared_folder([](const char*) { return nullptr; }), "/dev/shm");
  EXPECT_EQ(shared_folder([](const char* name) {
              return std::string(name) == "SUPERPIPE_SHARED_FOLDER" ? "/there" : nullptr;
            }),
            "/there");
}

TEST_F(SharedFolderTest, IsUsedWhereItIsAFolder) {
  EXPECT_EQ(problem_with_shared_folder(folder_, FolderUse::kLook), "");
  EXPECT_EQ(problem_with_shared_folder(folder_, FolderUse::kEnter), "");
}

TEST_F(SharedFolderTest, IsNotUsedWhereItIsMissingOrNone) {
  const std::string file = folder_ + "/file";
  std::ofstream(file) << "none";
  for (const FolderUse use : {FolderUse::kLook, FolderUse::kEnter}) {
    EXPECT_EQ(problem_with_shared_folder(folder_ + "/missing", use),
              folder_ + "/missing: No such file or directory");
    EXPECT_EQ(problem_with_shared_folder(file, use), file + ": Not a directory");
  }
}

TEST_F(SharedFolderTest, IsNotUsedWhereEachProcessWouldHaveItsOwn) {
  for (const std::string path : {"shared", "./shared", "../shared", "."}) {
    EXPECT_THAT(problem_with_shared_folder(path, FolderUse::kLook),
                StartsWith(path + ": it is no absolute path"));
  }
}

// Root may read all folders, until it gives up its capabilities.
TEST_F(SharedFolderTest, IsLookedAtByThoseWhoMayReadItAndEnteredByAll) {
  ::chmod(folder_.c_str(), 0300);
  EXPECT_EQ(code_of_child([&] {
              __user_cap_header_struct all{_LINUX_CAPABILITY_VERSION_3, 0};
              __user_cap_data_struct none[2]{};
              ASSERT_EQ(::syscall(SYS_capset, &all, &none), 0);
              EXPECT_EQ(problem_with_shared_folder(folder_, FolderUse::kLook),
                        folder_ + ": Permission denied");
              EXPECT_EQ(problem_with_shared_folder(folder_, FolderUse::kEnter), "");
              std::ofstream(folder_ + "/file") << "there";
              EXPECT_TRUE(std::filesystem::exists(folder_ + "/file"));
            }),
            0);
  ::chmod(folder_.c_str(), 0700);
}

// Filters of system calls refuse those that they do not know, as runtimes of containers install.
TEST_F(SharedFolderTest, IsUsedWhereAFilterRefusesToTellWhatMayBeDone) {
  EXPECT_EQ(code_of_child([&] {
              constexpr unsigned kOffset = offsetof(seccomp_data, nr);
              sock_filter rules[] = {
                  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kOffset),
                  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kFaccessat2, 1, 0),
                  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_faccessat, 0, 1),
                  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
              };
              const sock_fprog program{static_cast<unsigned short>(std::size(rules)), rules};
              if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
                  ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
                return;  // this system lets no process install a filter
              }
              ASSERT_NE(::faccessat(AT_FDCWD, folder_.c_str(), W_OK, AT_EACCESS), 0);
              EXPECT_EQ(problem_with_shared_folder(folder_, FolderUse::kLook), "");
              EXPECT_EQ(problem_with_shared_folder(folder_, FolderUse::kEnter), "");
            }),
            0);
}

TEST(AdviceOnSharedFolder, NamesTheVariable) {
  EXPECT_THAT(advice_on_shared_folder(), HasSubstr("SUPERPIPE_SHARED_FOLDER"));
}

TEST(AdviceOnSharedFile, IsForWhatAnotherFolderHelpsAgainst) {
  for (const int error : {ENOSPC, EDQUOT, EROFS, EACCES, EEXIST, ENOENT, EPERM}) {
    EXPECT_EQ(advice_on_shared_file(error), advice_on_shared_folder()) << error;
  }
  for (const int error : {EMFILE, ENOMEM, ENFILE, 0}) EXPECT_EQ(advice_on_shared_file(error), "");
  EXPECT_THAT(advice_on_shared_file(EFBIG), HasSubstr("ulimit"));
}

TEST(ProblemWithFileSize, IsTheLimitOfTheProcess) {
  EXPECT_EQ(code_of_child([] {
              const rlimit small{1000, 1000};
              ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
              EXPECT_EQ(problem_with_file_size(Bytes{1000}), 0);
              EXPECT_EQ(problem_with_file_size(Bytes{1001}), EFBIG);
            }),
            0);
}

}  // namespace
}  // namespace superpipe
