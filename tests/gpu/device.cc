#include "tests/gpu/device.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace gpu_test {
namespace {

const unsigned char kFatBinary[] = {
#include "gpu_test_kernels.inc"
};

}  // namespace

void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* name = nullptr;
  cuGetErrorName(result, &name);
  std::fflush(stdout);
  std::fprintf(stderr, "%s: %s\n", what, name == nullptr ? "unknown error" : name);
  std::exit(1);
}

void open_device() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
}

CUfunction kernel(const char* name) {
  static const CUmodule module = [] {
    CUmodule loaded = nullptr;
    CHECK(cuModuleLoadData(&loaded, kFatBinary));
    return loaded;
  }();
  CUfunction found = nullptr;
  CHECK(cuModuleGetFunction(&found, module, name));
  return found;
}

std::string text_option(int argc, char** argv, std::string_view name, std::string_view fallback) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word.substr(0, name.size()) != name) continue;
    if (word.size() > name.size() && word[name.size()] == '=') {
      return std::string(word.substr(name.size() + 1));
    }
    if (word.size() == name.size() && i + 1 < argc) return argv[i + 1];
  }
  return std::string(fallback);
}

std::uint64_t number_option(int argc, char** argv, std::string_view name, std::uint64_t fallback) {
  const std::string text = text_option(argc, argv, name, "");
  if (text.empty()) return fallback;
  char* end = nullptr;
  errno = 0;
  const std::uint64_t value = std::strtoull(text.c_str(), &end, 10);
  if (errno != 0 || *end != '\0' || text.front() == '-') {
    std::fprintf(stderr, "%s takes a whole number, not '%s'\n", std::string(name).c_str(),
                 text.c_str());
    std::exit(2);
  }
  return value;
}

}  // namespace gpu_test
