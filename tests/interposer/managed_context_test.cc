#include "interposer/contexts/managed_context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "interposer/driver/table.h"
#include "profiler/live_layout.h"
#include "residency/host/host_ledger.h"
#include "tests/interposer/null_driver.h"
#include "tests/temporary_folder.h"

namespace superpipe {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::size_t kContextBytes = 100 << 20;

class ManagedContextTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::install_null_driver(1);
    driver().cuMemGetInfo_v2 = [](std::size_t* free, std::size_t* total) {
      *total = std::size_t{1} << 30;
      *free = *total - kContextBytes;
      return CUDA_SUCCESS;
    };
  }
  void TearDown() override {
    testing::install_null_driver(1);
    std::filesystem::remove_all(folder_);
  }
  /// What a process says on standard error that makes so many managed contexts: a child of this
  /// one, since some lines are said once in a process.
  std::string said_by_create(int contexts = 1) {
    int said[2];
    EXPECT_EQ(::pipe(said), 0);
    const int child = ::fork();
    if (child == 0) {
      ::dup2(said[1], STDERR_FILENO);
      for (int i = 0; i < contexts; ++i) {
        const auto created = create();
        EXPECT_NE(created.context, nullptr) << created.problem;
      }
      ::_exit(HasFailure() ? 1 : 0);
    }
    ::close(said[1]);
    std::string text;
    char letter = 0;
    while (::read(said[0], &letter, 1) == 1) text += letter;
    ::close(said[0]);
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    return text;
  }

  ManagedContext::Created create() {
    CUcontext context = nullptr;
    driver().cuCtxGetCurrent(&context);
    return ManagedContext::create(context, 0, configuration_);
  }

  const std::string folder_ = make_temporary_folder("managed_context_test");
  Configuration configuration_ = [this] {
    Configuration configuration;
    configuration.shared_folder = folder_;
    return configuration;
  }();
};

TEST_F(ManagedContextTest, KnowsItsContextAndDevice) {
  const auto created = create();
  ASSERT_NE(created.context, nullptr);
  EXPECT_THAT(created.problem, IsEmpty());
  CUcontext context = nullptr;
  driver().cuCtxGetCurrent(&context);
  EXPECT_EQ(created.context->context(), context);
  EXPECT_EQ(created.context->device(), 0);
  EXPECT_EQ(created.context->device_total(), 1_GiB);
}

TEST_F(ManagedContextTest, TakesTheContextOffTheBudget) {
  configuration_.policy = PolicyKind::kSuperpipeline;
  configuration_.gpu_mem = parse_size("500M");
  const auto created = create();
  ASSERT_NE(created.context, nullptr);
  EXPECT_EQ(created.context->figures().budget, 400_MiB);
  EXPECT_EQ(created.context->figures().context_bytes, Bytes{kContextBytes});
}

TEST_F(ManagedContextTest, SaysHowMuchTheContextTakesWhenTheBudgetIsSmaller) {
  configuration_.gpu_mem = parse_size("100M");
  const auto created = create();
  EXPECT_EQ(created.context, nullptr);
  EXPECT_THAT(created.problem, HasSubstr("the context alone takes 100"));
}

TEST_F(ManagedContextTest, NeedsADriverThatTellsParameters) {
  driver().cuDriverGetVersion = [](int* version) {
    *version = 12030;
    return CUDA_SUCCESS;
  };
  const auto created = create();
  EXPECT_EQ(created.context, nullptr);
  EXPECT_THAT(created.problem, HasSubstr("CUDA 12.4"));
}

TEST_F(ManagedContextTest, EndsItsTraceWhereItCannotBeSetUp) {
  configuration_.trace_file = folder_ + "/run.sptrace";
  driver().cuMemAddressReserve = [](CUdeviceptr*, std::size_t, std::size_t, CUdeviceptr,
                                    unsigned long long) { return CUDA_ERROR_OUT_OF_MEMORY; };
  const auto created = create();
  EXPECT_EQ(created.context, nullptr);
  EXPECT_THAT(created.problem, HasSubstr("could not be set up"));
  EXPECT_TRUE(std::filesystem::exists(configuration_.trace_file));
}

TEST_F(ManagedContextTest, IsFoundInTheSharedFolder) {
  configuration_.policy = PolicyKind::kAuto;
  const auto created = create();
  ASSERT_NE(created.context, nullptr);
  EXPECT_TRUE(std::filesystem::exists(live_segment_path(::geteuid(), ::getpid(), folder_)));
  EXPECT_TRUE(std::filesystem::exists(host_ledger_path(::geteuid(), folder_)));
}

TEST_F(ManagedContextTest, SaysInOneLineThatNobodyFindsIt) {
  configuration_.policy = PolicyKind::kAuto;
  std::ofstream(folder_ + "/file") << "no folder";
  for (const std::string& name : {folder_ + "/missing", folder_ + "/file", std::string("folder")}) {
    configuration_.shared_folder = name;
    const std::string said = said_by_create();
    EXPECT_THAT(said,
                HasSubstr("superpipe top and budget do not find this process, and host memory "
                          "is not shared with your other processes"));
    EXPECT_THAT(said, HasSubstr(": " + name + ": "));
    EXPECT_THAT(said, HasSubstr("; set SUPERPIPE_SHARED_FOLDER to a folder with room"));
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  }
}

TEST_F(ManagedContextTest, SaysItOnceInAProcess) {
  configuration_.policy = PolicyKind::kAuto;
  configuration_.shared_folder = folder_ + "/missing";
  const std::string said = said_by_create(3);
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST_F(ManagedContextTest, SaysNothingWhereNothingMovesUnlessTheUserNamedTheFolder) {
  configuration_.policy = PolicyKind::kResident;
  configuration_.shared_folder = folder_ + "/missing";
  EXPECT_EQ(said_by_create(), "");
  configuration_.shared_folder_is_given = true;
  EXPECT_THAT(said_by_create(), HasSubstr("superpipe top and budget do not find this process: "));
}

TEST_F(ManagedContextTest, GivesTheSameAdviceOnTwoFilesOnce) {
  configuration_.policy = PolicyKind::kAuto;
  // A folder in which no process can make a file.
  configuration_.shared_folder = "/proc/self";
  const std::string said = said_by_create();
  const std::string advice = "set SUPERPIPE_SHARED_FOLDER to a folder with room";
  EXPECT_THAT(said, HasSubstr("/proc/self/superpipe-host-"));
  EXPECT_EQ(said.find(advice), said.rfind(advice)) << said;
  EXPECT_NE(said.find(advice), std::string::npos) << said;
}

TEST_F(ManagedContextTest, SaysOnlyWhatIsLacking) {
  configuration_.policy = PolicyKind::kAuto;
  std::ofstream(host_ledger_path(::geteuid(), folder_)) << "something else";
  ::chmod(host_ledger_path(::geteuid(), folder_).c_str(), 0600);
  std::string said = said_by_create();
  EXPECT_THAT(said, HasSubstr("host memory is not shared with your other processes"));
  EXPECT_THAT(said, HasSubstr("no ledger of superpipe's; remove it once no program uses it\n"));
  EXPECT_THAT(said, Not(HasSubstr("SUPERPIPE_SHARED_FOLDER")));
  EXPECT_THAT(said, Not(HasSubstr("superpipe top")));
  configuration_.shares_host_memory = false;
  EXPECT_EQ(said_by_create(), "");
  configuration_.shared_folder = folder_ + "/missing";
  said = said_by_create();
  EXPECT_THAT(said, HasSubstr("superpipe top and budget do not find this process: "));
  EXPECT_THAT(said, Not(HasSubstr("host memory")));
}

TEST_F(ManagedContextTest, NeedsVirtualMemory) {
  driver().cuDeviceGetAttribute = [](int* value, CUdevice_attribute, CUdevice) {
    *value = 0;
    return CUDA_SUCCESS;
  };
  const auto created = create();
  EXPECT_EQ(created.context, nullptr);
  EXPECT_THAT(created.problem, HasSubstr("virtual memory"));
}

TEST_F(ManagedContextTest, LeavesItToTheDriverToSayWhyItDoesNotAnswer) {
  driver().cuMemGetInfo_v2 = [](std::size_t*, std::size_t*) { return CUDA_ERROR_INVALID_CONTEXT; };
  const auto created = create();
  EXPECT_EQ(created.context, nullptr);
  EXPECT_THAT(created.problem, IsEmpty());
}

TEST_F(ManagedContextTest, OrdersWorkOnStreamsOfItsOwnContextOnly) {
  const auto created = create();
  driver().cuStreamGetCtx = [](CUstream stream, CUcontext* context) {
    if (stream == reinterpret_cast<CUstream>(0x100)) return driver().cuCtxGetCurrent(context);
    *context = nullptr;
    return CUDA_SUCCESS;
  };
  const StreamHandle own{0x100};
  const StreamHandle other{0x200};
  EXPECT_TRUE(created.context->can_order(other));  // with one context nobody asks
  ContextCount::add();
  ContextCount::add();
  EXPECT_TRUE(created.context->can_order(own));
  EXPECT_FALSE(created.context->can_order(other));
  ContextCount::remove();
  ContextCount::remove();
}

TEST_F(ManagedContextTest, AnswersWithAKernelsErrorUntilItIsClosed) {
  const auto created = create();
  driver().cuEventQuery = [](CUevent) { return CUDA_ERROR_ILLEGAL_ADDRESS; };
  EXPECT_EQ(created.context->sticky_error(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(created.context->failure(Status::kDeviceError, CallKind::kSubmission),
            CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(created.context->failure(Status::kInvalidValue, CallKind::kSubmission),
            CUDA_ERROR_INVALID_VALUE);
  created.context->close();
  EXPECT_EQ(created.context->sticky_error(), CUDA_SUCCESS);
  EXPECT_EQ(created.context->failure(Status::kDeviceError, CallKind::kSubmission),
            CUDA_ERROR_LAUNCH_FAILED);
}

}  // namespace
}  // namespace superpipe
