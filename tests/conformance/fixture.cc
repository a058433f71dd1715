#include "tests/conformance/fixture.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

extern char** environ;

namespace conformance {
namespace {

constexpr unsigned char kFatBinary[] = {
#include "conformance_kernels.inc"
};

// Scenarios by name; built before main by the registrations.
std::map<std::string, Scenario>& scenarios() {
  static auto* const all = new std::map<std::string, Scenario>;
  return *all;
}

std::chrono::milliseconds& chosen_long_time() {
  static std::chrono::milliseconds time{100};
  return time;
}

CUmodule module() {
  static CUmodule loaded = [] {
    CUmodule fresh = nullptr;
    EXPECT_EQ(cu().cuModuleLoadData(&fresh, fat_binary()), CUDA_SUCCESS);
    return fresh;
  }();
  return loaded;
}

CUresult launch(const char* name, CUstream stream, void** arguments) {
  return cu().cuLaunchKernel(function(name), 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr);
}

}  // namespace

std::chrono::milliseconds long_time() { return chosen_long_time(); }
void set_long_time(std::chrono::milliseconds time) { chosen_long_time() = time; }

const void* fat_binary() {
  // nvcc aligns the image in a program to 8 bytes; so does this copy.
  static const auto* const aligned = [] {
    auto* const words = new std::vector<uint64_t>((sizeof(kFatBinary) + 7) / 8);
    std::copy(std::begin(kFatBinary), std::end(kFatBinary),
              reinterpret_cast<unsigned char*>(words->data()));
    return words;
  }();
  return aligned->data();
}

CUfunction function(const char* name) {
  CUfunction found = nullptr;
  EXPECT_EQ(cu().cuModuleGetFunction(&found, module(), name), CUDA_SUCCESS) << name;
  return found;
}

Reservation::Reservation(size_t bytes, size_t alignment)
    : bytes_(bytes), status_(cu().cuMemAddressReserve(&address_, bytes, alignment, 0, 0)) {}
Reservation::~Reservation() {
  if (status_ == CUDA_SUCCESS) CU_EXPECT(CUDA_SUCCESS, cu().cuMemAddressFree(address_, bytes_));
}

CUmemAllocationProp device_pages() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  return properties;
}

CUmemAllocationProp host_pages() {
  CUmemAllocationProp properties = device_pages();
  properties.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
  return properties;
}

Pages::Pages(size_t bytes, const CUmemAllocationProp& properties)
    : status_(cu().cuMemCreate(&handle_, bytes, &properties, 0)) {}
Pages::~Pages() {
  if (status_ == CUDA_SUCCESS) CU_EXPECT(CUDA_SUCCESS, cu().cuMemRelease(handle_));
}
CUresult Pages::release() {
  status_ = CUDA_ERROR_INVALID_HANDLE;
  return cu().cuMemRelease(handle_);
}

CUresult set_access(CUdeviceptr address, size_t bytes, bool writable) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = 0;
  access.flags = writable ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;
  return cu().cuMemSetAccess(address, bytes, &access, 1);
}

CUresult map(CUdeviceptr address, size_t bytes, CUmemGenericAllocationHandle pages) {
  const CUresult result = cu().cuMemMap(address, bytes, 0, pages, 0);
  return result == CUDA_SUCCESS ? set_access(address, bytes) : result;
}

Stream::Stream(unsigned flags) : status_(cu().cuStreamCreate(&stream_, flags)) {}
Stream::~Stream() {
  if (status_ == CUDA_SUCCESS) CU_EXPECT(CUDA_SUCCESS, cu().cuStreamDestroy(stream_));
}

Event::Event(unsigned flags) { CU_EXPECT(CUDA_SUCCESS, cu().cuEventCreate(&event_, flags)); }
Event::~Event() { CU_EXPECT(CUDA_SUCCESS, cu().cuEventDestroy(event_)); }

Buffer::Buffer(size_t words) {
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemAlloc(&address_, words * sizeof(uint32_t)));
}
Buffer::~Buffer() { CU_EXPECT(CUDA_SUCCESS, cu().cuMemFree(address_)); }

Pinned::Pinned(size_t words, uint32_t value) {
  void* memory = nullptr;
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemAllocHost(&memory, words * sizeof(uint32_t)));
  data_ = static_cast<uint32_t*>(memory);
  if (data_ != nullptr) std::fill_n(data_, words, value);
}
Pinned::~Pinned() { CU_EXPECT(CUDA_SUCCESS, cu().cuMemFreeHost(data_)); }

CUresult fill(CUstream stream, CUdeviceptr out, uint32_t value, uint32_t count,
              std::chrono::nanoseconds delay) {
  auto nanoseconds = static_cast<unsigned long long>(delay.count());
  void* arguments[] = {&out, &value, &count, &nanoseconds};
  return launch("fill_after", stream, arguments);
}

CUresult copy_words(CUstream stream, CUdeviceptr out, CUdeviceptr in, uint32_t count) {
  void* arguments[] = {&out, &in, &count};
  return launch("copy_words", stream, arguments);
}

uint32_t word_at(CUdeviceptr address) {
  uint32_t word = 0xdeadbeef;
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemcpyDtoH(&word, address, sizeof(word)));
  return word;
}

CUresult use_first_device() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUresult result = cu().cuInit(0);
  if (result == CUDA_SUCCESS) result = cu().cuDeviceGet(&device, 0);
  if (result == CUDA_SUCCESS) result = cu().cuDevicePrimaryCtxRetain(&context, device);
  if (result == CUDA_SUCCESS) result = cu().cuCtxSetCurrent(context);
  return result;
}

void ConformanceTest::SetUp() {
  static const CUresult ready = use_first_device();
  ASSERT_EQ(ready, CUDA_SUCCESS) << describe(ready);
  // Loaded by the first test, so that no test measures it.
  ASSERT_NE(function("fill_after"), nullptr);
}

void ConformanceTest::TearDown() { CU_EXPECT(CUDA_SUCCESS, cu().cuCtxSynchronize()); }

ScenarioRegistration::ScenarioRegistration(const char* name, Scenario scenario) {
  scenarios().emplace(name, scenario);
}

int run_scenario(const std::string& name) {
  const auto found = scenarios().find(name);
  if (found == scenarios().end()) return 120;
  return use_first_device() == CUDA_SUCCESS ? found->second() : kSetUpFailed;
}

int run_in_child(const std::string& scenario, const std::vector<std::string>& environment) {
  std::vector<std::string> words = {"conformance", "--scenario=" + scenario};
  if (!driver_path().empty()) words.push_back("--driver=" + driver_path());
  words.push_back("--kernel-ms=" + std::to_string(long_time().count()));
  std::vector<std::string> variables = environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const std::string name = text.substr(0, text.find('=') + 1);
    const bool replaced =
        std::any_of(environment.begin(), environment.end(),
                    [&](const auto& added) { return added.compare(0, name.size(), name) == 0; });
    if (!replaced) variables.push_back(text);
  }
  std::vector<char*> arguments;
  std::vector<char*> child_environment;
  arguments.reserve(words.size() + 1);
  child_environment.reserve(variables.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  for (std::string& variable : variables) child_environment.push_back(variable.data());
  arguments.push_back(nullptr);
  child_environment.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments.data(),
                  child_environment.data()) != 0) {
    return kSetUpFailed;
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) return kSetUpFailed;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace conformance
