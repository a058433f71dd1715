#include "interposer/driver/digest_program.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <random>
#include <span>
#include <thread>
#include <utility>

#include "interposer/driver/table.h"
#include "interposer/log.h"
#include "residency/transfer/digest_image.h"
#include "residency/transfer/digest_kernel.h"

namespace superpipe {
namespace {

constexpr std::size_t kCheckedPage = 4096;

/// One digest of the check. All contents end before the check's memory does, so that the kernel
/// would show if it took in what lies behind them.
struct CheckedDigest {
  std::size_t offset;  ///< of the content, a multiple of kDigestAlignment
  std::size_t size;    ///< bytes
  unsigned blocks;     ///< 0: as many as any digest of this size has
};

// A part of a word, of a read and of a chunk; whole ones; several chunks for each warp, and for
// some warps one more than for others; several blocks, of which one has less to do.
constexpr std::array<CheckedDigest, 7> kChecks{{{0, 1, 0},
                                                {16, 4095, 0},
                                                {4096, 4096, 0},
                                                {48, 4096 + 20, 3},
                                                {0, 16 * 4096 - 7, 1},
                                                {4096, 12 * 4096 + 2, 1},
                                                {0, 15 * 4096, 0}}};
constexpr std::size_t kCheckedBytes = 16 * std::size_t{4096};

/// "`call` failed: CUDA_ERROR_..."; nothing if it did not.
std::string problem_of(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return {};
  const char* name = nullptr;
  driver().cuGetErrorName(result, &name);
  return std::string(call) +
         " failed: " + (name == nullptr ? std::to_string(static_cast<int>(result)) : name);
}

}  // namespace

/// Host memory of the check. Whole pages: they are pinned.
struct alignas(kCheckedPage) DigestProgram::CheckedMemory {
  std::array<std::byte, kCheckedBytes> content;
  std::array<DigestParts, kChecks.size()> results;
};

DigestProgram::DigestProgram(const DigestKey& key) : key_(key) {}

std::unique_ptr<DigestProgram> DigestProgram::create(const DigestKey& key, CUdevice device,
                                                     std::chrono::milliseconds limit) {
  std::unique_ptr<DigestProgram> program(new DigestProgram(key));
  std::string problem = program->load();
  if (problem.empty()) problem = program->set_up(device);
  if (problem.empty()) problem = program->check(limit);
  if (problem.empty()) return program;
  log_line(LogLevel::kInfo, "digests of device memory are not used: " + problem);
  return nullptr;
}

DigestProgram::~DigestProgram() {
  if (abandoned_) {
    // A kernel may still write there.
    (void)memory_.release();  // NOLINT(bugprone-unused-return-value): on purpose
    return;
  }
  if (checked_ != nullptr) driver().cuEventDestroy_v2(checked_);
  if (stream_ != nullptr) driver().cuStreamDestroy_v2(stream_);
  // This waits for the context's work, so that nothing uses the module any more.
  if (is_pinned_) driver().cuMemHostUnregister(memory_.get());
  if (module_ != nullptr) driver().cuModuleUnload(module_);
}

std::string DigestProgram::load() {
  // A driver older than the toolkit may know the device, but neither this machine code nor text of
  // this version.
  if (driver().cuModuleLoadData(&module_, digest_fat_binary()) != CUDA_SUCCESS) {
    module_ = nullptr;
    if (const CUresult result = driver().cuModuleLoadData(&module_, digest_ptx());
        result != CUDA_SUCCESS) {
      module_ = nullptr;
      return problem_of(result, "cuModuleLoadData");
    }
  }
  return problem_of(driver().cuModuleGetFunction(&function_, module_, kDigestKernel),
                    "cuModuleGetFunction");
}

std::string DigestProgram::set_up(CUdevice device) {
  int multiprocessors = 0;
  if (driver().cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                                    device) == CUDA_SUCCESS) {
    multiprocessors_ = static_cast<unsigned>(std::max(1, multiprocessors));
  }
  std::string problem =
      problem_of(driver().cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  if (!problem.empty()) return problem;
  problem = problem_of(driver().cuEventCreate(&checked_, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  if (!problem.empty()) return problem;
  // Pinned as the memory is that digests will be written to.
  memory_ = std::make_unique<CheckedMemory>();
  problem = problem_of(
      driver().cuMemHostRegister_v2(memory_.get(), sizeof(CheckedMemory),
                                    CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP),
      "cuMemHostRegister");
  is_pinned_ = problem.empty();
  return problem;
}

std::string DigestProgram::check(std::chrono::milliseconds limit) {
  std::minstd_rand random(1);
  for (std::byte& byte : memory_->content) byte = static_cast<std::byte>(random() >> 8);
  CUdeviceptr content = 0;
  std::string problem =
      problem_of(driver().cuMemHostGetDevicePointer_v2(&content, memory_->content.data(), 0),
                 "cuMemHostGetDevicePointer");
  std::array<unsigned, kChecks.size()> blocks{};
  for (std::size_t i = 0; problem.empty() && i < kChecks.size(); ++i) {
    const CheckedDigest& each = kChecks[i];
    blocks[i] = each.blocks != 0 ? each.blocks : digest_blocks(each.size, multiprocessors_);
    problem = problem_of(
        launch(content + each.offset, Bytes{each.size}, &memory_->results[i], stream_, blocks[i]),
        "cuLaunchKernel");
  }
  // What was enqueued before a failure may still be under way, and writes to the memory.
  std::string unfinished = problem_of(driver().cuEventRecord(checked_, stream_), "cuEventRecord");
  if (unfinished.empty()) {
    unfinished = await_check(limit);
  } else {
    abandon();
  }
  if (problem.empty()) problem = std::move(unfinished);
  if (!problem.empty()) return problem;
  for (std::size_t i = 0; i < kChecks.size(); ++i) {
    const auto expected =
        digest_of(key_, std::span(memory_->content).subspan(kChecks[i].offset, kChecks[i].size));
    if (sum_of(std::span(memory_->results[i]).first(blocks[i])) != expected) {
      return "the device computes another one of " + std::to_string(kChecks[i].size) +
             " bytes than the host";
    }
  }
  return {};
}

std::string DigestProgram::await_check(std::chrono::milliseconds limit) {
  constexpr auto kInterval = std::chrono::microseconds(50);
  const auto end = std::chrono::steady_clock::now() + limit;
  for (;;) {
    const CUresult result = driver().cuEventQuery(checked_);
    if (result != CUDA_ERROR_NOT_READY) return problem_of(result, "cuEventQuery");
    if (std::chrono::steady_clock::now() >= end) {
      // To free what they use would wait for them.
      abandon();
      return "the first ones are not done after " + std::to_string(limit.count()) + " ms";
    }
    std::this_thread::sleep_for(kInterval);
  }
}

CUresult DigestProgram::enqueue(CUdeviceptr content, Bytes size, DigestParts* parts,
                                CUstream stream) const {
  if (content % kDigestAlignment != 0 || size == Bytes{}) return CUDA_ERROR_INVALID_VALUE;
  return launch(content, size, parts, stream, digest_blocks(size.count(), multiprocessors_));
}

std::size_t DigestProgram::parts_of(Bytes size) const {
  return digest_blocks(size.count(), multiprocessors_);
}

CUresult DigestProgram::launch(CUdeviceptr content, Bytes size, DigestParts* parts, CUstream stream,
                               unsigned blocks) const {
  CUdeviceptr parts_on_device = 0;
  if (const CUresult answer = driver().cuMemHostGetDevicePointer_v2(&parts_on_device, parts, 0);
      answer != CUDA_SUCCESS) {
    return answer;
  }
  DigestParameters parameters{
      .content = content, .size = size.count(), .key = key_, .parts = parts_on_device};
  return driver().cuLaunchKernel(function_, blocks, 1, 1, kDigestThreads, 1, 1, 0, stream,
                                 parameters.pointers().data(), nullptr);
}

}  // namespace superpipe
