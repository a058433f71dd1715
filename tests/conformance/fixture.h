#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/conformance/driver.h"

/// Fails the test unless the driver answers success; skips it, visibly, where the driver says that
/// it does not support the call.
#define CU_ASSERT(call)                                                                 \
  do {                                                                                  \
    const CUresult cu_result = (call);                                                  \
    if (cu_result == CUDA_ERROR_NOT_SUPPORTED) GTEST_SKIP() << "not supported: " #call; \
    ASSERT_EQ(cu_result, CUDA_SUCCESS) << conformance::describe(cu_result);             \
  } while (false)

/// Fails the test unless the driver answers `wanted`.
#define CU_EXPECT(wanted, call)                                         \
  do {                                                                  \
    const CUresult cu_result = (call);                                  \
    EXPECT_EQ(cu_result, (wanted)) << conformance::describe(cu_result); \
  } while (false)

/// Fails the test if the driver answers success.
#define CU_EXPECT_REFUSED(call) EXPECT_NE((call), CUDA_SUCCESS) << #call " was not refused"

namespace conformance {

/// Bytes of a granule: superpipe's unit of mapping.
constexpr size_t kGranule = size_t{2} << 20;
constexpr uint32_t kGranuleWords = kGranule / sizeof(uint32_t);

/// How long a kernel that is to be overtaken runs: far longer than a call or a small copy takes. It
/// is what set_long_time() was given last, before the tests run, and 100 ms without it.
std::chrono::milliseconds long_time();
void set_long_time(std::chrono::milliseconds time);

/// A virtual address range, freed with the object. Its mappings have to be gone by then.
class Reservation {
 public:
  explicit Reservation(size_t bytes, size_t alignment = 0);
  ~Reservation();
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  CUresult status() const { return status_; }
  CUdeviceptr address() const { return address_; }

 private:
  size_t bytes_;
  CUdeviceptr address_ = 0;
  CUresult status_;
};

/// The properties of pages on device 0, and of pages on the host, of its first node.
CUmemAllocationProp device_pages();
CUmemAllocationProp host_pages();

/// One physical handle, released with the object unless release() was called.
class Pages {
 public:
  explicit Pages(size_t bytes, const CUmemAllocationProp& properties = device_pages());
  ~Pages();
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  CUresult status() const { return status_; }
  CUmemGenericAllocationHandle handle() const { return handle_; }
  CUresult release();

 private:
  CUmemGenericAllocationHandle handle_ = 0;
  CUresult status_;
};

/// Makes `bytes` from `address` readable and, with `writable`, writable for device 0.
CUresult set_access(CUdeviceptr address, size_t bytes, bool writable = true);

/// Maps all of `pages` at `address` and makes it accessible.
CUresult map(CUdeviceptr address, size_t bytes, CUmemGenericAllocationHandle pages);

/// A stream, destroyed with the object.
class Stream {
 public:
  explicit Stream(unsigned flags = CU_STREAM_NON_BLOCKING);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  CUstream get() const { return stream_; }
  CUresult status() const { return status_; }

 private:
  CUstream stream_ = nullptr;
  CUresult status_;
};

/// An event, destroyed with the object.
class Event {
 public:
  explicit Event(unsigned flags = CU_EVENT_DISABLE_TIMING);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  CUevent get() const { return event_; }

 private:
  CUevent event_ = nullptr;
};

/// Device memory from cuMemAlloc, freed with the object.
class Buffer {
 public:
  explicit Buffer(size_t words);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  CUdeviceptr address() const { return address_; }

 private:
  CUdeviceptr address_ = 0;
};

/// Pinned host memory, freed with the object.
class Pinned {
 public:
  explicit Pinned(size_t words, uint32_t value);
  ~Pinned();
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  uint32_t* data() const { return data_; }

 private:
  uint32_t* data_ = nullptr;
};

/// Writes `count` words of `value` at `out`, on `stream`, after `delay`.
CUresult fill(CUstream stream, CUdeviceptr out, uint32_t value, uint32_t count,
              std::chrono::nanoseconds delay = std::chrono::nanoseconds(0));

/// Copies `count` words with a kernel on `stream`.
CUresult copy_words(CUstream stream, CUdeviceptr out, CUdeviceptr in, uint32_t count);

/// The first word at a device address, read by a synchronous copy; fails the test if it cannot be
/// read.
uint32_t word_at(CUdeviceptr address);

/// The kernel of that name in the suite's fat binary, as a function of the suite's module.
CUfunction function(const char* name);

/// The suite's fat binary.
const void* fat_binary();

/// Every test: a current primary context of device 0, nothing pending before and after.
class ConformanceTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
};

/// What a child process of the suite does; it is told apart by name and answers an exit code.
using Scenario = int (*)();

/// Registers a scenario before main.
class ScenarioRegistration {
 public:
  ScenarioRegistration(const char* name, Scenario scenario);
};

/// Runs a registered scenario with the driver initialised and a context current. @return its exit
/// code, 120 if there is none.
int run_scenario(const std::string& name);

/// Runs a scenario in a new process of this program, with `environment` ("NAME=value") added.
/// @return its exit code, or 128 plus the signal that ended it.
int run_in_child(const std::string& scenario, const std::vector<std::string>& environment = {});

/// Initialises the driver and makes device 0's primary context current. @return what the driver
/// answered.
CUresult use_first_device();

/// Exit codes of scenarios.
constexpr int kAsClaimed = 0;
constexpr int kSetUpFailed = 111;
constexpr int kUnsupported = 112;
constexpr int kNotAsClaimed = 113;

}  // namespace conformance
