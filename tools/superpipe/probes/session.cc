#include "tools/superpipe/probes/session.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "policy/budget.h"

namespace superpipe::cli {
namespace {

alignas(8) constexpr unsigned char kFatBinary[] = {
#include "tools/superpipe/probes/generated/superpipe_probe.inc"
};
// The same kernels as text that drivers older than the toolkit translate too; ends with a zero.
constexpr char kPtx[] = {
#include "tools/superpipe/probes/generated/superpipe_probe_ptx.inc"
};

constexpr unsigned kThreadsPerBlock = 256;

}  // namespace

Session::Session(const ProbeSetting& setting, CUdevice device) : driver_(setting.driver_path) {
  driver_.cuInit.must(0);
  driver_.cuDeviceGet.must(&device_, device);
  driver_.cuDevicePrimaryCtxRetain.must(&context_, device_);
  make_current();
  multiprocessors_ =
      static_cast<unsigned>(std::max(1, attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)));
}

int Session::attribute(CUdevice_attribute which) const {
  int value = 0;
  return driver_.cuDeviceGetAttribute(&value, which, device_) == CUDA_SUCCESS ? value : 0;
}

void Session::need_device_memory(std::size_t bytes) const {
  std::size_t available = 0;
  std::size_t total = 0;
  driver_.cuMemGetInfo.must(&available, &total);
  if (available >= bytes) return;
  throw Skipped("it needs " + format_bytes(Bytes{bytes}) + " of device memory, and " +
                format_bytes(Bytes{available}) + " are free; end what uses the device");
}

CUmodule Session::load(const void* fat_binary, const char* ptx) const {
  CUmodule module = nullptr;
  // A driver older than the toolkit may know the device, but neither this machine code nor text of
  // this version.
  if (driver_.cuModuleLoadData(&module, fat_binary) != CUDA_SUCCESS) {
    driver_.cuModuleLoadData.must(&module, ptx);
  }
  return module;
}

CUfunction Session::kernel(const char* name) {
  if (module_ == nullptr) module_ = load(kFatBinary, kPtx);
  CUfunction found = nullptr;
  driver_.cuModuleGetFunction.must(&found, module_, name);
  return found;
}

void Session::load_again() { module_ = load(kFatBinary, kPtx); }

CUfunction Session::kernel_of(const void* fat_binary, const char* ptx, const char* name) const {
  CUfunction found = nullptr;
  driver_.cuModuleGetFunction.must(&found, load(fat_binary, ptx), name);
  return found;
}

void Session::launch_with(const char* name, CUstream stream, unsigned long long items,
                          void** arguments) {
  const unsigned long long needed =
      std::max(1ULL, (items + kThreadsPerBlock - 1) / kThreadsPerBlock);
  const auto blocks =
      static_cast<unsigned>(std::min<unsigned long long>(needed, multiprocessors_ * 8ULL));
  driver_.cuLaunchKernel.must(kernel(name), blocks, 1, 1, kThreadsPerBlock, 1, 1, 0, stream,
                              arguments, nullptr);
}

CUmemAllocationProp properties_at(CUmemLocation location) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = location;
  return properties;
}

Pages::Pages(Session& session, std::size_t bytes, CUmemLocation location)
    : session_(session), bytes_(bytes) {
  const CUmemAllocationProp properties = properties_at(location);
  session_.cu().cuMemCreate.must(&handle_, bytes, &properties, 0);
}
Pages::~Pages() { session_.cu().cuMemRelease(handle_); }

Range::Range(Session& session, std::size_t bytes) : session_(session), bytes_(bytes) {
  session_.cu().cuMemAddressReserve.must(&address_, bytes, 0, 0, 0);
}

Range::~Range() {
  for (const Mapped& mapped : mapped_) {
    session_.cu().cuMemUnmap(address_ + mapped.offset, mapped.bytes);
  }
  session_.cu().cuMemAddressFree(address_, bytes_);
}

void Range::map(const Pages& pages, std::size_t offset, CUmemAccess_flags access) {
  session_.cu().cuMemMap.must(address_ + offset, pages.size(), 0, pages.handle(), 0);
  mapped_.push_back({offset, pages.size()});
  set_access(offset, pages.size(), access);
}

void Range::set_access(std::size_t offset, std::size_t bytes, CUmemAccess_flags access,
                       CUmemLocation location) {
  CUmemAccessDesc description{};
  description.location = location;
  description.flags = access;
  session_.cu().cuMemSetAccess.must(address_ + offset, bytes, &description, 1);
}

void Range::unmap(std::size_t offset, std::size_t bytes) {
  session_.cu().cuMemUnmap.must(address_ + offset, bytes);
  std::erase_if(mapped_, [offset](const Mapped& mapped) { return mapped.offset == offset; });
}

UnpinnedMemory::UnpinnedMemory(std::size_t bytes)
    : bytes_(bytes),
      data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
  if (data_ == MAP_FAILED) {
    throw Skipped("the system has no " + format_bytes(Bytes{bytes}) + " of host memory");
  }
}

UnpinnedMemory::~UnpinnedMemory() { munmap(data_, bytes_); }

PinnedMemory::PinnedMemory(Session& session, std::size_t bytes)
    : session_(session),
      bytes_(bytes),
      data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
  if (data_ == MAP_FAILED) {
    throw Skipped("the system has no " + format_bytes(Bytes{bytes}) + " of host memory");
  }
  // Touched first, so that what is timed is the pinning and not the zeroing.
  std::memset(data_, 0x5a, bytes);
  register_seconds_ = host_seconds([&] { session_.cu().cuMemHostRegister.must(data_, bytes_, 0); });
}

PinnedMemory::~PinnedMemory() {
  if (session_.cu().cuMemHostUnregister(data_) == CUDA_SUCCESS) munmap(data_, bytes_);
}

CUdeviceptr PinnedMemory::device_address() const {
  CUdeviceptr address = 0;
  session_.cu().cuMemHostGetDevicePointer.must(&address, data_, 0);
  return address;
}

Stream::Stream(Session& session, unsigned flags) : session_(session) {
  session_.cu().cuStreamCreate.must(&stream_, flags);
}
Stream::~Stream() { session_.cu().cuStreamDestroy(stream_); }

bool Stream::busy() const {
  const CUresult result = session_.cu().cuStreamQuery(stream_);
  if (result == CUDA_ERROR_NOT_READY) return true;
  if (result != CUDA_SUCCESS) {
    throw CallFailed("cuStreamQuery", result, session_.cu().name_of(result));
  }
  return false;
}

Event::Event(Session& session) : session_(session) {
  session_.cu().cuEventCreate.must(&event_, CU_EVENT_DEFAULT);
}
Event::~Event() { session_.cu().cuEventDestroy(event_); }

double Event::seconds_since(const Event& earlier) const {
  float milliseconds = 0;
  session_.cu().cuEventElapsedTime.must(&milliseconds, earlier.event_, event_);
  return static_cast<double>(milliseconds) / 1000.0;
}

double quantile(std::vector<double> samples, double share) {
  std::sort(samples.begin(), samples.end());
  const double place = share * static_cast<double>(samples.size() - 1);
  return samples[static_cast<std::size_t>(std::lround(place))];
}

double gigabytes_per_second(double bytes, double seconds) {
  return seconds > 0 ? bytes / seconds / 1e9 : 0;
}

std::string with_digits(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

}  // namespace superpipe::cli
