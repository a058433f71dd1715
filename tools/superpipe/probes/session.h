// What every probe does first and what several do: a context, kernels, pages, mappings, time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/superpipe/probes/driver.h"
#include "tools/superpipe/probes/probe.h"

namespace superpipe::cli {

inline constexpr std::size_t kMiB = std::size_t{1} << 20;
/// superpipe's unit of mapping.
inline constexpr std::size_t kGranule = 2 * kMiB;

/// A device with its primary context current. One thread; it ends with the process.
class Session {
 public:
  /// Of the device of that number. Throws CallFailed or NotSupported.
  explicit Session(const ProbeSetting& setting, CUdevice device = 0);

  /// Makes its context the current one, where another session's is.
  void make_current() const { driver_.cuCtxSetCurrent.must(context_); }

  [[nodiscard]] const Driver& cu() const { return driver_; }
  [[nodiscard]] int attribute(CUdevice_attribute which) const;  ///< 0 if the driver knows it not
  /// Throws Skipped if less than `bytes` of device memory are free.
  void need_device_memory(std::size_t bytes) const;

  /// A kernel of kernels.cu. The module is loaded when the first one is asked for.
  CUfunction kernel(const char* name);
  /// Loads that module once more: kernels that are asked for later are the new one's.
  void load_again();
  /// Kernel `name` of an image that is given as a fat binary and as text of an old version, which
  /// drivers older than the toolkit take. Loads it each time.
  CUfunction kernel_of(const void* fat_binary, const char* ptx, const char* name) const;
  [[nodiscard]] unsigned multiprocessors() const { return multiprocessors_; }

  /// Launches `name` with as many threads as the device holds at once, or as `items` need.
  template <typename... Arguments>
  void launch(const char* name, CUstream stream, unsigned long long items,
              const Arguments&... arguments) {
    void* pointers[] = {const_cast<Arguments*>(&arguments)...};
    launch_with(name, stream, items, pointers);
  }

 private:
  [[nodiscard]] CUmodule load(const void* fat_binary, const char* ptx) const;
  void launch_with(const char* name, CUstream stream, unsigned long long items, void** arguments);

  Driver driver_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUmodule module_ = nullptr;
  unsigned multiprocessors_ = 1;
};

/// Where device pages lie by default.
inline constexpr CUmemLocation kOnDevice{CU_MEM_LOCATION_TYPE_DEVICE, 0};

/// The properties of pages at `location`.
[[nodiscard]] CUmemAllocationProp properties_at(CUmemLocation location);

/// One physical handle; released with the object, which may be before its mappings are.
class Pages {
 public:
  Pages(Session& session, std::size_t bytes, CUmemLocation location = kOnDevice);
  ~Pages();
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  [[nodiscard]] CUmemGenericAllocationHandle handle() const { return handle_; }
  [[nodiscard]] std::size_t size() const { return bytes_; }

 private:
  Session& session_;
  std::size_t bytes_;
  CUmemGenericAllocationHandle handle_ = 0;
};

/// A reserved range of addresses. What is still mapped there is unmapped with it.
class Range {
 public:
  Range(Session& session, std::size_t bytes);
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
  [[nodiscard]] CUdeviceptr address() const { return address_; }

  /// Maps all of `pages` at `offset` and lets device 0 use it.
  void map(const Pages& pages, std::size_t offset = 0,
           CUmemAccess_flags access = CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  /// Only sets who may use `bytes` at `offset`, and how.
  void set_access(std::size_t offset, std::size_t bytes, CUmemAccess_flags access,
                  CUmemLocation location = kOnDevice);
  void unmap(std::size_t offset, std::size_t bytes);

 private:
  struct Mapped {
    std::size_t offset, bytes;
  };
  Session& session_;
  std::size_t bytes_;
  CUdeviceptr address_ = 0;
  std::vector<Mapped> mapped_;
};

/// Pages with an address of their own.
class DeviceMemory {
 public:
  DeviceMemory(Session& session, std::size_t bytes)
      : pages_(session, rounded(bytes)), range_(session, rounded(bytes)) {
    range_.map(pages_);
  }
  [[nodiscard]] CUdeviceptr address() const { return range_.address(); }
  [[nodiscard]] const Pages& pages() const { return pages_; }
  [[nodiscard]] static std::size_t rounded(std::size_t bytes) {
    return (bytes + kGranule - 1) / kGranule * kGranule;
  }

 private:
  Pages pages_;
  Range range_;
};

/// Anonymous host memory that nobody has touched yet. Throws Skipped if the system has none.
class UnpinnedMemory {
 public:
  explicit UnpinnedMemory(std::size_t bytes);
  ~UnpinnedMemory();
  UnpinnedMemory(const UnpinnedMemory&) = delete;
  UnpinnedMemory& operator=(const UnpinnedMemory&) = delete;
  [[nodiscard]] void* data() const { return data_; }

 private:
  std::size_t bytes_;
  void* data_;
};

/// Host memory pinned as superpipe pins it: mapped, touched, then registered with the driver.
class PinnedMemory {
 public:
  PinnedMemory(Session& session, std::size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  [[nodiscard]] void* data() const { return data_; }
  /// What a kernel calls it.
  [[nodiscard]] CUdeviceptr device_address() const;
  template <typename Value>
  [[nodiscard]] Value* as() const {
    return static_cast<Value*>(data_);
  }
  [[nodiscard]] double register_seconds() const { return register_seconds_; }

 private:
  Session& session_;
  std::size_t bytes_;
  void* data_;
  double register_seconds_ = 0;
};

/// A stream, by default one that does not wait for the default stream.
class Stream {
 public:
  explicit Stream(Session& session, unsigned flags = CU_STREAM_NON_BLOCKING);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  [[nodiscard]] CUstream get() const { return stream_; }
  void wait() const { session_.cu().cuStreamSynchronize.must(stream_); }
  [[nodiscard]] bool busy() const;

 private:
  Session& session_;
  CUstream stream_ = nullptr;
};

/// An event with a time.
class Event {
 public:
  explicit Event(Session& session);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  [[nodiscard]] CUevent get() const { return event_; }
  void record(const Stream& stream) const {
    session_.cu().cuEventRecord.must(event_, stream.get());
  }
  /// Seconds of device time since `earlier`. REQUIRES both complete.
  [[nodiscard]] double seconds_since(const Event& earlier) const;

 private:
  Session& session_;
  CUevent event_ = nullptr;
};

/// Seconds of host time that `body` takes.
template <typename Body>
double host_seconds(const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The value below which `share` of the sorted samples lie. REQUIRES samples.
[[nodiscard]] double quantile(std::vector<double> samples, double share);

/// 10^9 bytes per second; 0 where no time passed (a simulated device).
[[nodiscard]] double gigabytes_per_second(double bytes, double seconds);

/// `value` with so many digits behind the point.
[[nodiscard]] std::string with_digits(double value, int digits);

}  // namespace superpipe::cli
