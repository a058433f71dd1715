// What the recorder writes of copies: through the hooks, over a driver that copies on the host.
#include "interposer/recording/copy_recorder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "interposer/hooks/recorded_copy.h"
#include "interposer/recording/call_sites.h"
#include "tests/interposer/managed_fixture.h"
#include "tests/temporary_folder.h"

namespace superpipe {
namespace {

auto* const kStream = reinterpret_cast<CUstream>(0x5550);

bool target_is_pinned = false;
bool target_is_unified = false;
int synchronizations = 0;
bool stream_is_captured = false;
bool refuses_host_functions = false;
std::vector<std::pair<CUhostFn, void*>> queued;

/// A folder of its own, which goes with the object.
class Folder {
 public:
  Folder() { path_ = make_temporary_folder("copy-recorder"); }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string prefix() const { return path_ / "copies"; }

 private:
  std::filesystem::path path_;
};

/// A recorder for the process, which each test empties; the context is unmanaged.
class CopyRecorderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::install_null_driver(2);
    Configuration configuration;
    configuration.off = true;
    set_process_configuration(configuration);
    target_is_pinned = target_is_unified = stream_is_captured = refuses_host_functions = false;
    synchronizations = 0;
    queued.clear();
    DriverTable& table = driver();
    table.cuMemcpyDtoH_v2 = [](void* to, CUdeviceptr from, std::size_t size) {
      std::memcpy(to, reinterpret_cast<const void*>(from), size);
      return CUDA_SUCCESS;
    };
    table.cuMemcpyDtoHAsync_v2 = [](void* to, CUdeviceptr from, std::size_t size, CUstream) {
      std::memcpy(to, reinterpret_cast<const void*>(from), size);
      return CUDA_SUCCESS;
    };
    table.cuMemcpy2D_v2 = [](const CUDA_MEMCPY2D*) { return CUDA_SUCCESS; };
    table.cuLaunchHostFunc = [](CUstream, CUhostFn function, void* data) {
      if (refuses_host_functions) return CUDA_ERROR_INVALID_VALUE;
      queued.emplace_back(function, data);
      return CUDA_SUCCESS;
    };
    table.cuPointerGetAttribute = [](void* data, CUpointer_attribute attribute,
                                     CUdeviceptr address) {
      const auto base = reinterpret_cast<CUdeviceptr>(memory.data());
      const bool is_device = address >= base && address < base + sizeof(memory);
      if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) {
        const unsigned type = is_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
        std::memcpy(data, &type, sizeof type);
        return is_device || target_is_pinned ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
      }
      if (attribute == CU_POINTER_ATTRIBUTE_IS_MANAGED) {
        const unsigned is_unified = !is_device && target_is_unified ? 1 : 0;
        std::memcpy(data, &is_unified, sizeof is_unified);
        return CUDA_SUCCESS;
      }
      if (!is_device) return CUDA_ERROR_INVALID_VALUE;
      const std::size_t size = sizeof(memory);
      const bool asks_size = attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE;
      std::memcpy(data, asks_size ? static_cast<const void*>(&size) : &base, sizeof base);
      return CUDA_SUCCESS;
    };
    table.cuStreamSynchronize = [](CUstream) {
      ++synchronizations;
      return CUDA_SUCCESS;
    };
    table.cuMemFree_v2 = [](CUdeviceptr) { return CUDA_SUCCESS; };
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<char>(i);
    seen_ = copies().size();
  }
  void TearDown() override {
    run_queued();
    set_process_configuration(Configuration());
  }

  static void run_queued() {
    for (const auto& [function, data] : std::exchange(queued, {})) function(data);
  }
  static CUdeviceptr device(std::size_t offset = 0) {
    return reinterpret_cast<CUdeviceptr>(memory.data() + offset);
  }
  static std::string path() { return prefix() + "." + std::to_string(::getpid()); }
  static ProcessCopies process() {
    auto read = read_copies(path());
    return std::holds_alternative<ProcessCopies>(read) ? std::get<ProcessCopies>(read)
                                                       : ProcessCopies{};
  }
  static std::vector<CopyRecord> copies() {
    recorder();
    return process().copies;
  }
  /// Those of this test.
  [[nodiscard]] std::vector<CopyRecord> new_copies() const {
    auto all = copies();
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(seen_));
    return all;
  }

  static inline std::array<char, 4096> memory;
  std::array<char, 4096> back_{};

 private:
  static std::string prefix() {
    static const Folder folder;
    return folder.prefix();
  }
  // The process has one from its first test on.
  static CopyRecorder& recorder() {
    if (CopyRecorder::of_process() == nullptr) CopyRecorder::start(prefix());
    return *CopyRecorder::of_process();
  }

  std::size_t seen_ = 0;
};

TEST_F(CopyRecorderTest, ContentDecidesOverTheDigest) {
  (void)hook::cuMemcpyDtoH_v2(back_.data(), device(), 256);
  (void)hook::cuMemcpyDtoH_v2(back_.data(), device(256), 256);  // the same bytes
  memory[300] = 1;
  (void)hook::cuMemcpyDtoH_v2(back_.data(), device(256), 256);
  const auto copies = new_copies();
  ASSERT_EQ(copies.size(), 3U);
  EXPECT_EQ(copies[0].bytes, Bytes{256});
  EXPECT_EQ(copies[0].digest, copies[1].digest);
  EXPECT_NE(copies[1].digest, copies[2].digest);
  EXPECT_EQ(copies[2].source->offset, Bytes{256});
  EXPECT_EQ(copies[2].source->buffer, 4_KiB);
  EXPECT_EQ(std::filesystem::status(path()).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(CopyRecorderTest, AProcessIsToldByItsRankAndElseByItsCommandLine) {
  const auto place_of = [this](const std::string& prefix) {
    CopyRecorder recorder(prefix);
    CopyTarget target;
    target.base = reinterpret_cast<const std::byte*>(back_.data());
    target.width = 256;
    target.source = device();
    recorder.note_copy(target, StreamHandle{}, CopyMode::kSynchronous);
    const auto read = read_copies(prefix + "." + std::to_string(::getpid()));
    return std::holds_alternative<ProcessCopies>(read) ? std::get<ProcessCopies>(read).place : "";
  };
  (void)::unsetenv("SLURM_PROCID");
  EXPECT_NE(place_of(path() + "-alone").find("interposer_test"), std::string::npos);
  (void)::setenv("SLURM_PROCID", "7", 1);
  EXPECT_EQ(place_of(path() + "-ranked"), "SLURM_PROCID=7 interposer_test");
  (void)::setenv("RANK", "3", 1);
  EXPECT_EQ(place_of(path() + "-launched"), "RANK=3 interposer_test");
  (void)::unsetenv("RANK");
  (void)::unsetenv("SLURM_PROCID");
}

TEST_F(CopyRecorderTest, CallSitesAreKnownAgain) {
  open_call_sites();
  volatile int times = 2;  // so that the compiler makes one call of the two
  for (int i = 0; i < times; ++i) (void)hook::cuMemcpyDtoH_v2(back_.data(), device(), 256);
  (void)hook::cuMemcpyDtoH_v2(back_.data(), device(), 256);
  const auto copies = new_copies();
  ASSERT_EQ(copies.size(), 3U);
  EXPECT_NE(copies[0].site, 0U);
  EXPECT_EQ(copies[0].site, copies[1].site);
  EXPECT_NE(copies[1].site, copies[2].site);
  // The hooks are in the same module as this test, which is left out.
  const auto frames = process().frames_of(copies[2]);
  ASSERT_FALSE(frames.empty());
  EXPECT_NE(frames.back().find("+0x"), std::string::npos);
}

TEST_F(CopyRecorderTest, APinnedTargetIsDigestedWhenItsStreamGetsThere) {
  target_is_pinned = true;
  (void)hook::cuMemcpyDtoHAsync_v2(back_.data(), device(), 64, kStream);
  ASSERT_EQ(new_copies().size(), 1U);
  EXPECT_EQ(new_copies()[0].digest, std::nullopt) << "what stands if the process ends here";
  back_[3] = 100;  // as if the copy came only now
  run_queued();
  (void)hook::cuMemcpyDtoH_v2(back_.data(), device(), 64);
  ASSERT_EQ(new_copies().size(), 2U);
  EXPECT_NE(new_copies()[0].digest, new_copies()[1].digest);
}

TEST_F(CopyRecorderTest, APageableTargetHasItsContentWhenTheCallReturns) {
  (void)hook::cuMemcpyDtoHAsync_v2(back_.data(), device(), 64, kStream);
  ASSERT_EQ(new_copies().size(), 1U);
  EXPECT_TRUE(new_copies()[0].digest.has_value());
  EXPECT_EQ(synchronizations, 1) << "the driver's documentation alone says that it has";
}

TEST_F(CopyRecorderTest, UnifiedMemoryIsNotTouched) {
  target_is_unified = true;
  (void)hook::cuMemcpyDtoH_v2(back_.data(), device(), 64);
  ASSERT_EQ(new_copies().size(), 1U);
  EXPECT_FALSE(new_copies()[0].digest.has_value());
}

TEST_F(CopyRecorderTest, WhatComesToTheAddressOfAFreedAllocationIsAnother) {
  CUdeviceptr parameters[] = {device(), 7};
  void* places[] = {&parameters[0], &parameters[1]};
  (void)hook::cuLaunchKernel(reinterpret_cast<CUfunction>(0x4000), 1, 1, 1, 1, 1, 1, 0, nullptr,
                             places, nullptr);
  (void)hook::cuMemFree_v2(device());
  (void)hook::cuMemcpyDtoH_v2(back_.data(), device(), 64);
  ASSERT_EQ(new_copies().size(), 1U);
  EXPECT_EQ(new_copies()[0].source->launch, std::nullopt);
}

TEST_F(CopyRecorderTest, ACopyWhoseEndIsNotToldIsWrittenDownWithoutContent) {
  target_is_pinned = refuses_host_functions = true;
  (void)hook::cuMemcpyDtoHAsync_v2(back_.data(), device(), 64, kStream);
  ASSERT_EQ(new_copies().size(), 1U);
  EXPECT_FALSE(new_copies()[0].digest.has_value());
}

TEST_F(CopyRecorderTest, ACopyThatFailsIsNotWrittenDown) {
  driver().cuMemcpyDtoH_v2 = [](void*, CUdeviceptr, std::size_t) {
    return CUDA_ERROR_INVALID_VALUE;
  };
  EXPECT_EQ(hook::cuMemcpyDtoH_v2(back_.data(), device(), 64), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(new_copies().size(), 0U);
}

TEST_F(CopyRecorderTest, OnlyTheWidthOfRowsIsDigested) {
  CUDA_MEMCPY2D rows{};
  rows.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.srcDevice = device();
  rows.dstMemoryType = CU_MEMORYTYPE_HOST;
  rows.dstHost = back_.data();
  rows.dstPitch = 64;
  rows.dstXInBytes = 8;
  rows.dstY = 1;
  rows.WidthInBytes = 16;
  rows.Height = 3;
  (void)hook::cuMemcpy2D_v2(&rows);
  back_[64 + 8 + 16] = 1;  // behind the first row
  back_[8] = 1;            // above it
  (void)hook::cuMemcpy2D_v2(&rows);
  back_[64 + 2 * 64 + 8 + 15] = 1;  // the last byte of the last row
  (void)hook::cuMemcpy2D_v2(&rows);
  const auto copies = new_copies();
  ASSERT_EQ(copies.size(), 3U);
  EXPECT_EQ(copies[0].bytes, Bytes{48});
  EXPECT_EQ(copies[0].digest, copies[1].digest);
  EXPECT_NE(copies[1].digest, copies[2].digest);
}

TEST_F(CopyRecorderTest, TargetsOnTheDeviceAreNone) {
  EXPECT_EQ(copy_target(device(8), device(), 8).base, nullptr);
  EXPECT_EQ(copy_target(memory.data(), device(), 8).base, nullptr);
  const auto host = reinterpret_cast<CUdeviceptr>(back_.data());
  EXPECT_EQ(copy_target(device(), host, 8).base, nullptr);
  EXPECT_EQ(copy_target(host, host + 8, 8).base, nullptr);
  EXPECT_EQ(copy_target(host, device(), 8).base, reinterpret_cast<std::byte*>(back_.data()));
  EXPECT_EQ(copy_target(static_cast<const CUDA_MEMCPY2D*>(nullptr)).base, nullptr);
  CUDA_MEMCPY3D slices{};
  slices.srcMemoryType = CU_MEMORYTYPE_HOST;
  slices.dstMemoryType = CU_MEMORYTYPE_HOST;
  slices.dstHost = back_.data();
  EXPECT_EQ(copy_target(&slices).base, nullptr);
  slices.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  slices.WidthInBytes = 4;
  slices.Height = 2;
  slices.Depth = 2;
  slices.dstHeight = 8;
  slices.dstPitch = 16;
  slices.dstZ = 1;
  const CopyTarget target = copy_target(&slices);
  EXPECT_EQ(target.base, reinterpret_cast<std::byte*>(back_.data()) + 128);
  EXPECT_EQ(target.bytes(), 16U);
  EXPECT_FALSE(target.is_contiguous());
}

TEST_F(CopyRecorderTest, TheLaunchThatNamedItsAllocationLastIsWrittenDown) {
  const auto launch = [](std::uintptr_t kernel, CUdeviceptr address) {
    CUdeviceptr parameters[] = {address, 7};
    void* places[] = {&parameters[0], &parameters[1]};
    EXPECT_EQ(hook::cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0,
                                   nullptr, places, nullptr),
              CUDA_SUCCESS);
  };
  launch(0x1000, device(64));
  (void)hook::cuMemcpyDtoH_v2(back_.data(), device(), 64);
  launch(0x2000, device(128));
  launch(0x3000, 5);
  (void)hook::cuMemcpyDtoH_v2(back_.data(), device(), 64);
  const auto copies = new_copies();
  ASSERT_EQ(copies.size(), 2U);
  ASSERT_TRUE(copies[0].source && copies[0].source->launch);
  ASSERT_TRUE(copies[1].source && copies[1].source->launch);
  EXPECT_EQ(copies[1].source->launch->number, copies[0].source->launch->number + 1);
  EXPECT_LT(copies[1].source->launch->kernel, process().kernels.size());
}

TEST(CopyRecorderAfterAnExec, LeavesTheFileOfTheProgramBefore) {
  const Folder folder;
  const std::string prefix = folder.prefix();
  const std::string path = prefix + "." + std::to_string(::getpid());
  const std::array<std::byte, 8> content{};
  CopyTarget target;
  target.base = content.data();
  target.width = content.size();
  for (int program = 0; program < 2; ++program) {
    CopyRecorder(prefix).note_copy(target, kLegacyStream, CopyMode::kSynchronous);
  }
  for (const std::string& file : {path, path + ".2"}) {
    const auto read = read_copies(file);
    ASSERT_TRUE(std::holds_alternative<ProcessCopies>(read)) << file;
    EXPECT_EQ(std::get<ProcessCopies>(read).copies.size(), 1U);
  }
}

TEST(CopyRecorderWithoutAFolder, SaysSoAndGoesOn) {
  CopyRecorder recorder("/no/such/folder/copies");
  const std::array<std::byte, 8> content{};
  CopyTarget target;
  target.base = content.data();
  target.width = content.size();
  ::testing::internal::CaptureStderr();
  recorder.note_copy(target, kLegacyStream, CopyMode::kSynchronous);
  recorder.note_copy(target, kLegacyStream, CopyMode::kSynchronous);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("/no/such/folder/copies"), std::string::npos) << said;
  EXPECT_EQ(said.find("cannot be written"), said.rfind("cannot be written")) << said;
}

}  // namespace
}  // namespace superpipe
