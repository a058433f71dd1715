#include "tests/conformance/driver.h"

#include <dlfcn.h>

namespace conformance {
namespace {

struct State {
  Driver functions;
  void* library = nullptr;
  std::string path;
};

State& state() {
  static auto* const instance = new State;
  return *instance;
}

#define CONFORMANCE_TEXT_OF(name) #name
// The second step expands cuda.h's renaming, so that "cuMemAlloc_v2" is looked up for cuMemAlloc.
#define CONFORMANCE_TEXT(name) CONFORMANCE_TEXT_OF(name)

}  // namespace

std::string open_driver(const std::string& path) {
  State& self = state();
  self.path = path;
  self.library = dlopen(path.empty() ? "libcuda.so.1" : path.c_str(), RTLD_NOW);
  if (self.library == nullptr) return dlerror();
#define CONFORMANCE_RESOLVE(name) \
  self.functions.name.set(dlsym(self.library, CONFORMANCE_TEXT(name)));
  CONFORMANCE_FUNCTIONS(CONFORMANCE_RESOLVE)
#undef CONFORMANCE_RESOLVE
  return dlsym(self.library, "cuInit") == nullptr ? "it exports no cuInit" : "";
}

const Driver& cu() { return state().functions; }

void* exported(const char* symbol) { return dlsym(state().library, symbol); }

const std::string& driver_path() { return state().path; }

bool is_simgpu() {
  char name[256] = {};
  CUdevice device = 0;
  if (cu().cuDeviceGet(&device, 0) != CUDA_SUCCESS) return false;
  if (cu().cuDeviceGetName(name, sizeof(name), device) != CUDA_SUCCESS) return false;
  return std::string(name).find("simgpu") != std::string::npos;
}

std::string describe(CUresult result) {
  const char* name = nullptr;
  const bool known = cu().cuGetErrorName(result, &name) == CUDA_SUCCESS && name != nullptr;
  return std::string(known ? name : "unknown error") + " (" + std::to_string(result) + ")";
}

}  // namespace conformance
